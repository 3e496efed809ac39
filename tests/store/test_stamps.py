"""What a store itself notes of an object: nothing that is done to it later changes that, and a copy has another one."""

import errno
import os
import shutil
import subprocess
import tarfile
from collections.abc import Callable
from datetime import UTC, datetime, timedelta, timezone
from pathlib import Path
from typing import Any

import moto.s3.models
import pytest

from lithify.store.disk import Disk
from lithify.store.errors import Unavailable
from lithify.store.file import FileStore
from lithify.store.fsspec_store import FsspecStore
from lithify.store.memory import MemoryStore
from lithify.store.port import Store
from lithify.store.s3 import S3Store
from lithify.testing.server import S3Server

KEY = "users/0123456789abcdef/witness/first.witness"
BIRTHS = Disk().born_ns(Path(__file__)) is not None  # whether this machine's filesystem notes them


def test_it_stays_as_long_as_the_object_is_not_stored_anew(store: Store) -> None:
    assert not store.stamp(KEY)
    store.create(KEY, b"w")
    first = store.stamp(KEY)
    assert first is not None
    store.create(KEY, b"again")
    store.put(KEY + "2", b"x")
    store.delete([KEY + "2"])
    assert store.stamp(KEY) == first
    store.delete([KEY])
    assert not store.stamp(KEY)


def test_stores_that_can_hold_a_warehouse_tell_what_is_absent(store: Store) -> None:
    if isinstance(store, FsspecStore):  # a local one, in which no log can be kept
        assert store.stamp(KEY) == {}
        return
    assert store.stamp(KEY) is None
    store.put(KEY, b"")
    assert store.stamp(KEY) is not None
    assert store.stamp("users/0123456789abcdef/witness") is None, "a folder is no object"


def test_each_memory_store_has_its_own() -> None:
    one, other = MemoryStore("same"), MemoryStore("same")
    for store in (one, other):
        store.put(KEY, b"w")
    assert one.stamp(KEY) != other.stamp(KEY)


@pytest.fixture
def folder(tmp_path: Path) -> FileStore:
    """With one object."""
    made = FileStore(tmp_path / "warehouse")
    made.create(KEY, b"w")
    assert BIRTHS, "run these tests in a folder of ext4, xfs, btrfs, or another filesystem that notes births"
    return made


def until_the_clock_goes_on(folder: FileStore, tmp_path: Path) -> None:
    """A filesystem's clock goes in steps of some milliseconds, and what is made within one step has one birth."""
    born, beside = folder.stamp(KEY), FileStore(tmp_path / "beside")
    while beside.stamp(KEY) in (None, born):
        beside.put(KEY, b"")


# Early 3.11 knows no filters, and from 3.12 on Python wants one named.
FILTER: Any = {"filter": "fully_trusted"} if hasattr(tarfile, "fully_trusted_filter") else {}
COPIES: dict[str, Callable[[Path, Path], object]] = {
    "copytree": shutil.copytree,
    "cp -a": lambda one, other: subprocess.run(["cp", "-a", one, other], check=True),
    "tar": lambda one, other: shutil.unpack_archive(
        shutil.make_archive(str(other) + "-archive", "tar", one), other, **FILTER
    ),
}


def alike(store: FileStore) -> tuple[bytes, int | None]:
    found = store.get(KEY)
    assert found is not None
    return found.body, found.modified_ms


@pytest.mark.parametrize("how", COPIES)
def test_a_copy_of_a_file_has_another(folder: FileStore, tmp_path: Path, how: str) -> None:
    until_the_clock_goes_on(folder, tmp_path)
    COPIES[how](tmp_path / "warehouse", tmp_path / "copy")
    copy = FileStore(tmp_path / "copy")
    assert alike(copy) == alike(folder), "its modification time is the same"
    assert copy.stamp(KEY) not in (None, {}, folder.stamp(KEY))


def relabelled(path: Path) -> None:
    """As what starts a container does to all that it mounts: kubelet for an fsGroup, `chown -R` of many images."""
    os.chown(path, os.getuid(), os.getgid())
    path.chmod(0o640)
    path.chmod(0o644)


CHANGES: dict[str, Callable[[Path], object]] = {
    "owner and mode": relabelled,
    "times": lambda path: os.utime(path, (1, 1)),
    "a second name": lambda path: os.link(path, path.with_name("second")),
    "renamed there and back": lambda path: path.rename(path.with_name("x")).rename(path),
    "a folder above is renamed": lambda path: (
        path.parents[3].rename(path.parents[3].with_name("x")).rename(path.parents[3])
    ),
    "read": lambda path: path.read_bytes(),
    "written to": lambda path: path.write_bytes(b"other"),
}


@pytest.mark.parametrize("how", CHANGES)
def test_what_is_done_to_a_file_does_not_change_it(folder: FileStore, tmp_path: Path, how: str) -> None:
    before = folder.stamp(KEY)
    CHANGES[how](tmp_path / "warehouse" / KEY)
    assert before
    assert folder.stamp(KEY) == before


