"""Every stored version of a key, and what readers see of it."""

from typing import Any

import pytest

import lithify
from lithify.admin.history import VALUES_MAX, VERSIONS_MAX, KeyVersion
from lithify.manifest.model import SegmentRef
from lithify.segment.partitioner import partition_for_key
from lithify.segment.segments import Segments
from lithify.store.errors import NotFound
from lithify.store.memory import MemoryStore

COMPACTED = {"cleanup.policy": "compact", "min.cleanable.dirty.ratio": "0"}


def put(topic: lithify.Topic, *values: bytes | None, key: bytes = b"k", at_ms: int = 5) -> None:
    """Each in an append of its own, after a record of another key."""
    for value in values:
        topic.append([lithify.Record(b"other", b"x"), lithify.Record(key, value, at_ms, (("h", b"1"),))])


def told(versions: tuple[KeyVersion, ...]) -> list[tuple[int, int, str]]:
    return [(each.partition, each.offset, each.state.value) for each in versions]


def compact(warehouse: lithify.Warehouse) -> None:
    lithify.Compactor(warehouse, engine="local").run_once()


def test_versions_are_told_latest_first_and_values_only_if_asked_for(
    warehouse: lithify.Warehouse, admin: lithify.Admin
) -> None:
    topic = warehouse.create_topic("users", config=COMPACTED)
    put(topic, b"first", b"", None)
    found = admin.history("users", b"k")
    assert (found.home, found.more) == (0, False)
    assert told(found.versions) == [(0, 5, "latest"), (0, 3, "superseded"), (0, 1, "superseded")]
    assert [(it.tombstone, it.value_bytes) for it in found.versions] == [(True, 0), (False, 0), (False, 5)]
    assert {(it.value, it.headers, it.timestamp_ms, it.run) for it in found.versions} == {(None, (), 5, "")}
    segments = [ref.id for ref in topic.partition(0).describe().l0]
    assert [it.segment for it in found.versions] == segments[::-1]
    values = admin.history("users", b"k", values=True).versions
    assert [it.value for it in values] == [None, b"", b"first"]
    assert {it.headers for it in values} == {(("h", b"1"),)}
    assert admin.history("users", b"nobody").versions == ()


def test_what_compaction_dropped_is_gone_and_what_it_kept_names_its_run(
    warehouse: lithify.Warehouse, admin: lithify.Admin
) -> None:
    topic = warehouse.create_topic("users", config=COMPACTED)
    put(topic, b"1", b"2", b"3")
    compact(warehouse)
    (kept,) = admin.history("users", b"k").versions
    (run,) = topic.partition(0).describe().runs
    assert (kept.offset, kept.run, kept.segment) == (5, run.id, run.segments[0].id)
    put(topic, b"4")
    assert told(admin.history("users", b"k").versions) == [(0, 7, "latest"), (0, 5, "superseded")]


def test_below_the_log_start_a_version_is_expired(warehouse: lithify.Warehouse, admin: lithify.Admin) -> None:
    topic = warehouse.create_topic("users")
    put(topic, b"1", b"2")
    topic.partition(0).delete_records(3)
    assert told(admin.history("users", b"k").versions) == [(0, 3, "latest"), (0, 1, "expired")]
    topic.partition(0).delete_records(-1)
    assert {it.state for it in admin.history("users", b"k").versions} == {"expired"}


def test_what_a_key_left_behind_is_told_so(warehouse: lithify.Warehouse, admin: lithify.Admin) -> None:
    key = next(key for key in (b"k%d" % n for n in range(99)) if partition_for_key(key, 3) == 2)
    topic = warehouse.create_topic("users", config=COMPACTED)
    put(topic, b"1", b"2", key=key)
    topic.alter(partitions=3)
    found = admin.history("users", key)
    assert (found.home, told(found.versions)) == (2, [(0, 3, "left behind"), (0, 1, "superseded")])
    topic.append([lithify.Record(key, b"3")])
    assert told(admin.history("users", key).versions) == [(2, 0, "latest"), (0, 3, "left behind"), (0, 1, "superseded")]
    assert told(admin.history("users", key, partition=2).versions) == [(2, 0, "latest")]
    by_hand = topic.partition(1)
    by_hand.append([lithify.Record(key, b"4")])
    assert told(admin.history("users", key, partition=1).versions) == [(1, 0, "latest")], "as a scan shows it"


