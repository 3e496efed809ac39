"""What headers weigh: no header is for nothing, by whichever door it enters, and a buffer is as large as it says."""

import tracemalloc
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from lithify.log.batches import Batches, taken_bytes
from lithify.log.intake import _sizes, prepare
from lithify.log.layout import content_bytes
from lithify.log.producer_config import ProducerConfig
from lithify.log.record import HEADERS_MAX, Headers, Record, record_bytes
from lithify.log.warehouse import Warehouse
from lithify.manifest.config import parse
from lithify.segment.schema import L0
from lithify.store.errors import InvalidRequest
from tests.log.conftest import Make

MANY = (("", None),) * HEADERS_MAX
KIND: Any = L0.field("headers").type
# Lengths about those at which their number takes a byte more.
TEXTS = st.sampled_from([0, 1, 62, 63, 64, 65, 8191, 8192]).map("x".__mul__) | st.text(max_size=5)
BYTES = st.none() | st.sampled_from([0, 1, 63, 64, 8191, 8192, 1 << 20]).map(b"x".__mul__)
HEADERS = st.lists(st.tuples(TEXTS, BYTES), max_size=4).map(tuple)
RECORDS = st.builds(Record, st.none() | st.binary(max_size=5), BYTES, st.just(1), HEADERS)


def varint(number: int) -> bytes:
    """As Kafka's ByteUtils.writeVarint."""
    rest = (number << 1) ^ (number >> 31)
    written = bytearray()
    while rest > 0x7F:
        written.append(rest & 0x7F | 0x80)
        rest >>= 7
    return bytes([*written, rest])


def as_kafka_writes(headers: Headers) -> bytes:
    written = b""
    for name, value in headers:
        written += varint(len(name.encode())) + name.encode()
        written += varint(-1) if value is None else varint(len(value)) + value
    return written


@given(st.lists(RECORDS, min_size=1, max_size=4))
def test_headers_count_as_kafka_writes_them_by_every_door(records: list[Record]) -> None:
    """Tried on log/record.py and log/intake.py, and caught: lengths that count nothing, one byte for every length, and
    characters for bytes."""
    expected = [len(r.key or b"") + len(r.value or b"") + len(as_kafka_writes(r.headers)) for r in records]
    assert [record_bytes(record) for record in records] == expected
    table = prepare(records, parse({}), 0, "t/0", admitted=True)
    assert _sizes(table).tolist() == expected
    entries = sum(len(record.headers) for record in records)
    assert sum(content_bytes(table.column(name).chunk(0)) for name in ("key", "value", "headers")) >= 8 * entries


def test_empty_headers_are_bounded_by_max_message_bytes(warehouse: Warehouse) -> None:
    topic = warehouse.create_topic("t", config={"max.message.bytes": 20_000})
    headers = MANY[:9_999]
    part = topic.partition(0)
    part.append([Record(b"k", b"v", 1, headers)])
    with pytest.raises(InvalidRequest, match=r"larger than max\.message\.bytes"):
        part.append([Record(b"kkk", b"v", 1, headers)])
    told = r"20002 bytes, more than max\.message\.bytes"
    with topic.producer() as producer, pytest.raises(InvalidRequest, match=told):
        producer.append(b"kkk", b"v", headers=headers)


@pytest.mark.parametrize("door", ["records", "table", "producer"])
def test_a_record_has_so_many_headers_at_most(warehouse: Warehouse, door: str) -> None:
    """What has more, because an earlier version took it, is read as ever."""
    topic = warehouse.create_topic("t")
    headers = (*MANY, ("", None))

    def append(headers: Headers) -> None:
        if door == "producer":
            with topic.producer() as producer:
                producer.append(b"k", b"v", headers=headers)
        elif door == "records":
            topic.partition(0).append([Record(b"k", b"v", None, headers)])
        else:
            column = pa.array([[{"key": name, "value": value} for name, value in headers]], KIND)
            topic.partition(0).append(pa.table({"key": [b"k"], "value": [b"v"], "headers": column}))

    append(MANY)
    with pytest.raises(InvalidRequest, match=f"{HEADERS_MAX}"):
        append(headers)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("lithify.log.record.HEADERS_MAX", HEADERS_MAX + 1)
        patch.setattr("lithify.log.intake.HEADERS_MAX", HEADERS_MAX + 1)
        append(headers)
    assert [len(record.headers) for record in topic.partition(0).read()] == [HEADERS_MAX, HEADERS_MAX + 1]


def test_entries_of_tables_that_hold_nothing_count(warehouse: Warehouse) -> None:
    """A column of these is made from a few bytes, and takes gigabytes once it is plain."""
    entries = pa.StructArray.from_arrays([pa.nulls(1 << 27), pa.nulls(1 << 27)], names=["key", "value"])
    column = pa.FixedSizeListArray.from_arrays(entries, 1 << 27)
    with pytest.raises(InvalidRequest, match="append it in parts"):
        warehouse.create_topic("t").partition(0).append(pa.table({"value": ["v"], "headers": column}))


@pytest.mark.parametrize("count", [0, 1, 10, 1_000])
def test_a_buffer_holds_as_much_as_it_counts(count: int) -> None:
    """Within a quarter, whatever the shape of its records. Tried on log/batches.py, and caught: headers that cost
    nothing but their bytes."""
    batches = Batches(ProducerConfig(linger_ms=10**9))
    tracemalloc.start()
    try:
        for number in range(20_000 // (count + 5)):
            headers = tuple((f"name {number} {each}", b"%d %d" % (number, each)) for each in range(count))
            record = Record(b"%d" % number, b"v%d" % number, number + 10**12, headers)
            batches.add(0, record, taken_bytes(record, record_bytes(record)), 0)
        held = tracemalloc.get_traced_memory()[0]
    finally:
        tracemalloc.stop()
    assert held <= 1.25 * batches.bytes


def test_records_of_many_empty_headers_go_alone(warehouse: Warehouse, producer_of: Make) -> None:
    """Each is larger than the whole buffer."""
    topic = warehouse.create_topic("t")
    producer = producer_of(warehouse, buffer_memory=1 << 20, linger_ms=10**9)
    held: list[int] = []
    for _ in range(3):
        producer.append(b"k", b"v", headers=MANY)
        held.append(len(producer._batches.all()))
    producer.close()
    assert held == [1, 1, 1]
    assert len(topic.partition(0).describe().l0) == 3
