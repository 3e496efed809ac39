"""Named consumers of whole topics: each partition in turn, each with a position of its own."""

from itertools import pairwise
from typing import Any

import pytest

from lithify.log.topic import Topic
from lithify.log.topic_consumer import TopicConsumer
from lithify.log.warehouse import Warehouse
from lithify.store.driver import Driver
from lithify.store.errors import Corrupt, Fenced, InvalidRequest, LithifyError, NotFound, Unavailable
from lithify.store.port import Pause
from tests.clock import HandClock
from tests.log.conftest import TEN_SECONDS_MS
from tests.log.failing import FailingStore
from tests.log.test_consumer import stored
from tests.log.test_follow import append, shown
from tests.log.waiting import Script

pytestmark = pytest.mark.usefixtures("near_and_far")


def test_a_topic_is_read_in_turn_and_each_partition_has_its_position(warehouse: Warehouse) -> None:
    topic = warehouse.create_topic("t", partitions=3)
    for number in range(3):
        append(topic.partition(number), *(f"{number}{row}" for row in range(4)))
    with topic.consumer("c") as consumer:
        items = [(number, *shown([item])) for number, item in consumer.poll(max_records=6)]
        items += [(number, *shown([item])) for number, item in consumer.poll()]
        assert sorted(items) == [(number, row) for number in range(3) for row in range(4)]
        assert consumer.positions == {0: 4, 1: 4, 2: 4}
    assert [stored(topic.partition(number)) for number in range(3)] == [4, 4, 4]
    append(topic.partition(1), "more")
    with topic.consumer("c", [1]) as alone:
        assert [(number, *shown([item])) for number, item in alone.poll()] == [(1, 4)]


@pytest.mark.parametrize("max_records", range(1, 14))
def test_a_poll_of_a_topic_returns_what_there_is_and_at_most_so_many(warehouse: Warehouse, max_records: int) -> None:
    """Tried on log/topic_consumer.py, and caught: each partition hands out as many as the whole poll may."""
    topic = warehouse.create_topic("t", partitions=3)
    for number in range(3):
        append(topic.partition(number), *(f"{number}{row}" for row in range(4)))
    consumer = topic.consumer("c")
    found: list[tuple[int, Any]] = []
    while len(found) < 12:
        polled = consumer.poll(max_records=max_records)
        assert len(polled) == min(max_records, 12 - len(found))
        found += [(number, *shown([item])) for number, item in polled]
    assert [item for number in range(3) for item in found if item[0] == number] == [
        (number, row) for number in range(3) for row in range(4)
    ]


def test_no_partition_waits_while_another_has_much(warehouse: Warehouse) -> None:
    """Whatever each has, and each poll takes. Tried on log/topic_consumer.py, and caught: every poll begins with the
    same partition."""
    topic = warehouse.create_topic("t", partitions=3)
    for number in range(3):
        append(topic.partition(number), *(f"{number}{row}" for row in range(12)))
    one, some = topic.consumer("one"), topic.consumer("some")
    assert [[number for number, _ in one.poll(max_records=1)] for _ in range(6)] == [[0], [1], [2], [0], [1], [2]]
    assert [{number for number, _ in some.poll(max_records=5)} for _ in range(3)] == [{0}, {1}, {2}]


def test_iterating_over_a_topic_leaves_what_was_not_handed_out(warehouse: Warehouse) -> None:
    topic = warehouse.create_topic("t", partitions=2)
    for number in range(2):
        append(topic.partition(number), *(f"{number}{row}" for row in range(3)))
    script = Script(warehouse, lambda: append(topic.partition(1), "more"))
    seen: list[tuple[int, Any]] = []
    with topic.consumer("c", stop=script.stop) as consumer:
        for number, item in consumer:
            seen += [(number, *shown([item]))]
            if len(seen) == 4:
                break
    assert sum(stored(topic.partition(number)) for number in range(2)) == 4
    with topic.consumer("c", stop=script.stop) as consumer:
        seen += [(number, *shown([item])) for number, item in consumer]
    assert sorted(seen) == [(0, 0), (0, 1), (0, 2), (1, 0), (1, 1), (1, 2), (1, 3)]
    for number in range(2):
        mine = [offset for at, offset in seen if at == number]
        assert all(before < after for before, after in pairwise(mine))
    assert topic.partition(1).describe().consumers[0].lag == 0


def test_of_a_topic_one_lost_partition_does_not_keep_the_others_from_committing(warehouse: Warehouse) -> None:
    topic = warehouse.create_topic("t", partitions=2)
    for number in range(2):
        append(topic.partition(number), "a")
    consumer = topic.consumer("c")
    assert len(consumer.poll()) == 2
    topic.partition(1).consumer("c")
    with pytest.raises(Fenced):
        consumer.close()
    assert [stored(topic.partition(number)) for number in range(2)] == [1, 0]


