"""A backup by copying files while producers and a compactor work, in the order that docs/deploy.md gives; and what a
restored warehouse is to those who have seen more of it."""

import shutil
import threading
from collections.abc import Iterator
from pathlib import Path

import pytest

import lithify
from lithify.admin.verify import Verifier, local_checks
from tests.e2e.workload import CONFIG, Workload, scanned

ORDER = ("*.topic", "*.boundary", "*.compactor", "*.manifest", "*.runs", "*.parquet")


def steps(warehouse: Path, backup: Path) -> Iterator[str]:
    """Copies kind after kind, each in the order of its names."""
    for pattern in ORDER:
        yield pattern
        for file in sorted(warehouse.rglob(pattern)):
            if ".lithify-tmp" not in file.parts:
                target = backup / file.relative_to(warehouse)
                target.parent.mkdir(parents=True, exist_ok=True)
                shutil.copyfile(file, target)


def damage(warehouse: lithify.Warehouse) -> list[str]:
    report = Verifier(warehouse.driver, local_checks, True, lambda *_: None).verify(None)
    return [str(finding) for finding in report.findings]


@pytest.mark.slow
def test_a_copy_that_is_taken_at_work_is_whole(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("lithify.manifest.list_layout.INLINE_MAX", 0)
    warehouse = lithify.open(str(tmp_path / "warehouse"))
    users = warehouse.create_topic("users", 1, {**CONFIG, "min.cleanable.dirty.ratio": 0}).partition(0)
    workload = Workload(1)
    models: dict[int, dict[bytes, bytes]] = {}  # by the end of the log

    def append() -> None:
        workload.append(users, 500)
        models[users.describe().next_offset] = dict(workload.model)

    compactor = lithify.Compactor(warehouse, engine="local", interval_ms=1)
    working = threading.Thread(target=compactor.run)
    working.start()
    try:
        for _ in range(4):
            append()
        for _ in steps(tmp_path / "warehouse", tmp_path / "backup"):
            append()  # between any two kinds something happens
    finally:
        compactor.stop()
        working.join(60)
        compactor.close()
    append()
    with lithify.open(str(tmp_path / "backup")) as restored:
        assert damage(restored) == []
        partition = restored.topic("users").partition(0)
        end = partition.describe().next_offset
        assert scanned(partition) == models[end], "it is the log as it was at some time"
        assert end < users.describe().next_offset
        partition.append([lithify.Record(b"new", b"v")])
        again = lithify.Compactor(restored, engine="local")
        report = again.run_once(take_over=True)
        again.close()
        assert [part.fault for part in report.partitions] == [None]
        assert scanned(partition) == {**models[end], b"new": b"v"}
        assert damage(restored) == []


def test_what_a_restored_warehouse_is_to_those_who_have_seen_more(tmp_path: Path) -> None:
    warehouse = lithify.open(str(tmp_path / "warehouse"))
    events = warehouse.create_topic("events").partition(0)
    events.append([lithify.Record(None, b"%d" % number) for number in range(3)])
    with events.consumer("audit") as audit:
        assert len(audit.poll(timeout_ms=0)) == 3
    for _ in steps(tmp_path / "warehouse", tmp_path / "backup"):
        pass
    events.append([lithify.Record(None, b"%d" % number) for number in range(3, 6)])
    with events.consumer("audit") as audit:
        assert len(audit.poll(timeout_ms=0)) == 3

    with lithify.open(str(tmp_path / "backup")) as restored:
        back = restored.topic("events").partition(0)
        assert back.describe().next_offset == 3
        (known,) = back.describe().consumers
        assert (known.offset, known.lag) == (3, 0), "a stored position goes back with the log"
        with pytest.raises(lithify.OffsetOutOfRange):  # a position that was kept elsewhere
            list(back.read(start_offset=6))
        back.append([lithify.Record(None, b"other")])
        assert [record.value for record in back.read(start_offset=3)] == [b"other"], "offsets are given again"
