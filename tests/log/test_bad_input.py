"""What does not belong into the log is refused at the door: nothing is written, and the message says what to do."""

from collections.abc import Callable
from typing import Any

import pyarrow as pa
import pytest

from lithify.log.intake import APPEND_BYTES_MAX
from lithify.log.partition import Partition
from lithify.log.record import Record
from lithify.log.warehouse import Warehouse
from lithify.store.errors import CommitUnknown, InvalidRequest, NotFound, OffsetOutOfRange

GOOD = Record(b"k", b"v")
SECRET = "geheim"


@pytest.fixture
def compacted(warehouse: Warehouse) -> Partition:
    config = {"cleanup.policy": "compact", "max.message.bytes": 100}
    return warehouse.create_topic("users", config=config).partition(0)


def value(**columns: Any) -> pa.Table:
    return pa.table({"value": ["v", "v"], **columns})


HEADER = pa.list_(pa.struct([("key", pa.string()), ("value", pa.binary())]))
UNFIT = {
    "one record": (GOOD, "give a list of records"),
    "nothing": (None, "give a list of records"),
    "a number": (7, "give a list of records"),
    "text": ("ab", "record 0 is a str"),
    "bytes": (b"ab", "record 0 is a int"),
    "a dict without a value": ([GOOD, {"key": b"k"}], "record 1 has no value"),
    "a dict with more": ([{"key": b"k", "value": b"v", "plan": SECRET}], "record 0 has a field .plan."),
    "a number in a dict": (
        [{"key": 7, "value": b"v"}],
        r"record 0 has a key of type int: give text \(str\(key\)\), bytes or None",
    ),
    "a fraction as key": (
        [Record(2.5, b"v")],
        r"of type float: give bytes \(str\(key\).encode\(\)\) or None",
    ),  # pyright: ignore
    "one dict": ({"key": b"k", "value": b"v"}, "give a list of records"),
    "text as key": ([Record(SECRET, b"v")], "record 0 has a key of type str"),  # pyright: ignore
    "a number as value": ([GOOD, Record(b"k", 7)], "record 1 has a value of type int"),  # pyright: ignore
    "a fraction as time": ([Record(b"k", b"v", 1.5)], "timestamp_ms"),  # pyright: ignore
    "a truth as time": ([Record(b"k", b"v", True)], "timestamp_ms"),
    "a time before 1970": ([Record(b"k", b"v", -1)], "timestamp_ms"),
    "a time beyond 63 bits": ([Record(b"k", b"v", 1 << 63)], "timestamp_ms"),
    "headers as text": ([Record(b"k", b"v", 1, SECRET)], "headers"),  # pyright: ignore
    "a nameless header": ([Record(b"k", b"v", 1, ((None, b""),))], "headers"),  # pyright: ignore
    "half a header": ([Record(b"k", b"v", 1, (("h",),))], "headers"),  # pyright: ignore
    "text in a header": ([Record(b"k", b"v", 1, (("h", SECRET),))], "headers"),  # pyright: ignore
    "half a character": ([Record(b"k", b"v", 1, (("\ud800", b""),))], "headers"),
    "no key": ([GOOD, Record(None, b"v"), GOOD, Record(None, b"v")], r"2 of 4 records \(rows 1, 3\) have no key"),
    "no key in a table": (value(key=["k", None]), r"1 of 2 records \(row 1\) has no key"),
    "no keys in a table": (value(), r"2 of 2 records \(rows 0, 1\) have no key"),
    "too large": ([GOOD, Record(b"k" * 50, b"v" * 51)], r"row 1\) is larger than max.message.bytes \(100\).* 101"),
    "too large by headers": ([Record(b"k", b"", 1, (("h" * 40, b"x" * 60),))], "larger than max.message.bytes"),
    "too large in a table": (value(key=["k", "k" * 100]), r"row 1\) is larger"),
    "old in a table": (value(key=["a", "b"], timestamp_ms=[5, -1]), r"row 1\) has a timestamp_ms before 1970"),
    "a null header": (
        value(key=["a", "b"], headers=pa.array([None, [None]], HEADER)),
        "headers hold a null entry",
    ),
    "a nameless header in a table": (
        value(key=["a", "b"], headers=pa.array([None, [{"key": None, "value": b""}]], HEADER)),
        "headers hold a null entry",
    ),
    "no value": (pa.table({"key": ["k"]}), "'value' is missing"),
    "a strange column": (value(other=[1, 2]), "'other' is not one of"),
    "offsets": (value(offset=[1, 2]), "assigned by the log"),
    "numbers as keys": (value(key=[1, 2]), "'key' has type int64: cast it before appending, to text or bytes"),
}


