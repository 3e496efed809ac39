"""A disk filled up by appends, and each way out of it that docs/operations.md tells.

On a small filesystem where one can be mounted, else on a folder whose system calls say that it is full.
"""

import errno
import os
import random
import subprocess
from collections.abc import Callable, Iterator
from contextlib import suppress
from pathlib import Path

import pytest

import lithify
from lithify.store import opening as stores
from lithify.store.disk import Disk
from lithify.store.errors import Unavailable
from lithify.store.file import FileStore

ROOM = 12 * 1024 * 1024
COLLECTIONS_MAX = 20
DELETE = {"cleanup.policy": "delete", "retention.ms": -1, "l0.segments.max": 10_000}


class SmallDisk(Disk):
    """The real disk, of which the folder `root` may have `ROOM` bytes."""

    def __init__(self, root: Path) -> None:
        self._root = root

    def open(self, path: Path, flags: int) -> int:
        if flags & os.O_CREAT:
            self._room(4096)
        return super().open(path, flags)

    def write(self, descriptor: int, data: memoryview) -> int:
        self._room(len(data))
        return super().write(descriptor, data)

    def allocate(self, descriptor: int, length: int) -> None:
        self._room(length)
        super().allocate(descriptor, length)

    def _room(self, wanted: int) -> None:
        files: dict[int, int] = {}
        for path in self._root.rglob("*"):
            with suppress(FileNotFoundError):  # another thread removed it
                files[path.stat().st_ino] = path.stat().st_size
        if sum(-(-size // 4096) * 4096 for size in files.values()) + wanted > ROOM:
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))


def mounted(folder: Path) -> bool:
    command = ["mount", "-t", "tmpfs", "-o", f"size={ROOM}", "none", str(folder)]
    try:
        return subprocess.run(command, check=False, capture_output=True).returncode == 0
    except FileNotFoundError:
        return False


@pytest.fixture(params=["mounted", "injected"])
def disk(request: pytest.FixtureRequest, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    folder = tmp_path / "disk"
    folder.mkdir()
    if request.param == "mounted" and mounted(folder):
        yield folder
        subprocess.run(["umount", "--lazy", str(folder)], check=True)
    else:
        monkeypatch.setattr(stores, "FileStore", lambda root: FileStore(root, disk=SmallDisk(Path(root))))
        yield folder


def fill(partition: lithify.Partition) -> dict[int, bytes]:
    """Append until not even the smallest append is taken; what was acknowledged, by offset."""
    dice, taken = random.Random(1), dict[int, bytes]()
    for size in (500_000, 20_000, 10):
        for _ in range(2_000):
            value = dice.randbytes(size)
            try:
                offsets = partition.append([lithify.Record(key=b"k%d" % len(taken), value=value, timestamp_ms=1)])
            except Unavailable as error:
                refused = str(error)
                break
            taken[offsets.start] = value
        else:
            raise AssertionError("it never filled up")
    assert "docs/operations.md" in refused
    return taken


def shown(partition: lithify.Partition) -> dict[int, bytes | None]:
    return {record.offset: record.value for record in partition.read()}


def maintain(warehouse: lithify.Warehouse) -> None:
    """What the page says: a pass of the compactor, and collection twice.

    The compactor drops what is below the floor; merging what is left would need uploads, and may be refused. The
    folder's clock may be some milliseconds behind the times of its files, so that a boundary is not yet old enough for
    a grace period of nothing: then a third collection does it.
    """
    compactor = lithify.Compactor(warehouse, engine="local")
    try:
        errors = {partition.fault and partition.fault.kind for partition in compactor.run_once().partitions}
    finally:
        compactor.close()
    assert errors <= {None, "Unavailable"}
    for number in range(COLLECTIONS_MAX):
        report = lithify.Collector(warehouse, grace_ms=0).run_once()
        assert [partition.fault for partition in report.partitions if partition.fault] == []
        if number and not any(partition.waiting for partition in report.partitions):
            return
    raise AssertionError(f"after {COLLECTIONS_MAX} collections some still wait: {report}")


def delete_records(warehouse: lithify.Warehouse) -> int:
    partition = warehouse.topic("log").partition(0)
    return partition.delete_records(partition.describe().next_offset // 2)


def shorten_retention(warehouse: lithify.Warehouse) -> int:
    warehouse.topic("log").alter({"retention.records": 3})
    return 0


def delete_a_topic(warehouse: lithify.Warehouse) -> int:
    warehouse.delete_topic("other")
    return 0


def delete_a_checkpoint(warehouse: lithify.Warehouse) -> int:
    partition = warehouse.topic("log").partition(0)
    partition.delete_checkpoint("kept")
    return partition.delete_records(3)  # what it had pinned


WAYS: list[Callable[[lithify.Warehouse], int]] = [
    *(delete_records, shorten_retention, delete_a_topic, delete_a_checkpoint),
]


@pytest.mark.slow
@pytest.mark.parametrize("way", WAYS, ids=lambda way: way.__name__)
def test_it_is_filled_refused_freed_and_goes_on(way: Callable[[lithify.Warehouse], int], disk: Path) -> None:
    with lithify.open(str(disk / "warehouse")) as warehouse:
        partition = warehouse.create_topic("log", 1, DELETE).partition(0)
        other = warehouse.create_topic("other", 1, DELETE).partition(0)
        large = {number: random.Random(number).randbytes(1_000_000) for number in range(3)}
        for value in large.values():
            for each in (partition, other):
                each.append([lithify.Record(key=b"k", value=value, timestamp_ms=1)])
        partition.snapshot(pin="kept")
        if way is not delete_a_checkpoint:
            partition.delete_checkpoint("kept")
        taken = large | fill(partition)
    assert [path.name for path in (disk / "warehouse" / ".lithify-tmp").iterdir()] == ["reserve"], "nothing is left"
    assert len(list((disk / "warehouse" / ".lithify-tmp" / "reserve").iterdir())) == 16
    with lithify.open(str(disk / "warehouse")) as warehouse:  # a process that knows nothing of it
        assert shown(warehouse.topic("log").partition(0)) == taken
        way(warehouse)
        maintain(warehouse)
        partition = warehouse.topic("log").partition(0)
        value = random.Random(3).randbytes(1_000_000)
        (offset,) = partition.append([lithify.Record(key=b"again", value=value)])
        assert shown(partition)[offset] == value
        assert len(list((disk / "warehouse" / ".lithify-tmp" / "reserve").iterdir())) == 16
