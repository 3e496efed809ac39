"""What a killed process left half written in another home is removed by a sweep, as in the warehouse."""

import os
import shutil
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

import lithify
from lithify.gc.temporaries import remove_stale_temporaries
from lithify.log.warehouse import Warehouse
from lithify.store.errors import Unavailable
from lithify.store.file import FileStore
from lithify.store.homes import HERE, Homes
from lithify.store.memory import MemoryStore
from lithify.store.owners import claim_home, owner_key, owner_key_beside
from tests.clock import HandClock

HOUR_MS = 3_600_000


@pytest.fixture
def disk(tmp_path: Path) -> Path:
    return tmp_path / "cold"


@pytest.fixture
def warehouse(tmp_path: Path, disk: Path) -> Iterator[Warehouse]:
    """Its run is in the home on `disk`."""
    config = {"cold.location": f"file://{disk}", "local.retention.ms": "0", "hot.retain.segments": "0"}
    clock = HandClock()
    with lithify.open(str(tmp_path / "warehouse"), clock=clock) as opened:
        topic = opened.create_topic("users", config={"cleanup.policy": "compact"} | config, probe=False)
        topic.append([lithify.Record(b"ada", b"1", timestamp_ms=clock.now_ms)])
        clock.now_ms += HOUR_MS
        lithify.Admin(opened).submit("users", 0)
        for _ in range(2):
            lithify.Compactor(opened, engine="local").run_once()
        assert [each.home for run in topic.partition(0).describe().runs for each in run.segments] == [f"file://{disk}"]
    with lithify.open(str(tmp_path / "warehouse"), clock=clock) as opened:
        yield opened


@pytest.fixture
def stale(disk: Path) -> Path:
    return left(disk, "0123456789abcdef.7", old=True)


def left(root: Path, name: str, *, old: bool) -> Path:
    path = root / ".lithify-tmp" / name
    path.write_bytes(b"half")
    if old:
        os.utime(path, (1, 1))
    return path


def test_a_sweep_removes_those_of_a_day_ago(warehouse: Warehouse, disk: Path, stale: Path) -> None:
    fresh = left(disk, "fedcba9876543210.8", old=False)
    collector = lithify.Collector(warehouse)
    assert collector.run_once(dry_run=True, sweep=True).temporaries == 1
    assert stale.exists()
    assert collector.run_once().temporaries == 0
    assert stale.exists(), "a normal pass lists nothing"
    report = collector.run_once(sweep=True)
    assert (report.temporaries, report.fault) == (1, None)
    assert (stale.exists(), fresh.exists()) == (False, True)


def test_a_home_that_is_away_holds_up_no_other(warehouse: Warehouse, tmp_path: Path, disk: Path, stale: Path) -> None:
    here = left(tmp_path / "warehouse", "0123456789abcdef.7", old=True)
    disk.rename(tmp_path / "away")
    report = lithify.Collector(warehouse).run_once(sweep=True)
    assert (report.temporaries, here.exists()) == (1, False)
    (part,) = report.partitions
    assert part.fault is not None
    assert "is it mounted?" in part.fault.message


def test_a_copy_of_the_warehouse_removes_nothing_there(warehouse: Warehouse, tmp_path: Path, stale: Path) -> None:
    """The home is the original's, as home.json says: what is half written there may be about to be finished."""
    shutil.copytree(tmp_path / "warehouse", tmp_path / "copy")
    here = left(tmp_path / "copy", "0123456789abcdef.7", old=True)
    with lithify.open(str(tmp_path / "copy"), clock=HandClock()) as copy:
        report = lithify.Collector(copy).run_once(sweep=True)
    assert (report.temporaries, here.exists(), stale.exists()) == (1, False, True)


def test_a_folder_that_two_warehouses_share_is_left_alone(warehouse: Warehouse, disk: Path, stale: Path) -> None:
    """A file's name does not say whose it is."""
    claim_home(FileStore(disk), owner_key("others", "0123456789abcdef"), MemoryStore("another"))
    assert lithify.Collector(warehouse).run_once(sweep=True).temporaries == 0
    assert stale.exists()


class Uploads(MemoryStore):
    """As a bucket: an upload says for which key it is."""

    def __init__(self, *keys: str) -> None:
        super().__init__()
        self.uploads = list(keys)

    def remove_stale_temporaries(self, ours: Callable[[str], bool], *, dry_run: bool = False) -> int:
        stale = [key for key in self.uploads if ours(key)]
        if not dry_run:
            self.uploads = [key for key in self.uploads if key not in stale]
        return len(stale)


def upload(topic: str) -> str:
    return f"{topic}/0123456789abcdef/00000/segments/000000000001-01234567-1-0-01234567.parquet"


def test_of_a_bucket_that_two_warehouses_share_our_uploads_are_removed() -> None:
    bucket, here = Uploads(upload("mine"), upload("others"), upload("nobodys"), "export.csv"), MemoryStore()
    claim_home(bucket, owner_key_beside(upload("mine")), here)
    claim_home(bucket, owner_key_beside(upload("others")), MemoryStore("another"))
    homes = Homes({HERE: here, "s3://shared": bucket})
    assert remove_stale_temporaries(homes, dry_run=True).removed == 1
    assert len(bucket.uploads) == 4
    assert remove_stale_temporaries(homes).removed == 1
    assert bucket.uploads == [upload("others"), upload("nobodys"), "export.csv"]


def test_a_copy_of_the_same_url_removes_no_uploads() -> None:
    bucket, original, copy = Uploads(upload("mine")), MemoryStore(), MemoryStore()
    claim_home(bucket, owner_key_beside(upload("mine")), original)
    for found in original.list("").objects:
        copy.put(found.key, b"copied")
    assert remove_stale_temporaries(Homes({HERE: copy, "s3://shared": bucket})).removed == 0
    assert remove_stale_temporaries(Homes({HERE: original, "s3://shared": bucket})).removed == 1


class Silent(MemoryStore):
    def remove_stale_temporaries(self, ours: Callable[[str], bool], *, dry_run: bool = False) -> int:
        raise Unavailable("no answer")


def full(here: MemoryStore | None = None) -> Uploads:
    """Two uploads of the warehouse in `here`; None: in itself."""
    found = Uploads(upload("a"), upload("b"))
    for key in found.uploads:
        claim_home(found, owner_key_beside(key), here or found)
    return found


def test_the_first_fault_is_told_and_the_others_are_counted() -> None:
    here = full()
    homes = Homes({HERE: here, "one": Silent(), "two": full(here), "class:STANDARD_IA": full()})
    found = remove_stale_temporaries(homes)
    assert found.removed == 4, "a storage class is in the warehouse's own bucket"
    assert found.fault is not None
    assert found.fault.message == "no answer"
