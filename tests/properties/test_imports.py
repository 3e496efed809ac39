"""Imports over random histories: each row is in the log once, unless it was passed over, and in the order of the source
within each partition, whatever ended the runs, with whatever batches, over however many partitions, with fewer places
than there are applications (docs/rfcs/0011). And whoever obeys what the command prints gets each row once, and the
latest of each key, whatever becomes of the file meanwhile: mended, fetched again, touched, renamed.

The oracle is what the test counts by itself: the rows of a source, and those that the log holds.

Tried, and caught in the first 100 histories: an import that ends with any part of its last batch; what was passed over
taken for there, by the entry or by the import; an append that follows a version alone, whatever was passed over; a
topic that has grown and is not asked; a number to go on from, told while a partition was not looked at; advice that
leaves out the name; rows that may be there and are not told; keyless rows in turn by batch;
rows that were passed over and are appended behind later ones; a name that holds the time of a small file; a mended
source that is not refused although an import of its path stopped part-way, or is told a --skip that is one more;
a run whose rows are all passed over, and that ends the import in the partitions that it finds open.
"""

import contextlib
import gzip
import itertools
import json
import os
import random
import re
import shlex
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from click.testing import Result

from lithify.cli.records.imports import Import
from lithify.log.record import Record
from lithify.log.topic import Topic
from lithify.log.warehouse import Warehouse
from lithify.store.driver import Driver
from lithify.store.errors import CommitUnknown, InvalidRequest, Unavailable
from lithify.store.memory import MemoryStore
from lithify.store.metered import Metered
from lithify.store.port import Outcome
from tests.cli.conftest import Lithify
from tests.cli.test_imports import HOW, Faults, Killed

CHUNK = 10
EVERYDAY, ALL = 4, 28
ENDED = (Killed, KeyboardInterrupt, Unavailable, CommitUnknown)
OTHERS = "other"


class History:
    places: tuple[int, ...] = (1, 2, 3, 1_024)

    def __init__(self, seed: int, monkeypatch: pytest.MonkeyPatch, _: Path) -> None:
        self.dice = random.Random(seed)
        dice = self.dice
        monkeypatch.setattr("lithify.manifest.transactions.TRANSACTIONS_MAX", dice.choice(self.places))
        monkeypatch.setattr("lithify.cli.records.imports.KEYLESS_STRETCH_ROWS", dice.choice((1, 3, 7)))
        self.store = MemoryStore()
        self.keyless = dice.choice((0.0, 0.3, 1.0))
        count = dice.randrange(1, 25)
        self.rows = [
            Record(None if dice.random() < self.keyless else f"{dice.randrange(12)}".encode(), str(number).encode())
            for number in range(1, count + 1)
        ]
        self.name = dice.choice(("rows-0123456789abcdef", f"rows-01234567-{dice.randrange(2**64):016x}", "by hand"))
        Warehouse(self.driver()).create_topic("t", dice.choice((1, 2, 3, 5)), {"cleanup.policy": ""}, probe=False)
        self.late: Any = None  # a request of a process that is gone
        self.skipping = dice.random() < 0.6
        self.skips = {0}  # that some run had
        self.instead = 0  # the --skip that a refusal told to give
        self.numbers = itertools.count()

    def driver(self, **more: Any) -> Faults:
        return Faults(self.store, **more)

    def topic(self) -> Topic:
        return Warehouse(Driver(Metered(self.store))).topic("t")

    def logs(self) -> list[list[int]]:
        topic = self.topic()
        logs = (topic.partition(number).read() for number in range(topic.partitions))
        return [[int(record.value or b"") for record in log if record.key != OTHERS.encode()] for log in logs]

    def there(self) -> Counter[int]:
        return Counter(itertools.chain(*self.logs()))

    def check(self) -> None:
        there = self.there()
        assert max(there.values(), default=1) == 1, there
        assert set(there) <= set(range(1, len(self.rows) + 1))
        assert all(log == sorted(log) for log in self.logs()), self.logs()

    def skip(self) -> int:
        """Also over all rows, or over more than there are."""
        return self.dice.choice((0, 0, self.dice.randrange(len(self.rows) + 3))) if self.skipping else 0

    @property
    def over(self) -> bool:
        """Some run that had rows may have come to its end, whatever it knew of that: what is known may give way."""
        there, count = self.there(), len(self.rows)
        return any(set(range(skip + 1, count + 1)) <= set(there) for skip in self.skips if skip < count)

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
        except InvalidRequest as error:
            self.check_refusal(started, skip, error)
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

    def check_refusal(self, started: Import | None, skip: int, error: InvalidRequest) -> None:
        """What was passed over is not appended behind what is in; what it says to give instead is taken."""
        assert "skipped earlier" in str(error), error
        assert started is not None
        instead = started.how_far().skip
        assert instead is not None
        assert skip < instead <= max(self.skips)
        assert f"--skip {instead}" in str(error)
        self.instead = instead

    def interrupted(self) -> None:
        """A run that a fault may end; a request of an earlier one may arrive beside it."""
        dice = self.dice
        skip = self.skip()
        how = dice.choice(("", *HOW))
        driver = self.driver(how=how, at=dice.randrange(1, 60), late=self.late, late_at=dice.randrange(1, 30))
        ended = self.run(skip, driver)
        self.late = driver.late
        if how == "killed before" and not ended and driver.creates and self.late is None:
            self.late = driver.creates[-1][1]

    def rivals(self) -> None:
        """Two processes at once, a batch each in turn."""
        skips = [self.skip() for _ in range(2)]
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
        except InvalidRequest as error:
            assert "skipped earlier" in str(error), error  # noqa: PT017 - which of many may raise it, chance says

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
        self.instead = 0
        for _ in range(len(self.rows) + 1):
            if self.run(self.instead, self.driver(late=self.late, late_at=dice.randrange(1, 20))):
                break
        self.check()
        assert self.instead or self.there() == Counter(range(1, len(self.rows) + 1))
        again = Import(self.topic(), self.name, None, self.instead)
        for records, first, last in self.batches(self.instead):
            again.append(records, first, last=last)
        assert (again.appended, again.already_there) == (0, len(self.rows) - self.instead)


