"""Consumers of topics that grow: where they begin in added partitions, and who of two instances takes these."""

import contextlib
from typing import Any

import pytest

from lithify.log.follow import Gap
from lithify.log.topic import Topic
from lithify.log.topic_consumer import TopicConsumer
from lithify.store.errors import Fenced, OffsetOutOfRange, Unavailable
from tests.clock import HandClock
from tests.log.conftest import TEN_SECONDS_MS
from tests.log.failing import FailingStore
from tests.log.test_consumer import stored
from tests.log.test_follow import EXPIRING, append, expire, shown
from tests.log.test_topic_consumer import opened

pytestmark = pytest.mark.usefixtures("near_and_far")

Found = list[tuple[int, Any]]


def topics(clock: HandClock, store: FailingStore, count: int = 2) -> list[Topic]:
    """As many handles of one topic, of as many processes; it has a record in its only partition."""
    made = opened(store, clock).create_topic("t", probe=False)
    append(made.partition(0), "a")
    return [made, *(opened(store, clock).topic("t") for _ in range(count - 1))]


def grow(topic: Topic, partitions: int = 2) -> None:
    """With a record in each added partition."""
    before = topic.partitions
    topic.alter(partitions=partitions)
    for number in range(before, partitions):
        append(topic.partition(number), "a")


def polled(consumer: TopicConsumer) -> Found:
    return [(number, *shown([item])) for number, item in consumer.poll()]


@pytest.mark.parametrize("reset", ["earliest", "latest", "error"])
def test_added_partitions_are_read_from_their_first_record_within_ten_seconds(clock: HandClock, reset: Any) -> None:
    topic, elsewhere = topics(clock, FailingStore())
    if reset == "error":
        elsewhere.consumer("c").close()
    consumer = elsewhere.consumer("c", auto_offset_reset=reset)
    read = polled(consumer)
    grow(topic)
    clock.now_ms += TEN_SECONDS_MS - 1
    assert polled(consumer) == []
    clock.now_ms += 1
    assert polled(consumer) == [(1, 0)]
    append(topic.partition(1), "b")
    append(topic.partition(0), "b")
    assert sorted(polled(consumer)) == [(0, 1), (1, 1)]
    consumer.close()
    assert read == ([] if reset == "latest" else [(0, 0)])
    assert [stored(topic.partition(number)) for number in range(2)] == [2, 2]


@pytest.mark.parametrize("reset", ["earliest", "latest", "error"])
def test_who_was_away_when_the_topic_grew_begins_at_the_first_record(clock: HandClock, reset: Any) -> None:
    topic, elsewhere = topics(clock, FailingStore())
    elsewhere.consumer("c").close()
    grow(topic, 3)
    clock.now_ms += TEN_SECONDS_MS
    later = elsewhere.consumer("c", auto_offset_reset=reset)
    assert [item for item in polled(later) if item[0]] == [(1, 0), (2, 0)]
    named = elsewhere.consumer("d", [2], auto_offset_reset="latest")
    assert polled(named) == []  # a new name, to which no partition is an added one
    grow(topic, 4)
    clock.now_ms += TEN_SECONDS_MS
    assert polled(named) == []  # it was given its partitions
    named.close()
    assert polled(elsewhere.consumer("d", [3], auto_offset_reset="latest")) == [(3, 0)]


def test_a_name_that_is_new_begins_where_it_is_told_in_all_partitions(clock: HandClock) -> None:
    topic, elsewhere = topics(clock, FailingStore())
    grow(topic, 3)
    assert polled(opened_later(elsewhere, clock).consumer("c", auto_offset_reset="latest")) == []


def opened_later(topic: Topic, clock: HandClock) -> Topic:
    clock.now_ms += TEN_SECONDS_MS
    return topic


@pytest.mark.parametrize("away", [False, True])
@pytest.mark.parametrize("reset", ["earliest", "latest", "error"])
def test_what_retention_took_before_it_came_is_a_gap(clock: HandClock, reset: Any, away: bool) -> None:
    """Whatever is to be done where the log has no such offset: with latest the rest was skipped, too, and with error
    the name was taken over anew by each poll."""
    topic, elsewhere = topics(clock, FailingStore())
    topic.alter(EXPIRING)
    elsewhere.consumer("c").close()
    consumer = elsewhere.consumer("c", auto_offset_reset=reset)
    consumer.poll()
    if away:
        consumer.close()
    grow(topic)
    expire(clock)
    append(topic.partition(1), "b")
    opened_later(elsewhere, clock)
    append(topic.partition(1), "c")
    if away:
        consumer = elsewhere.consumer("c", auto_offset_reset=reset)
    gap, record = [item for number, item in consumer.poll() + consumer.poll() if number == 1]
    assert isinstance(gap, Gap)
    assert (gap.start_offset, gap.end_offset) == (0, 2)
    assert shown([record]) == [2]
    before = topic.partition(1).describe().manifest_id
    assert consumer.poll() == []
    consumer.commit()
    assert topic.partition(1).describe().manifest_id == before + 1
    append(topic.partition(1), "d")
    topic.partition(1).delete_records(4)
    append(topic.partition(1), "e")
    if reset == "error":  # from its first record on it is a partition like others
        with pytest.raises(OffsetOutOfRange):
            consumer.poll()
    else:
        assert shown(item for _, item in consumer.poll()) == ([4] if reset == "earliest" else [(4, 5)])