def test_a_file_that_is_stored_anew_has_another(folder: FileStore, tmp_path: Path) -> None:
    before = folder.stamp(KEY)
    until_the_clock_goes_on(folder, tmp_path)
    folder.put(KEY, b"w")
    assert folder.stamp(KEY) not in (None, {}, before)


class Old(Disk):
    """The system call answers `number`."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch, number: int) -> None:
        def statx(*_: object) -> int:
            return -1

        self._number = number
        monkeypatch.setattr("lithify.store.disk.ctypes.CDLL", lambda *_, **__: type("C", (), {"statx": statx}))
        monkeypatch.setattr("lithify.store.disk.ctypes.get_errno", lambda: number)


@pytest.mark.parametrize("number", [errno.ENOSYS, errno.EPERM])
def test_a_system_that_does_not_know_births(folder: FileStore, monkeypatch: pytest.MonkeyPatch, number: int) -> None:
    disk = Old(monkeypatch, number)
    assert FileStore(folder.url.removeprefix("file://"), disk=disk).stamp(KEY) == {}


def test_a_disk_that_fails_is_no_system_that_does_not_know(folder: FileStore, monkeypatch: pytest.MonkeyPatch) -> None:
    disk = Old(monkeypatch, errno.EIO)
    with pytest.raises(Unavailable):
        FileStore(folder.url.removeprefix("file://"), disk=disk).stamp(KEY)


def test_a_system_without_such_a_call(folder: FileStore, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("lithify.store.disk.ctypes.CDLL", lambda *_, **__: object())
    assert folder.stamp(KEY) == {}


def later(monkeypatch: pytest.MonkeyPatch, seconds: int) -> None:
    """The server's clock."""
    now = datetime.now(UTC).replace(tzinfo=None) + timedelta(seconds=seconds)
    monkeypatch.setattr(moto.s3.models, "utcnow", lambda: now)


def test_an_object_of_s3_has_its_time(s3_store: S3Store, monkeypatch: pytest.MonkeyPatch) -> None:
    s3_store.create(KEY, b"w")
    found, told = s3_store.stamp(KEY), s3_store.head(KEY)
    assert told is not None
    assert found == {"modified_ms": str(told.modified_ms)}
    later(monkeypatch, 5)
    s3_store.put(KEY, b"w")
    assert s3_store.stamp(KEY) not in (None, {}, found)


def test_an_object_of_s3_has_its_version(s3_store: S3Store, lithify_s3: S3Server, bucket: str) -> None:
    """Unique, within a second too. What is older than the bucket's versions has none, before and after."""
    older = KEY + "0"
    s3_store.create(older, b"w")
    before = s3_store.stamp(older)
    s3_store.bulk_client().put_bucket_versioning(Bucket=bucket, VersioningConfiguration={"Status": "Enabled"})
    assert s3_store.stamp(older) == before
    s3_store.create(KEY, b"w")
    found = s3_store.stamp(KEY)
    assert found is not None
    assert set(found) == {"modified_ms", "version"}
    s3_store.put(KEY, b"w")
    again = s3_store.stamp(KEY)
    assert again is not None
    assert again["version"] != found["version"]


class Told:
    """A filesystem of fsspec of which only `info` is asked."""

    def __init__(self, **info: Any) -> None:
        self._info = info

    def info(self, path: str) -> dict[str, Any]:
        if path.endswith("absent"):
            raise FileNotFoundError(path)
        return {"name": path, "size": 1, "type": "file", **self._info}


AT = datetime(2026, 11, 27, 12, tzinfo=UTC)


@pytest.mark.parametrize(
    ("url", "info", "stamp"),
    [
        ("gs://b/w", {"generation": "1700000000000001", "etag": "e", "mtime": AT}, {"generation": "1700000000000001"}),
        ("gcs://b/w", {"generation": 1700000000000001}, {"generation": "1700000000000001"}),
        ("abfs://c/w", {"creation_time": AT, "etag": "e"}, {"creation_time": "1795780800000"}),
        (
            "az://c/w",
            {"creation_time": AT.astimezone(timezone(timedelta(hours=2)))},
            {"creation_time": "1795780800000"},
        ),
        ("gs://b/w", {"etag": "a checksum, perhaps", "mtime": AT}, {}),
        ("memory://b/w", {"created": AT, "generation": "1"}, {}),
    ],
)
def test_of_any_filesystem(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, url: str, info: dict[str, Any], stamp: dict[str, str]
) -> None:
    store = FsspecStore(f"file://{tmp_path}")
    monkeypatch.setattr(store, "_url", url)
    monkeypatch.setattr(store, "_opened", (os.getpid(), Told(**info), "/w"))
    assert store.stamp(KEY) == stamp
    assert not store.stamp("absent")
