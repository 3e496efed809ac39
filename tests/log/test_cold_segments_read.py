"""Every answer that has taken something from a cold home says so, and no other does."""

from pathlib import Path

import pytest

import lithify
from lithify.segment.cold_reads import ColdReads


@pytest.fixture
def warehouse(tmp_path: Path) -> lithify.Warehouse:
    """Of topic users: `old` is cold, `both` is in both homes, `new` is hot."""
    warehouse = lithify.open(tmp_path / "hot")
    config = {"cleanup.policy": "compact", "cold.location": (tmp_path / "cold").as_uri()}
    topic = warehouse.create_topic("users", config=config, probe=False)
    admin, compactor = lithify.Admin(warehouse), lithify.Compactor(warehouse, engine="local")
    topic.append([lithify.Record(b"both", b"0"), lithify.Record(b"old", b"0")])
    admin.submit("users", 0)
    compactor.run_once()
    admin.relocate("users", 0)
    compactor.run_once()
    topic.append([lithify.Record(b"both", b"1"), lithify.Record(b"new", b"1")])
    compactor.close()
    assert [use.segments for use in admin.homes("users", 0).homes] == [1, 1]
    return lithify.open(tmp_path / "hot")


def test_gets(warehouse: lithify.Warehouse) -> None:
    part = warehouse.topic("users").partition(0)
    assert part.get(b"new") is not None
    assert part.get(b"both") is not None
    assert part.cold_segments_read == 0
    assert part.get(b"old") is not None
    assert part.cold_segments_read == 1
    assert part.get(b"old") is not None
    assert part.cold_segments_read == 1, "its rows are in memory"


def test_snapshots_count_each_segment_once(warehouse: lithify.Warehouse) -> None:
    part = warehouse.topic("users").partition(0)
    snapshot = part.snapshot()
    list(snapshot.read(2))
    assert snapshot.cold_segments_read == 0, "what was appended last is hot"
    snapshot.scan().read_all()
    list(snapshot.read())
    assert snapshot.cold_segments_read == 1
    assert part.cold_segments_read == 1
    part.scan().read_all()
    assert part.cold_segments_read == 2, "another answer"


def test_topics_add_up(warehouse: lithify.Warehouse) -> None:
    topic = warehouse.topic("users")
    assert topic.cold_segments_read == 0
    topic.scan().read_all()
    whole = topic.snapshot()
    whole.scan().read_all()
    assert (topic.cold_segments_read, whole.cold_segments_read) == (2, 1)


def test_what_is_read_ahead_by_tasks_is_known_before(warehouse: lithify.Warehouse) -> None:
    tasks = warehouse.topic("users").partition(0).snapshot().plan(view="log")
    assert sum(task.cold_segments for task in tasks) == 1


def test_the_history_of_a_key(warehouse: lithify.Warehouse) -> None:
    admin = lithify.Admin(warehouse)
    assert admin.history("users", b"old").cold_segments_read == 1
    assert admin.history("users", b"zzz").cold_segments_read == 0


def test_two_answers_of_one_handle() -> None:
    handle = ColdReads()
    one, other = ColdReads(handle), ColdReads(handle)
    for reads in (one, one, other):
        reads.add("s")
    other.add("t")
    assert (one.count, other.count, handle.count) == (1, 2, 3)
