"""Whose clock stamps a record, and how far from it a record's own time may lie (KIP-937)."""

from typing import Any

import pyarrow as pa
import pytest

from lithify.log.record import Record
from lithify.log.warehouse import Warehouse
from lithify.store.errors import InvalidRequest
from tests.clock import HandClock

BEFORE, AFTER = "message.timestamp.before.max.ms", "message.timestamp.after.max.ms"
BOUNDED = {BEFORE: 1_000, AFTER: 100}


def records(*times_ms: int | None) -> list[Record]:
    return [Record(b"k", b"v", time_ms) for time_ms in times_ms]


def table(*times_ms: int | None) -> pa.Table:
    return pa.table({"value": ["v"] * len(times_ms), "timestamp_ms": pa.array(times_ms, pa.int64())})


@pytest.mark.parametrize("make", [records, table])
@pytest.mark.parametrize(
    ("offsets_ms", "told"),
    [
        ((0, -1_001, 0), rf"1 of 3 records \(row 1\) .* older than {BEFORE} \(1000\)"),
        ((101, 0, 5_000), rf"2 of 3 records \(rows 0, 2\) .* in the future than {AFTER} \(100\)"),
        ((101,) * 7, r"7 of 7 records \(rows 0, 1, 2, 3, 4, …\)"),
    ],
)
def test_a_time_too_far_from_now_refuses_the_whole_append(
    warehouse: Warehouse, clock: HandClock, make: Any, offsets_ms: tuple[int, ...], told: str
) -> None:
    topic = warehouse.create_topic("t", config=BOUNDED)
    before = warehouse.store.requests()
    for place in (topic, topic.partition(0)):
        with pytest.raises(InvalidRequest, match=told):
            place.append(make(*(clock.now_ms + offset_ms for offset_ms in offsets_ms)))
    spent = warehouse.store.requests() - before
    assert (spent.puts, spent.creates) == (0, 0)


@pytest.mark.parametrize("make", [records, table])
def test_the_bounds_themselves_are_admitted_and_no_time_is_the_appends(
    warehouse: Warehouse, clock: HandClock, make: Any
) -> None:
    part = warehouse.create_topic("t", config=BOUNDED).partition(0)
    part.append(make(clock.now_ms - 1_000, clock.now_ms + 100, None))
    assert [record.timestamp_ms for record in part.read()] == [clock.now_ms - 1_000, clock.now_ms + 100, clock.now_ms]
    clock.now_ms += 1
    with pytest.raises(InvalidRequest, match=BEFORE):
        part.append(make(clock.now_ms - 1_001))


@pytest.mark.parametrize("make", [records, table])
def test_without_bounds_any_time_since_1970_is_admitted(warehouse: Warehouse, make: Any) -> None:
    part = warehouse.create_topic("t").partition(0)
    part.append(make(0, 2**63 - 1))
    assert [record.timestamp_ms for record in part.read()] == [0, 2**63 - 1]
    for negative in (-1, -2):  # Kafka's -1 says "none": here that is None
        with pytest.raises(InvalidRequest, match="timestamp_ms"):
            part.append(make(negative))


def test_with_the_logs_own_clock_there_are_no_bounds(warehouse: Warehouse, clock: HandClock) -> None:
    config = {**BOUNDED, "message.timestamp.type": "LogAppendTime"}
    topic = warehouse.create_topic("t", config=config)
    topic.partition(0).append(records(5, 2**63 - 1))
    with topic.producer() as producer:
        producer.append(b"k", b"v", 5)
    assert [record.timestamp_ms for record in topic.partition(0).read()] == [clock.now_ms] * 3


def test_a_producer_keeps_out_the_record_and_goes_on(warehouse: Warehouse, clock: HandClock) -> None:
    topic = warehouse.create_topic("t", config=BOUNDED)
    with topic.producer() as producer:
        producer.append(b"a", b"v", clock.now_ms - 1_000)
        for time_ms, told in ((clock.now_ms - 1_001, BEFORE), (clock.now_ms + 101, AFTER)):
            with pytest.raises(InvalidRequest, match=f"the record has a timestamp_ms .* {told} .* not appended"):
                producer.append(b"b", b"v", time_ms)
    assert [record.key for record in topic.partition(0).read()] == [b"a"]


def test_what_a_producer_took_in_time_is_sent_however_long_it_waited(warehouse: Warehouse, clock: HandClock) -> None:
    topic = warehouse.create_topic("t", config=BOUNDED)
    with topic.producer(config={"linger.ms": 3_600_000}) as producer:
        taken = producer.append(b"a", b"v", clock.now_ms - 1_000)
        clock.now_ms += 5_000
        producer.flush()
    assert taken.offset() == 0
