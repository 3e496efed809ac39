"""No wait for a producer is without an end: absurd times, senders that die, and producers that a fork hands down."""

import threading
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

import lithify
from lithify.log.producer import Producer
from lithify.log.warehouse import Warehouse
from lithify.segment.partitioner import partition_for_key
from lithify.store.driver import Driver
from lithify.store.errors import CommitUnknown, InvalidRequest, Unavailable
from lithify.testing.faults import Fault
from tests.clock import HandClock
from tests.log.conftest import Make
from tests.log.producing import WAIT_MS, Gated, values
from tests.log.test_forks import in_a_child

LONGEST_MS = 2**63 - 1
SENDER = "lithify-producer"


def ends(work: Callable[[], object]) -> None:
    """One that does not end fails here, and is left behind."""
    raised: list[BaseException] = []

    def run() -> None:
        try:
            work()
        except BaseException as error:  # noqa: BLE001 - raised below
            raised.append(error)

    thread = threading.Thread(target=run, daemon=True)
    thread.start()
    thread.join(WAIT_MS / 1000)
    assert not thread.is_alive(), "it waits for ever"
    if raised:
        raise raised[0]


@pytest.mark.parametrize("name", ["linger.ms", "max.block.ms", "delivery.timeout.ms"])
def test_any_time_that_is_taken_can_be_waited_for(warehouse: Warehouse, name: str) -> None:
    topic = warehouse.create_topic("t")
    settings = {"linger.ms": 10**9, "buffer.memory": 1000} | {name: LONGEST_MS}
    producer = topic.producer(config=settings)
    deliveries = [producer.append(b"k", b"%d" % number) for number in range(10)]
    ends(producer.flush)
    assert [delivery.offset(WAIT_MS) for delivery in deliveries] == list(range(10))
    ends(producer.close)


def test_room_is_waited_for_as_long_as_max_block_ms_says(
    warehouse: Warehouse, producer_of: Make, monkeypatch: pytest.MonkeyPatch
) -> None:
    """By the test's clock, which goes on while the caller waits. Tried on log/producer.py, and caught: a deadline that
    is over at once, and one that is counted from the wait."""
    hand = HandClock()

    class Waiting(threading.Condition):
        def wait(self, timeout: float | None = None) -> bool:
            if threading.current_thread().name.startswith(SENDER):
                return super().wait()
            assert timeout is not None
            hand.now_ms += min(1_000, round(timeout * 1_000))  # woken in between, and for nothing
            return False

    shim = SimpleNamespace(Condition=Waiting, Lock=threading.Lock, RLock=threading.RLock, Thread=threading.Thread)
    monkeypatch.setattr("lithify.log.producer.threading", shim)
    warehouse.create_topic("t")
    store = Gated(warehouse)
    gated = Warehouse(Driver(store, HandClock()))
    producer = producer_of(gated, clock=hand, buffer_memory=1000, batch_records=1, max_block_ms=5_500)
    for number in range(3):
        producer.append(None, b"%d" % number)
    began_ms = hand.now_ms
    try:
        with pytest.raises(Unavailable, match=r"buffer\.memory is full .* was not appended"):
            producer.append(None, b"refused")
    finally:
        store.gate.set()
    assert hand.now_ms - began_ms == 5_500


def test_a_large_record_is_not_overtaken_by_small_ones(warehouse: Warehouse, producer_of: Make) -> None:
    """First come, first served: those that come later wait behind it, though there is room for them. Tried on
    log/producer.py, and caught: whoever finds room takes it."""
    topic = warehouse.create_topic("t", partitions=2)
    store = Gated(warehouse)
    gated = Warehouse(Driver(store, HandClock()))
    hand = HandClock()
    producer = producer_of(gated, clock=hand, buffer_memory=2_000, batch_records=1, max_block_ms=10**9)
    producer.append(b"k", b"first")  # takes more than 256, so that there is no room for the large one
    threads: list[threading.Thread] = []

    def appends(value: bytes, waiting: int) -> None:
        thread = threading.Thread(target=lambda: producer.append(b"k", value), daemon=True)
        threads.append(thread)
        thread.start()
        with producer._changed:
            assert producer._changed.wait_for(lambda: len(producer._waiting) == waiting, WAIT_MS / 1000)

    appends(b"x" * 1_600, 1)
    appends(b"small", 2)
    appends(b"smaller", 3)
    assert [record.value for batch in producer._batches.all() for record in batch.records] == [b"first"]
    store.gate.set()
    for thread in threads:
        thread.join(WAIT_MS / 1000)
        assert not thread.is_alive()
    producer.close()
    assert values(topic, partition_for_key(b"k", 2)) == [b"first", b"x" * 1_600, b"small", b"smaller"]


