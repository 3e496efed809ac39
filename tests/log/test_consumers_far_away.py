"""Consumers of topics of several partitions in a far store: all are looked at, and committed, at once."""

import threading
from collections.abc import Callable
from typing import Any

import pytest

from lithify.log import follow, sort_places
from lithify.log.beside import Beside
from lithify.log.consumer import Consumer
from lithify.log.record import Record
from lithify.log.topic import Topic
from lithify.log.warehouse import Warehouse
from lithify.store import side_by_side
from lithify.store.driver import Driver
from lithify.store.errors import InvalidRequest
from lithify.store.memory import MemoryStore
from lithify.store.port import Pause, Request
from tests.clock import HandClock
from tests.far import Meeting
from tests.log.compaction import compact
from tests.log.failing import FailingStore, FarFailingStore

PARTITIONS = 6
KEYS = [b"%02d" % n for n in range(60)]


@pytest.fixture
def store() -> Meeting:
    return Meeting()


@pytest.fixture
def warehouse(store: Meeting, clock: HandClock) -> Warehouse:
    return Warehouse(Driver(store, clock))


@pytest.fixture
def topic(warehouse: Warehouse) -> Topic:
    topic = warehouse.create_topic("t", PARTITIONS, {"cleanup.policy": "compact"}, probe=False)
    append(topic)
    return topic


def append(topic: Topic) -> None:
    topic.append([Record(key, key) for key in KEYS])


def positions(topic: Topic) -> list[int]:
    return [topic.partition(number).consumers()[0].offset for number in range(PARTITIONS)]


def ends(topic: Topic) -> list[int]:
    return [each.next_offset for each in topic.snapshot().partitions]


@pytest.mark.parametrize("at", ["manifest", "segments"])
def test_all_are_looked_at_at_once(store: Meeting, topic: Topic, at: str) -> None:
    with topic.consumer("c") as consumer:
        for begun in (False, True):
            store.all_meet(PARTITIONS, at if begun else "segments")
            assert sorted(record.key for _, record in consumer.poll() if isinstance(record, Record)) == KEYS
            assert len(store.met) == PARTITIONS
            store.meets = None
            append(topic)
        assert len(consumer.poll()) == len(KEYS)
        store.all_meet(PARTITIONS)
        assert consumer.poll() == []
        assert len(store.met) == PARTITIONS
        store.meets = None


@pytest.mark.parametrize("how", ["commit", "poll", "close", "block"])
def test_all_positions_are_committed_at_once(store: Meeting, clock: HandClock, topic: Topic, how: str) -> None:
    consumer = topic.consumer("c")
    assert len(consumer.poll()) == len(KEYS)
    clock.now_ms += 60_000
    store.all_meet(PARTITIONS)
    if how == "block":
        consumer.__exit__(None, None, None)
    else:
        {"commit": consumer.commit, "close": consumer.close, "poll": consumer.poll}[how]()
    assert len(store.met) == PARTITIONS
    store.meets = None
    assert positions(topic) == ends(topic)


def test_what_sorts_a_little_is_read_at_once(store: Meeting, warehouse: Warehouse, topic: Topic) -> None:
    """Before, three at a time."""
    for number in range(PARTITIONS):
        compact(warehouse, "t", number)
    consumer = topic.consumer("c")
    store.all_meet(PARTITIONS, "segments")
    assert len(consumer.poll()) == len(KEYS)
    assert len(store.met) == PARTITIONS


@pytest.mark.parametrize("why", ["sorts", "sorts much", "much"])
def test_what_sorts_or_reads_much_is_asked_alone(
    store: Meeting, warehouse: Warehouse, topic: Topic, monkeypatch: pytest.MonkeyPatch, why: str
) -> None:
    for number in range(PARTITIONS) if "sorts" in why else ():
        compact(warehouse, "t", number)
    if "much" in why:
        monkeypatch.setattr(follow, "LITTLE_BYTES_MAX", 1)
    else:
        monkeypatch.setattr(sort_places, "LITTLE_SORTS_MAX", 0)
    readers = set[threading.Thread]()
    read: Callable[[follow.Follower], object] = follow.Follower._read  # pyright: ignore[reportPrivateUsage]

    def noted(follower: follow.Follower) -> object:
        readers.add(threading.current_thread())
        return read(follower)

    monkeypatch.setattr(follow.Follower, "_read", noted)
    found = list[bytes | None]()
    with topic.consumer("c") as consumer:
        while len(found) < len(KEYS):
            found += [record.key for _, record in consumer.poll() if isinstance(record, Record)]
    assert sorted(key or b"" for key in found) == KEYS
    assert readers == {threading.current_thread()}


class Late:
    """Threads that begin to look once they may; whoever waits for them meanwhile is interrupted."""

    def __init__(self, patch: pytest.MonkeyPatch) -> None:
        self.began, self.go, self.ended = threading.Event(), threading.Event(), threading.Event()
        here, ask = threading.current_thread(), Beside._ask  # pyright: ignore[reportPrivateUsage]

        def asked(*given: Any) -> Any:
            if threading.current_thread() is here:
                self.began.wait(60)
            elif not self.began.is_set():
                self.began.set()
                self.go.wait(60)
                try:
                    return ask(*given)
                finally:
                    self.ended.set()
            return ask(*given)

        def interrupted(_: object) -> None:
            raise KeyboardInterrupt

        patch.setattr(Beside, "_ask", asked)
        patch.setattr(side_by_side._Batch, "wait", interrupted)  # pyright: ignore[reportPrivateUsage]


