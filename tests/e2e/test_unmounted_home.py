"""A folder as cold home whose disk is not mounted: its mount point is there, and empty. No data is lost by that, and
nothing may be written into it (docs/rfcs/0031)."""

from collections.abc import Iterator, Sequence
from pathlib import Path

import pytest

import lithify
from lithify.compactor.engines.local import LocalEngine
from lithify.compactor.engines.underway import Underway
from lithify.log.warehouse import Warehouse
from lithify.manifest.config import Setting
from lithify.manifest.model import Manifest
from lithify.segment.task import MergeTask, MoveTask
from lithify.store.errors import InvalidRequest, Unavailable
from lithify.store.homes import Homes
from tests.clock import HandClock
from tests.log.compaction import files_of

HOUR_MS = 3_600_000
GRACE_MS = 60_000


@pytest.fixture
def disk(tmp_path: Path) -> Path:
    return tmp_path / "cold"


@pytest.fixture
def warehouse(tmp_path: Path, disk: Path, clock: HandClock) -> Iterator[Warehouse]:
    """Its run is in the cold home."""
    config: dict[str, Setting] = {
        "cleanup.policy": "compact",
        "cold.location": f"file://{disk}",
        "local.retention.ms": HOUR_MS,
        "hot.retain.segments": 0,
        "l0.segments.tier": 2,
        "l0.segments.max": 8,
        "min.cleanable.dirty.ratio": 0,
        "max.compaction.lag.ms": 2 * HOUR_MS,
    }
    with lithify.open(str(tmp_path / "warehouse"), clock=clock) as opened:
        opened.create_topic("users", config=config, probe=False)
        append(opened, clock, 2)
        compact(opened)
        clock.now_ms += HOUR_MS + 1
        compact(opened)
        assert head(opened).homes == (f"file://{disk}",)
        assert not [each for each in head(opened).segments() if not each.home]
        yield opened


def append(warehouse: Warehouse, clock: HandClock, count: int) -> None:
    for number in range(count):
        record = lithify.Record(b"%d" % number, b"v", timestamp_ms=clock.now_ms)
        warehouse.topic("users").partition(0).append([record])


def compact(warehouse: Warehouse) -> lithify.MaintenanceReport:
    return lithify.Compactor(warehouse, engine="local").run_once()


def head(warehouse: Warehouse) -> Manifest:
    return warehouse.driver.run(files_of(warehouse, "users").head())


def unmount(disk: Path) -> Path:
    kept = disk.with_name("kept")
    disk.rename(kept)
    disk.mkdir()
    return kept


def mount(disk: Path, kept: Path) -> None:
    disk.rmdir()
    kept.rename(disk)


def test_reads_say_that_it_is_away_and_nothing_is_quarantined(
    warehouse: Warehouse, disk: Path, clock: HandClock
) -> None:
    kept = unmount(disk)
    with pytest.raises(Unavailable, match="is the home mounted"):
        list(warehouse.topic("users").partition(0).read())
    for _ in range(20):
        append(warehouse, clock, 1)
        compact(warehouse)
        clock.now_ms += HOUR_MS
    assert head(warehouse).quarantine is None
    assert not list(disk.iterdir())
    mount(disk, kept)
    for _ in range(3):
        clock.now_ms += HOUR_MS
        compact(warehouse)
    assert len(list(warehouse.topic("users").scan().read_all()["key"])) == 2


def test_nothing_moves_into_the_mount_point(warehouse: Warehouse, disk: Path, clock: HandClock) -> None:
    append(warehouse, clock, 4)
    kept = unmount(disk)
    for _ in range(3):
        clock.now_ms += HOUR_MS + 1
        compact(warehouse)
    assert not list(disk.iterdir())
    mount(disk, kept)
    clock.now_ms += HOUR_MS
    compact(warehouse)
    assert len(list(warehouse.topic("users").scan().read_all()["key"])) == 4


