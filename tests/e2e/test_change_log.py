"""A real change log through the whole main job, by both engines: append, compact, collect, read."""

import itertools
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import lithify
from tests.e2e.workload import scanned

CHANGES = Path(__file__).parent.parent / "data" / "git-changelog-leveldb.parquet"
BATCH_ROWS = 100


@pytest.fixture(params=["local", pytest.param("spark", marks=pytest.mark.spark)])
def engine(request: pytest.FixtureRequest) -> Any:
    if request.param == "local":
        return lithify.LocalEngine()
    return lithify.SparkEngine(request.getfixturevalue("spark_session"))


def latest(changes: pa.Table) -> dict[bytes, bytes | None]:
    return {row["key"]: row["value"] for row in changes.to_pylist()}


@pytest.mark.slow
def test_append_compact_collect_read(tmp_path: Path, engine: Any) -> None:
    changes = pq.read_table(CHANGES, columns=["key", "value", "timestamp_ms", "commit"])
    commits, records = changes["commit"].to_pylist(), changes.drop_columns(["commit"])
    warehouse = lithify.open(str(tmp_path))
    config = {"cleanup.policy": "compact", "compaction.output.bytes": 4_096}
    partition = warehouse.create_topic("tree", 1, config).partition(0)
    compactor = lithify.Compactor(warehouse, engine=engine)
    collector = lithify.Collector(warehouse, grace_ms=0)
    half = commits.index(commits[len(commits) // 2])
    cuts = sorted({*range(0, len(commits), BATCH_ROWS), half, len(commits)})
    for start, end in itertools.pairwise(cuts):
        partition = warehouse.topic("tree").partition(0)
        partition.append(records.slice(start, end - start))
        if end == half:
            partition.snapshot(pin="half-way")
        if end % 1_000 == 0 or end == half:
            assert {p.outcome for p in compactor.run_once().partitions} <= {"worked", "idle"}
            collector.run_once()
    lithify.Admin(warehouse).submit("tree", 0)
    report = compactor.run_once()
    assert report.jobs[-1].status == "completed"
    assert report.jobs[-1].progress.output_segments_written > 1
    for _ in range(3):
        collector.run_once(sweep=True)

    everything = latest(changes)
    tree = {path: blob for path, blob in everything.items() if blob is not None}
    assert scanned(partition) == tree
    with_deleted = partition.scan(tombstones=True).read_all()
    assert dict(zip(with_deleted["key"].to_pylist(), with_deleted["value"].to_pylist(), strict=True)) == everything
    then = {path: blob for path, blob in latest(changes.slice(0, half)).items() if blob is not None}
    assert scanned(partition.snapshot(pin="half-way")) == then

    offsets = [record.offset for record in partition.read()]
    assert offsets == sorted(set(offsets))
    assert len(offsets) == len(everything), "a clean of everything leaves one record of each key"
    for start in (0, 1, 777, offsets[-1], len(commits)):
        assert [record.offset for record in partition.read(start)] == [o for o in offsets if o >= start]
    by_offset = {i: (row["key"], row["value"], row["timestamp_ms"]) for i, row in enumerate(records.to_pylist())}
    assert all(by_offset[r.offset] == (r.key, r.value, r.timestamp_ms) for r in partition.read())
    some = next(iter(tree))
    found = partition.get(some)
    assert found is not None
    assert found.value == tree[some]
    gone = next(path for path, blob in everything.items() if blob is None)
    assert partition.get(gone) is None