def test_consumers_of_a_topic_read_something(warehouse: Warehouse) -> None:
    topic = warehouse.create_topic("t")
    with pytest.raises(InvalidRequest):
        topic.consumer("c", [])
    with pytest.raises(NotFound):
        topic.consumer("c", [1])
    with pytest.raises(InvalidRequest):
        topic.consumer("c").poll(-1)
    with pytest.raises(InvalidRequest):
        topic.consumer("c").poll(max_records=0)


def opened(store: FailingStore, clock: HandClock) -> Warehouse:
    """Nobody waits in it."""
    driver = Driver(store, clock)
    answer = driver.answer
    driver.answer = lambda request: None if isinstance(request, Pause) else answer(request)
    return Warehouse(driver)


def filled(store: FailingStore, clock: HandClock, partitions: int = 2) -> Topic:
    topic = opened(store, clock).create_topic("t", partitions=partitions, probe=False)
    for number in range(partitions):
        append(topic.partition(number), "a", "b")
    return topic


def fail_reads_of(store: FailingStore, topic: Topic, number: int, error: LithifyError) -> None:
    """Of a partition's segments, each time."""

    def before(request: str, key: str) -> None:
        if f"/{number:05d}/segments/" in key and request in ("get", "read"):
            raise error

    store.before = before


def polled(consumer: TopicConsumer, times: int) -> tuple[list[tuple[int, Any]], list[LithifyError]]:
    """Of a caller that goes on after an error."""
    items: list[tuple[int, Any]] = []
    errors: list[LithifyError] = []
    for _ in range(times):
        try:
            found = consumer.poll()
        except LithifyError as error:
            errors.append(error)
        else:
            items += [(number, *shown([item])) for number, item in found]
    return items, errors


ALL = [(number, offset) for number in range(2) for offset in range(2)]


@pytest.mark.parametrize("error", [Unavailable("away"), Corrupt("damaged")])
def test_what_earlier_partitions_gave_is_handed_out_where_a_later_one_fails(
    clock: HandClock, error: LithifyError
) -> None:
    """Before, it was dropped, and the next poll or the close committed beyond it."""
    store = FailingStore()
    topic = filled(store, clock)
    consumer = topic.consumer("c")
    fail_reads_of(store, topic, 1, error)
    items, errors = polled(consumer, 4)
    assert items == ALL[:2]
    assert errors
    assert set(errors) == {error}  # and it is told, again and again, however much the others have
    store.before = lambda _request, _key: None
    items += polled(consumer, 2)[0]
    consumer.close()
    assert sorted(items) == ALL
    assert [stored(topic.partition(number)) for number in range(2)] == [2, 2]


@pytest.mark.parametrize("number", range(3))
def test_a_partition_that_fails_is_told_by_every_second_poll_however_much_the_others_have(
    clock: HandClock, number: int
) -> None:
    """And what they have is handed out by the other polls. Tried on log/topic_consumer.py, and caught: it is passed
    over where another partition has something."""
    store = FailingStore()
    topic = filled(store, clock, 3)
    consumer = topic.consumer("c")
    others = [each for each in range(3) if each != number]
    fail_reads_of(store, topic, number, Unavailable("away"))
    told: list[bool] = []
    found: list[tuple[int, Any]] = []
    for _ in range(8):
        items, errors = polled(consumer, 1)
        found += items
        told.append(bool(errors))
        for each in others:
            append(topic.partition(each), "more")
    assert all(first != second for first, second in pairwise(told)), told
    assert {at for at, _ in found} == set(others)
    assert len(found) > 8


def test_what_was_found_before_an_interruption_is_handed_out_later(clock: HandClock) -> None:
    """Partition 0 has been looked at, and nothing of it handed out, when a signal meets the look at partition 1. Tried
    on log/consumer.py, and caught: a position that jumps to the end of the stretch that was found."""
    store = FailingStore()
    topic = filled(store, clock)
    consumer = topic.consumer("c")
    interruption: Any = KeyboardInterrupt()
    fail_reads_of(store, topic, 1, interruption)
    with pytest.raises(KeyboardInterrupt):
        consumer.poll()
    assert consumer.positions == {0: 0, 1: 0}
    consumer.commit()
    assert [stored(topic.partition(number)) for number in range(2)] == [0, 0]
    store.before = lambda _request, _key: None
    assert sorted(polled(consumer, 2)[0]) == ALL
    consumer.close()
    assert [stored(topic.partition(number)) for number in range(2)] == [2, 2]


