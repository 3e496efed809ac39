"""An export is there when it is complete, and not before: whatever fails or ends it, what was there stays as it was,
and nothing else is left."""

import bz2
import errno
import gc
import gzip
import io
import lzma
import os
import random
import signal
import stat
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import boto3
import fsspec
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from lithify.admin.interruption import Terminated, told_to_end
from lithify.cli.records import sinks
from lithify.cli.records.sinks import open_sink
from lithify.segment.schema import RECORDS
from lithify.store.disk import sync_folder
from lithify.store.errors import LithifyError
from lithify.testing.front import Deed, Front, Seen
from lithify.testing.server import S3Server
from tests.cli.conftest import Lithify, changes, lines
from tests.store.disks import ForgetfulDisk, ScriptedDisk

ERRORS = [errno.EIO, errno.ENOSPC, errno.EDQUOT, errno.EACCES, errno.EROFS]
OLD = b"what was exported before"
ROWS = 100
READERS: dict[str, Callable[[bytes], int]] = {
    "jsonl": lambda body: body.count(b"\n"),
    "jsonl.gz": lambda body: gzip.decompress(body).count(b"\n"),
    "jsonl.bz2": lambda body: bz2.decompress(body).count(b"\n"),
    "jsonl.xz": lambda body: lzma.decompress(body).count(b"\n"),
    "jsonl.zst": lambda body: pa.CompressedInputStream(io.BytesIO(body), "zstd").read().count(b"\n"),
    "parquet": lambda body: pq.read_table(io.BytesIO(body)).num_rows,
}


class Killed(BaseException):
    """The process is gone: nothing it would do afterwards is done."""


