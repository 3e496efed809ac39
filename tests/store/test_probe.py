"""The probe passes where commits are safe, and refuses where they only look so."""

import errno
import subprocess
import sys
import threading
from pathlib import Path
from typing import Any, NoReturn, cast

import fsspec
import pytest
from fsspec.implementations.local import LocalFileSystem

from lithify.store import fsspec_store
from lithify.store.disk import Disk
from lithify.store.errors import AccessDenied, InvalidRequest, LithifyError, Unavailable
from lithify.store.file import FileStore
from lithify.store.fsspec_store import FsspecStore
from lithify.store.memory import MemoryStore
from lithify.store.metered import Metered
from lithify.store.port import Outcome, Store
from lithify.store.probe import ProbeReport, probe
from lithify.store.s3 import S3Store
from lithify.testing.front import Deed, Front, Seen
from lithify.testing.server import S3Server
from tests.processes import running
from tests.store.disks import ScriptedDisk

WRITERS = 8
UNSAFE = "both win"


def failures(report: ProbeReport) -> list[str]:
    return [check.name for check in report.checks if not check.ok]


@pytest.mark.parametrize("store", ["memory", "file", "s3"], indirect=True)
def test_an_atomic_store_passes_and_keeps_nothing_of_the_probe(store: Store) -> None:
    report = probe(Metered(store), rounds=6)
    assert failures(report) == []
    report.require()
    assert store.list("").objects == ()
    assert report.url == store.url
    assert report.skew_ms is not None
    assert abs(report.skew_ms) < 10_000


def test_a_store_that_ignores_the_condition_fails_at_the_first_try(lithify_s3: S3Server, bucket: str) -> None:
    with Front(lithify_s3.endpoint_url, rule=lambda _: Deed(ignore_condition=True)) as front:
        report = probe(S3Store(bucket, "p", front.options(lithify_s3.options)), rounds=2)
    assert failures(report) == ["create if absent", "simultaneous creates"]
    with pytest.raises(InvalidRequest, match=r"not safe for a log: create if absent \(.*If-None-Match is ignored here"):
        report.require()


def test_a_store_that_looks_and_then_writes_fails_only_in_the_race(lithify_s3: S3Server, bucket: str) -> None:
    """Like Swift's S3 layer: one after the other the creates are refused, together they all win."""
    plain = S3Store(bucket, "p", lithify_s3.options)
    everybody_looked = threading.Barrier(WRITERS, timeout=60)

    def look_then_write(seen: Seen) -> Deed:
        if not seen.conditional or "/race/" not in seen.path:
            return Deed()
        absent = plain.get(seen.path.partition("/p/")[2]) is None
        everybody_looked.wait()
        return Deed(ignore_condition=absent)

    with Front(lithify_s3.endpoint_url, rule=look_then_write) as front:
        report = probe(S3Store(bucket, "p", front.options(lithify_s3.options)), rounds=1)
    assert failures(report) == ["simultaneous creates"]
    assert f"{WRITERS} of {WRITERS} writers were told that they had won" in report.checks[2].detail


@pytest.mark.slow
def test_moto_as_it_comes_fails() -> None:
    """It looks, then writes, as most test servers do: about one round in thirty has two winners."""
    command = [sys.executable, str(Path(__file__).with_name("stock_moto.py"))]
    pipes = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE, "stderr": subprocess.DEVNULL}
    with running(command, text=True, **pipes) as server:
        endpoint = server.stdout.readline().strip()
        client = {"endpoint_url": endpoint, "region_name": "us-east-1"}
        store = S3Store("bucket", "p", {"key": "test", "secret": "test", "client_kwargs": client})
        store.bulk_client().create_bucket(Bucket="bucket")
        report = probe(store, rounds=1500)
        server.stdin.close()
    assert failures(report) == ["simultaneous creates"]


class _OverwritesAlways(LocalFileSystem):
    """A filesystem that knows no `mode`, as those written before fsspec had it."""

    protocol = "overwrites"

    def pipe_file(self, path: str, value: bytes, mode: str = "overwrite", **options: Any) -> None:
        super().pipe_file(path, value, **options)


def test_a_filesystem_that_looks_and_then_writes_creates_nothing(tmp_path: Path) -> None:
    """By its name: sixteen rounds of a probe found it out in two of three runs only."""
    for scheme in ("file", "local"):
        store = FsspecStore(f"{scheme}://{tmp_path}/warehouse")
        with pytest.raises(InvalidRequest, match="two writers could both create this"):
            store.create("k", b"x")
        assert store.get("k") is None


