"""A producer that failed: what was never sent is told so, tokens tell the truth, and being told costs no memory."""

import contextlib
import gc
import itertools
import threading
import tracemalloc
import weakref
from collections.abc import Callable, Sequence
from functools import partial

import pytest

from lithify.log.warehouse import Warehouse
from lithify.manifest.parts import CREATE_ATTEMPTS_MAX
from lithify.segment.partitioner import partition_for_key
from lithify.store.driver import Driver
from lithify.store.errors import CommitUnknown, Fenced, LithifyError, Unavailable
from lithify.store.port import Outcome
from lithify.testing.faults import Fault, FaultyStore
from tests.clock import HandClock
from tests.log.conftest import Make
from tests.log.producing import WAIT_MS, Gated, faulty, passes, values

pytestmark = pytest.mark.usefixtures("no_waiting")

HAPPENED = [Fault.LOST_REPLY] + [Fault.LOST_REQUEST] * 1000
DID_NOT = [Fault.LOST_REQUEST] * 1000
UNKNOWN = {"it happened": HAPPENED, "it did not": DID_NOT}


@pytest.mark.parametrize("plan", UNKNOWN.values(), ids=UNKNOWN)
@pytest.mark.parametrize("producer_id", [None, "me"])
def test_what_was_never_sent_is_told_as_not_appended(
    warehouse: Warehouse, producer_of: Make, plan: Sequence[Fault], producer_id: str | None
) -> None:
    topic = warehouse.create_topic("t")
    store = Gated(warehouse, [*[Fault.NONE] * (producer_id is not None), *plan])
    lossy = Warehouse(Driver(store, HandClock()))
    producer = producer_of(lossy, producer_id=producer_id, batch_records=1, delivery_timeout_ms=0)
    first, *unsent = [producer.append(b"k", b"%d" % number) for number in range(4)]
    store.gate.set()
    with pytest.raises(CommitUnknown) as unknown:
        first.offset(WAIT_MS)
    for ask in (*(delivery.offset for delivery in unsent), lambda _: producer.append(b"k", b"later")):
        with pytest.raises(Unavailable, match=r"was not appended, since its producer had failed .* Open another"):
            ask(WAIT_MS)
    with pytest.raises(CommitUnknown) as flushed:
        producer.flush()
    assert flushed.value.token == unknown.value.token
    happened = topic.partition(0).outcome(unknown.value.token, settle=True)
    assert (happened, values(topic)) == ((range(1), [b"0"]) if plan is HAPPENED else (None, []))


def test_what_was_never_sent_is_refused_by_the_kind_of_what_failed(warehouse: Warehouse, producer_of: Make) -> None:
    warehouse.create_topic("t")
    store = Gated(warehouse)
    producer = producer_of(Warehouse(Driver(store, HandClock())), producer_id="me", batch_records=1)
    deliveries = [producer.append(b"k", b"%d" % number) for number in range(3)]
    warehouse.topic("t").producer("me").close()
    store.gate.set()
    with pytest.raises(Fenced, match=r"^t/0: producer 'me' was opened again"):
        deliveries[0].offset(WAIT_MS)
    with pytest.raises(Fenced, match=r"the record was not appended, .* before it was sent: t/0: producer 'me' was op"):
        deliveries[2].offset(WAIT_MS)


class _ByPartition(Gated):
    """Every create of a partition meets the fault that is its own."""

    def __init__(self, warehouse: Warehouse, faults: Sequence[Fault]) -> None:
        super().__init__(warehouse)
        self.faults = faults
        self.reached_in = [threading.Event() for _ in faults]

    def put(self, key: str, body: bytes) -> None:
        self.reached_in[int(key.split("/")[2])].set()
        super().put(key, body)

    def create(self, key: str, body: bytes, frees: bool = False) -> Outcome:
        fault = self.faults[int(key.split("/")[2])]
        if fault is Fault.REFUSED:
            raise Unavailable(f"{key}: refused by the plan of this test")
        if fault is Fault.LOST_REPLY:
            self.inner.create(key, body, frees)
        return Outcome.UNKNOWN


