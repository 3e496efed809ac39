"""A lost reply, in every way it can be lost: the append happens once or not at all, and one can find out (P1, P6)."""

import itertools
from collections.abc import Sequence

import pytest

from lithify.log.partition import Partition
from lithify.log.record import Record
from lithify.log.warehouse import Warehouse
from lithify.manifest.keys import SegmentId
from lithify.manifest.parts import CREATE_ATTEMPTS_MAX
from lithify.store.driver import Driver
from lithify.store.errors import CommitUnknown, InvalidRequest, NotFound, Unavailable
from lithify.testing.faults import Fault, FaultyStore
from tests.clock import HandClock
from tests.log.compaction import collect, compact, files_of

pytestmark = pytest.mark.usefixtures("no_waiting")

COMPACTED = {"cleanup.policy": "compact"}
NEVER_TOLD = {
    "it never happens": [Fault.LOST_REQUEST] * CREATE_ATTEMPTS_MAX,
    "the first happens late": [Fault.LATE] + [Fault.LOST_REQUEST] * (CREATE_ATTEMPTS_MAX - 1),
}


def faulty(warehouse: Warehouse, plan: Sequence[Fault], clock: HandClock) -> tuple[Partition, FaultyStore]:
    """A warm handle whose next creates meet `plan`."""
    store = FaultyStore(warehouse.store, [Fault.NONE, *plan])
    part = Warehouse(Driver(store, clock)).topic("t").partition(0)
    assert part.append([Record(b"k", b"before")]) == range(1)
    return part, store


def values(warehouse: Warehouse) -> list[bytes | None]:
    return [record.value for record in warehouse.topic("t").partition(0).read()]


TOLD_AT_LAST = [
    plan
    for plan in itertools.product([Fault.LOST_REPLY, Fault.LOST_REQUEST, Fault.LATE, Fault.TWICE], repeat=2)
    if Fault.LATE not in plan or plan[-1] is not Fault.LATE
]


@pytest.mark.parametrize("rival", [False, True])
@pytest.mark.parametrize("plan", TOLD_AT_LAST, ids=lambda plan: "-".join(fault.name for fault in plan))
def test_lost_replies_are_made_good_within_one_append(
    warehouse: Warehouse, clock: HandClock, plan: Sequence[Fault], rival: bool
) -> None:
    warehouse.create_topic("t")
    part, store = faulty(warehouse, plan, clock)
    if rival:
        warehouse.topic("t").partition(0).append([Record(b"k", b"rival")])
    at = 2 if rival else 1
    assert part.append([Record(b"k", b"mine")]) == range(at, at + 1)
    store.deliver()
    assert values(warehouse) == [b"before", *([b"rival"] if rival else []), b"mine"]


def test_a_refused_create_is_unavailable_and_did_not_happen(warehouse: Warehouse, clock: HandClock) -> None:
    warehouse.create_topic("t")
    part, _ = faulty(warehouse, [Fault.LOST_REQUEST, Fault.REFUSED], clock)
    with pytest.raises((CommitUnknown, Unavailable)) as told:
        part.append([Record(b"k", b"mine")])
    # The first request may still be on its way, so this is no plain Unavailable.
    assert isinstance(told.value, CommitUnknown)
    assert values(warehouse) == [b"before"]


def lost(warehouse: Warehouse, clock: HandClock, plan: Sequence[Fault]) -> tuple[str, FaultyStore]:
    part, store = faulty(warehouse, plan, clock)
    with pytest.raises(CommitUnknown) as unknown:
        part.append([Record(b"k", b"mine")])
    return unknown.value.token, store


@pytest.mark.parametrize("plan", NEVER_TOLD.values(), ids=NEVER_TOLD)
def test_while_its_number_is_vacant_an_append_may_still_arrive(
    warehouse: Warehouse, clock: HandClock, plan: Sequence[Fault]
) -> None:
    warehouse.create_topic("t")
    token, store = lost(warehouse, clock, plan)
    part = warehouse.topic("t").partition(0)
    with pytest.raises(CommitUnknown, match="may still arrive") as still:
        part.outcome(token)
    assert still.value.token == token
    store.deliver()
    if Fault.LATE in plan:
        assert part.outcome(token) == range(1, 2)
        assert values(warehouse) == [b"before", b"mine"]


@pytest.mark.parametrize("plan", NEVER_TOLD.values(), ids=NEVER_TOLD)
def test_settling_takes_the_number_from_a_late_arrival(
    warehouse: Warehouse, clock: HandClock, plan: Sequence[Fault]
) -> None:
    warehouse.create_topic("t")
    token, store = lost(warehouse, clock, plan)
    part = warehouse.topic("t").partition(0)
    assert part.outcome(token, settle=True) is None
    store.deliver()
    assert part.outcome(token) is None
    assert values(warehouse) == [b"before"]
    assert part.append([Record(b"k", b"next")]) == range(1, 2)


def test_settling_finds_what_arrived_first(warehouse: Warehouse, clock: HandClock) -> None:
    warehouse.create_topic("t")
    token, store = lost(warehouse, clock, NEVER_TOLD["the first happens late"])
    store.deliver()
    assert warehouse.topic("t").partition(0).outcome(token, settle=True) == range(1, 2)


