"""Consumers of topics of several partitions in a far store: all are looked at, and committed, at once."""

import threading
from collections.abc import Callable

import pytest

from lithify.log import follow
from lithify.log.record import Record
from lithify.log.topic import Topic
from lithify.log.warehouse import Warehouse
from lithify.store import side_by_side
from lithify.store.driver import Driver
from tests.clock import HandClock
from tests.far import Meeting
from tests.log.compaction import compact

PARTITIONS = 6
KEYS = [b"%02d" % n for n in range(60)]


@pytest.fixture
def store() -> Meeting:
    return Meeting()


@pytest.fixture
def clock() -> HandClock:
    return HandClock()


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


@pytest.mark.parametrize("why", ["sorts", "much"])
def test_what_sorts_or_reads_much_is_asked_alone(
    store: Meeting, warehouse: Warehouse, topic: Topic, monkeypatch: pytest.MonkeyPatch, why: str
) -> None:
    if why == "sorts":
        for number in range(PARTITIONS):
            compact(warehouse, "t", number)
    else:
        monkeypatch.setattr(follow, "BESIDE_BYTES_MAX", 1)
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


def test_who_closes_after_an_interruption_waits_for_what_threads_still_read(
    store: Meeting, topic: Topic, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Before, the thread went on in a consumer that was being closed."""
    began, go, order = threading.Event(), threading.Event(), list[str]()
    here, read = threading.current_thread(), store.read

    def slow(key: str, start: int, length: int) -> bytes:
        answer = read(key, start, length)
        if threading.current_thread() is not here and not go.is_set():
            began.set()
            go.wait(60)
            order.append("read")
        return answer

    def interrupted(_: object) -> None:
        began.wait(60)
        raise KeyboardInterrupt

    monkeypatch.setattr(store, "read", slow)
    consumer = topic.consumer("c")
    store.all_meet(PARTITIONS, "segments")
    with monkeypatch.context() as patch:
        patch.setattr(side_by_side._Batch, "wait", interrupted)  # pyright: ignore[reportPrivateUsage]
        with pytest.raises(KeyboardInterrupt):
            consumer.poll()
    store.meets = None
    closes = threading.Thread(target=lambda: (consumer.close(), order.append("closed")))
    closes.start()
    go.set()
    closes.join()
    assert order[-1] == "closed"
    assert "read" in order
    assert positions(topic) == [0] * PARTITIONS
    with topic.consumer("c") as other:
        assert len(other.poll()) == len(KEYS)