def test_the_first_create_through_fsspec_probes_the_place(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    fsspec.register_implementation("overwrites", _OverwritesAlways, clobber=True)
    monkeypatch.setattr(fsspec_store, "_CONDITIONAL", frozenset({"overwrites"}))
    store = FsspecStore(f"overwrites://{tmp_path}/warehouse", {"auto_mkdir": True})
    for _ in range(2):
        with pytest.raises(InvalidRequest, match="create if absent"):
            store.create("k", b"x")
    assert store.get("k") is None
    store.put("bulk", b"bytes")
    assert store.read("bulk", 0, 5) == b"bytes"


def test_local_files_through_fsspec_fail(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """They look, and then write. Left to chance, about every second round has two winners; here all have looked."""
    everybody_looked = threading.Barrier(WRITERS, timeout=60)
    looks = LocalFileSystem.exists

    def exists(self: LocalFileSystem, path: str, **options: Any) -> bool:
        found = looks(self, path, **options)
        if "/race/" in path:
            everybody_looked.wait()
        return found

    monkeypatch.setattr(LocalFileSystem, "exists", exists)
    report = probe(FsspecStore(f"file://{tmp_path}/warehouse", proven=True), rounds=1)
    assert failures(report) == ["simultaneous creates"]
    assert f"{WRITERS} of {WRITERS} writers were told that they had won" in report.checks[2].detail


def test_lost_replies_do_not_fail_a_sound_store(lithify_s3: S3Server, bucket: str) -> None:
    with Front(lithify_s3.endpoint_url, lambda seen: seen.conditional) as front:
        front.plan(*[Deed(reply="none"), Deed(), Deed(status=500)] * 8)
        report = probe(S3Store(bucket, "p", front.options(lithify_s3.options)), rounds=4)
    assert failures(report) == []


@pytest.mark.parametrize("ignored", [False, True])
def test_a_versioned_bucket_is_a_warning_unless_conditions_are_ignored(
    ignored: bool, lithify_s3: S3Server, bucket: str
) -> None:
    with Front(lithify_s3.endpoint_url, rule=lambda _: Deed(ignore_condition=ignored)) as front:
        store = S3Store(bucket, "p", front.options(lithify_s3.options))
        configuration = {"Status": "Enabled"}
        store.bulk_client().put_bucket_versioning(Bucket=bucket, VersioningConfiguration=configuration)
        report = probe(store, rounds=1)
    (versioning,) = (check for check in report.checks if check.name == "versioning")
    assert not versioning.ok
    assert versioning.severity == ("failure" if ignored else "warning")
    assert report.ok == (not ignored)


def test_a_missing_bucket_is_not_called_unsafe(lithify_s3: S3Server) -> None:
    report = probe(S3Store("no-such-bucket", "p", lithify_s3.options), rounds=1)
    assert report.finding == "unfit"
    with pytest.raises(InvalidRequest, match="create the bucket") as caught:
        report.require()
    assert UNSAFE not in str(caught.value)


ANSWERS_NOBODY = {
    "nobody listens": None,
    "every request is cut off": Deed(forward=False, reply="reset"),
    "no backend": Deed(forward=False, status=404, body="<html>404</html>", kind="text/html"),
    "slow down": Deed(forward=False, status=503, code="SlowDown"),
}


@pytest.mark.parametrize("trouble", ANSWERS_NOBODY)
def test_an_outage_is_unavailable_and_names_the_endpoint(trouble: str, lithify_s3: S3Server, bucket: str) -> None:
    deed = ANSWERS_NOBODY[trouble]
    with Front(lithify_s3.endpoint_url, rule=lambda _: deed or Deed()) as front:
        options = front.options(lithify_s3.options)
        if deed is None:
            front.__exit__()
        report = probe(Metered(S3Store(bucket, "p", options, pause=lambda _: None)), rounds=1)
    assert report.finding == "unavailable"
    assert [check.name for check in report.checks] == ["answer"]  # of silence, one is enough
    with pytest.raises(Unavailable, match=rf"s3://{bucket}/p at {front.endpoint_url} did not answer") as caught:
        report.require()
    assert UNSAFE not in str(caught.value)
    assert len(front.seen) <= 4


def test_an_outage_in_its_midst_is_unavailable(lithify_s3: S3Server, bucket: str) -> None:
    """Its first puts get no certain answer: that proves nothing against the store."""
    rule = lambda seen: Deed(forward=False, status=503, code="SlowDown") if seen.method == "PUT" else Deed()  # noqa: E731
    with Front(lithify_s3.endpoint_url, rule=rule) as front:
        report = probe(S3Store(bucket, "p", front.options(lithify_s3.options)), rounds=1)
    assert report.finding == "unavailable"
    assert [check.name for check in report.checks] == ["answer", "create if absent"]


def test_somebody_who_waits_for_a_probe_waits_seconds(lithify_s3: S3Server, bucket: str) -> None:
    """By the deadlines of its clients and its own: nothing listens at the end of a route that swallows packets."""
    store = S3Store(bucket, "p", {**lithify_s3.options, "config_kwargs": {"read_timeout": 3, "connect_timeout": 90}})
    for client in (store.hasty().conditional_client(), store.hasty().bulk_client()):
        config = client.meta.config
        assert (config.connect_timeout, config.read_timeout, config.retries["total_max_attempts"]) == (2, 3, 1)
    assert store.hasty() is store.hasty()
    store.close()


FORBIDDEN = {
    "s3:GetObject and s3:ListBucket": lambda seen: seen.method in ("GET", "HEAD") and "?" not in seen.path,
    "s3:PutObject": lambda seen: seen.method == "PUT",
    "s3:ListBucket": lambda seen: seen.method == "GET" and "list-type=2" in seen.path,
    "s3:DeleteObject": lambda seen: seen.method in ("DELETE", "POST"),
}


@pytest.mark.slow
@pytest.mark.parametrize("permission", FORBIDDEN)
def test_a_missing_permission_is_named_and_is_not_called_unsafe(
    permission: str, lithify_s3: S3Server, bucket: str
) -> None:
    def rule(seen: Seen) -> Deed:
        denied = Deed(forward=False, status=403, code="AccessDenied")
        return denied if FORBIDDEN[permission](seen) else Deed()

    with Front(lithify_s3.endpoint_url, rule=rule) as front:
        report = probe(S3Store(bucket, "p", front.options(lithify_s3.options)), rounds=1)
    assert report.finding == "refused"
    with pytest.raises(
        AccessDenied, match=rf"s3://{bucket}/p at {front.endpoint_url}.*AccessDenied.*{permission}"
    ) as e:
        report.require()
    assert UNSAFE not in str(e.value)


class _Raises(MemoryStore):
    """Fails as a folder does that is on a mount which is away, or read-only."""

    def __init__(self, error: LithifyError) -> None:
        super().__init__()
        self._error = error

    def create(self, key: str, body: bytes) -> Outcome:
        raise self._error

    put = create  # type: ignore[assignment]


@pytest.mark.parametrize(
    ("error", "finding"),
    [(Unavailable("gone"), "unavailable"), (AccessDenied("not you"), "refused"), (InvalidRequest("no"), "unfit")],
)
def test_what_a_store_raises_is_what_the_probe_raises(error: LithifyError, finding: str) -> None:
    report = probe(_Raises(error), rounds=1)
    assert report.finding == finding
    with pytest.raises(type(error), match=str(error)) as caught:
        report.require()
    assert UNSAFE not in str(caught.value)


class _WinnerLies(MemoryStore):
    """Tells every writer of a race that another won."""

    def create(self, key: str, body: bytes, frees: bool = False) -> Outcome:
        outcome = super().create(key, body)
        return Outcome.EXISTS if "/race/" in key else outcome


def test_a_race_without_a_winner_fails() -> None:
    assert failures(probe(_WinnerLies(), rounds=1)) == ["simultaneous creates"]


def test_clocks_far_apart_are_a_warning() -> None:
    report = probe(MemoryStore(clock=lambda: 1_000), rounds=1)
    assert failures(report) == ["clock"]
    assert report.ok
    assert report.skew_ms is not None
    assert report.skew_ms < -(10**12)


def test_a_folder_that_cannot_be_written_is_a_finding() -> None:
    report = probe(FileStore("/dev/null/warehouse"), rounds=1)
    assert not report.ok
    with pytest.raises(InvalidRequest, match=r"/dev/null/warehouse.*part of it is a file") as caught:
        report.require()
    assert report.finding == "unfit"
    assert UNSAFE not in str(caught.value)


def test_one_cause_is_told_once(tmp_path: Path) -> None:
    """A folder that may only be read refuses each check with the same sentence."""
    disk = ScriptedDisk()
    disk.play = lambda _, name, act: refuse() if name in WRITES else act()
    (tmp_path / "w").mkdir()
    report = probe(FileStore(tmp_path / "w", disk=cast(Disk, disk)), rounds=1)
    assert len([check for check in report.checks if check.finding == "refused"]) > 2
    with pytest.raises(AccessDenied, match="denies this process access that a log needs") as caught:
        report.require()
    assert str(caught.value).count("Permission denied") == 1
    assert str(caught.value).endswith("; also read after write, range read, list after write, delete")


WRITES = {"make_folder", "link", "rename", "rename_exclusively", "touch"}


def refuse() -> NoReturn:
    raise PermissionError(errno.EACCES, "Permission denied")