def test_batches_that_fail_side_by_side_are_all_told(warehouse: Warehouse, producer_of: Make) -> None:
    """One that is unknown is told before others, since it is to be looked up first."""
    topic = warehouse.create_topic("t", partitions=3)
    keys = {partition_for_key(b"%d" % number, 3): b"%d" % number for number in range(20)}
    store = _ByPartition(warehouse, [Fault.REFUSED, Fault.LOST_REPLY, Fault.LOST_REQUEST])
    producer = producer_of(Warehouse(Driver(store, HandClock())), batch_records=1, delivery_timeout_ms=0)
    deliveries = [producer.append(keys[number], b"v") for number in range(3)]
    assert all(reached.wait(WAIT_MS / 1000) for reached in store.reached_in)
    store.gate.set()
    tokens: list[str] = []
    for number in (1, 2):
        with pytest.raises(CommitUnknown) as unknown:
            deliveries[number].offset(WAIT_MS)
        tokens.append(unknown.value.token)
        happened = topic.partition(number).outcome(unknown.value.token, settle=True)
        assert happened == (range(1) if number == 1 else None)
    with pytest.raises(Unavailable, match="refused by the plan"):
        deliveries[0].offset(WAIT_MS)
    with pytest.raises(CommitUnknown) as flushed:
        producer.flush()
    told = [flushed.value.token, *flushed.value.__notes__]
    assert len(told) == 3
    assert all(sum(token in text for text in told) == 1 for token in tokens)
    assert sum("refused by the plan" in text for text in told) == 1


