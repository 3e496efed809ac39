"""Consumers' positions as edits of a manifest: who may commit, what is refused, what a clean takes from them."""

from collections.abc import Callable

import pytest
from msgspec.structs import replace

from lithify.manifest.consumers import (
    EXPIRES_MS,
    CommitPosition,
    ForgetConsumer,
    ResetPosition,
    TakePosition,
    find_consumer,
    missed,
)
from lithify.manifest.edits import Already, Next, Refused
from lithify.manifest.invariants import manifest_problems
from lithify.manifest.model import CONSUMERS_MAX, FORMAT, Bucket, ConsumerPosition, Manifest
from lithify.manifest.partition import PartitionFiles
from lithify.store.driver import Driver
from lithify.store.errors import CommitUnknown, Fenced, LithifyError, NotFound, OffsetOutOfRange, Unavailable
from lithify.store.memory import MemoryStore
from lithify.store.port import Pause
from lithify.testing.faults import Fault, FaultyStore
from tests.protocol.scene import KEYS, appends

HEAD = Manifest(format=FORMAT, id=8, nonce="n", topic="t", topic_id="i", partition=0, next_offset=100)


def entry(name: str = "c", offset: int = 5, at: int = 7, instance: str = "one", missed_to: int = 0) -> ConsumerPosition:
    return ConsumerPosition(
        name=name, offset=offset, committed_at=at, committed_at_ms=1, instance=instance, missed_to=missed_to
    )


def having(*consumers: ConsumerPosition) -> Manifest:
    return replace(HEAD, consumers=consumers)


Edit = CommitPosition | TakePosition | ResetPosition


def committed(head: Manifest, edit: Edit) -> ConsumerPosition:
    verdict = edit.apply(head, 9, 99)
    assert isinstance(verdict, Next)
    following = replace(verdict.value, id=9)
    assert list(manifest_problems(head, following)) == []
    assert find_consumer(following, edit.name) == verdict.result
    return verdict.result


def refused(head: Manifest, edit: Edit) -> LithifyError:
    verdict = edit.apply(head, 9, 99)
    assert isinstance(verdict, Refused)
    return verdict.error


def test_a_position_is_created_and_moved_both_ways() -> None:
    assert committed(HEAD, CommitPosition("c", 0, 0, "one")) == ConsumerPosition(
        name="c", offset=0, committed_at=9, committed_at_ms=99, instance="one"
    )
    for offset in (0, 4, 5, 100):
        assert committed(having(entry()), CommitPosition("c", offset, 7, "one")).offset == offset


def test_another_instance_takes_over_what_it_knows_and_is_refused_what_it_does_not() -> None:
    assert committed(having(entry()), CommitPosition("c", 5, 7, "two")).instance == "two"
    for expected in (0, 6):
        assert isinstance(refused(having(entry()), CommitPosition("c", 5, expected, "two")), Fenced)


def test_an_instance_knows_its_own_commit_whatever_it_learned_of_it() -> None:
    assert committed(having(entry(at=8)), CommitPosition("c", 9, 7, "one")).offset == 9


def test_what_does_not_hold_is_refused_with_what_to_do() -> None:
    assert isinstance(refused(HEAD, CommitPosition("c", 101, 0, "one")), OffsetOutOfRange)
    assert "deleted" in str(refused(HEAD, CommitPosition("c", 1, 7, "one")))
    assert isinstance(refused(HEAD, CommitPosition("c", 1, 7, "one")), NotFound)
    assert isinstance(refused(replace(having(entry()), sealed=True), CommitPosition("c", 6, 7, "one")), NotFound)
    full = having(*(entry(f"c{number}") for number in range(CONSUMERS_MAX)))
    error = refused(full, CommitPosition("new", 1, 0, "one"))
    assert isinstance(error, Unavailable)
    assert "lithify consumer" in str(error)
    assert committed(full, CommitPosition("c7", 6, 7, "one")).offset == 6
    assert isinstance(refused(full, TakePosition("new", "one", 1)), Unavailable)
    assert committed(full, TakePosition("c7", "two", 1)).offset == 5
    assert isinstance(refused(HEAD, TakePosition("c", "one", 101)), OffsetOutOfRange)


NOW_MS = 10 * EXPIRES_MS


def crowd(offset: int, committed_at_ms: int, bucket_ms: int, **fields: int) -> Manifest:
    """As many consumers as there may be. All but c7 have committed lately; the log's second half is dated."""
    names = (f"c{number}" for number in range(CONSUMERS_MAX))
    all_ = {name: replace(entry(name, 60), committed_at_ms=NOW_MS) for name in names}
    all_["c7"] = replace(entry("c7", offset), committed_at_ms=committed_at_ms)
    index = (Bucket(0, 0, 50, 1), Bucket(50, bucket_ms, 50, 1))
    return replace(having(*sorted(all_.values(), key=lambda each: each.name)), time_index=index, **fields)


LONG_AGO_MS = NOW_MS - EXPIRES_MS - 1


