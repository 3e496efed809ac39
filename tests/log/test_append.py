"""Appending: what is stored, under which offsets, at what price; once."""

from typing import Any

import pyarrow as pa
import pytest

from lithify.log.append import append
from lithify.log.intake import prepare
from lithify.log.record import Record
from lithify.log.warehouse import Warehouse
from lithify.manifest.config import parse
from lithify.manifest.keys import SegmentId
from lithify.segment.write import encode_append
from lithify.store.driver import Driver, drive
from lithify.store.errors import AlreadyExists, CommitUnknown, Unavailable
from lithify.store.port import Pause, Put
from tests.clock import HandClock
from tests.log.compaction import collect, compact, files_of

COMPACTED = {"cleanup.policy": "compact"}


def test_records_come_back_as_they_were(any_warehouse: Warehouse, clock: HandClock) -> None:
    part = any_warehouse.create_topic("users", config=COMPACTED).partition(0)
    given = [
        Record(b"k2", b"v", 5, (("trace", b"\x00\xff"), ("empty", b""), ("none", None), ("trace", b"again"))),
        Record(b"k1", None, 0),
        Record(b"", b"", 7),
        Record(b"k2", b"later"),
    ]
    assert part.append(given) == range(4)
    assert list(part.read()) == [
        Record(b"k2", b"v", 5, given[0].headers, 0),
        Record(b"k1", None, 0, (), 1),
        Record(b"", b"", 7, (), 2),
        Record(b"k2", b"later", clock.now_ms, (), 3),
    ]
    assert [(row["key"], row["offset"]) for row in part.scan().read_all().to_pylist()] == [(b"", 2), (b"k2", 3)]
    assert [row["offset"] for row in part.scan(tombstones=True).read_all().to_pylist()] == [2, 1, 3]
    assert part.get(b"k2") == Record(b"k2", b"later", clock.now_ms, (), 3)
    assert part.get(b"k1") is None
    assert part.get(b"nobody") is None


def test_tables_and_batches_are_appended_like_records(any_warehouse: Warehouse) -> None:
    part = any_warehouse.create_topic("users", config={"retention.ms": -1}).partition(0)
    table = pa.table({"value": ["a", None], "key": pa.array(["x", None], pa.large_string()), "timestamp_ms": [3, 4]})
    assert part.append(table) == range(2)
    assert part.append(table.to_batches()[0].slice(1)) == range(2, 3)
    assert list(part.read()) == [
        Record(b"x", b"a", 3, (), 0),
        Record(None, None, 4, (), 1),
        Record(None, None, 4, (), 2),
    ]
    batches = part.read_batches(1).read_all()
    assert batches.column_names == ["key", "value", "offset", "timestamp_ms", "headers"]
    assert batches.column("offset").to_pylist() == [1, 2]


def test_headers_of_tables_come_back(warehouse: Warehouse) -> None:
    part = warehouse.create_topic("t").partition(0)
    kind = pa.map_(pa.string(), pa.binary())
    part.append(pa.table({"value": ["a", "b"], "headers": pa.array([[("h", b"1"), ("h", None)], None], kind)}))
    assert [record.headers for record in part.read()] == [(("h", b"1"), ("h", None)), ()]


def test_a_warm_append_costs_two_puts_and_a_get(warehouse: Warehouse) -> None:
    part = warehouse.create_topic("t").partition(0)
    part.append([Record(None, b"1")])
    before = warehouse.store.requests()
    part.append([Record(None, b"2")])
    spent = warehouse.store.requests() - before
    assert (spent.puts + spent.creates, spent.gets) == (2, 1)
    assert (spent.heads, spent.lists, spent.reads, spent.output_requests, spent.deletes) == (0, 0, 0, 0, 0)


def test_an_append_of_nothing_commits_nothing(warehouse: Warehouse) -> None:
    part = warehouse.create_topic("t").partition(0)
    part.append([Record(None, b"1")])
    before = warehouse.store.requests()
    assert part.append([]) == range(1, 1)
    assert part.append(pa.table({"value": pa.array([], pa.binary())})) == range(1, 1)
    spent = warehouse.store.requests() - before
    assert (spent.puts, spent.creates) == (0, 0)


@pytest.mark.slow
def test_handles_see_each_other_at_once(any_warehouse: Warehouse) -> None:
    one = any_warehouse.create_topic("t").partition(0)
    other = any_warehouse.topic("t").partition(0)
    for turn in range(6):
        writer, reader = (one, other) if turn % 2 else (other, one)
        assert writer.append([Record(None, b"%d" % turn)]) == range(turn, turn + 1)
        assert [record.value for record in reader.read(turn)] == [b"%d" % turn]


def test_log_append_time_overrules_the_clients_clock(warehouse: Warehouse, clock: HandClock) -> None:
    part = warehouse.create_topic("t", config={"message.timestamp.type": "LogAppendTime"}).partition(0)
    part.append([Record(None, b"1", 5)])
    part.append(pa.table({"value": ["2"], "timestamp_ms": [6]}))
    assert [record.timestamp_ms for record in part.read()] == [clock.now_ms] * 2


def test_a_transaction_is_appended_once(any_warehouse: Warehouse) -> None:
    part = any_warehouse.create_topic("t").partition(0)
    assert part.append([Record(None, b"0")], txn=("query", 7)) == range(1)
    assert part.append([Record(None, b"x")], txn=("other", 7)) == range(1, 2)
    segments = len(part.describe().l0)
    stored = len(any_warehouse.store.list(files_of(any_warehouse, "t").keys.segments).objects)
    restarted = any_warehouse.topic("t").partition(0)
    assert restarted.append([Record(None, b"0")], txn=("query", 7)) == range(1)
    assert len(any_warehouse.store.list(files_of(any_warehouse, "t").keys.segments).objects) == stored
    assert restarted.append([Record(None, b"1")], txn=("query", 9)) == range(2, 3)
    with pytest.raises(AlreadyExists, match="before the latest committed version 9"):
        restarted.append([Record(None, b"?")], txn=("query", 8))
    assert len(part.describe().l0) == segments + 1
    assert [record.value for record in part.read()] == [b"0", b"x", b"1"]