def test_what_was_taken_beside_a_partition_that_was_lost_to_a_rival_is_handed_out(clock: HandClock) -> None:
    topic = filled(FailingStore(), clock)
    consumer = topic.consumer("c")
    consumer.poll()
    for number in range(2):
        append(topic.partition(number), "c")
    topic.partition(1).consumer("c")
    clock.now_ms += 5_000
    items, errors = polled(consumer, 2)
    assert items == [(0, 2)]
    assert [type(error) for error in errors] == [Fenced]
    with pytest.raises(Fenced):
        consumer.close()
    assert stored(topic.partition(0)) == 3


def test_one_partition_that_cannot_commit_keeps_no_other_from_it(clock: HandClock) -> None:
    topic = filled(FailingStore(), clock)
    consumer = topic.consumer("c", auto_commit_interval_ms=None)
    assert len(consumer.poll()) == 4
    topic.partition(0).consumer("c")
    with pytest.raises(Fenced):
        consumer.commit()
    assert [stored(topic.partition(number)) for number in range(2)] == [0, 2]


def test_closing_again_commits_what_could_not_be(clock: HandClock) -> None:
    store = FailingStore()
    topic = filled(store, clock)
    consumer = topic.consumer("c")
    assert len(consumer.poll()) == 4

    def before(request: str, key: str) -> None:
        if request == "create" and "/00000/" in key:
            raise Unavailable("away")

    store.before = before
    for _ in range(2):
        with pytest.raises(Unavailable):
            consumer.close()
    store.before = lambda _request, _key: None
    assert [stored(topic.partition(number)) for number in range(2)] == [0, 2]
    consumer.close()
    assert [stored(topic.partition(number)) for number in range(2)] == [2, 2]
    assert repr(consumer).endswith("closed)")


@pytest.mark.parametrize("error", [Unavailable, Corrupt, Fenced])
@pytest.mark.parametrize("number", [0, 1])
def test_an_iterator_that_failed_goes_on_when_it_is_asked_again(
    clock: HandClock, error: type[LithifyError], number: int
) -> None:
    """Before, it was over, and said so as if somebody had stopped it."""
    store = FailingStore()
    topic = filled(store, clock)
    consumer = topic.consumer("c")
    fail_reads_of(store, topic, number, error("told by the test"))
    items, told = [], 0
    while len(items) < 4:
        try:
            items += [(at, *shown([item])) for at, item in [next(consumer)]]
        except error:
            told += 1
            assert told < 9, "what the others hold is kept back"
            if told == 3:
                store.before = lambda _request, _key: None
    assert sorted(items) == ALL
    assert told == 3
    consumer.close()
    assert [stored(topic.partition(each)) for each in range(2)] == [2, 2]


def test_a_commit_that_is_refused_within_a_stretch_keeps_no_other_partition_back(clock: HandClock) -> None:
    topic = filled(FailingStore(), clock)
    consumer = topic.consumer("c")
    (first, _) = next(consumer)
    topic.partition(first).consumer("c")
    clock.now_ms += 5_000
    with pytest.raises(Fenced):
        next(consumer)
    assert [(number, *shown([item])) for number, item in (next(consumer), next(consumer))] == [
        (1 - first, 0),
        (1 - first, 1),
    ]


@pytest.mark.parametrize("how", ["close", "block", "error"])
@pytest.mark.parametrize("taken", [0, 1, 2, 3])
def test_closed_it_ends_and_opens_nothing_more(clock: HandClock, how: str, taken: int) -> None:
    """Before, who iterated over it waited for ever, and added partitions were opened under its name."""
    topic = filled(FailingStore(), clock)
    consumer = topic.consumer("c")
    seen = 0
    for _ in consumer if taken else ():
        seen += 1
        if seen == taken:
            if how == "close":
                consumer.close()
            else:
                error = ZeroDivisionError() if how == "error" else None
                consumer.__exit__(type(error) if error else None, error, None)
    assert seen == taken
    consumer.close()
    topic.alter(partitions=3)
    clock.now_ms += TEN_SECONDS_MS
    with pytest.raises(InvalidRequest, match="closed; open another one"):
        consumer.poll(1_000)
    assert list(consumer) == []
    with pytest.raises(StopIteration):
        next(consumer)
    assert [len(topic.partition(number).consumers()) for number in range(3)] == [1, 1, 0]


def test_what_was_not_dealt_with_is_not_committed_by_asking_who_is_closed(clock: HandClock) -> None:
    topic = filled(FailingStore(), clock)
    for consumer in (topic.partition(0).consumer("c"), topic.consumer("c", [0])):
        clock.now_ms += 5_000
        assert consumer.poll()
        consumer.__exit__(ZeroDivisionError, ZeroDivisionError(), None)
        with pytest.raises(InvalidRequest, match="closed; open another one"):
            consumer.poll()
        clock.now_ms += 5_000
        assert list(consumer) == []
        consumer.close()
        assert stored(topic.partition(0)) == 0