@pytest.mark.parametrize(
    ("offset", "committed_at_ms", "bucket_ms", "fields", "gives_way"),
    [
        (50, LONG_AGO_MS, LONG_AGO_MS, {}, True),
        (50, LONG_AGO_MS + 1, LONG_AGO_MS, {}, False),  # it was here within seven days
        (50, LONG_AGO_MS, LONG_AGO_MS + 1, {}, False),  # what it has not read came within seven days
        (51, LONG_AGO_MS, LONG_AGO_MS, {}, False),  # it may have read all that is old
        (100, LONG_AGO_MS, LONG_AGO_MS, {}, False),  # it has read everything, and may live
        (51, LONG_AGO_MS, NOW_MS, {"log_start_offset": 52}, True),  # what it would go on from is gone
        (52, LONG_AGO_MS, NOW_MS, {"log_start_offset": 52}, False),
    ],
)
@pytest.mark.parametrize("edit", [CommitPosition("new", 1, 0, "one"), TakePosition("new", "one", 1)])
def test_at_the_bound_who_left_records_unread_for_seven_days_gives_way(
    offset: int, committed_at_ms: int, bucket_ms: int, fields: dict[str, int], gives_way: bool, edit: Edit
) -> None:
    head = crowd(offset, committed_at_ms, bucket_ms, **fields)
    verdict = edit.apply(head, 9, NOW_MS)
    if not gives_way:
        assert isinstance(verdict, Refused)
        assert "none has left records unread for 7" in str(verdict.error)
        return
    assert isinstance(verdict, Next)
    names = {each.name for each in verdict.value.consumers}
    assert names == {each.name for each in head.consumers} - {"c7"} | {"new"}
    later = CommitPosition("c7", 60, 7, "one").apply(verdict.value, 10, NOW_MS)
    assert isinstance(later, Refused), "where it lives all the same, it is told"
    assert isinstance(later.error, NotFound | Unavailable)


def test_nobody_gives_way_where_there_is_room_and_who_is_known_takes_no_place() -> None:
    head = crowd(50, LONG_AGO_MS, LONG_AGO_MS)
    moved = CommitPosition("c8", 61, 7, "one").apply(head, 9, NOW_MS)
    assert isinstance(moved, Next)
    assert len(moved.value.consumers) == CONSUMERS_MAX
    less = replace(head, consumers=head.consumers[:-1])
    opened = TakePosition("new", "one", 1).apply(less, 9, NOW_MS)
    assert isinstance(opened, Next)
    assert {each.name for each in opened.value.consumers} > {"c7", "new"}


@pytest.mark.parametrize("offset", [0, 5, 100])
@pytest.mark.parametrize("at", [1, 8])
def test_a_name_is_taken_over_wherever_its_position_is_by_then(offset: int, at: int) -> None:
    taken = committed(having(entry(offset=offset, at=at, missed_to=60)), TakePosition("c", "two", 3))
    assert (taken.offset, taken.instance, taken.committed_at) == (offset, "two", 9)
    assert taken.missed_to == (60 if offset else 0)  # who takes over, takes it along
    assert isinstance(refused(having(taken), CommitPosition("c", 6, at, "one")), Fenced)
    assert committed(HEAD, TakePosition("c", "two", 3)).offset == 3


@pytest.mark.parametrize(("holder", "taken"), [("one", True), ("", False), ("three", False), (None, True)])
def test_a_name_is_taken_over_from_the_holder_that_was_seen_and_no_other(holder: str | None, taken: bool) -> None:
    for of in ("one", "two"):  # its own, of which it has not learned, is no other's
        edit = TakePosition("c", "two", 0, holder)
        if taken or of == "two":
            assert committed(having(entry(instance=of)), edit).offset == 5
        else:
            assert isinstance(refused(having(entry(instance=of)), edit), Fenced)
    if holder:
        assert isinstance(refused(HEAD, TakePosition("c", "two", 0, holder)), NotFound)
    else:
        assert committed(HEAD, TakePosition("c", "two", 0, holder)).offset == 0


def test_a_reset_holds_whoever_has_the_name_and_whatever_it_has_committed() -> None:
    head = having(entry(at=8, missed_to=60))
    assert committed(head, ResetPosition("c", 90, "two")).missed_to == 60
    assert committed(head, ResetPosition("c", 4, "two", anew=True)).missed_to == 0
    end = committed(head, ResetPosition("c", None, "two"))
    assert (end.offset, end.instance) == (HEAD.next_offset, "two")
    assert isinstance(refused(head, ResetPosition("c", 101, "two")), OffsetOutOfRange)
    assert isinstance(refused(HEAD, ResetPosition("c", 1, "two")), NotFound)


def test_forgetting_is_forgetting_one() -> None:
    head = having(entry("a"), entry("b"))
    verdict = ForgetConsumer("a").apply(head, 9, 99)
    assert isinstance(verdict, Next)
    assert [known.name for known in verdict.value.consumers] == ["b"]
    assert isinstance(ForgetConsumer("a").apply(verdict.value, 10, 99), Already)