def test_a_transaction_is_remembered_past_compaction_and_collection(warehouse: Warehouse) -> None:
    part = warehouse.create_topic("t", config=COMPACTED).partition(0)
    assert part.append([Record(b"k", b"0")], txn=("query", 1)) == range(1)
    part.append([Record(b"k", b"1")])
    compact(warehouse, "t")
    part.append([Record(b"k", b"2")])
    collect(warehouse, "t")
    assert part.append([Record(b"k", b"0")], txn=("query", 1)) == range(1)
    assert [(record.value, record.offset) for record in part.read()] == [(b"1", 1), (b"2", 2)]


def collected_meanwhile(warehouse: Warehouse, *, delete_manifests: bool = True) -> None:
    """What another process does while a handle sleeps: append, compact, collect."""
    busy = warehouse.topic("t").partition(0)
    busy.append([Record(b"k", b"1")])
    compact(warehouse, "t")
    busy.append([Record(b"k", b"2")])
    collect(warehouse, "t", delete_manifests=delete_manifests)


def test_a_handle_that_slept_long_looks_before_it_appends(warehouse: Warehouse, clock: HandClock) -> None:
    sleeper = warehouse.create_topic("t", config=COMPACTED).partition(0)
    sleeper.append([Record(b"k", b"0")])
    collected_meanwhile(warehouse)
    clock.now_ms += 3_600_000
    assert sleeper.append([Record(b"k", b"3")]) == range(3, 4)
    head = warehouse.driver.run(files_of(warehouse, "t").head())
    assert SegmentId.manifest_id(head.l0[-1].id) >= head.orphan_floor > 0
    assert [record.offset for record in sleeper.read()] == [1, 2, 3]


def test_a_commit_to_a_dead_number_is_unknown_and_stays_so(warehouse: Warehouse, clock: HandClock) -> None:
    """P4, P7: the body at the dead number may have lived and been collected before the writer looked."""
    warehouse.create_topic("t", config=COMPACTED)
    sleeper = Warehouse(Driver(warehouse.store, clock)).topic("t").partition(0)  # as in another process
    sleeper.append([Record(b"k", b"0")])
    collected_meanwhile(warehouse)
    with pytest.raises(CommitUnknown) as unknown:
        sleeper.append([Record(b"k", b"3")])
    for settle in (False, True):
        with pytest.raises(CommitUnknown, match="can no longer be determined"):
            warehouse.topic("t").partition(0).outcome(unknown.value.token, settle=settle)
    assert sleeper.append([Record(b"k", b"4")]) == range(3, 4)


def test_an_upload_that_the_orphan_floor_passed_is_made_anew(warehouse: Warehouse) -> None:
    """P7: the append loses one race, and while it waits collection raises the floor above its segment's id."""
    warehouse.create_topic("t", config=COMPACTED)
    files = files_of(warehouse, "t")
    body, ref = encode_append(prepare([Record(b"k", b"mine")], parse(COMPACTED), 1, "t"), "key")
    uploads: list[str] = []

    def answer(request: Any) -> Any:
        if isinstance(request, Put):
            uploads.append(request.key)
            if len(uploads) == 1:
                warehouse.topic("t").partition(0).append([Record(b"k", b"rival's")])
        if isinstance(request, Pause):
            collected_meanwhile(warehouse, delete_manifests=False)
            return None
        return warehouse.driver.answer(request)

    assert drive(append(files, body, ref, l0_segments_max=9), answer) == range(3, 4)
    assert len(uploads) == 2
    head = warehouse.driver.run(files.head())
    assert files.keys.segment(head.l0[-1].id) == uploads[1]
    assert [record.value for record in warehouse.topic("t").partition(0).read()] == [b"1", b"2", b"mine"]


def test_appends_to_a_nearly_full_partition_are_slowed(warehouse: Warehouse) -> None:
    warehouse.create_topic("t")
    files = files_of(warehouse, "t")
    body, ref = encode_append(prepare([Record(None, b"v")], parse({}), 1, "t"), "offset")
    pauses_ms: list[int] = []

    def answer(request: Any) -> Any:
        if isinstance(request, Pause):
            return pauses_ms.append(request.ms)
        return warehouse.driver.answer(request)

    for _ in range(8):
        drive(append(files, body, ref, l0_segments_max=8), answer)
    assert pauses_ms == [333, 666]
    with pytest.raises(Unavailable, match="compaction is behind"):
        drive(append(files, body, ref, l0_segments_max=8), answer)
    assert len(pauses_ms) == 2


def test_a_partition_full_of_l0_segments_refuses_and_uploads_nothing(warehouse: Warehouse) -> None:
    part = warehouse.create_topic("t", config={"l0.segments.max": 2}).partition(0)
    part.append([Record(None, b"0")])
    part.append([Record(None, b"1")])
    keys = files_of(warehouse, "t").keys
    with pytest.raises(Unavailable, match="compaction is behind"):
        part.append([Record(None, b"2")])
    assert len(warehouse.store.list(keys.segments).objects) == 2
    compact(warehouse, "t", order="offset")
    assert part.append([Record(None, b"2")]) == range(2, 3)
