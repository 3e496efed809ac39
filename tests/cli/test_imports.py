"""An import is interrupted at each of its requests in turn, in every way, and started again with other batches: each
row is in the log once, and what it said of how far it came was true (docs/rfcs/0011).

Tried on imports.py, and caught: no previous version in the stamp (a late request, then a larger batch); no row
skipped; an outcome taken for known too early; a `skip` although another partition is ahead; keyless rows in turn by
batch.
"""

import contextlib
import random
from collections import Counter
from collections.abc import Iterator
from typing import Any

import pytest

from lithify.cli.records.at_once import append_at_once
from lithify.cli.records.imports import Import
from lithify.cli.records.source_ids import check_source_id
from lithify.log.record import Record
from lithify.log.topic import Topic
from lithify.log.warehouse import Warehouse
from lithify.manifest.words import counted
from lithify.segment.spill import NoSpill
from lithify.store.driver import Driver
from lithify.store.errors import AccessDenied, CommitUnknown, InvalidRequest, LithifyError, Unavailable
from lithify.store.memory import MemoryStore
from lithify.store.metered import Metered
from lithify.store.port import Create, Glimpse, NewId, Now, Outcome, Pause, Put, Request

ROWS = [Record(None if n % 5 == 4 else f"k{n}".encode(), str(n).encode()) for n in range(1, 11)]
FREE = (Glimpse, Now, NewId, Pause)  # in memory, a glimpse shows nothing, and asks nothing
MADE = "rows-0123456789abcdef"


class Killed(BaseException):
    """The process is gone."""


class Faults(Driver):
    """Fails at its request number `at`, counted from 1; `late` is a request of an earlier process, which arrives
    before request number `late_at`."""

    def __init__(self, store: MemoryStore, how: str = "", at: int = 0, late: Any = None, late_at: int = 0) -> None:
        super().__init__(Metered(store))
        self.how, self.at = how, at
        self.late, self.late_at = late, late_at
        self.requests = 0
        self.creates: list[tuple[int, Create]] = []
        self._answer, self.answer = self.answer, self._faulty

    def _faulty(self, request: Request[Any]) -> Any:
        if isinstance(request, Pause):
            return None
        if isinstance(request, FREE):
            return self._answer(request)
        self.requests += 1
        if isinstance(request, Create):
            self.creates.append((self.requests, request))
        if self.late is not None and self.requests >= self.late_at:
            late, self.late = self.late, None
            self._answer(late)
        if not self.at or self.requests < self.at:
            return self._answer(request)
        return self._fails(request)

    def _fails(self, request: Request[Any]) -> Any:
        now = self.requests == self.at
        match self.how:
            case "killed before":
                raise Killed
            case "killed after":
                self._answer(request)
                raise Killed
            case "interrupted":
                raise KeyboardInterrupt
            case "outage":
                return self._away(request)
            case "answer lost, then an outage":
                if now and isinstance(request, Create | Put):
                    self._answer(request)
                return self._away(request)
            case "one answer lost":
                if now and isinstance(request, Create):
                    self._answer(request)
                    return Outcome.UNKNOWN
                return self._answer(request)
            case _:
                return self._away(request) if now else self._answer(request)

    def _away(self, request: Request[Any]) -> Any:
        if isinstance(request, Create):
            return Outcome.UNKNOWN
        raise Unavailable("the store is away; retry")


HOW = (
    *("killed before", "killed after", "interrupted"),
    *("outage", "answer lost, then an outage", "one answer lost", "one request fails"),
)


def new_store(partitions: int = 2) -> MemoryStore:
    store = MemoryStore()
    Warehouse(Driver(Metered(store))).create_topic("t", partitions, {"cleanup.policy": ""}, probe=False)
    return store


def stored(store: MemoryStore) -> Counter[int]:
    topic = Warehouse(Driver(Metered(store))).topic("t")
    return Counter(
        int(record.value or b"") for number in range(topic.partitions) for record in topic.partition(number).read()
    )