def both_wait(producer: Producer) -> bool:
    """At the same moment."""
    with producer._changed:
        return len(producer._changed._waiters) == 2  # pyright: ignore


def test_whoever_gives_up_waiting_lets_the_next_one_pass(warehouse: Warehouse, producer_of: Make) -> None:
    """At once, and not when something else happens; until then nobody is busy. Tried on log/producer.py, and caught:
    who gives up stays in line, or wakes nobody; those who wait wake each other for ever."""
    warehouse.create_topic("t")
    store = Gated(warehouse)
    gated = Warehouse(Driver(store, HandClock()))
    hand = HandClock()
    producer = producer_of(gated, clock=hand, buffer_memory=2_000, batch_records=1, max_block_ms=10**9)
    producer.append(b"k", b"first")
    refused: list[Exception] = []

    def appends(value: bytes) -> threading.Thread:
        def run() -> None:
            try:
                producer.append(b"k", value)
            except Unavailable as error:
                refused.append(error)

        waiting = len(producer._waiting) + 1
        thread = threading.Thread(target=run, daemon=True)
        thread.start()
        with producer._changed:
            assert producer._changed.wait_for(lambda: len(producer._waiting) == waiting, WAIT_MS / 1000)
        hand.now_ms += 1
        return thread

    assert store.reached.wait(WAIT_MS / 1000)
    large, small = appends(b"x" * 1_700), appends(b"small")
    assert any(both_wait(producer) for _ in range(1_000)), "they wake each other"
    hand.now_ms += 10**9 - 2
    with producer._changed:
        producer._changed.notify()  # the large one: it has waited for longest, and its time is over
    large.join(WAIT_MS / 1000)
    small.join(WAIT_MS / 1000)
    try:
        assert [str(error).count("buffer.memory is full") for error in refused] == [1]
        assert not small.is_alive(), "it waits for what it need not"
    finally:
        store.gate.set()


def test_who_waits_for_room_while_the_producer_fails_is_refused(warehouse: Warehouse, producer_of: Make) -> None:
    """Its record would stand behind one that is not there. Tried on log/producer.py, and caught: no look at what failed
    once the wait is over."""
    topic = warehouse.create_topic("t")
    store = Gated(warehouse, [Fault.REFUSED])
    lossy = Warehouse(Driver(store, HandClock()))
    producer = producer_of(lossy, buffer_memory=1, batch_records=1, delivery_timeout_ms=0)
    first = producer.append(b"k", b"1")
    waits, hurry = threading.Event(), producer._batches.hurry

    def hurried(now_ms: int) -> bool:
        waits.set()  # it found no room, and holds the lock until it waits
        return hurry(now_ms)

    producer._batches.hurry = hurried
    with ThreadPoolExecutor(1) as pool:
        second = pool.submit(producer.append, b"k", b"2")
        assert waits.wait(WAIT_MS / 1000)
        store.gate.set()
        with pytest.raises(Unavailable, match="the record was not appended, since its producer had failed"):
            second.result(WAIT_MS / 1000)
    with pytest.raises(Unavailable, match="refused by the plan"):
        first.offset(WAIT_MS)
    with pytest.raises(Unavailable):
        producer.close()
    assert values(topic) == []


def test_flush_sends_every_batch_of_a_partition_and_not_its_first_alone(
    warehouse: Warehouse, producer_of: Make
) -> None:
    """While one is being sent a full one waits behind it, and behind that one that lingers. Tried on log/batches.py,
    and caught: a hurry that reaches the first batch of each partition alone."""
    topic = warehouse.create_topic("t")
    store = Gated(warehouse)
    gated = Warehouse(Driver(store, HandClock()))
    producer = producer_of(gated, batch_records=2, linger_ms=10**9)
    for number in range(5):
        producer.append(b"k", b"%d" % number)
    assert store.reached.wait(WAIT_MS / 1000)
    begun, flush = threading.Event(), producer._batches.hurry

    def hurry(now_ms: int) -> bool:
        begun.set()
        return flush(now_ms)

    producer._batches.hurry = hurry
    flushing = threading.Thread(target=producer.flush, daemon=True)
    flushing.start()
    assert begun.wait(WAIT_MS / 1000)
    store.gate.set()
    flushing.join(WAIT_MS / 1000)
    try:
        assert not flushing.is_alive(), "a batch lingers on"
    finally:
        producer._batches.hurry = flush
        producer._batches._queues[0].waiting.clear()
    assert values(topic) == [b"%d" % number for number in range(5)]


