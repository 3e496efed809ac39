"""`with topic.producer()`: whoever keeps no delivery learns all the same what failed, of which kind, and by which token
to ask; and nobody's `close` returns while records are under way."""

import contextlib
import threading
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor, wait
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from lithify.log.batches import Delivery
from lithify.log.producer import Producer
from lithify.log.warehouse import Warehouse
from lithify.segment.partitioner import partition_for_key
from lithify.store.driver import Driver
from lithify.store.errors import CommitUnknown, LithifyError, NotFound, Unavailable
from lithify.store.memory import MemoryStore
from lithify.store.metered import Metered
from lithify.store.port import Outcome
from lithify.testing.faults import Fault, FaultyStore
from tests.clock import HandClock
from tests.log.conftest import Make
from tests.log.producing import WAIT_MS, Gated, values

PARTITIONS = 3
KEYS = {partition_for_key(b"%d" % number, PARTITIONS): b"%d" % number for number in range(20)}
CONFIG = {"linger.ms": 10**9, "batch.records": 1, "delivery.timeout.ms": 0}


class Fated(FaultyStore):
    """Every create of a partition's manifests meets the fault that is its own, while `gate` is open; others go well."""

    def __init__(self, warehouse: Warehouse, faults: dict[int, Fault]) -> None:
        super().__init__(warehouse.store, [])
        self.faults = faults
        self.gate = threading.Event()
        self.gate.set()

    def create(self, key: str, body: bytes, frees: bool = False) -> Outcome:
        if not key.endswith(".manifest"):
            return self.inner.create(key, body, frees)
        assert self.gate.wait(WAIT_MS / 1000)
        fault = self.faults[int(key.split("/")[2])]
        if fault is Fault.REFUSED:
            raise Unavailable(f"{key}: refused by the plan of this test")
        if fault in (Fault.NONE, Fault.LOST_REPLY):
            outcome = self.inner.create(key, body, frees)
            return outcome if fault is Fault.NONE else Outcome.UNKNOWN
        return Outcome.UNKNOWN


def all_text(error: BaseException | None) -> str:
    """What a person sees of it."""
    told: list[str] = []
    while error is not None:
        token = error.token if isinstance(error, CommitUnknown) else ""
        told += [str(error), token, *getattr(error, "__notes__", ())]
        error = error.__cause__
    return "\n".join(told)


def ends_by(block: Callable[[], object]) -> BaseException | None:
    try:
        block()
    except Exception as error:  # noqa: BLE001 - it is what is judged
        return error
    return None


BLOCKS = ("leaves", "raises its own", "raises NotFound", "appends on", "asks a delivery", "flushes", "closes")


@given(
    st.fixed_dictionaries({n: st.sampled_from([Fault.NONE, Fault.REFUSED, Fault.LOST_REPLY]) for n in range(3)}),
    st.lists(st.integers(0, PARTITIONS - 1), min_size=1, max_size=4),
    st.sampled_from(BLOCKS),
    st.integers(0, 3),
)
def test_the_token_of_whatever_is_unknown_is_told_by_the_block(
    faults: dict[int, Fault], places: list[int], block: str, which: int
) -> None:
    """By its error, the notes of it, or what caused it; and where the error is of this producer's making, by its kind.

    Tried on log/producer.py, and caught: nothing noted on what the block raises; its refusal left as it is. On
    log/producer_failure.py: notes without tokens, batches that failed beside the first left out, and a failure that is
    taken for told where another one is.
    """
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("lithify.store.driver.pause", lambda ms: None)
        whole = Warehouse(Driver(Metered(MemoryStore()), HandClock()))
        whole.create_topic("t", partitions=PARTITIONS, probe=False)
        store = Fated(whole, dict.fromkeys(faults, Fault.NONE))
        topic = Warehouse(Driver(store, HandClock())).topic("t")
        deliveries: list[Delivery] = []

        def use() -> None:
            with topic.producer(config=CONFIG) as producer:
                store.faults = faults
                store.gate.clear()  # until all are appended: a failure refuses what is appended after it
                try:
                    deliveries.extend(producer.append(KEYS[number], b"v") for number in places)
                finally:
                    store.gate.set()
                ends(producer, deliveries, block, which)

        error = ends_by(use)
    tokens: set[str] = set()
    for delivery in deliveries:
        with contextlib.suppress(Unavailable):
            try:
                delivery.offset(WAIT_MS)
            except CommitUnknown as unknown:
                tokens.add(unknown.token)
    assert all(token in all_text(error) for token in tokens)
    if tokens and block not in ("raises its own", "raises NotFound"):
        assert isinstance(error, CommitUnknown), "it is to be looked up before anything is sent again"
    if block == "raises its own":
        assert type(error) is ValueError
    if block == "raises NotFound":
        assert type(error) is NotFound
    if block in ("leaves", "flushes", "closes"):
        assert (error is None) == all(isinstance(delivery._batch.outcome.result(0), range) for delivery in deliveries)