@pytest.mark.slow
@pytest.mark.parametrize("reset", ["earliest", "latest", "error"])
@pytest.mark.parametrize("request_number", range(24))
def test_whoever_comes_after_one_that_died_over_added_partitions_reads_all_of_them(
    clock: HandClock, reset: Any, request_number: int
) -> None:
    """It died at one of its requests, and has positions in some of them by then. Tried on log/topic_consumer.py, and
    caught: whoever has a position in a later one is taken for having read the earlier ones, too."""
    store = FailingStore()
    topic, first, second = topics(clock, store, 3)
    first.consumer("c").close()
    dies = first.consumer("c", auto_offset_reset=reset, auto_commit_interval_ms=None)
    dies.poll()
    grow(topic, 4)
    opened_later(topic, clock)
    asked = 0

    def dead(_request: str, _key: str) -> None:
        nonlocal asked
        asked += 1
        if asked > request_number:
            raise Unavailable("its process is dead")

    store.before = dead
    with contextlib.suppress(Unavailable):
        dies.poll()
    store.before = lambda _request, _key: None
    consumer = second.consumer("c", auto_offset_reset=reset)
    found = polled(consumer) + polled(consumer)
    assert [item for item in found if item[0]] == [(1, 0), (2, 0), (3, 0)]


def test_an_opening_that_one_partition_refuses_takes_none(clock: HandClock) -> None:
    topic, elsewhere = topics(clock, FailingStore())
    grow(topic)
    opened_later(elsewhere, clock)
    older = topic.consumer("c", auto_commit_interval_ms=None)
    assert len(older.poll()) == 2
    older.commit()
    for number in range(2):
        append(topic.partition(number), "b", "c")
    assert len(older.poll()) == 4
    topic.partition(1).delete_records(2)
    with pytest.raises(OffsetOutOfRange, match="t/1"):
        elsewhere.consumer("c", auto_offset_reset="error")
    older.commit()
    assert [stored(topic.partition(number)) for number in range(2)] == [3, 3]


def test_what_keeps_it_from_seeing_growth_is_told_and_keeps_nothing_else(clock: HandClock) -> None:
    store = FailingStore()
    topic, elsewhere = topics(clock, store)
    consumer = elsewhere.consumer("c")
    down = True

    def away(_request: str, key: str) -> None:
        if down and key.endswith(".topic"):
            raise Unavailable("away")

    store.before = away
    opened_later(elsewhere, clock)
    assert polled(consumer) == [(0, 0)]
    for _ in range(2):
        with pytest.raises(Unavailable):
            consumer.poll()
    for value in ("b", "c"):  # also where there is always something
        down = False
        append(topic.partition(0), value)
        down = True
        if value == "b":
            assert polled(consumer) == [(0, 1)]
    with pytest.raises(Unavailable):
        consumer.poll()
    down = False
    grow(topic)
    opened_later(elsewhere, clock)
    assert sorted(polled(consumer)) == [(0, 2), (1, 0)]


def test_who_was_replaced_takes_no_added_partition(clock: HandClock) -> None:
    """The older instance sees first, or last, that the topic grew: the newer one keeps the name."""
    topic, first, second = topics(clock, FailingStore(), 3)
    older = first.consumer("c", auto_commit_interval_ms=None)
    newer = second.consumer("c")
    for replaced_first in (True, False):
        grow(topic, topic.partitions + 1)
        opened_later(topic, clock)
        if not replaced_first:
            newer.poll()
        append(topic.partition(0), "more")
        older.poll()
        with pytest.raises(Fenced, match="another instance"):
            older.poll()
        newer.poll()
        newer.commit()
    assert [stored(topic.partition(number)) for number in range(1, 3)] == [1, 1]


@pytest.mark.parametrize("request_number", range(24))
def test_who_is_replaced_while_it_takes_an_added_partition_does_not_keep_it(
    clock: HandClock, request_number: int
) -> None:
    """At each of its requests a newer instance opens, and takes all partitions. It is never the one that is refused."""
    store = FailingStore()
    topic, first, second = topics(clock, store, 3)
    older = first.consumer("c", auto_commit_interval_ms=None)
    older.poll()
    grow(topic)
    opened_later(topic, clock)
    newer: list[TopicConsumer] = []
    asked: list[str] = []

    def replace(_request: str, key: str) -> None:
        asked.append(key)
        if len(asked) == request_number + 1:
            store.before = lambda _request, _key: None
            newer.append(second.consumer("c", auto_commit_interval_ms=None))

    store.before = replace
    try:
        older.poll()
        older.poll()
    except Fenced:
        pass
    store.before = lambda _request, _key: None
    for consumer in newer:
        consumer.poll()
        consumer.commit()
        assert set(consumer.positions) == {0, 1}