def test_a_rival_in_its_number_proves_that_it_did_not_happen(warehouse: Warehouse, clock: HandClock) -> None:
    warehouse.create_topic("t")
    token, store = lost(warehouse, clock, NEVER_TOLD["the first happens late"])
    part = warehouse.topic("t").partition(0)
    part.append([Record(b"k", b"rival")])
    assert part.outcome(token) is None
    store.deliver()
    assert part.outcome(token) is None
    assert values(warehouse) == [b"before", b"rival"]


def test_an_outcome_is_known_after_compaction(warehouse: Warehouse, clock: HandClock) -> None:
    """The retired entry tells as long as it is there."""
    warehouse.create_topic("t", config=COMPACTED)
    token, store = lost(warehouse, clock, NEVER_TOLD["the first happens late"])
    store.deliver()
    warehouse.topic("t").partition(0).append([Record(b"k", b"later")])
    compact(warehouse, "t")
    assert warehouse.topic("t").partition(0).outcome(token) == range(1, 2)


@pytest.mark.parametrize("happened", [True, False])
def test_an_outcome_is_known_until_the_orphan_floor_passes_its_number(
    warehouse: Warehouse, clock: HandClock, happened: bool
) -> None:
    """Its upload may be below the floor for long (P7): what counts is where it would have been committed."""
    warehouse.create_topic("t", config=COMPACTED)
    part, store = faulty(warehouse, [Fault.NONE, *NEVER_TOLD["the first happens late"]], clock)
    other = warehouse.topic("t").partition(0)
    other.append([Record(b"k", b"rival")])
    compact(warehouse, "t")
    with pytest.raises(CommitUnknown) as unknown:
        part.append([Record(b"k", b"mine")])
    token = unknown.value.token
    if happened:
        store.deliver()
    collect(warehouse, "t")
    floor = warehouse.driver.run(files_of(warehouse, "t").head()).orphan_floor
    _, number, _, segment_id = token.split(":")
    assert SegmentId.manifest_id(segment_id) < floor <= int(number)
    assert other.outcome(token) == (range(2, 3) if happened else None)
    other.append([Record(b"k", b"later")])
    compact(warehouse, "t")
    other.append([Record(b"k", b"last")])
    collect(warehouse, "t")
    with pytest.raises(CommitUnknown, match="can no longer be determined"):
        other.outcome(token)


def test_tokens_of_something_else_are_refused(warehouse: Warehouse) -> None:
    part = warehouse.create_topic("t").partition(0)
    for token in ("", "7", "7:abc", "x:abc:000000000001-0", "7::000000000001-0", "7:abc:nothing", "1" * 5_000 + ":a:b"):
        with pytest.raises(InvalidRequest, match="not the token of an append"):
            part.outcome(token)


def test_the_outcome_of_an_append_to_a_deleted_topic(warehouse: Warehouse, clock: HandClock) -> None:
    warehouse.create_topic("t")
    token, store = lost(warehouse, clock, NEVER_TOLD["the first happens late"])
    asking = warehouse.topic("t").partition(0)
    warehouse.delete_topic("t")
    store.deliver()
    assert asking.outcome(token) is None
    with pytest.raises(NotFound, match="open it again"):
        asking.append([Record(b"k", b"v")])


@pytest.mark.parametrize("plan", NEVER_TOLD.values(), ids=NEVER_TOLD)
def test_only_its_own_partition_answers_for_a_token(
    warehouse: Warehouse, clock: HandClock, plan: Sequence[Fault]
) -> None:
    """Another one could only say that it did not happen. Tried on log/append.py, and caught: no look at the home, and
    one at the topic's name in place of its id."""
    topic = warehouse.create_topic("t", partitions=2)
    other = warehouse.create_topic("u")
    token, store = lost(warehouse, clock, plan)
    store.deliver()
    for asked in (topic.partition(1), other.partition(0)):
        with pytest.raises(InvalidRequest, match="the token is from an append to t/0; ask that partition"):
            asked.outcome(token, settle=True)
    assert topic.partition(0).outcome(token, settle=True) == (range(1, 2) if len(values(warehouse)) == 2 else None)
    warehouse.delete_topic("t")
    anew = warehouse.create_topic("t").partition(0)
    with pytest.raises(InvalidRequest, match="to t/0, in a topic that was deleted and created again since; ask"):
        anew.outcome(token)


def test_a_token_without_a_partition_finds_its_append_and_never_says_that_it_did_not_happen(
    warehouse: Warehouse, clock: HandClock
) -> None:
    """Earlier versions gave such tokens."""
    topic = warehouse.create_topic("t", partitions=2)
    token, store = lost(warehouse, clock, NEVER_TOLD["the first happens late"])
    store.deliver()
    former = token.partition(":")[2]
    topic.partition(1).append([Record(b"k", b"v")])
    assert topic.partition(0).outcome(former, settle=True) == range(1, 2)
    with pytest.raises(CommitUnknown, match=r"If it is this one, the append did not happen; ask the other"):
        topic.partition(1).outcome(former, settle=True)
