"""What a producer makes of requests that fail: tried again, settled, told as unknown, or told at once."""

import threading
from collections.abc import Sequence
from functools import partial

import pytest

from lithify.log.record import Record
from lithify.log.warehouse import Warehouse
from lithify.manifest.parts import CREATE_ATTEMPTS_MAX
from lithify.store.driver import Driver
from lithify.store.errors import AccessDenied, CommitUnknown, LithifyError, Unavailable
from lithify.testing.faults import Fault, FaultyStore
from tests.clock import HandClock
from tests.log.conftest import Make
from tests.log.producing import WAIT_MS, faulty, passes, values

pytestmark = pytest.mark.usefixtures("no_waiting")

NEVER_TOLD = {
    "it happened": [Fault.LOST_REPLY] + [Fault.LOST_REQUEST] * (CREATE_ATTEMPTS_MAX - 1),
    "it did not": [Fault.LOST_REQUEST] * CREATE_ATTEMPTS_MAX,
    "it is late": [Fault.LATE] + [Fault.LOST_REQUEST] * (CREATE_ATTEMPTS_MAX - 1),
    "twice": [Fault.LATE] + [Fault.LOST_REQUEST] * (2 * CREATE_ATTEMPTS_MAX - 1),
}


@pytest.mark.parametrize("producer_id", [None, "me"])
@pytest.mark.parametrize("plan", NEVER_TOLD.values(), ids=NEVER_TOLD)
def test_unknown_commits_are_made_good_once(
    warehouse: Warehouse,
    producer_of: Make,
    producer_id: str | None,
    plan: Sequence[Fault],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Within the time that a batch has: the clock goes on while it waits. Tried on log/delivering.py, and caught: the
    outcome asked for without `settle`."""
    topic = warehouse.create_topic("t")
    hand = HandClock()
    monkeypatch.setattr("lithify.store.driver.pause", partial(passes, hand))
    lossy, store = faulty(warehouse, 0 if producer_id is None else 1, plan)
    producer = producer_of(lossy, producer_id=producer_id, clock=hand, linger_ms=10**9)
    first = producer.append(b"k", b"1")
    producer.flush()
    store.deliver()
    second = producer.append(b"k", b"2")
    producer.close()
    store.deliver()
    assert (first.offset(), second.offset()) == (0, 1)
    assert values(topic) == [b"1", b"2"]


def test_what_stays_unknown_is_told_as_such(warehouse: Warehouse, producer_of: Make) -> None:
    warehouse.create_topic("t")
    lossy, _ = faulty(warehouse, 0, [Fault.LOST_REQUEST] * 1000)
    producer = producer_of(lossy, delivery_timeout_ms=0)
    delivery = producer.append(b"k", b"1")
    with pytest.raises(CommitUnknown) as unknown:
        producer.close()
    with pytest.raises(CommitUnknown):
        delivery.offset()
    assert warehouse.topic("t").partition(0).outcome(unknown.value.token, settle=True) is None


def test_what_is_unavailable_is_tried_until_the_time_is_over(warehouse: Warehouse, producer_of: Make) -> None:
    topic = warehouse.create_topic("t")
    lossy, store = faulty(warehouse, 0, [Fault.REFUSED] * 3)
    producer = producer_of(lossy)
    producer.append(b"k", b"1")
    producer.flush()
    assert ([fault for _, fault in store.attempts].count(Fault.REFUSED), values(topic)) == (3, [b"1"])
    lossy, _ = faulty(warehouse, 0, [Fault.REFUSED] * 1000)
    impatient = producer_of(lossy, delivery_timeout_ms=0)
    impatient.append(b"k", b"2")
    with pytest.raises(Unavailable):
        impatient.flush()
    assert values(topic) == [b"1"]


def test_pauses_between_tries_grow_and_end_with_the_time(
    warehouse: Warehouse, producer_of: Make, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Tried on log/delivering.py, and caught: pauses that stay as they began, and none."""
    warehouse.create_topic("t")
    hand, pauses_ms = HandClock(), list[int]()

    def pause(ms: int) -> None:
        assert len(pauses_ms) < 100, "it is tried for ever"
        pauses_ms.append(ms)
        hand.now_ms += ms

    monkeypatch.setattr("lithify.store.driver.pause", pause)
    lossy, store = faulty(warehouse, 0, [Fault.REFUSED] * 1000)
    producer = producer_of(lossy, clock=hand, batch_records=1, delivery_timeout_ms=17_500)
    with pytest.raises(Unavailable):
        producer.append(b"k", b"v").offset(WAIT_MS)
    assert pauses_ms == [100, 200, 400, 800, 1_600, 3_200, 5_000, 5_000, 1_200]
    assert [fault for _, fault in store.attempts].count(Fault.REFUSED) == len(pauses_ms) + 1


@pytest.mark.parametrize("producer_id", [None, "me"])
def test_who_is_denied_access_is_told_at_once(warehouse: Warehouse, producer_of: Make, producer_id: str | None) -> None:
    topic = warehouse.create_topic("t")
    lossy, store = faulty(warehouse, 0 if producer_id is None else 1, [Fault.DENIED] * 1000)
    producer = producer_of(lossy, producer_id=producer_id)
    delivery = producer.append(b"k", b"1")
    with pytest.raises(AccessDenied):
        producer.flush()
    with pytest.raises(AccessDenied):
        delivery.offset()
    assert [fault for _, fault in store.attempts].count(Fault.DENIED) == 1
    assert values(topic) == []


@pytest.mark.parametrize("first", [Fault.LATE, Fault.LOST_REQUEST])
def test_what_may_have_happened_before_access_was_denied_stays_unknown(
    warehouse: Warehouse, producer_of: Make, first: Fault
) -> None:
    """Told as denied, the record would be sent again, and be there twice."""
    topic = warehouse.create_topic("t")
    plan = [first] + [Fault.LOST_REQUEST] * (CREATE_ATTEMPTS_MAX - 1) + [Fault.DENIED] * 1000
    lossy, store = faulty(warehouse, 1, plan)
    producer = producer_of(lossy, producer_id="me")
    producer.append(b"k", b"1")
    with pytest.raises(CommitUnknown):
        producer.flush()
    store.deliver()
    assert values(topic) == ([] if first is Fault.LOST_REQUEST else [b"1"])


def test_what_happened_before_access_was_denied_is_acknowledged(warehouse: Warehouse, producer_of: Make) -> None:
    topic = warehouse.create_topic("t")
    plan = [Fault.LOST_REPLY] + [Fault.LOST_REQUEST] * (CREATE_ATTEMPTS_MAX - 1) + [Fault.DENIED] * 1000
    lossy, _ = faulty(warehouse, 1, plan)
    producer = producer_of(lossy, producer_id="me")
    delivery = producer.append(b"k", b"1")
    producer.flush()
    assert (delivery.offset(), values(topic)) == (0, [b"1"])


NEARLY_FULL = 6  # of 8: appends give way to compaction


@pytest.mark.parametrize("timeout_ms", [0, 10_000])
def test_a_batch_whose_time_is_over_is_tried_though_compaction_is_behind(
    warehouse: Warehouse, producer_of: Make, timeout_ms: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Before, the pause that gives way to compaction was refused, and with it the whole producer. Tried, and caught: on
    log/append.py a pause like any other; on log/delivering.py no pause that is left out, and one that always is."""
    topic = warehouse.create_topic("t", config={"l0.segments.max": 8})
    for number in range(NEARLY_FULL):
        topic.partition(0).append([Record(b"k", b"%d" % number)])
    hand = HandClock()
    paused: list[int] = []

    def pause(ms: int) -> None:
        paused.append(ms)
        hand.now_ms += ms

    monkeypatch.setattr("lithify.store.driver.pause", pause)
    producer = producer_of(warehouse, clock=hand, batch_records=1, delivery_timeout_ms=timeout_ms)
    assert producer.append(b"k", b"v").offset(WAIT_MS) == NEARLY_FULL
    assert bool(paused) is bool(timeout_ms), "while there is time it gives way"


def test_a_batch_whose_time_is_over_is_tried_though_others_append(warehouse: Warehouse, producer_of: Make) -> None:
    """It knows no newer manifest than its last, so its first try meets theirs. Tried on manifest/commit.py, and caught:
    a pause for rivals that is like any other."""
    topic = warehouse.create_topic("t")
    producer = producer_of(warehouse, batch_records=1, delivery_timeout_ms=0)
    assert producer.append(b"k", b"0").offset(WAIT_MS) == 0
    for number in range(1, 9, 2):
        topic.partition(0).append([Record(b"k", b"rival")])
        assert producer.append(b"k", b"mine").offset(WAIT_MS) == number + 1


def test_a_full_partition_is_named_by_whoever_gives_up(warehouse: Warehouse, producer_of: Make) -> None:
    topic = warehouse.create_topic("t", config={"l0.segments.max": 8})
    for number in range(8):
        topic.partition(0).append([Record(b"k", b"%d" % number)])
    producer = producer_of(warehouse, batch_records=1, delivery_timeout_ms=0)
    with pytest.raises(Unavailable, match=r"^t/0 holds 8 L0 segments, its limit: compaction is behind\. Nothing was"):
        producer.append(b"k", b"v").offset(WAIT_MS)


@pytest.mark.parametrize("over_after", range(40))
def test_what_is_unknown_stays_so_whenever_its_time_is_over(
    warehouse: Warehouse, producer_of: Make, over_after: int
) -> None:
    """The time may be over between any two looks at the clock. Tried on log/delivering.py, and caught: a pause that is
    refused after what is unknown was found to have time left; it was told as not appended."""
    topic = warehouse.create_topic("t")
    left = iter(range(over_after))
    sending = threading.Event()

    def clock() -> int:
        if not sending.is_set() or threading.current_thread() is threading.main_thread():
            return 0
        return 0 if next(left, None) is not None else 120_001

    class Sends(FaultyStore):
        def put(self, key: str, body: bytes) -> None:
            super().put(key, body)
            sending.set()

    plan = [Fault.LOST_REPLY, *[Fault.LOST_REQUEST] * 1000]
    lossy = Warehouse(Driver(Sends(warehouse.store, plan), HandClock()))
    producer = producer_of(lossy, clock=clock, batch_records=1, delivery_timeout_ms=120_000)
    delivery = producer.append(b"k", b"v")
    try:
        there = delivery.offset(WAIT_MS) >= 0
    except CommitUnknown as unknown:
        there = topic.partition(0).outcome(unknown.token, settle=True) is not None
    except LithifyError:
        there = False
    assert there
    assert values(topic) == [b"v"]
