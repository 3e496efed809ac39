"""A write with a transaction that fails again and again: its attempts share an upload, none takes from another, and
other writers have room (RFC 0019, 0022)."""

from dataclasses import replace

import pytest
from pyspark_lithify.distribution import upload_id_of
from pyspark_lithify.options import write_options
from pyspark_lithify.writing import Placing, commit, of_transaction, placing, write

import lithify
from lithify.log.topic import Topic
from tests.spark.test_growing_writes import COLUMNS
from tests.spark.test_writing import batches, kept

TXN = ("job", 7)
HOUR_MS = 3_600_000
KEYS = "abcdefgh"  # some in each of two partitions
STREAM = [False, True]


@pytest.fixture
def topic(warehouse: lithify.Warehouse) -> Topic:
    return warehouse.create_topic("t", partitions=2)


def attempt(url: str, stream: bool, at_ms: int | None = None) -> Placing:
    """As its tasks have it. `at_ms`: by the driver's clock."""
    named = {} if stream else {"txnAppId": TXN[0], "txnVersion": str(TXN[1])}
    options = write_options({"topic": "t", "path": url, **named}, stream=stream)
    if not stream and at_ms is None:
        return placing(options, COLUMNS, options.txn)
    made = placing(options, COLUMNS, None, stream=True)
    return of_transaction(made if at_ms is None else replace(made, at_ms=at_ms), TXN)


@pytest.mark.parametrize("stream", STREAM)
def test_attempts_that_fail_leave_one_upload(url: str, topic: Topic, stream: bool) -> None:
    for _ in range(8):
        write(attempt(url, stream), batches(*KEYS))
    for number in (0, 1):
        # An eighth of a day may have ended in between.
        assert 1 <= topic.partition(number).describe().uploads <= 2


@pytest.mark.parametrize("stream", STREAM)
@pytest.mark.parametrize("late", [0, 1])
def test_attempts_that_run_at_the_same_time_append_once(url: str, topic: Topic, stream: bool, late: int) -> None:
    """One was believed to be dead; both wrote their segments, in tasks of their own."""
    places = [attempt(url, stream, at_ms=HOUR_MS) for _ in range(2)]
    messages = [[write(places[0], batches(*KEYS))], [write(places[1], batches(key)) for key in KEYS]]
    assert len({task.name for made in messages for each in made for task, _ in each.segments.get(0, ())}) == 1
    for index in (1 - late, late, 1 - late):
        commit(places[index].options, messages[index], TXN)
    assert sorted(key or b"" for key, _ in kept(topic)) == [key.encode() for key in KEYS]


def test_an_attempt_of_another_eighth_is_told_by_the_transaction(url: str, topic: Topic) -> None:
    places = [attempt(url, False, at_ms=hours * HOUR_MS) for hours in (1, 4)]
    first, second = ([write(place, batches(*KEYS))] for place in places)
    commit(places[1].options, second, TXN)
    commit(places[0].options, first, TXN)
    assert sorted(key or b"" for key, _ in kept(topic)) == [key.encode() for key in KEYS]


def test_which_attempts_share_an_upload() -> None:
    day = 24 * HOUR_MS
    mine = upload_id_of(TXN, 2, day, HOUR_MS)
    assert mine == upload_id_of(TXN, 2, day, 3 * HOUR_MS - 1)
    others = [
        upload_id_of(TXN, 2, day, 3 * HOUR_MS),
        upload_id_of(TXN, 2, 2 * day, HOUR_MS),
        upload_id_of(TXN, 3, day, HOUR_MS),
        upload_id_of(("job", 8), 2, day, HOUR_MS),
        upload_id_of(("other", 7), 2, day, HOUR_MS),
        upload_id_of(TXN, 2, 1, HOUR_MS),
    ]
    assert len({mine, *others}) == 7
