"""An outage and a missing permission, as the commands tell them: soon, by their names, and never as an unsafe store."""

import errno
import itertools
import json
from collections.abc import Iterator
from pathlib import Path

import pyarrow as pa
import pytest

from lithify.segment.sort import external_sort
from lithify.segment.spill import SpillFile, spill_folder
from lithify.store.errors import AccessDenied, Unavailable
from lithify.store.memory import MemoryStore
from lithify.store.port import Object
from lithify.testing.front import Deed, Front, Seen
from lithify.testing.server import S3Server
from tests.cli.conftest import Lithify, changes
from tests.store.disks import ScriptedDisk

COMMANDS = [
    ("doctor", "--rounds", "1"),
    ("topic", "create", "users"),
    ("compactor", "run", "--engine", "local", "--no-gc"),
]
PROBING = {"LITHIFY_COMPACTOR_PROBE": "true"}
UNSAFE = "both win"
BATCH = pa.record_batch({"key": pa.array([b"k"], pa.binary())})


def on_s3(front: Front, server: S3Server) -> Lithify:
    options = {"key": "test", "secret": "test", "client_kwargs.region_name": "us-east-1"}
    options["client_kwargs.endpoint_url"] = front.endpoint_url
    flags = [word for name, value in options.items() for word in ("--storage-option", f"{name}={value}")]
    return Lithify(server.url("outages/w"), *flags)


@pytest.mark.slow
@pytest.mark.parametrize("command", COMMANDS, ids=" ".join)
def test_an_outage_is_told_as_one(command: tuple[str, ...], lithify_s3: S3Server) -> None:
    with Front(lithify_s3.endpoint_url) as front:
        lithify = on_s3(front, lithify_s3)
    # Nobody listens there any more.
    result = lithify(*command, env=PROBING)
    assert result.exit_code == 7, result.output
    assert front.endpoint_url in result.output
    assert UNSAFE not in result.output


@pytest.mark.parametrize("command", COMMANDS, ids=" ".join)
def test_a_missing_permission_is_told_as_one(command: tuple[str, ...], lithify_s3: S3Server) -> None:
    def rule(seen: Seen) -> Deed:
        return Deed(forward=False, status=403, code="AccessDenied") if seen.method == "PUT" else Deed()

    bucket = lithify_s3.create_bucket()
    with Front(lithify_s3.endpoint_url, rule=rule) as front:
        lithify = on_s3(front, lithify_s3)
        lithify.url = lithify_s3.url(f"{bucket}/w")
        result = lithify(*command, env=PROBING)
    lithify_s3.delete_bucket(bucket)
    assert result.exit_code == 7, result.output
    words = " ".join(result.output.split())
    assert f"s3://{bucket}/w" in words
    assert front.endpoint_url in words or command[0] == "doctor"
    assert "grant this identity s3:PutObject" in words
    assert UNSAFE not in words


@pytest.mark.parametrize("command", COMMANDS, ids=" ".join)
def test_a_folder_that_is_a_file_is_told_as_one(command: tuple[str, ...], tmp_path: Path) -> None:
    (tmp_path / "file").write_bytes(b"")
    result = Lithify(f"file://{tmp_path}/file/warehouse")(*command, env=PROBING)
    assert result.exit_code == 2, result.output
    assert f"{tmp_path}/file" in result.output
    assert UNSAFE not in result.output


def test_a_full_temporary_folder_is_told_as_one(on_files: Lithify, monkeypatch: pytest.MonkeyPatch) -> None:
    on_files.ok("topic", "create", "users", "--config", "cleanup.policy=compact")
    on_files.ok("append", "users", input=changes(50))
    disk = ScriptedDisk()
    disk.fail_calls("write", errno.ENOSPC)
    monkeypatch.setattr("lithify.segment.sort.Disk", lambda: disk)
    monkeypatch.setitem(external_sort.__kwdefaults__, "memory_bytes", 100)
    told = on_files.refused("scan", "users", code=7, saying="No space left on device")
    assert str(spill_folder()) in told