class Obeyed:
    """The command itself, of a file whose name, time and content change between its runs. Whoever calls it knows
    nothing but what it prints, or forgets even that and starts the same command as at first, on the same path."""

    def __init__(self, seed: int, monkeypatch: pytest.MonkeyPatch, folder: Path) -> None:
        dice = self.dice = random.Random(seed)
        self.lithify = Lithify(f"memory://obeyed-{seed}-{folder}")
        self.compacted = dice.random() < 0.5
        policy = f"cleanup.policy={'compact' if self.compacted else ''}"
        self.lithify.ok("topic", "create", "t", "--partitions", str(dice.choice((1, 2, 4))), "--config", policy)
        keys = [f"k{n}" for n in range(5)] + [None] * (0 if self.compacted else dice.choice((1, 100)))
        count = dice.randrange(1, 25)
        self.rows = [{"key": dice.choice(keys), "value": str(number)} for number in range(1, count + 1)]
        self.folder, self.suffix = folder, dice.choice((".jsonl", ".jsonl.gz"))
        self.path = folder / f"in{self.suffix}"
        self.skip = dice.randrange(1, count + 1) if dice.random() < 0.3 else 0
        self.as_at_first = ["--skip", str(self.skip)] * bool(self.skip)
        self.flags = self.as_at_first
        self.forgetful = dice.choice((0.0, 0.9, 0.9))
        self.forgot = False  # what was printed; nobody could know the file under another name
        self.same = False  # it says that the same command goes on: with a file of another name it is another command
        self.create, self.left, self.fault = MemoryStore.create, -1, ""
        monkeypatch.setattr(MemoryStore, "create", self.creates())

    def creates(self) -> Any:
        def create(store: MemoryStore, key: str, body: bytes, frees: bool = False) -> Outcome:
            self.left -= 1
            if self.left or not self.fault:
                return self.create(store, key, body, frees)
            if self.fault == "after":
                self.create(store, key, body, frees)
            raise KeyboardInterrupt

        return create

    def write(self, what: str) -> None:
        texts = [json.dumps(row) for row in self.rows]
        if what == "a bad line":
            texts[max(self.dice.randrange(len(texts)) for _ in range(2))] = "bad"
        if what == "too short":
            texts = texts[: self.dice.randrange(int(self.flags[-1]) + 1)]
        body = "".join(f"{text}\n" for text in texts).encode()
        if self.suffix == ".jsonl.gz":
            body = gzip.compress(body, mtime=0)
            if what == "cut short":
                body = body[: self.dice.randrange(len(body))]
        self.path.write_bytes(body)

    def changed(self) -> None:
        """Another name for the file, or what was printed is forgotten: not both, until it is printed again."""
        if self.path.name == f"in{self.suffix}" and self.dice.random() < self.forgetful:
            if not self.over:
                self.forgot |= self.flags != self.as_at_first
                self.flags = self.as_at_first
        elif not (self.forgot or self.same) and self.dice.random() < 0.3:
            self.path = self.folder / f"{self.dice.randrange(1_000)}{self.suffix}"

    def run(self) -> Result:
        at = self.dice.randrange(2_000_000_000)
        os.utime(self.path, (at, at))
        size = str(self.dice.choice((1, 2, 5, 30)))
        told = self.lithify("append", "t", "--from", str(self.path), "--batch-size", size, *self.flags)
        self.check()
        if said := re.search(r"run the command again with (--.*?)(?:, which|$)", told.stderr, re.MULTILINE):
            self.flags, self.forgot, self.same = shlex.split(said[1]), False, False
        elif said := re.search(r"Give (--skip [0-9]+)", told.stderr):
            self.flags = [*self.without("--skip"), *shlex.split(said[1])]
        elif "run the same command again" in told.stderr:
            self.same = True
        return told

    def without(self, flag: str) -> list[str]:
        at = self.flags.index(flag) if flag in self.flags else len(self.flags)
        return self.flags[:at] + self.flags[at + 2 :]

    def logs(self) -> list[list[int]]:
        logs: dict[int, list[int]] = {}
        for line in self.lithify.records("read", "t"):
            logs.setdefault(line["partition"], []).append(int(line["value"]))
        return [*logs.values()]

    def check(self) -> None:
        self.fault = ""
        logs = self.logs()
        assert max(Counter(itertools.chain(*logs)).values(), default=1) == 1, logs
        assert all(log == sorted(log) for log in logs), logs

    def play(self) -> None:
        dice = self.dice
        for turn in range(30):
            what = "whole" if turn > 15 else dice.choice(("a bad line", "a bad line", "cut short", "whole"))
            if turn <= 15 and "--skip" in self.flags and dice.random() < 0.2:
                what = "too short"  # all there is of it is passed over: nothing comes to its end
            if not (self.same and self.over):  # or what is mended is another source
                self.write(what)
            if turn < 15 and dice.random() < 0.5:
                self.left, self.fault = dice.randrange(1, 12), dice.choice(("before", "after"))
            if self.run().exit_code == 0 and what != "too short":
                break
            self.changed()
        for _ in range(2):
            if not self.over:
                self.write("whole")
            if self.run().exit_code == 0:
                break
        self.is_whole()
        # What nobody was told to do: refused or harmless.
        for _ in range(3):
            self.flags = self.without("--skip") if dice.random() < 0.7 else self.flags
            self.run()
            self.is_whole()

    @property
    def over(self) -> bool:
        """All rows are in: the import is over, whatever its caller heard, and what is mended now is another source."""
        return sum(map(len, self.logs())) >= len(self.rows) - self.skip

    def is_whole(self) -> None:
        there = Counter(itertools.chain(*self.logs()))
        assert max(there.values(), default=1) == 1
        assert set(there) >= set(range(self.skip + 1, len(self.rows) + 1)), (self.skip, there)
        assert self.skip or len(there) == len(self.rows)
        if self.compacted:
            latest = {self.rows[number - 1]["key"]: str(number) for number in sorted(there)}
            assert {line["key"]: line["value"] for line in self.lithify.records("scan", "t")} == latest


def play(chunk: int, folder: Path) -> None:
    for seed in range(chunk * CHUNK, (chunk + 1) * CHUNK):
        for kind in (History, Obeyed):
            with pytest.MonkeyPatch.context() as monkeypatch:
                try:
                    kind(seed, monkeypatch, folder).play()
                except AssertionError as error:
                    error.add_note(f"history {seed} of {kind.__name__}")
                    raise


@pytest.mark.slow
@pytest.mark.parametrize("chunk", range(EVERYDAY))
def test_each_row_is_there_once(chunk: int, tmp_path: Path) -> None:
    play(chunk, tmp_path)


@pytest.mark.soak
@pytest.mark.parametrize("chunk", range(EVERYDAY, ALL))
def test_each_row_is_there_once_at_length(chunk: int, tmp_path: Path) -> None:
    play(chunk, tmp_path)