@pytest.mark.parametrize("iterates", [False, True])
def test_a_thread_that_is_late_counts_nothing_as_processed(
    clock: HandClock, topic: Topic, monkeypatch: pytest.MonkeyPatch, iterates: bool
) -> None:
    consumer = topic.consumer("c")
    if iterates:
        next(consumer)
    with monkeypatch.context() as patch:
        late = Late(patch)
        with pytest.raises(KeyboardInterrupt):
            consumer.poll()
    handed = [next(consumer)] if iterates else consumer.poll()
    clock.now_ms += 60_000
    late.go.set()
    late.ended.wait(60)
    assert sum(positions(topic)) <= int(iterates)
    consumer.commit()
    assert sum(positions(topic)) == len(handed) + int(iterates)


@pytest.mark.parametrize("store", [MemoryStore(), Meeting()], ids=["near", "far"])
def test_who_asks_to_stop_may_commit(clock: HandClock, store: MemoryStore) -> None:
    """Before, it waited for itself."""
    topic = Warehouse(Driver(store, clock)).create_topic("stop", PARTITIONS, probe=False)
    append(topic)
    asked = list[bool]()

    def stop() -> bool:
        if asked:
            consumer.commit()
        return bool(asked)

    consumer = topic.consumer("c", stop=stop)
    assert len(consumer.poll()) == len(KEYS)
    asked.append(True)
    assert consumer.poll(60_000) == []
    assert positions(topic) == ends(topic)


@pytest.mark.parametrize("made_of", [FailingStore, FarFailingStore])
def test_who_closes_in_a_signal_handler_does_not_wait_for_itself(clock: HandClock, made_of: type[FailingStore]) -> None:
    store = made_of()
    topic = Warehouse(Driver(store, clock)).create_topic("t", PARTITIONS, probe=False)
    append(topic)
    consumer = topic.consumer("c")
    handed = consumer.poll()

    def handled(_: str, __: str) -> None:
        store.before = lambda _request, _key: None
        consumer.close()

    store.before = handled
    with pytest.raises(InvalidRequest, match="closed"):
        consumer.poll()
    assert len(handed) == len(KEYS)
    assert positions(topic) == ends(topic)


def test_a_poll_is_not_empty_while_something_is_in_hand(clock: HandClock) -> None:
    """Before, one that had been found empty, then full, counted as empty."""
    topic = Warehouse(Driver(FarFailingStore(), clock)).create_topic("t", 4, probe=False)
    consumer, record = topic.consumer("c"), [Record(b"key", b"value")]
    found = list[int]()
    for numbers in ((0,), (1, 3), ()):
        for number in numbers:
            topic.partition(number).append(record)
        found += [number for number, _ in consumer.poll(0, max_records=1)]
    assert found == [0, 1, 3]


def test_what_was_found_before_the_time_was_over_is_handed_out(clock: HandClock) -> None:
    store = FarFailingStore()
    driver = Driver(store, clock)
    driver.monotonic_ms = clock
    answer = driver.answer
    topic = Warehouse(driver).create_topic("t", 3, probe=False)
    consumer = topic.consumer("c")

    def paused(request: Request[Any]) -> Any:
        if not isinstance(request, Pause):
            return answer(request)
        topic.partition(2).append([Record(b"key", b"value")])
        store.before = lambda *_: setattr(clock, "now_ms", clock.now_ms + 1_000)
        return None

    driver.answer = paused
    assert [number for number, _ in consumer.poll(500)] == [2]


@pytest.mark.parametrize("most", [None, 10])
def test_it_costs_little_more_than_one_after_the_other(
    clock: HandClock, monkeypatch: pytest.MonkeyPatch, most: int | None
) -> None:
    """Where half of them have much, and the others nothing. Before, each poll looked at all."""
    monkeypatch.setattr(follow, "STRETCH_RECORDS", 20)
    requests = [cost(made_of(), clock, most) for made_of in (FailingStore, FarFailingStore)]
    assert requests[1] <= 1.25 * requests[0]


def cost(store: FailingStore, clock: HandClock, most: int | None) -> int:
    """Requests to read all, by iterating or in polls of so many."""
    topic = Warehouse(Driver(store, clock)).create_topic("t", 2 * PARTITIONS, probe=False)
    for number in range(0, 2 * PARTITIONS, 2):
        topic.partition(number).append([Record(b"key", b"value")] * 200)
    asked = list[str]()
    consumer, left = topic.consumer("c"), 200 * PARTITIONS
    store.before = lambda request, _: asked.append(request)
    while left > 0:
        left -= len([next(consumer)] if most is None else consumer.poll(0, most))
    return len(asked)


def test_who_closes_after_an_interruption_waits_for_what_threads_still_read(
    topic: Topic, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Before, the thread went on in a consumer that was being closed."""
    began, go, order = threading.Event(), threading.Event(), list[str]()
    here, look = threading.current_thread(), Consumer.look_beside

    def slow(consumer: Consumer) -> int:
        if threading.current_thread() is here:
            began.wait(60)
            return look(consumer)
        began.set()
        go.wait(60)
        order.append("read")
        return look(consumer)

    def interrupted(_: object) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr(Consumer, "look_beside", slow)
    consumer = topic.consumer("c")
    with monkeypatch.context() as patch:
        patch.setattr(side_by_side._Batch, "wait", interrupted)  # pyright: ignore[reportPrivateUsage]
        with pytest.raises(KeyboardInterrupt):
            consumer.poll()
    closes = threading.Thread(target=lambda: (consumer.close(), order.append("closed")))
    closes.start()
    go.set()
    closes.join()
    assert order[-1] == "closed"
    assert "read" in order
    assert positions(topic) == [0] * PARTITIONS
    with topic.consumer("c") as other:
        assert len(other.poll()) == len(KEYS)