class Unmounting(LocalEngine):
    """Its first copy finds the disk gone, which was there when the job was planned."""

    def __init__(self, disk: Path) -> None:
        super().__init__(1)
        self._disk = disk
        self.kept: Path | None = None

    def start(self, homes: Homes, tasks: Sequence[MergeTask | MoveTask], label: str) -> Underway:
        if self.kept is None and any(isinstance(task, MoveTask) for task in tasks):
            self.kept = unmount(self._disk)
        return super().start(homes, tasks, label)


def test_what_was_copied_into_a_mount_point_is_not_committed(
    warehouse: Warehouse, disk: Path, clock: HandClock
) -> None:
    append(warehouse, clock, 6)
    compact(warehouse)
    clock.now_ms += HOUR_MS + 1
    engine = Unmounting(disk)
    lithify.Compactor(warehouse, engine=engine).run_once()
    assert engine.kept is not None
    assert [each for each in head(warehouse).segments() if not each.home]
    assert [j.ended_by for j in lithify.Admin(warehouse).compactions("users", 0) if j.status == "failed"] == ["home"]
    disk.rename(disk.with_name("below"))
    engine.kept.rename(disk)
    for _ in range(4):
        clock.now_ms += HOUR_MS
        compact(warehouse)
        lithify.Collector(warehouse, grace_ms=GRACE_MS).run_once()
    assert len(list(warehouse.topic("users").partition(0).read())) == 6


def test_no_collection_and_no_sweep_takes_it_for_empty(warehouse: Warehouse, disk: Path, clock: HandClock) -> None:
    warehouse.topic("users").alter({"local.retention.ms": None})
    lithify.Admin(warehouse).recall("users", 0)
    compact(warehouse)
    kept = unmount(disk)
    for _ in range(4):
        clock.now_ms += 2 * GRACE_MS
        lithify.Collector(warehouse, grace_ms=GRACE_MS).run_once(sweep=True)
    assert head(warehouse).homes
    mount(disk, kept)
    for _ in range(4):
        clock.now_ms += 2 * GRACE_MS
        lithify.Collector(warehouse, grace_ms=GRACE_MS).run_once(sweep=True)
    assert not list(disk.rglob("*.parquet"))
    assert not head(warehouse).homes


def test_a_relocation_that_cannot_be_made_is_not_tried_without_end(
    warehouse: Warehouse, disk: Path, clock: HandClock
) -> None:
    append(warehouse, clock, 2)
    compact(warehouse)
    clock.now_ms += HOUR_MS + 1
    (folder,) = {file.parent for file in disk.rglob("*.parquet")}
    folder.rename(folder.with_name("kept"))
    folder.touch()  # so that nobody, not even root, can write into it
    before = head(warehouse).id
    (job,) = compact(warehouse).jobs
    assert (job.kind, job.status) == ("relocate", "failed")
    assert not compact(warehouse).jobs
    assert head(warehouse).id == before + 2  # the claim of that compactor, and the home that its job noted


@pytest.mark.parametrize("location", ["{root}", "{root}/", "{root}/users", "{root}/x/..", "{parent}"])
def test_a_home_in_the_warehouse_is_refused(warehouse: Warehouse, tmp_path: Path, location: str) -> None:
    url = "file://" + location.format(root=tmp_path / "warehouse", parent=tmp_path)
    with pytest.raises(InvalidRequest, match="the warehouse's own place, or within it, or around it"):
        warehouse.topic("users").alter({"cold.location": url})
    with pytest.raises(InvalidRequest, match="the warehouse's own place, or within it, or around it"):
        warehouse.create_topic("more", config={"cold.location": url})


def test_a_storage_class_is_refused_where_there_is_none(warehouse: Warehouse) -> None:
    with pytest.raises(InvalidRequest, match="only S3 has storage classes"):
        warehouse.topic("users").alter({"cold.location": None, "cold.storage.class": "STANDARD_IA"})


def test_no_secret_of_a_url_is_repeated(warehouse: Warehouse) -> None:
    with pytest.raises(InvalidRequest) as refused:
        warehouse.topic("users").alter({"cold.location": "s3://KEY:SECRETWORD@bucket/x"})
    assert "SECRETWORD" not in str(refused.value)
