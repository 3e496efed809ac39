"""Imports over random histories: each row is in the log once, unless it was passed over, whatever ended the runs, with
whatever batches, over however many partitions, with fewer places than there are applications (docs/rfcs/0011).

The oracle is what the test counts by itself: the rows of a source, and those that the log holds.

Tried, and caught in the first 100 histories: an import that ends with any part of its last batch; what was passed over
taken for there, by the entry or by the import; an append that follows a version alone, whatever was passed over; a
topic that has grown and is not asked; a number to go on from, told while a partition was not looked at; advice that
leaves out what was passed over; rows that may be there and are not told; keyless rows in turn by batch.
"""

import contextlib
import itertools
import random
from collections import Counter
from collections.abc import Iterator
from typing import Any

import pytest

from lithify.admin.imports import Import
from lithify.log.record import Record
from lithify.log.topic import Topic
from lithify.log.warehouse import Warehouse
from lithify.store.driver import Driver
from lithify.store.errors import CommitUnknown, Unavailable
from lithify.store.memory import MemoryStore
from lithify.store.metered import Metered
from tests.admin.test_imports import HOW, Faults, Killed

CHUNK = 10
EVERYDAY, SLOW, ALL = 4, 20, 100
ENDED = (Killed, KeyboardInterrupt, Unavailable, CommitUnknown)
OTHERS = "other"


class History:
    places: tuple[int, ...] = (1, 2, 3, 1_024)

    def __init__(self, seed: int, monkeypatch: pytest.MonkeyPatch) -> None:
        self.dice = random.Random(seed)
        dice = self.dice
        monkeypatch.setattr("lithify.manifest.transactions.TRANSACTIONS_MAX", dice.choice(self.places))
        monkeypatch.setattr("lithify.admin.imports.KEYLESS_STRETCH_ROWS", dice.choice((1, 3, 7)))
        self.store = MemoryStore()
        self.keyless = dice.choice((0.0, 0.3, 1.0))
        count = dice.randrange(1, 25)
        self.rows = [
            Record(None if dice.random() < self.keyless else f"{dice.randrange(12)}".encode(), str(number).encode())
            for number in range(1, count + 1)
        ]
        self.name = dice.choice(("rows-0123456789abcdef", "by hand"))
        Warehouse(self.driver()).create_topic("t", dice.choice((1, 2, 3, 5)), {"cleanup.policy": ""}, probe=False)
        self.late: Any = None  # a request of a process that is gone
        self.skips = {0}  # that some run had
        self.numbers = itertools.count()

    def driver(self, **more: Any) -> Faults:
        return Faults(self.store, **more)

    def topic(self) -> Topic:
        return Warehouse(Driver(Metered(self.store))).topic("t")

    def there(self) -> Counter[int]:
        topic = self.topic()
        found = (record for number in range(topic.partitions) for record in topic.partition(number).read())
        return Counter(int(record.value or b"") for record in found if record.key != OTHERS.encode())

    def check(self) -> None:
        there = self.there()
        assert max(there.values(), default=1) == 1, there
        assert set(there) <= set(range(1, len(self.rows) + 1))

    @property
    def over(self) -> bool:
        """Some run may have come to its end, whatever it knew of that: what is known of the import may give way."""
        there = self.there()
        return any(set(range(skip + 1, len(self.rows) + 1)) <= set(there) for skip in self.skips - {len(self.rows)})

    def batches(self, skip: int) -> Iterator[tuple[list[Record], int, bool]]:
        at, size = skip, self.dice.choice((1, 2, 5, 30, 30))
        while at < len(self.rows):
            yield self.rows[at : at + size], at + 1, at + size >= len(self.rows)
            at += size

    def run(self, skip: int, driver: Faults, *, name: str | None = None, new: bool = False) -> bool:
        """Whether it came to its end."""
        self.skips.add(skip)
        before, started, exact = self.there(), None, driver.late is None and not driver.how
        try:
            started = Import(Warehouse(driver).topic("t"), name or self.name, None, skip, new=new)
            for records, first, last in self.batches(skip):
                started.append(records, first, last=last)
            started.end()
        except ENDED:
            if started is not None:
                self.check_what_it_said(started, skip, before)
            return False
        there = self.there()
        assert set(range(skip + 1, len(self.rows) + 1)) <= set(there)
        if exact:
            there_already = sum(row > skip for row in before)
            assert (started.appended, started.already_there) == ((there - before).total(), there_already)
        return True

    def check_what_it_said(self, started: Import, skip: int, before: Counter[int]) -> None:
        said, there = started.how_far(), self.there()
        came = (there - before).total()
        assert said.appended <= came <= said.appended + said.unknown + (self.late is not None) * len(self.rows)
        if said.skip is not None and not skip and self.late is None:
            assert set(there) == set(range(1, said.skip + 1)), said

    def interrupted(self) -> None:
        """A run that a fault may end; a request of an earlier one may arrive beside it."""
        dice = self.dice
        skip = dice.choice((0, 0, dice.randrange(len(self.rows) + 1)))
        how = dice.choice(("", *HOW))
        driver = self.driver(how=how, at=dice.randrange(1, 60), late=self.late, late_at=dice.randrange(1, 30))
        ended = self.run(skip, driver)
        self.late = driver.late
        if how == "killed before" and not ended and driver.creates and self.late is None:
            self.late = driver.creates[-1][1]

    def rivals(self) -> None:
        """Two processes at once, a batch each in turn."""
        skips = [self.dice.choice((0, 0, self.dice.randrange(len(self.rows) + 1))) for _ in range(2)]
        self.skips.update(skips)
        try:
            both = [Import(Warehouse(self.driver()).topic("t"), self.name, None, skip) for skip in skips]
            sources = [self.batches(skip) for skip in skips]
            open_ = [0, 1]
            while open_:
                which = self.dice.choice(open_)
                batch = next(sources[which], None)
                if batch is None:
                    both[which].end()
                    open_.remove(which)
                else:
                    both[which].append(batch[0], batch[1], last=batch[2])
        except Unavailable:
            return  # no place for another application

    def others(self) -> None:
        """Applications that need a place: nobody who has not ended gives way to them."""
        topic = self.topic()
        for part in map(topic.partition, range(topic.partitions)):
            for _ in range(self.dice.randrange(4)):
                name = f"{OTHERS} {next(self.numbers)}"
                with contextlib.suppress(Unavailable):
                    part.append([Record(OTHERS.encode(), b"")], txn=(name, 1))
                    if self.dice.random() < 0.4:
                        part.end_transaction(name)

    def grows(self) -> None:
        topic = self.topic()
        if any(self.there()) and topic.partitions < 8:
            topic.alter(partitions=topic.partitions + self.dice.choice((1, 2)))

    def make_room(self) -> None:
        topic = self.topic()
        for part in map(topic.partition, range(topic.partitions)):
            for known in part.transactions():
                if known.application.startswith(OTHERS):
                    part.forget_transaction(known.application)

    def play(self) -> None:
        dice = self.dice
        for _ in range(dice.randrange(1, 12)):
            steps = [self.interrupted, self.interrupted, self.interrupted, self.rivals]
            if not self.over:
                # Where it is over, its entries give way first, and it would begin anew: that is the promise's end.
                steps += [self.others, self.others, self.make_room, self.grows]
            dice.choice(steps)()
            self.check()
        self.make_room()
        assert self.run(0, self.driver(late=self.late, late_at=dice.randrange(1, 20)))
        assert self.there() == Counter(range(1, len(self.rows) + 1))
        again = Import(self.topic(), self.name, None)
        for records, first, last in self.batches(0):
            again.append(records, first, last=last)
        assert (again.appended, again.already_there) == (0, len(self.rows))