@pytest.mark.parametrize("timeout_ms", [LONGEST_MS, 10**400])
def test_a_delivery_can_be_asked_for_any_time(warehouse: Warehouse, timeout_ms: int) -> None:
    producer = warehouse.create_topic("t").producer(config={"linger.ms": 0})
    assert producer.append(b"k", b"v").offset(timeout_ms) == 0
    producer.close()


@pytest.mark.parametrize("fault", [SystemExit, MemoryError, KeyboardInterrupt])
def test_a_sender_that_dies_with_a_batch_fails_the_producer(
    warehouse: Warehouse, producer_of: Make, monkeypatch: pytest.MonkeyPatch, fault: type[BaseException]
) -> None:
    """Nobody knows how far it came; and what waited behind it was not sent."""
    warehouse.create_topic("t")
    store = Gated(warehouse)

    def dies(*_: Any, **__: Any) -> None:
        store.reached.set()
        assert store.gate.wait(WAIT_MS / 1000)
        raise fault("record contents")

    monkeypatch.setattr("lithify.log.producer.deliver", dies)
    producer = producer_of(warehouse, batch_records=1)
    first, second = producer.append(b"k", b"1"), producer.append(b"k", b"2")
    store.gate.set()
    with pytest.raises(CommitUnknown, match=f"t/0: sending a batch ended with {fault.__name__}, a bug in") as told:
        first.offset(WAIT_MS)
    assert "contents" not in str(told.value)
    for ask in (lambda: second.offset(WAIT_MS), lambda: producer.append(b"k", b"3")):
        with pytest.raises(Unavailable, match="the record was not appended"):
            ask()
    for ask in (producer.flush, producer.close):
        with pytest.raises(CommitUnknown):
            ends(ask)


def test_a_sender_that_dies_without_a_batch_fails_the_producer(warehouse: Warehouse, producer_of: Make) -> None:
    warehouse.create_topic("t")
    broken = False

    def clock() -> int:
        if broken and threading.current_thread().name.startswith(SENDER):
            raise ZeroDivisionError
        return 0

    producer = producer_of(warehouse, clock=clock)
    delivery = producer.append(b"k", b"v")
    broken = True
    with pytest.raises(Unavailable, match=r"topic t: a thread that sends records ended with ZeroDivisionError"):
        ends(producer.flush)
    with pytest.raises(Unavailable, match="the record was not appended"):
        delivery.offset(WAIT_MS)
    with pytest.raises(Unavailable, match="the record was not appended"):
        producer.append(b"k", b"v")


@pytest.mark.parametrize("there_are", [0, 1])
def test_a_machine_without_threads(
    warehouse: Warehouse, producer_of: Make, monkeypatch: pytest.MonkeyPatch, there_are: int
) -> None:
    topic = warehouse.create_topic("t", partitions=5)
    start, left = threading.Thread.start, iter(range(there_are))

    def starts(thread: threading.Thread) -> None:
        if thread.name.startswith(SENDER) and next(left, None) is None:
            raise RuntimeError("can't start new thread")
        start(thread)

    monkeypatch.setattr(threading.Thread, "start", starts)
    if not there_are:
        with pytest.raises(Unavailable, match="no thread can be started"):
            producer_of(warehouse)
        return
    producer = producer_of(warehouse)
    for number in range(20):
        producer.append(b"%d" % number, b"v")
    ends(producer.close)
    assert sum(len(values(topic, number)) for number in range(5)) == 20


@pytest.mark.filterwarnings("ignore:.*fork.*:DeprecationWarning")
def test_a_forked_process_is_refused_and_opens_its_own(tmp_path: Path) -> None:
    topic = lithify.open(str(tmp_path / "w")).create_topic("t", probe=False)
    producer = topic.producer(config={"linger.ms": 10**9})
    delivery = producer.append(b"k", b"parent")

    def child() -> None:
        assert not producer._process.is_here
        for ask in (lambda: producer.append(b"k", b"child"), producer.flush, delivery.offset, delivery.done):
            with pytest.raises(InvalidRequest, match=r"open another one here|ask there"):
                ask()
        producer.close()
        with topic.producer() as own:
            own.append(b"k", b"child")

    with producer._changed:  # as a thread of the parent's may hold it
        assert in_a_child(child) == 0
    producer.close()
    assert sorted(record.value or b"" for record in topic.partition(0).read()) == [b"child", b"parent"]