@pytest.mark.parametrize(("given", "told"), UNFIT.values(), ids=UNFIT)
def test_unfit_records_are_refused_and_nothing_is_written(
    warehouse: Warehouse, compacted: Partition, given: Any, told: str
) -> None:
    before = warehouse.store.requests()
    with pytest.raises(InvalidRequest, match=told) as refused:
        compacted.append(given)
    assert SECRET not in str(refused.value)
    spent = warehouse.store.requests() - before
    assert (spent.puts, spent.creates) == (0, 0)
    assert warehouse.topic("users").partition(0).describe().next_offset == 0


def test_a_record_of_exactly_the_largest_size_is_taken(compacted: Partition) -> None:
    """Each header with its two lengths, a byte each here."""
    headers = (("name", b"12"), ("é", None))
    assert compacted.append([Record(b"k" * 40, b"v" * 48, 1, headers)]) == range(1)


def test_many_bad_rows_are_counted_and_a_few_are_named(compacted: Partition) -> None:
    with pytest.raises(InvalidRequest, match=r"50 of 50 records \(rows 0, 1, 2, 3, 4, …\)"):
        compacted.append([Record(None, b"v")] * 50)


def test_an_append_is_bounded(warehouse: Warehouse, monkeypatch: pytest.MonkeyPatch) -> None:
    assert APPEND_BYTES_MAX == 512 << 20
    monkeypatch.setattr("lithify.log.intake.APPEND_BYTES_MAX", 10)
    part = warehouse.create_topic("t").partition(0)
    for given in ([Record(None, b"12345"), Record(b"1", b"23456")], pa.table({"value": ["12345", "123456"]})):
        with pytest.raises(InvalidRequest, match="append it in parts"):
            part.append(given)
    assert part.append([Record(None, b"12345"), Record(b"1", b"2345")]) == range(2)


@pytest.mark.parametrize("txn", ["query", ("query",), ("query", -1), ("query", "1"), ("", 1), ("q" * 250, 1), (1, 1)])
def test_transactions_have_an_application_and_a_version(warehouse: Warehouse, txn: Any) -> None:
    with pytest.raises(InvalidRequest, match="txn"):
        warehouse.create_topic("t").partition(0).append([GOOD], txn=txn)


NOT_NAMES = ("", "x" * 250, "\ud800", "x\x00", "\x1b[31m", "a\nb", "\u2028", b"bytes", None)
NAMES = ("x" * 249, "two words", "é漢😀", "PAR1", ".", "..", "/", "%00", "lithify.footer.xxh3")


@pytest.mark.parametrize("name", NOT_NAMES)
def test_names_that_cannot_be_stored_or_shown_are_refused_at_the_door(warehouse: Warehouse, name: Any) -> None:
    topic = warehouse.create_topic("t")
    part = topic.partition(0)
    before = part.describe().manifest_id
    uses: list[Callable[[], Any]] = [
        lambda: part.append([GOOD], txn=(name, 1)),
        lambda: part.open_producer(name),
        lambda: part.reset_consumer(name, 0),
    ]
    if name is not None:
        uses += [lambda: topic.producer(name), lambda: part.consumer(name), lambda: part.snapshot(pin=name)]
    for use in uses:
        with pytest.raises(InvalidRequest, match=r"printable characters|a string and an integer"):
            use()
    assert part.describe().manifest_id == before