@pytest.mark.parametrize("producer_id", [None, "me"])
def test_a_token_speaks_of_the_one_append_that_may_have_happened(
    warehouse: Warehouse, producer_of: Make, producer_id: str | None, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Sent twice, and both unknown: of the first it would have been said that it did not happen."""
    topic = warehouse.create_topic("t")
    never = [Fault.LOST_REQUEST] * CREATE_ATTEMPTS_MAX
    for happens in range(4):
        plan = [*never * happens, *HAPPENED]
        hand = HandClock()
        monkeypatch.setattr("lithify.store.driver.pause", partial(passes, hand))
        lossy, _ = faulty(warehouse, 0 if producer_id is None else 1, plan)
        value = b"%d" % happens
        delivery = producer_of(lossy, producer_id=producer_id, clock=hand, linger_ms=0).append(b"k", value)
        try:
            there = delivery.offset(WAIT_MS) >= 0
        except CommitUnknown as unknown:
            there = topic.partition(0).outcome(unknown.token, settle=True) is not None
        assert values(topic).count(value) == there, happens


@pytest.mark.parametrize("first", [Fault.LOST_REPLY, Fault.LOST_REQUEST, Fault.LATE])
def test_what_is_unknown_when_the_producer_is_fenced_is_settled_first(
    warehouse: Warehouse, producer_of: Make, first: Fault, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Told as fenced, it would be sent again by whoever took over."""
    topic = warehouse.create_topic("t")
    plan = [first] + [Fault.LOST_REQUEST] * (CREATE_ATTEMPTS_MAX - 1)
    lossy, store = faulty(warehouse, 1, plan)
    producer = producer_of(lossy, producer_id="me", linger_ms=10**9)
    delivery = producer.append(b"k", b"v")
    pauses = itertools.count(1)

    def opened_elsewhere(_: int) -> None:
        if next(pauses) == CREATE_ATTEMPTS_MAX - 1:
            warehouse.topic("t").partition(0).open_producer("me")

    monkeypatch.setattr("lithify.store.driver.pause", opened_elsewhere)
    with contextlib.suppress(Fenced):
        producer.flush()
    store.deliver()
    if first is Fault.LOST_REPLY:
        assert (delivery.offset(), values(topic)) == (0, [b"v"])
    else:
        with pytest.raises(Fenced):
            delivery.offset(WAIT_MS)
        assert values(topic) == []


@pytest.mark.parametrize("producer_id", [None, "me"])
def test_what_is_told_as_not_appended_does_not_arrive_late(
    warehouse: Warehouse, producer_of: Make, producer_id: str | None, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It may be on its way while the producer settles it; then nothing more can be sent. Tried on log/append.py, and
    caught: a settling that takes no number, and says that it did not happen."""
    topic = warehouse.create_topic("t")
    hand = HandClock()
    monkeypatch.setattr("lithify.store.driver.pause", partial(passes, hand))

    class SendsOnce(FaultyStore):
        def put(self, key: str, body: bytes) -> None:
            if any(fault is Fault.LATE for _, fault in self.attempts):
                raise Unavailable(f"{key}: refused by the plan of this test")
            super().put(key, body)

    opening = [Fault.NONE] * (producer_id is not None)
    store = SendsOnce(warehouse.store, [*opening, Fault.LATE, *[Fault.LOST_REQUEST] * (CREATE_ATTEMPTS_MAX - 1)])
    producer = producer_of(Warehouse(Driver(store, HandClock())), producer_id=producer_id, clock=hand)
    delivery = producer.append(b"k", b"v")
    with pytest.raises(Unavailable, match="refused by the plan"):
        producer.flush()
    with pytest.raises(Unavailable, match="refused by the plan"):
        delivery.offset(WAIT_MS)
    store.deliver()
    assert values(topic) == []


class _Local:
    """Of a frame that a traceback would keep."""


def test_being_refused_again_and_again_keeps_nothing(warehouse: Warehouse, producer_of: Make) -> None:
    """Each raise of one and the same exception keeps the frames that it went through, and what they hold."""
    warehouse.create_topic("t")
    lossy, _ = faulty(warehouse, 0, DID_NOT)
    producer = producer_of(lossy, batch_records=1, delivery_timeout_ms=0)
    sent = producer.append(b"k", b"v")
    with pytest.raises(CommitUnknown):
        producer.flush()
    kept: list[weakref.ref[_Local]] = []

    def refused(ask: Callable[[], object]) -> None:
        local = _Local()
        kept.append(weakref.ref(local))
        with contextlib.suppress(LithifyError):
            ask()

    for ask in (lambda: producer.append(b"k", b"v"), sent.offset, producer.flush, producer.close):
        refused(ask)
    gc.collect()
    assert [local() for local in kept] == [None] * 4


def test_a_delivery_does_not_keep_its_record(warehouse: Warehouse) -> None:
    with warehouse.create_topic("t").producer() as producer:
        tracemalloc.start()
        try:
            deliveries = [producer.append(b"k", b"%d" % number * 100_000) for number in range(100)]
            producer.flush()
            gc.collect()
            assert tracemalloc.get_traced_memory()[0] < 5_000_000
        finally:
            tracemalloc.stop()
    assert deliveries[-1].offset() == 99


def test_the_time_of_a_batch_is_counted_from_when_it_is_due(warehouse: Warehouse, producer_of: Make) -> None:
    """Behind another that took as long it is tried once, and told. Tried on log/producer.py, and caught: a time that
    begins with the sending."""
    topic = warehouse.create_topic("t")
    hand = HandClock()

    class Slow(Gated):
        def put(self, key: str, body: bytes) -> None:
            super().put(key, body)
            hand.now_ms += 120_000 * (not self.attempts)  # the first alone

    store = Slow(warehouse, [Fault.NONE, *[Fault.REFUSED] * 1000])
    producer = producer_of(Warehouse(Driver(store, HandClock())), clock=hand, batch_records=1)
    first, second = producer.append(b"k", b"1"), producer.append(b"k", b"2")
    store.gate.set()
    assert first.offset(WAIT_MS) == 0
    with pytest.raises(Unavailable, match="refused by the plan"):
        second.offset(WAIT_MS)
    assert [fault for _, fault in store.attempts].count(Fault.REFUSED) == 1
    assert values(topic) == [b"1"]