def batches() -> Iterator[pa.RecordBatch]:
    for start in (0, ROWS // 2):
        offsets = pa.array(range(start, start + ROWS // 2))
        values = pa.array([os.urandom(40) for _ in offsets])
        headers = pa.nulls(len(offsets), RECORDS.field("headers").type)
        yield pa.RecordBatch.from_arrays([values, values, offsets, offsets, headers], schema=RECORDS)


def export(target: Path | str, then: str = "") -> None:
    with open_sink(str(target), {}) as sink:
        for batch in batches():
            sink.write(batch, 0)
        if then:
            raise ZeroDivisionError


@pytest.fixture
def disk(monkeypatch: pytest.MonkeyPatch) -> ScriptedDisk:
    disk = ScriptedDisk()
    monkeypatch.setattr(sinks, "Disk", lambda: disk)
    monkeypatch.setattr("lithify.store.file_output._BUFFER_BYTES", 3_000)  # so that there are several writes
    return disk


def calls_of(disk: ScriptedDisk, target: Path) -> list[str]:
    export(target)
    target.unlink()
    calls, disk.calls = disk.calls, []
    return calls


def played(name: str, tmp_path: Path, disk: ScriptedDisk) -> Iterator[tuple[int, str, Path]]:
    """Every call of an export, over what was there and over nothing."""
    target = tmp_path / f"out.{name}"
    for at, call in enumerate(calls_of(disk, target)):
        for there in (True, False):
            target.unlink(missing_ok=True)
            if there:
                target.write_bytes(OLD)
            disk.heal()
            disk.calls, disk.open_files = [], 0
            yield at, call, target


def judge(name: str, target: Path) -> bool:
    """Whether it is there now."""
    body = target.read_bytes() if target.exists() else OLD
    assert body == OLD or READERS[name](body) == ROWS
    return body != OLD


@pytest.mark.slow
@pytest.mark.parametrize("moment", ["in its place", "after it", "from then on"])
@pytest.mark.parametrize("name", READERS)
def test_the_disk_fails_at_every_call(name: str, moment: str, tmp_path: Path, disk: ScriptedDisk) -> None:
    """Tried on cli/records/sinks.py, and caught: `abort` without `forget`; written under its own name."""
    for at, call, target in played(name, tmp_path, disk):
        number = ERRORS[at % len(ERRORS)]
        disk.fail(at, number, after=moment == "after it", lasting=moment == "from then on")
        told = ""
        try:
            export(target)
        except LithifyError as error:
            told = str(error)
        is_there = judge(name, target)
        if told:
            assert str(tmp_path) in told
            assert not is_there or "rename" in disk.calls[: at + 1]
        else:
            assert is_there
            assert call in ("unlink", "close", "open", "sync", "stat")
        assert disk.open_files == 0
        left = {each.name for each in tmp_path.iterdir()} - {target.name}
        assert not left or (moment == "from then on" and len(left) == 1)  # which could not be removed, either
        for each in left:
            (tmp_path / each).unlink()


@pytest.mark.parametrize("before", [True, False])
@pytest.mark.parametrize("name", ["jsonl", "jsonl.gz", "parquet"])
def test_sigterm_at_every_call(name: str, before: bool, tmp_path: Path, disk: ScriptedDisk) -> None:
    """Tried on cli/records/sinks.py, and caught: `abort` without `forget`, or without that of the output."""
    for at, _, target in played(name, tmp_path, disk):

        def play(number: int, _: str, act: Callable[[], Any], at: int = at) -> Any:
            if number == at and before:
                os.kill(os.getpid(), signal.SIGTERM)
            try:
                return act()
            finally:
                if number == at and not before:
                    os.kill(os.getpid(), signal.SIGTERM)

        disk.play = play
        with pytest.raises(Terminated), told_to_end():
            export(target)
        judge(name, target)
        assert disk.open_files == 0
        assert {each.name for each in tmp_path.iterdir()} <= {target.name}


@pytest.mark.parametrize("before", [True, False])
@pytest.mark.parametrize("there", [True, False])
@pytest.mark.parametrize("name", ["jsonl", "jsonl.gz", "parquet"])
def test_killed_and_the_power_cut_at_every_call(name: str, there: bool, before: bool, disk: ScriptedDisk) -> None:
    """Tried on store/file_output.py, and caught: no sync before the rename. On sinks.py: a folder that is not
    flushed after it."""
    target = Path(f"/exports/out.{name}")
    at, ended = 0, False
    while not ended:
        model = disk.inner = ForgetfulDisk()
        model.make_folder(target.parent)
        if there:
            opened = model.open(target, os.O_WRONLY | os.O_CREAT)
            model.write(opened, memoryview(OLD))
            model.sync(opened)
        sync_folder(model, target.parent)
        sync_folder(model, Path("/"))
        disk.calls = []
        disk.play = killed(at, before=before)
        try:
            export(target)
            ended = True
        except Killed:
            at += 1
        for image in [model, *model.images(random.Random(at))]:
            body = content(image, target)
            assert body in (None, OLD) or READERS[name](body) == ROWS
            assert body is not None or not there
            assert not ended or body not in (None, OLD)
    assert at > 5


def killed(at: int, *, before: bool) -> Callable[[int, str, Callable[[], Any]], Any]:
    def play(number: int, _: str, act: Callable[[], Any]) -> Any:
        if number > at or (number == at and before):
            raise Killed
        answer = act()
        if number == at:
            raise Killed
        return answer

    return play


def content(disk: Any, path: Path) -> bytes | None:
    try:
        descriptor = disk.open(path, os.O_RDONLY)
    except FileNotFoundError:
        return None
    return disk.read(descriptor, 1 << 30, 0)


@pytest.mark.slow
def test_a_real_kill_leaves_what_was_there(on_files: Lithify, tmp_path: Path) -> None:
    """Tried on cli/reads.py, and caught: no `told_to_end`."""
    on_files.ok("topic", "create", "users")
    on_files.ok("append", "users", input=changes(50))
    target = tmp_path / "out.jsonl"
    for number in (signal.SIGKILL, signal.SIGHUP, signal.SIGTERM):
        target.write_bytes(OLD)
        child = subprocess.run(
            [sys.executable, "-c", CHILD, str(int(number)), "export", "users", "--to", str(target)],
            env={**os.environ, "LITHIFY_WAREHOUSE": on_files.url},
            capture_output=True,
            timeout=120,
            check=False,
        )
        assert child.returncode == {signal.SIGTERM: 143, signal.SIGHUP: 129}.get(number, -number)
        assert target.read_bytes() == OLD
        left = list(tmp_path.glob(".lithify-export-*"))
        assert len(left) == (number == signal.SIGKILL)
        for each in left:
            each.unlink()
    assert b"told to end" in child.stderr


CHILD = """
import os, sys
from lithify.cli import main
from lithify.cli.records import sinks
write, number = sinks.Sink.write, int(sys.argv.pop(1))
def write_and_be_ended(*arguments):
    write(*arguments)
    os.kill(os.getpid(), number)
sinks.Sink.write = write_and_be_ended
main.main()
"""


@pytest.mark.parametrize("mode", [0o600, 0o640, 0o666])
def test_who_could_not_read_the_former_one_cannot_read_this_one(tmp_path: Path, mode: int, disk: ScriptedDisk) -> None:
    target = tmp_path / "out.jsonl"
    target.write_bytes(OLD)
    target.chmod(mode)
    seen = set[int]()

    def play(_: int, name: str, act: Callable[[], Any]) -> Any:
        if name == "write":
            seen.update(stat.S_IMODE(each.stat().st_mode) for each in tmp_path.iterdir())
        return act()

    disk.play = play
    export(target)
    assert stat.S_IMODE(target.stat().st_mode) == mode
    assert seen == {mode}


@pytest.mark.parametrize("target", ["http://127.0.0.1:9/out.jsonl", "http://127.0.0.1:9/out.parquet"])
def test_what_takes_no_writes_is_not_called_damaged(on_files: Lithify, target: str) -> None:
    on_files.ok("topic", "create", "users")
    told = on_files.refused("export", "users", "--to", target, code=2, saying="cannot be written to; name a file")
    assert "damaged" not in told


def test_a_name_that_ends_as_a_folder_s_is_none_of_a_file(on_files: Lithify, tmp_path: Path) -> None:
    on_files.ok("topic", "create", "users")
    (tmp_path / "old").mkdir()
    said = f"old is a folder: write {tmp_path}/old/ for a folder of Parquet files, or name a file"
    on_files.refused("export", "users", "--to", f"{tmp_path}/old", code=2, saying=said)
    on_files.refused("export", "users", "--to", "", code=2, saying="an empty URL was given")
    assert not list((tmp_path / "old").iterdir())


def test_what_cannot_be_written_is_told_before_anything_is_read(
    on_files: Lithify, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    on_files.ok("topic", "create", "users")
    on_files.ok("append", "users", input=changes(5))
    monkeypatch.setattr("lithify.cli.reads._snapshot_of", pytest.fail)
    (tmp_path / "file").write_bytes(b"")
    os.mkfifo(tmp_path / "pipe")
    for target, code, saying in (
        ("none/out.jsonl", 3, "does not exist: create the folder"),
        ("file/out.jsonl", 2, "Not a directory"),
        (".", 2, "is a folder"),
        ("pipe", 2, "is not a regular file: use --to -"),
        ("x" * 300, 2, "File name too long"),
    ):
        on_files.refused("export", "users", "--to", str(tmp_path / target), code=code, saying=saying)
    assert sorted(each.name for each in tmp_path.iterdir()) == ["file", "pipe", "warehouse"]


def test_a_link_stays_and_what_it_names_is_replaced(tmp_path: Path) -> None:
    (tmp_path / "real").write_bytes(OLD)
    (tmp_path / "link.jsonl").symlink_to("real")
    export(tmp_path / "link.jsonl")
    assert (tmp_path / "link.jsonl").is_symlink()
    assert READERS["jsonl"]((tmp_path / "real").read_bytes()) == ROWS


def test_it_may_be_read_by_whom_the_umask_lets(tmp_path: Path) -> None:
    before = os.umask(0o027)
    try:
        export(tmp_path / "out.jsonl")
    finally:
        os.umask(before)
    assert (tmp_path / "out.jsonl").stat().st_mode & 0o777 == 0o640


@pytest.mark.slow
@pytest.mark.parametrize("name", READERS)
def test_elsewhere_nothing_appears_after_an_error(name: str) -> None:
    """Encoders end by themselves when they are forgotten, and write what is left."""
    system = fsspec.filesystem("memory")
    system.rm("exports", recursive=True) if system.exists("exports") else None
    url = f"memory://exports/out.{name}"
    with pytest.raises(ZeroDivisionError):
        export(url, "fails")
    gc.collect()
    assert system.find("exports") == []
    export(url)
    assert [each["size"] for each in system.ls("exports")] == [len(system.cat_file(url))]
    assert READERS[name](system.cat_file(url)) == ROWS


@pytest.fixture
def bucket(lithify_s3: S3Server) -> Iterator[str]:
    bucket = lithify_s3.create_bucket()
    yield bucket
    lithify_s3.delete_bucket(bucket)


def flags(endpoint_url: str) -> list[str]:
    options = {"key": "test", "secret": "test", "client_kwargs.region_name": "us-east-1"}
    options["client_kwargs.endpoint_url"] = endpoint_url
    return [word for name, value in options.items() for word in ("--storage-option", f"{name}={value}")]


@pytest.mark.slow
@pytest.mark.parametrize(("value_bytes", "writes_max"), [(10, 1), (600_000, 4)])
def test_s3_refuses_a_write_at_any_request(
    lithify_s3: S3Server, bucket: str, value_bytes: int, writes_max: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Nothing is there, and no upload is left unfinished."""
    monkeypatch.setattr("lithify.store.s3_output.PART_BYTES", 5 << 20)  # S3 takes no smaller ones
    refused, writes = 0, 0

    def rule(seen: Seen) -> Deed:
        nonlocal writes
        if "/out/" not in seen.path or seen.method not in ("PUT", "POST"):
            return Deed()
        writes += 1
        return Deed(forward=False, status=403, code="AccessDenied") if writes == refused else Deed()

    with Front(lithify_s3.endpoint_url, rule=rule) as front:
        s3 = Lithify(f"s3://{bucket}/w", *flags(front.endpoint_url))
        s3.ok("topic", "create", "users")
        s3.ok("append", "users", input=lines(*({"key": str(n), "value": "v" * value_bytes} for n in range(10))))
        for refused in range(1, writes_max + 2):
            writes = 0
            told = s3("export", "users", "--to", f"s3://{bucket}/out/{refused}.jsonl")
            is_there = refused > writes_max
            assert told.exit_code == (0 if is_there else 7), told.stderr
            assert found(lithify_s3, bucket, f"out/{refused}.jsonl") == (10 if is_there else None)
            assert unfinished(lithify_s3, bucket) == 0


def found(server: S3Server, bucket: str, key: str) -> int | None:
    client = client_of(server)
    if not client.list_objects_v2(Bucket=bucket, Prefix=key).get("KeyCount"):
        return None
    return client.get_object(Bucket=bucket, Key=key)["Body"].read().count(b"\n")


def client_of(server: S3Server) -> Any:
    return boto3.client("s3", aws_access_key_id="test", aws_secret_access_key="test", **server.options["client_kwargs"])


def unfinished(server: S3Server, bucket: str) -> int:
    return len(client_of(server).list_multipart_uploads(Bucket=bucket).get("Uploads", []))


def test_s3_where_nothing_can_be_written_says_so_at_once(
    lithify_s3: S3Server, lithify: Lithify, monkeypatch: pytest.MonkeyPatch
) -> None:
    lithify.ok("topic", "create", "users")
    monkeypatch.setattr("lithify.cli.reads._snapshot_of", pytest.fail)
    monkeypatch.setenv("AWS_ENDPOINT_URL_S3", lithify_s3.endpoint_url)
    monkeypatch.setenv("AWS_ACCESS_KEY_ID", "test")
    monkeypatch.setenv("AWS_SECRET_ACCESS_KEY", "test")
    for url, saying in (
        ("s3://no-such-bucket-here/out.jsonl", "NoSuchBucket"),
        ("s3://bucket", "names no object"),
        ("s3://no-such-bucket-here/folder/", "NoSuchBucket"),
    ):
        lithify.refused("export", "users", "--to", url, code=2, saying=saying)