class Away:
    """The store does not answer reads for a while: `for_pauses` pauses long, from the `after`-th request on."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch, after: int, for_pauses: int, error: type[Unavailable]) -> None:
        self.requests, self.pauses = 0, 0
        get = MemoryStore.get

        def answer(store: MemoryStore, key: str) -> Object | None:
            self.requests += 1
            if self.requests > after and self.pauses < for_pauses:
                raise error(f"{key}: the store is away; retry later")
            return get(store, key)

        def pause(_ms: int) -> None:
            self.pauses += 1

        monkeypatch.setattr(MemoryStore, "get", answer)
        monkeypatch.setattr("lithify.store.driver.pause", pause)


ALL = [(partition, offset) for partition in range(2) for offset in range(3)]


def places(stdout: str) -> list[tuple[int, int]]:
    return [(line["partition"], line["offset"]) for line in map(json.loads, stdout.splitlines())]


@pytest.mark.slow
@pytest.mark.parametrize("flags", [(), ("--consumer", "c")], ids=["follow", "consumer"])
def test_following_outlasts_an_outage_at_any_request(
    lithify: Lithify, monkeypatch: pytest.MonkeyPatch, flags: tuple[str, ...]
) -> None:
    """From its first look on. It says so when the store is away and when it is back, and writes each record once."""
    read = ("read", "t", "--follow", "--limit", "6", *flags)
    lithify.ok("topic", "create", "t", "--partitions", "2")
    for partition in ("0", "1"):
        lithify.ok("append", "t", "--partition", partition, input=changes(3))
    told = 0
    for after in itertools.count(1):
        if flags:
            lithify("consumer", "delete", "t", "c")
        with monkeypatch.context() as patched:
            away = Away(patched, after, for_pauses=3, error=Unavailable)
            result = lithify(*read)
        if away.requests <= after:
            break
        found = places(result.stdout)
        if flags and result.exit_code in (
            6,
            7,
        ):  # over its opening, or its last commit
            assert sorted({*found, *places(lithify.ok("read", "t", *flags))}) == ALL
            continue
        if result.exit_code == 7 and not found:
            continue  # nothing had begun yet
        assert (result.exit_code, sorted(found)) == (0, ALL), result.output
        said = result.stderr
        assert said.count("continues as soon") == said.count("answers again")
        told += said.count("answers again")
    assert told


@pytest.mark.parametrize("flags", [(), ("--consumer", "c")], ids=["follow", "consumer"])
def test_following_ends_where_access_is_denied(
    lithify: Lithify, monkeypatch: pytest.MonkeyPatch, flags: tuple[str, ...]
) -> None:
    lithify.ok("topic", "create", "t")
    lithify.ok("append", "t", input=changes(3))
    with monkeypatch.context() as patched:
        away = Away(patched, after=1_000_000, for_pauses=0, error=AccessDenied)
        lithify.ok("read", "t", "--follow", "--limit", "3", *flags)
    with monkeypatch.context() as patched:
        Away(patched, after=away.requests, for_pauses=3, error=AccessDenied)
        assert lithify("read", "t", "--follow", "--limit", "9", *flags).exit_code == 7


@pytest.mark.parametrize("number", range(3))
def test_a_partition_that_cannot_be_read_keeps_no_other_back(
    lithify: Lithify, monkeypatch: pytest.MonkeyPatch, number: int
) -> None:
    """Before, each round ended with the first that failed, so those behind it were never read."""
    lithify.ok("topic", "create", "t", "--partitions", "3")
    for partition in range(3):
        lithify.ok("append", "t", "--partition", str(partition), input=changes(3))
    read, pauses = MemoryStore.read, 0

    def pause(_ms: int) -> None:
        nonlocal pauses
        pauses += 1

    def one_away(store: MemoryStore, key: str, start: int, length: int) -> bytes:
        if f"/{number:05d}/segments/" in key and pauses < 4:
            raise Unavailable(f"{key}: 503, retry later")
        return read(store, key, start, length)

    monkeypatch.setattr(MemoryStore, "read", one_away)
    monkeypatch.setattr("lithify.store.driver.pause", pause)
    result = lithify("read", "t", "--follow", "--limit", "9")
    assert result.exit_code == 0, result.output
    found = places(result.stdout)
    assert {partition for partition, _ in found[:6]} == {0, 1, 2} - {number}
    assert found[6:] == [(number, offset) for offset in range(3)]
    told, over = result.stderr.splitlines()
    assert f"Reading t/{number} continues as soon as" in told
    assert f"reading t/{number} continues" in over


@pytest.mark.parametrize("flags", [("--follow",), ("--follow", "--consumer", "c")], ids=["follow", "consumer"])
def test_a_full_temporary_folder_is_no_outage_of_the_store(
    on_files: Lithify, monkeypatch: pytest.MonkeyPatch, flags: tuple[str, ...]
) -> None:
    """Before, it was waited out: it read the segments again every second, and said once that the store was away."""
    on_files.ok("topic", "create", "users", "--config", "cleanup.policy=compact")
    on_files.ok("append", "users", input=changes(50))
    disk = ScriptedDisk()
    disk.fail_calls("write", errno.ENOSPC)

    def spilling(*_: object) -> Iterator[pa.RecordBatch]:
        SpillFile(disk, spill_folder(), pa.schema({"key": pa.binary()})).write([BATCH])
        yield from ()

    monkeypatch.setattr("lithify.log.snapshot.in_offset_order", spilling)
    on_files.refused("read", "users", *flags, code=7, saying="No space left on device")