def ends(producer: Producer, deliveries: list[Delivery], block: str, which: int) -> None:
    if block != "leaves":  # every batch has ended by then, or is refused with the first that failed
        for delivery in deliveries:
            delivery._batch.outcome.result(WAIT_MS / 1000)
    match block:
        case "raises its own":
            raise ValueError("the user's")
        case "raises NotFound":
            raise NotFound("the user's, of another topic")
        case "appends on":
            producer.append(KEYS[0], b"later")
        case "asks a delivery":
            deliveries[which % len(deliveries)].offset(WAIT_MS)
        case "flushes":
            producer.flush()
        case "closes":
            producer.close()
        case _:
            pass


@pytest.mark.usefixtures("no_waiting")
def test_a_refused_append_does_not_hide_what_is_unknown(warehouse: Warehouse) -> None:
    """Told as Unavailable, the whole block would be tried again."""
    topic = warehouse.create_topic("t")
    store = Fated(warehouse, {0: Fault.LOST_REPLY})
    lossy = Warehouse(Driver(store, HandClock())).topic("t")

    def use() -> None:
        with lossy.producer(config=CONFIG) as producer:
            first = producer.append(b"k", b"first")
            first._batch.outcome.result(WAIT_MS / 1000)
            producer.append(b"k", b"second")

    with pytest.raises(CommitUnknown) as told:
        use()
    assert isinstance(told.value.__cause__, Unavailable)
    assert told.value.token in str(told.value.__cause__)
    assert topic.partition(0).outcome(told.value.token) == range(1)


@pytest.mark.usefixtures("no_waiting")
@pytest.mark.parametrize("closers", [2, 4])
@pytest.mark.parametrize("fails", [False, True])
def test_nobodys_close_returns_while_records_are_under_way(
    warehouse: Warehouse, producer_of: Make, closers: int, fails: bool
) -> None:
    """Each is told, too, what prevented it. Tried on log/producer.py, and caught: a second `close` that does nothing
    as soon as a first has begun."""
    topic = warehouse.create_topic("t")
    store = Gated(warehouse, [Fault.REFUSED] * 1000 if fails else [])
    producer = producer_of(Warehouse(Driver(store, HandClock())), linger_ms=10**9, delivery_timeout_ms=0)
    delivery = producer.append(b"k", b"v")
    begun = threading.Semaphore(0)
    flush = producer.flush

    def closes() -> tuple[bool, bool]:
        try:
            producer.close()
        except LithifyError:
            return delivery.done(), True
        return delivery.done(), False

    def counted() -> None:
        begun.release()
        flush()

    producer.flush = counted  # whoever closes begins with it
    with ThreadPoolExecutor(closers) as pool:
        under_way = [pool.submit(closes) for _ in range(closers)]
        assert store.reached.wait(WAIT_MS / 1000)
        try:
            assert all(begun.acquire(timeout=WAIT_MS / 1000) for _ in range(closers)), "one did not wait"
            assert not any(future.done() for future in under_way)
        finally:
            store.gate.set()
        assert [future.result() for future in under_way] == [(True, fails)] * closers
    producer.close()
    assert values(topic) == ([] if fails else [b"v"])


def test_a_close_that_was_interrupted_can_be_repeated(
    warehouse: Warehouse, producer_of: Make, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Ctrl-C in it, and then the end of the block: that waits until the records are durable."""
    topic = warehouse.create_topic("t")
    store = Gated(warehouse)
    producer = producer_of(Warehouse(Driver(store, HandClock())), linger_ms=10**9)
    delivery = producer.append(b"k", b"v")

    def interrupted(_: object) -> None:
        raise KeyboardInterrupt

    def waited_for(futures: Any) -> None:
        store.gate.set()
        wait(futures)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("lithify.log.producer.wait", interrupted)
        patch.setattr(threading.Thread, "join", interrupted)
        with pytest.raises(KeyboardInterrupt):
            producer.close()
    monkeypatch.setattr("lithify.log.producer.wait", waited_for)
    try:
        producer.close()
        assert delivery.done()
    finally:
        store.gate.set()
    assert values(topic) == [b"v"]


@pytest.mark.usefixtures("no_waiting")
def test_what_failed_is_told_after_a_close_that_was_interrupted(warehouse: Warehouse, producer_of: Make) -> None:
    warehouse.create_topic("t")
    store = FaultyStore(warehouse.store, [Fault.REFUSED] * 1000)
    producer = producer_of(Warehouse(Driver(store, HandClock())), linger_ms=10**9, delivery_timeout_ms=0)
    producer.append(b"k", b"v")

    def interrupted(_: object) -> None:
        raise KeyboardInterrupt

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("lithify.log.producer.wait", interrupted)
        with pytest.raises(KeyboardInterrupt):
            producer.close()
    with pytest.raises(Unavailable, match="refused by the plan"):
        producer.close()
    producer.close()