def begun(driver: Driver, source_id: str = MADE, partition: int | None = None) -> Import:
    return Import(Warehouse(driver).topic("t", for_append=True), source_id, partition, driver=driver)


def batches(size: int, rows: list[Record]) -> Iterator[tuple[list[Record], int, bool]]:
    for at in range(0, len(rows), size):
        yield rows[at : at + size], at + 1, at + size >= len(rows)


def run(driver: Driver, size: int, **more: Any) -> Import:
    """As the command does it."""
    started = begun(driver, **more)
    send(started, size)
    return started


def send(started: Import, size: int, rows: list[Record] = ROWS) -> None:
    for records, first, last in batches(size, rows):
        started.append(records, first, last=last)
    started.end()


def check_what_it_said(store: MemoryStore, started: Import, before: int = 0) -> None:
    said, there = started.how_far(), stored(store)
    assert max(there.values(), default=1) == 1
    assert before + said.appended <= there.total() <= before + said.appended + said.unknown
    if said.skip is not None:
        assert set(there) == set(range(1, said.skip + 1))


@pytest.fixture(params=[2, 5], ids=["near", "far"])
def partitions(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> int:
    """Of a far store, parts of a batch are appended side by side."""
    monkeypatch.setattr(MemoryStore, "far", property(lambda _: request.param > 2))
    return request.param


@pytest.mark.slow
@pytest.mark.parametrize("how", HOW)
@pytest.mark.parametrize(("first", "then"), [(4, 3), (10, 6)])
def test_interrupted_anywhere_and_started_again_it_has_each_row_once(
    how: str, first: int, then: int, partitions: int
) -> None:
    requests = Faults(new_store(partitions))
    run(requests, first)
    for at in range(1, requests.requests + 1):
        store = new_store(partitions)
        driver = Faults(store, how, at)
        started: Import | None = None
        try:
            started = begun(driver)
            send(started, first)
        except (Killed, KeyboardInterrupt, Unavailable, CommitUnknown):
            if started is not None:
                check_what_it_said(store, started)
        before = stored(store).total()
        assert before == 10 or not any(known.ended for known in entries(store)), (how, at)
        again = run(Driver(Metered(store)), then)
        assert stored(store) == Counter(range(1, 11)), (how, at)
        assert (again.appended, again.already_there) == (10 - before, before)
        assert all(known.ended for known in entries(store))


def entries(store: MemoryStore) -> list[Any]:
    topic = Warehouse(Driver(Metered(store))).topic("t")
    return [known for number in range(topic.partitions) for known in topic.partition(number).transactions()]


@pytest.mark.slow
def test_a_request_of_a_process_that_is_gone_arrives_at_any_time_of_the_next(partitions: int) -> None:
    """What a version with gaps would double: batches are cut elsewhere meanwhile."""
    whole = Faults(new_store(partitions))
    run(whole, 3)
    for at, _ in whole.creates:
        for late_at in range(1, whole.requests + 1, 2):
            store = new_store(partitions)
            driver = Faults(store, "killed before", at)
            with pytest.raises(Killed):
                run(driver, 3)
            _, late = driver.creates[-1]
            run(Faults(store, late=late, late_at=late_at), 4)
            assert stored(store) == Counter(range(1, 11)), (at, late_at)


class Piped(Faults):
    """The answer to request `at` is lost, and later another one."""

    def __init__(self, store: MemoryStore, at: int, gap: int) -> None:
        super().__init__(store, at=at)
        self.gap = gap

    def _fails(self, request: Request[Any]) -> Any:
        if self.requests not in (self.at, self.at + self.gap):
            return self._answer(request)
        if self.requests == self.at and isinstance(request, Create | Put):
            self._answer(request)
        return self._away(request)


@pytest.mark.slow
@pytest.mark.parametrize("gap", range(1, 9))
def test_a_batch_that_is_given_again_and_again_is_counted_once(gap: int, partitions: int) -> None:
    """By a pipe, which waits out outages; what it says in between is true."""
    whole = Faults(new_store(partitions))
    run(whole, 10)
    for at in range(1, whole.requests + 1):
        store = new_store(partitions)
        try:
            started = begun(Piped(store, at, gap))
        except (Unavailable, CommitUnknown):
            continue
        while True:
            try:
                started.append(ROWS, 1, last=True)
            except (Unavailable, CommitUnknown):
                check_what_it_said(store, started)
            else:
                break
        assert stored(store) == Counter(range(1, 11)), at
        assert (started.appended, started.already_there, started.how_far().unknown) == (10, 0, 0), at


@pytest.mark.parametrize("worst", [InvalidRequest, AccessDenied, NoSpill, CommitUnknown, Unavailable])
def test_what_waiting_does_not_end_is_raised_although_others_are_away(worst: Any) -> None:
    raised = worst("told by the test", "token") if worst is CommitUnknown else worst("told by the test")
    errors: dict[int, LithifyError] = {1: Unavailable("away"), 3: raised}
    if worst is not Unavailable:
        errors[2] = CommitUnknown("lost", "token")
    unknown = {1: 4}

    def append_to(number: int, before: int) -> None:
        assert before == (4 if number == 1 else 0)
        unknown[number] = 7
        if number in errors:
            raise errors[number]
        del unknown[number]

    with pytest.raises(worst) as told:
        append_at_once(Driver(MemoryStore()), append_to, dict.fromkeys(range(5), 9), unknown)
    assert type(told.value) is worst
    assert told.value.__notes__ == [f"{counted(len(errors) - 1, 'other partition')} failed, too"]
    lost = {number: 7 for number, error in errors.items() if type(error) is CommitUnknown}
    assert {number: count for number, count in unknown.items() if count} == {1: 4} | lost


def test_of_partitions_that_had_not_begun_nothing_may_have_been_appended() -> None:
    unknown = dict[int, int]()

    def append_to(number: int, _: int) -> None:
        unknown[number] = 7
        if number == 2:
            raise KeyboardInterrupt
        del unknown[number]

    with pytest.raises(KeyboardInterrupt):
        append_at_once(Driver(MemoryStore()), append_to, dict.fromkeys(range(5), 9), unknown)
    assert {number: count for number, count in unknown.items() if count} == {2: 7}


def test_two_processes_at_once_share_the_rows(partitions: int) -> None:
    store = new_store(partitions)
    one, other = begun(Driver(Metered(store))), begun(Driver(Metered(store)))
    of_other = batches(3, ROWS)
    for records, first, last in batches(4, ROWS):
        one.append(records, first, last=last)
        for more, at, end in [next(of_other, ([], 0, False))]:
            if more:
                other.append(more, at, last=end)
    for more, at, end in of_other:
        other.append(more, at, last=end)
    assert stored(store) == Counter(range(1, 11))
    assert one.appended + other.appended == 10


def test_an_import_that_began_before_the_topic_grew_goes_on_as_it_began() -> None:
    whole = Faults(new_store())
    run(whole, 4)
    *_, last_rows, _ = [at for at, _ in whole.creates]  # the last create says that the import has ended
    store = new_store()
    with pytest.raises(Killed):
        run(Faults(store, "killed before", last_rows), 4)
    before = stored(store).total()
    assert before == 9
    Warehouse(Driver(Metered(store))).topic("t").alter(partitions=5)
    started = begun(Driver(Metered(store)))
    assert started.began_over == 2
    send(started, 3)
    assert stored(store) == Counter(range(1, 11))
    again = run(Driver(Metered(store)), 3)
    assert (again.appended, again.already_there, again.began_over) == (0, 10, 2)
    assert run(Driver(Metered(store)), 3, source_id="another-0123456789abcdef").began_over is None


def test_where_a_row_goes_depends_on_neither_batches_nor_chance(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("lithify.cli.records.imports.KEYLESS_STRETCH_ROWS", 3)

    def places(size: int) -> list[list[bytes | None]]:
        store = new_store(3)
        run(Driver(Metered(store)), size)
        topic: Topic = Warehouse(Driver(Metered(store))).topic("t")
        return [[record.value for record in topic.partition(number).read()] for number in range(3)]

    assert places(1) == places(4) == places(10)


def test_a_finished_import_leaves_room_and_one_that_was_named_may_grow() -> None:
    store = new_store()
    run(Driver(Metered(store)), 4)
    assert [known.ended for known in entries(store)] == [True, True]
    started = begun(Driver(Metered(store)), "mine")
    send(started, 4, ROWS[:9])
    assert sorted(known.ended for known in entries(store)) == [False, False, True, True]
    started = begun(Driver(Metered(store)), "mine")
    send(started, 5)
    assert (started.appended, started.already_there) == (1, 9)


def test_imports_into_one_partition_are_their_own(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("lithify.manifest.transactions.TRANSACTIONS_MAX", 2)
    store = new_store()
    for round_ in range(5):  # of more sources than there are places
        assert run(Driver(Metered(store)), 4, source_id=f"s-{round_:016x}", partition=1).appended == 10
    assert run(Driver(Metered(store)), 4, source_id=f"s-{4:016x}", partition=0).appended == 10
    assert run(Driver(Metered(store)), 4, source_id=f"s-{4:016x}", partition=1).appended == 0


def test_one_that_was_interrupted_in_its_last_batch_gives_way_to_nobody(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("lithify.manifest.transactions.TRANSACTIONS_MAX", 3)
    store = new_store()
    whole = Faults(new_store())
    run(whole, 10)
    first, second = [at for at, create in whole.creates if "/segments/" not in create.key][:2]
    assert first < second
    with pytest.raises(Unavailable):
        run(Faults(store, "one request fails", second - 1), 10)  # what the second partition uploads
    before = stored(store).total()
    assert 0 < before < 10
    topic = Warehouse(Driver(Metered(store))).topic("t")
    (partition,) = (part for part in map(topic.partition, range(2)) if part.transactions())
    for name in ("one", "two"):
        partition.append([Record(b"x", b"0")], txn=(name, 1))
    with pytest.raises(Unavailable, match="remembers 3 transaction applications"):
        partition.append([Record(b"x", b"0")], txn=("three", 1))
    again = run(Driver(Metered(store)), 10)
    assert (again.appended, again.already_there) == (10 - before, before)


def test_forgotten_in_its_midst_it_stops() -> None:
    store = new_store(1)
    started = begun(Driver(Metered(store)))
    first, *rest = batches(4, ROWS)
    started.append(first[0], first[1], last=False)
    Warehouse(Driver(Metered(store))).topic("t").partition(0).forget_transaction(started.application)
    for _ in range(2):  # beside a partition that is away, a pipe gives the batch again
        with pytest.raises(InvalidRequest, match="forgotten by this partition"):
            started.append(rest[0][0], rest[0][1], last=False)
    assert stored(store).total() == 4


@pytest.mark.parametrize("source_id", ["x over 4", "x over 0", " over 12"])
def test_a_name_that_would_be_taken_for_another_import_is_refused(source_id: str) -> None:
    with pytest.raises(InvalidRequest, match="must not end in ' over' and a number"):
        check_source_id(source_id)


def test_another_name_or_another_place_is_another_import() -> None:
    """Applications are named by what was put together: no two ways give one name."""
    dice = random.Random(1)
    words = ["x", "over", "4", "import", "x over", "over 4", "4 over"]
    found: dict[str, tuple[str, int | None]] = {}
    tried = 0
    for partitions in (1, 2, 4):
        topic = Warehouse(Driver(Metered(new_store(partitions)))).topic("t")
        for _ in range(300):
            given = " ".join(dice.choice(words) for _ in range(dice.randrange(1, 5)))
            with contextlib.suppress(InvalidRequest):
                name, partition = check_source_id(given), dice.choice((None, 0))
                what = (name, partitions if partition is None else None)
                assert found.setdefault(Import(topic, name, partition).application, what) == what
                tried += 1
    assert tried > 100