@pytest.mark.parametrize("name", NAMES)
def test_names_of_all_printable_characters_are_kept_and_found_again(warehouse: Warehouse, name: str) -> None:
    topic = warehouse.create_topic("t")
    part = topic.partition(0)
    assert [part.append([GOOD], txn=(name, 1)) for _ in range(2)] == [range(1), range(1)]
    with topic.producer(name) as producer:
        producer.append(b"k", b"v", timestamp_ms=1)
    with part.consumer(name) as consumer:
        assert [record.offset for record in consumer.poll(0) if isinstance(record, Record)] == [0, 1]
        consumer.commit()
    part.snapshot(pin=name)
    again = warehouse.topic("t").partition(0)
    assert [known.application for known in again.transactions()] == [name]
    assert again.snapshot(pin=name).manifest_id == part.snapshot(pin=name).manifest_id
    assert [consumer.name for consumer in again.consumers()] == [name]
    assert again.open_producer(name).sequence == 1


@pytest.mark.parametrize("number", ["1" * 5_000, "²", "-1", "1" * 20])
def test_the_token_of_no_append_is_refused_or_not_known(warehouse: Warehouse, number: str) -> None:
    with pytest.raises((InvalidRequest, CommitUnknown)):
        warehouse.create_topic("t").partition(0).outcome(f"{number}:aa:000000000001-0123456789abcdef")


def test_offsets_outside_the_log(warehouse: Warehouse) -> None:
    part = warehouse.create_topic("t").partition(0)
    with pytest.raises(OffsetOutOfRange, match="read from 0: it is empty"):
        part.read(1)
    part.append([GOOD])
    assert list(part.read(1)) == []
    with pytest.raises(OffsetOutOfRange, match="read from 0 to 1"):
        part.read(2)
    for start, end in ((-1, None), (True, None), ("0", None), (1, 0), (0, "1")):
        with pytest.raises(InvalidRequest, match="must be integers"):
            part.read_batches(start, end)  # pyright: ignore


def test_keys_to_get_are_bytes_or_text(warehouse: Warehouse) -> None:
    topic = warehouse.create_topic("t")
    topic.append([Record("é".encode(), b"v")])
    for get in (topic.get, topic.partition(0).get, topic.partition(0).snapshot().get):
        found = get("é")
        assert found is not None
        assert found == get("é".encode())
        with pytest.raises(InvalidRequest, match="a key is bytes, or text in UTF-8, not int"):
            get(7)  # pyright: ignore


def test_topics_and_partitions_that_are_not_there(warehouse: Warehouse) -> None:
    with pytest.raises(NotFound, match="topic nobody does not exist"):
        warehouse.topic("nobody")
    with pytest.raises(NotFound, match="topic nobody does not exist"):
        warehouse.delete_topic("nobody")
    topic = warehouse.create_topic("t", partitions=2)
    for number in (-1, 2, True, "0", None):
        with pytest.raises(NotFound, match="it has partitions 0, 1"):
            topic.partition(number)  # pyright: ignore


@pytest.mark.parametrize("name", ["", ".", "..", "a/b", "é", "x" * 250])
def test_topic_names(warehouse: Warehouse, name: str) -> None:
    for use in (warehouse.create_topic, warehouse.topic, warehouse.delete_topic):
        with pytest.raises(InvalidRequest, match="is not allowed"):
            use(name)


def test_configurations_are_checked_before_anything_is_made(warehouse: Warehouse) -> None:
    for config, told in (({"cleanup.polcy": "x"}, "did you mean cleanup.policy"), ({"retention.ms": "x"}, "whole")):
        with pytest.raises(InvalidRequest, match=told):
            warehouse.create_topic("t", config=config)
    for partitions in (0, -1, 10_001, True, 1.0):
        with pytest.raises(InvalidRequest, match="partition"):
            warehouse.create_topic("t", partitions=partitions)  # pyright: ignore
    assert warehouse.topics() == []


def test_a_warehouse_is_opened_by_its_url() -> None:
    with pytest.raises(InvalidRequest, match=r"lithify\.open\(url\)"):
        Warehouse("memory://bad-input")  # pyright: ignore[reportArgumentType]