@pytest.mark.parametrize("limit", range(1, 8))
def test_the_latest_are_told_and_whether_there_are_more(
    warehouse: lithify.Warehouse, admin: lithify.Admin, limit: int
) -> None:
    topic = warehouse.create_topic("users", config={"l0.segments.tier": "1000"})
    put(topic, b"1")
    topic.append([lithify.Record(b"k", b"%d" % n) for n in range(3)])
    put(topic, b"5", b"6")
    offsets = [8, 6, 4, 3, 2, 1]
    found = admin.history("users", b"k", limit=limit)
    assert [it.offset for it in found.versions] == offsets[:limit]
    assert found.more == (limit < 6)


def test_what_is_asked_wrongly_is_refused(warehouse: lithify.Warehouse, admin: lithify.Admin) -> None:
    warehouse.create_topic("users")
    wrong: list[dict[str, Any]] = [
        {"key": "k"},
        {"key": None},
        {"key": b"k", "limit": 0},
        {"key": b"k", "limit": VERSIONS_MAX + 1},
        {"key": b"k", "limit": VALUES_MAX + 1, "values": True},
    ]
    for words in wrong:
        with pytest.raises(lithify.InvalidRequest, match="users: "):
            admin.history("users", **words)
    with pytest.raises(lithify.NotFound):
        admin.history("nobody", b"k")
    with pytest.raises(lithify.NotFound):
        admin.history("users", b"k", partition=1)


def test_segments_that_are_replaced_and_collected_meanwhile_are_no_damage(
    warehouse: lithify.Warehouse, admin: lithify.Admin, monkeypatch: pytest.MonkeyPatch
) -> None:
    topic = warehouse.create_topic("users", config=COMPACTED)
    put(topic, b"1", b"2")
    real = Segments.reader

    def meanwhile(segments: Segments, *args: Any) -> Any:
        monkeypatch.setattr(Segments, "reader", real)
        compact(warehouse)
        topic.append([lithify.Record(b"more", b"v")])
        collector = lithify.Collector(warehouse, grace_ms=0)
        deleted = [*collector.run_once().deleted, *collector.run_once().deleted]
        assert any(garbage.key.endswith(".parquet") for garbage in deleted)
        return real(segments, *args)

    monkeypatch.setattr(Segments, "reader", meanwhile)
    assert [it.offset for it in admin.history("users", b"k").versions] == [3]


def test_a_segment_that_is_named_and_gone_is_damage(warehouse: lithify.Warehouse, admin: lithify.Admin) -> None:
    topic = warehouse.create_topic("users")
    put(topic, b"1")
    keys = topic.partition(0)._files.keys
    (ref,) = topic.partition(0).describe().l0
    warehouse.store.delete([keys.segment(str(ref.id))])
    with pytest.raises(lithify.Corrupt, match="names it: restore the object") as caught:
        admin.history("users", b"k")
    assert caught.value.segment == ref.id


@pytest.mark.parametrize("far", [False, True])
def test_older_segments_than_are_shown_are_not_needed(
    warehouse: lithify.Warehouse, near: lithify.Admin, monkeypatch: pytest.MonkeyPatch, far: bool
) -> None:
    """Although their bounds hold the key. Of a far store those that are read at once are read, and may be damaged."""
    monkeypatch.setattr(MemoryStore, "far", property(lambda _: far))
    topic = warehouse.create_topic("users")
    for number in range(40):
        keys = (b"a", b"k", b"z") if number >= 38 else (b"a", b"z")
        topic.append([lithify.Record(key, b"v") for key in keys])
    read = list[int]()
    reader = Segments.reader

    def noted(segments: Segments, ref: SegmentRef, **more: Any) -> Any:
        read.append(ref.min_offset)
        if ref.min_offset < 76:
            raise NotFound("gone")
        return reader(segments, ref, **more)

    monkeypatch.setattr(Segments, "reader", noted)
    found = near.history("users", b"k", limit=1)
    assert (len(found.versions), found.more) == (1, True)
    assert len(read) == (16 if far else 2)
