"""What a producer makes of requests that fail: tried again, settled, told as unknown, or told at once."""

from collections.abc import Sequence
from functools import partial

import pytest

from lithify.log.warehouse import Warehouse
from lithify.manifest.commit import CREATE_ATTEMPTS_MAX
from lithify.store.errors import AccessDenied, CommitUnknown, Unavailable
from lithify.testing.faults import Fault
from tests.log.conftest import HandClock, Make
from tests.log.producing import faulty, passes, values

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