@pytest.mark.parametrize(
    ("offset", "dropped_to", "told"),
    [
        (0, 50, 50),  # it may have read what it has not committed yet
        (1, 50, 50),
        (49, 50, 50),
        (50, 50, 0),  # it has read the tombstone at 49
        (20, 0, 0),  # nothing was dropped
    ],
)
def test_who_is_told_of_dropped_tombstones(offset: int, dropped_to: int, told: int) -> None:
    (after,) = missed((entry(offset=offset),), dropped_to)
    assert (after.missed_to, after.offset, after.committed_at) == (told, offset, 7)


def test_an_alarm_only_grows_until_the_consumer_begins_anew() -> None:
    (after,) = missed((entry(offset=5, missed_to=60),), 50)
    assert after.missed_to == 60
    head = having(after)
    assert committed(head, CommitPosition("c", 90, 7, "one")).missed_to == 60
    assert committed(head, CommitPosition("c", 5, 7, "two")).missed_to == 60  # who takes over, takes it along
    assert committed(head, CommitPosition("c", 90, 7, "one", rebuilt_to=60)).missed_to == 0
    assert committed(head, CommitPosition("c", 90, 7, "one", rebuilt_to=59)).missed_to == 60  # dropped after the scan
    assert committed(head, CommitPosition("c", 0, 7, "one")).missed_to == 0


@pytest.mark.parametrize(
    ("broken", "says"),
    [
        ((entry(), entry()), "a consumer has one position"),
        ((entry(offset=101),), "a consumer's position lies in the log"),
        ((entry(offset=-1),), "a consumer's position lies in the log"),
        ((entry(at=9),), "a consumer's commit is a manifest number"),
        ((entry(at=0),), "a consumer's commit is a manifest number"),
        (tuple(entry(f"c{number}") for number in range(CONSUMERS_MAX + 1)), "consumers is bounded"),
    ],
)
def test_invariants(broken: tuple[ConsumerPosition, ...], says: str) -> None:
    assert any(problem.startswith(says) for problem in manifest_problems(None, having(*broken)))


def new_partition(plan: list[Fault]) -> tuple[FaultyStore, Driver, PartitionFiles]:
    from lithify.manifest.lifetime import CreatePartition
    from tests.protocol.scene import FIRST

    store = FaultyStore(MemoryStore(), [])
    driver = Driver(store, lambda: 1)
    answer = driver.answer
    driver.answer = lambda request: None if isinstance(request, Pause) else answer(request)
    files = PartitionFiles(KEYS)
    driver.run(files.manifest.commit(CreatePartition(FIRST)))
    driver.run(appends(files, 3))
    store._plan = iter(plan)
    return store, driver, files


def offset_of(driver: Driver) -> int:
    known = find_consumer(driver.run(PartitionFiles(KEYS).head()), "c")
    assert known is not None
    return known.offset


Commit = Callable[[int, int], ConsumerPosition]


@pytest.mark.parametrize("fault", [Fault.LOST_REPLY, Fault.LOST_REQUEST, Fault.TWICE])
def test_a_lost_reply_is_settled_by_putting_the_same_again(fault: Fault) -> None:
    _, driver, files = new_partition([fault])
    first = driver.run(files.manifest.commit(CommitPosition("c", 1, 0, "one"))).result
    second = driver.run(files.manifest.commit(CommitPosition("c", 2, first.committed_at, "one"))).result
    assert second.committed_at == first.committed_at + 1
    assert offset_of(driver) == 2


def test_a_commit_that_comes_late_does_not_undo_the_next_one() -> None:
    """The SUBTLE of CommitPosition: to commit the very offset that is there takes the number all the same."""
    store, driver, files = new_partition([Fault.NONE, *[Fault.LATE] * 10])
    first = driver.run(files.manifest.commit(CommitPosition("c", 1, 0, "one"))).result
    with pytest.raises(CommitUnknown):
        driver.run(files.manifest.commit(CommitPosition("c", 3, first.committed_at, "one")))
    driver.run(files.manifest.commit(CommitPosition("c", 1, first.committed_at, "one")))
    store.deliver()
    assert offset_of(driver) == 1


def test_after_an_unknown_outcome_the_same_instance_goes_on_and_another_is_refused() -> None:
    store, driver, files = new_partition([Fault.NONE, *[Fault.LATE] * 10])
    first = driver.run(files.manifest.commit(CommitPosition("c", 1, 0, "one"))).result
    with pytest.raises(CommitUnknown):
        driver.run(files.manifest.commit(CommitPosition("c", 2, first.committed_at, "one")))
    store.deliver()
    with pytest.raises(Fenced):
        driver.run(files.manifest.commit(CommitPosition("c", 2, first.committed_at, "two")))
    assert driver.run(files.manifest.commit(CommitPosition("c", 3, first.committed_at, "one"))).result.offset == 3
