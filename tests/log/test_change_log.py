"""A real change log: the history of a git repository, whose latest state is known exactly."""

import itertools
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from lithify.log.snapshot import Snapshot
from lithify.log.warehouse import Warehouse
from tests.log.compaction import compact

CHANGES = Path(__file__).parent.parent / "data" / "git-changelog-leveldb.parquet"
BATCH_ROWS = 100

Tree = dict[bytes, bytes]


@pytest.fixture(scope="module")
def changes() -> pa.Table:
    return pq.read_table(CHANGES)


def tree(changes: pa.Table, end: int) -> Tree:
    """The repository's files after its first `end` changes."""
    latest = {row["key"]: row["value"] for row in changes.slice(0, end).to_pylist()}
    return {path: blob for path, blob in latest.items() if blob is not None}


def scanned(snapshot: Snapshot) -> list[tuple[bytes, bytes]]:
    return [(row["key"], row["value"]) for row in snapshot.scan().read_all().to_pylist()]


def test_the_change_log_is_what_its_readme_says(changes: pa.Table) -> None:
    facts = (changes.num_rows, changes.column("value").null_count, len(tree(changes, changes.num_rows)))
    assert facts == (2650, 281, 154)
    assert len(set(changes.column("commit").to_pylist())) == 370


@pytest.mark.slow
def test_scans_are_the_trees_of_their_commits(any_warehouse: Warehouse, changes: pa.Table) -> None:
    part = any_warehouse.create_topic("leveldb", config={"cleanup.policy": "compact"}).partition(0)
    commits = changes.column("commit").to_pylist()
    half = commits.index(commits[len(commits) // 2])  # where a commit begins
    records = changes.drop_columns(["commit"])
    bounds = sorted({*range(0, len(commits), BATCH_ROWS), half, len(commits)})
    for start, end in itertools.pairwise(bounds):
        assert part.append(records.slice(start, end - start)) == range(start, end)
        if end == half:
            part.snapshot("half-way")
    at_half, at_end = sorted(tree(changes, half).items()), sorted(tree(changes, len(commits)).items())
    assert scanned(part.snapshot()) == at_end
    assert scanned(part.snapshot("half-way")) == at_half
    whole = part.read_batches().read_all()
    assert whole.select(["key", "value", "timestamp_ms"]).equals(records)
    assert whole.column("offset").to_pylist() == list(range(len(commits)))
    compact(any_warehouse, "leveldb")
    assert scanned(part.snapshot()) == at_end
    assert scanned(part.snapshot("half-way")) == at_half
    for path, blob in at_end[:3]:
        record = part.get(path)
        assert record is not None
        assert record.value == blob