class Told(History):
    """Of standard input, whose name nobody knows: whoever goes on does as the message says."""

    places = (1_024,)  # each new name takes one

    def play(self) -> None:
        name, skip, new = self.fresh_name(), 0, True
        for turn in range(40):
            faults = () if turn > 30 else (*HOW[2:], "")  # a process that is killed says nothing
            started = Import(self.topic_of(faults), name, None, skip, new=new)
            try:
                for records, first, last in self.batches(skip):
                    started.append(records, first, last=last)
                started.end()
                break
            except ENDED:
                said = started.how_far()
            self.check()
            if said.skip is None:
                skip, new = said.passed_over, False
            else:
                assert set(self.there()) == set(range(1, said.skip + 1))
                name, skip, new = self.fresh_name(), said.skip, True
        assert self.there() == Counter(range(1, len(self.rows) + 1))

    def fresh_name(self) -> str:
        return f"stdin-{self.dice.getrandbits(64):016x}"

    def topic_of(self, faults: tuple[str, ...]) -> Topic:
        """Of a process whose faults begin when it has opened the topic."""
        driver = self.driver()
        topic = Warehouse(driver).topic("t")
        if faults:
            driver.how, driver.at = self.dice.choice(faults), driver.requests + self.dice.randrange(1, 60)
        return topic


def play(chunk: int) -> None:
    for seed in range(chunk * CHUNK, (chunk + 1) * CHUNK):
        for kind in (History, Told):
            with pytest.MonkeyPatch.context() as monkeypatch:
                try:
                    kind(seed, monkeypatch).play()
                except AssertionError as error:
                    error.add_note(f"history {seed} of {kind.__name__}")
                    raise


@pytest.mark.parametrize("chunk", range(EVERYDAY))
def test_each_row_is_there_once(chunk: int) -> None:
    play(chunk)


@pytest.mark.slow
@pytest.mark.parametrize("chunk", range(EVERYDAY, SLOW))
def test_each_row_is_there_once_in_more_histories(chunk: int) -> None:
    play(chunk)


@pytest.mark.soak
@pytest.mark.parametrize("chunk", range(SLOW, ALL))
def test_each_row_is_there_once_at_length(chunk: int) -> None:
    play(chunk)
