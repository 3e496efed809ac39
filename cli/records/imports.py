"""An import: the rows of a source, each appended once, however often the import is interrupted and started again.

In each partition an import is an application that numbers its appends; the version is a row's number in the source.
Rows up to the version are stored, later ones are not, and rows are in the order of the source (docs/rfcs/0011).
"""

import contextlib
import re
import threading
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from lithify.cli.records.at_once import append_at_once
from lithify.cli.records.import_entries import Entries, began_over, grown, look_at
from lithify.cli.records.other_readings import OtherReadings, began_without_reading
from lithify.cli.records.progress import Progress
from lithify.cli.records.readings import AS_RECORDS, Reading, told
from lithify.cli.records.unfinished import SamePath, Unfinished, made_name
from lithify.log.partition import Partition
from lithify.log.topic import Topic
from lithify.log.transactions import TransactionInfo
from lithify.manifest.model import Stretch
from lithify.manifest.transactions import Reach, TransactionStamp
from lithify.manifest.words import counted, numbers_text
from lithify.segment.arrays import from_longs
from lithify.segment.partitioner import murmur2, partitions_for_keys
from lithify.store.driver import Driver
from lithify.store.errors import AlreadyExists, CommitUnknown, InvalidRequest, LithifyError

__all__ = ["Import"]

KEYLESS_STRETCH_ROWS = 10_000  # consecutive rows without a key for one partition; then comes the next
_MADE = re.compile(r".*-[0-9a-f]{16}")  # a source id made by the command


class Import:
    """`partition`: all rows go there; None: each goes where its key belongs. `new`: nobody can have sent anything under
    this name. `given`: a person chose the name. `new_source`: earlier imports of this path were of other sources, or
    are to stay beside this one, which reads their source in another way or sends it elsewhere.
    """

    def __init__(
        self,
        topic: Topic,
        source_id: str,
        partition: int | None,
        skip: int = 0,
        *,
        new: bool = False,
        given: bool = False,
        new_source: bool = False,
        reading: Reading = AS_RECORDS,
        now_ms: Callable[[], int] = lambda: 0,
        driver: Driver | None = None,
    ) -> None:
        """`driver`: of the topic. With it, the parts of a batch go side by side if the store is far."""
        self.source_id = source_id
        self._driver = driver if driver is not None and driver.store.far else None
        self._given = given
        self.offsets: dict[int, range] = {}  # from the first to the last offset of this run, by partition
        self.appended = self.already_there = 0
        self._counting = threading.Lock()  # of these two
        # Rows by partition that may have been appended. Until it is known, or for ever if the process ends now.
        self._unknown: dict[int, int] = {}
        self._tried: int | None = None  # the first row of a batch that raised
        self._settled: set[int] = set()  # partitions whose part of it is in
        self._topic = topic
        self._partition = partition
        self._new = new
        self.passed_over = self._done_to = skip  # every row up to the latter is stored, or was to be skipped
        # Rows up to there would be stored after later ones, so they must be left out.
        self._in_order_from: int | None = None
        self._forgotten = False
        self._beside: set[int] = set()  # partitions read because of other imports, without a row of this one yet
        self._open: set[int] = set()  # partitions that know this import, but not that it has ended
        self._reached: dict[int, Reach] = {}  # of the partitions that were read
        self._read = told(reading.text)
        # How its first rows were read is not known.
        self.began_without_reading = (
            self.found_by_name and reading != AS_RECORDS and began_without_reading(topic, source_id, reading, partition)
        )
        if self.began_without_reading:
            reading = AS_RECORDS
        self.application = f"import {reading.within(source_id)}"
        self._count = topic.partitions
        self._name = made_name(source_id)
        self._same_path: SamePath | None = None
        if self._name is not None and not (new or given):
            self._same_path = SamePath(topic, source_id, reading, self._name, partition, now_ms)
        self._replaces = new_source
        self.path_had_other_content = False  # which is stored, too
        self._instead: Unfinished | None = None  # an earlier import of the path, because of which this one is refused
        self._readings: OtherReadings | None = None
        if partition is None:
            if not new:
                self._count = self._began_over() or topic.partitions
            self.application += f" over {self._count}"
        else:
            self._at(partition)  # refused at once if there is no such partition
        if not (new or new_source):
            self._readings = OtherReadings(topic, self.application, partition, now_ms, given=given)
        self.began_over = self._count if self._count < topic.partitions else None  # the topic has grown since
        # Where rows without a key begin.
        self._first = murmur2(self.application.encode()) & 0xFFFF
        if self._name is not None:
            self._first = self._name.first_place(self._count)

    def _began_over(self) -> int | None:
        """If the topic has grown, look at all partitions: any one may be the only one that knows."""
        former = self._topic.former_partitions()
        if not former:
            return None
        looks = look_at(self._topic, range(self._topic.partitions))
        for number, entries in looks.items():
            if not isinstance(entries, LithifyError):
                self._check_path(number, entries)
        return began_over(self._topic, self.application, former, looks)

    def _check_path(self, number: int, entries: Entries) -> None:
        """SUBTLE! 1. "line 5 is not a JSON object": the import ends after four rows. 2. The file is repaired; its
        content, so its name, is another. 3. The same command would append the first rows again. Test:
        tests/cli/test_unfinished_imports.py"""
        if self._readings is not None:
            self._readings.note(number, entries)
        if self._same_path is None or self._replaces:
            return
        self.path_had_other_content |= self._same_path.replaced(entries)
        self._instead = self._same_path.met(entries, self.application, self._done_to)
        if self._instead is not None:
            raise self._instead.refusal(f"{self._topic.name}/{number}")

    def _check_paths(self, keyless: npt.NDArray[np.int64]) -> None:
        """Check the partitions where another content of the path would have begun: an import is known in the partition
        of its first row. `keyless`: rows of this batch without a key, which another content sends elsewhere."""
        if self._same_path is None or self._partition is not None or self._name is None:
            return
        stretches = np.unique((keyless - 1) // KEYLESS_STRETCH_ROWS).tolist()
        numbers = {place for each in stretches for place in self._name.first_places(self._count, each)}
        if self._done_to and self._done_to == self.passed_over:
            numbers = set(range(self._count))  # the first row of the other import is not in this run
        looks = look_at(self._topic, sorted(numbers - self._reached.keys() - self._beside))
        self._beside |= looks.keys()
        for number, entries in looks.items():
            if not isinstance(entries, LithifyError):  # if it failed, a row that goes there will raise
                self._check_path(number, entries)

    def _check_readings(self, numbers: list[int]) -> None:
        """Once, before anything is appended. `numbers`: the partitions of the first rows."""
        if self._readings is None:
            return
        if all(self._reach(number) == Reach() for number in numbers):
            self._readings.look()
        self._readings.check()
        if self._readings.known:
            self._readings = None

    def _check_readings_again(self) -> None:
        if self._readings is not None:
            readings, self._readings = self._readings, None
            readings.check_again()

    def _look(self, number: int) -> Reach:
        """How far the import has come in a partition."""
        return self._note(number, self._at(number).transactions())

    def _note(self, number: int, known: Entries) -> Reach:
        found = self._entry(known)
        reach = Reach(found.version, tuple(Stretch(*each) for each in found.passed_over)) if found else Reach()
        self._reached[number] = reach
        if found and not found.ended:
            self._open.add(number)
        return reach

    def _entry(self, known: Entries) -> TransactionInfo | None:
        return next((each for each in known if each.application == self.application), None)

    def _reach(self, number: int) -> Reach:
        """As last seen; if it has changed since, the append is refused."""
        known = self._reached.get(number)
        if known is not None:
            return known
        if self._new:
            return Reach()
        entries = self._at(number).transactions()
        self._check_path(number, entries)
        return self._note(number, entries)

    def _at(self, number: int) -> Partition:
        return self._topic.partition(number)

    def append(self, records: Any, first: int, *, last: bool) -> None:
        """Append a batch: rows from `first` on, directly after those of the batch before. `last`: the source ends with
        it. Requires: if a batch raised, it was Unavailable or CommitUnknown, and the same batch is given again."""
        if self._tried != first:
            self._tried = first
            self._settled.clear()
        table = self._topic.prepare(records, first=first)
        rows = np.arange(first, first + table.num_rows)
        keys = table.column("key").chunk(0)
        places = self._places(keys, rows)
        # By their first rows: if an import is known at all, it is in the partition of its first row.
        numbers = places[np.sort(np.unique(places, return_index=True)[1])].tolist()
        if self._replaces and self._same_path is not None:
            self._same_path.end()
            self._same_path = None
        self._check_paths(rows[keys.is_null().to_numpy(zero_copy_only=False)])
        parts = {number: rows[places == number] for number in numbers}
        self._look_ahead(numbers)
        for number, mine in parts.items():
            self._check_order(number, mine, self._reach(number))
        if numbers:
            self._check_readings(numbers)

        def append_to(number: int, unknown: int) -> None:
            # SUBTLE! Only the very last part says that the import has ended. 1. An earlier part says so. 2. A later
            # part fails. 3. The entry is forgotten at the limit, since it has "ended", and the rows are appended again.
            # Test: tests/cli/test_imports.py
            if number not in self._settled:
                final = last and number == numbers[-1]
                self._append_to(number, table, parts[number], first, unknown, last=final)
                self._settled.add(number)

        def alone(number: int) -> None:
            append_to(number, self._unknown.get(number, 0))
            self._check_readings_again()

        if self._driver is None or len(numbers) < 3:
            for number in numbers:
                alone(number)
        else:  # the part of the first row is in before any other (see above), and all are before the last
            alone(numbers[0])
            rows_of = {each: len(parts[each]) for each in numbers[1:-1] if each not in self._settled}
            append_at_once(self._driver, append_to, rows_of, self._unknown)
            alone(numbers[-1])
        self._done_to = first + table.num_rows - 1
        self._tried = None

    def _look_ahead(self, numbers: list[int]) -> None:
        """How far the import has come in these partitions, if they are asked side by side. One that fails is asked
        again when it is needed, and raises then."""
        if self._driver is None or self._new:
            return
        unread = [number for number in numbers if number not in self._reached]
        for number, entries in look_at(self._topic, unread).items() if len(unread) > 1 else ():
            if not isinstance(entries, LithifyError):
                self._check_path(number, entries)
                self._note(number, entries)

    def _places(self, keys: Any, rows: npt.NDArray[np.int64]) -> npt.NDArray[np.int64]:
        """The partition of each row. It must not depend on how the source is cut into batches."""
        if self._partition is not None:
            return np.full(len(rows), self._partition, np.int64)
        places = partitions_for_keys(keys, self._count)
        stretches = self._first + (rows - 1) // KEYLESS_STRETCH_ROWS
        return np.where(places < 0, stretches % self._count, places)

    def _append_to(
        self, number: int, table: pa.Table, mine: npt.NDArray[np.int64], first: int, unknown: int, *, last: bool
    ) -> None:
        """Append the missing ones of the rows `mine`, which are all rows of this batch for a partition. `unknown`: how
        many of them an earlier attempt may have appended. Threads may do this for several partitions."""
        end = first + table.num_rows - 1
        while True:
            reach = self._reach(number)
            self._check_order(number, mine, reach)
            missing = mine[mine > reach.version]
            if not len(missing):
                self._add(unknown, len(mine) - unknown)
                self._unknown.pop(number, None)
                return
            part = table.take(from_longs(missing - first)).combine_chunks()
            last = last and self._made
            stamp = TransactionStamp(self.application, end, reach, first=self.passed_over + 1, last=last)
            self._unknown[number] = len(missing)
            try:
                given = self._at(number).append_prepared(part, transaction=stamp)
            except AlreadyExists:
                self._unknown[number] = unknown  # until it is known
                # Another process sends the same source, or a delayed request has arrived.
                if grown(self._look(number)) <= grown(reach):
                    self._unknown.pop(number, None)
                    raise
                continue
            except CommitUnknown:
                raise
            except LithifyError as error:
                self._unknown[number] = unknown
                if isinstance(error, InvalidRequest) and reach != Reach():
                    with contextlib.suppress(LithifyError):  # not noted: it is not where this import goes on
                        self._forgotten |= self._entry(self._at(number).transactions()) is None
                raise
            self._unknown.pop(number, None)
            self._add(len(given), len(mine) - len(missing))
            self._appended(number, given, reach.after(stamp.first, stamp.version), last=last)
            return

    def _add(self, appended: int, already_there: int) -> None:
        with self._counting:
            self.appended += appended
            self.already_there += already_there

    def _check_order(self, number: int, mine: npt.NDArray[np.int64], reach: Reach) -> None:
        """Rows that were skipped cannot be appended once later ones are stored: the older of two values of a key
        would win, and if another import has these rows, they would be stored twice."""
        late = [each for each in reach.passed_over if np.any((mine >= each.first) & (mine <= each.last))]
        if late:
            self._in_order_from = late[-1].last
            these = numbers_text("record", range(late[0].first, late[0].last + 1))
            were = "was" if late[0].first == late[0].last else "were"
            raise InvalidRequest(
                f"{self._topic.name}/{number}: {these} of the source {were} skipped earlier (--skip), and later "
                "records are already in the log. Appending them now would put them out of order, and would duplicate "
                f"them if another import appended them. Give --skip {self._in_order_from} to leave them out"
            )

    def _appended(self, number: int, given: range, reach: Reach, *, last: bool) -> None:
        self._reached[number] = reach
        before = self.offsets.get(number)
        self.offsets[number] = range(before.start if before else given.start, given.stop)
        if last:
            self._open.discard(number)
        else:
            self._open.add(number)

    @property
    def found_by_name(self) -> bool:
        """The command made this name and a person gave it again; the source may have another name by now."""
        return self._given and self._made

    @property
    def _made(self) -> bool:
        return _MADE.fullmatch(self.source_id) is not None

    def warnings(self) -> Iterator[str]:
        """What its beginning, in an earlier run, means for the rest."""
        if self.began_over is not None:
            yield (
                f"this import began when the topic had {counted(self.began_over, 'partition')}, and keeps using only "
                f"those; the topic now has {self._topic.partitions}. scan and get leave out records whose keys belong "
                "to another partition now"
            )
        if self.began_without_reading:
            yield (
                f"the entries of {self.source_id} do not say how its rows were read; the rest of them is read "
                f"{self._read}"
            )

    def end(self) -> None:
        """All rows are stored, except those skipped. A source that a person named may grow, and is not ended."""
        # SUBTLE! Only in partitions to which rows of this run went: it knows nothing of rows that it skipped. 1. A
        # file was cut short at row 8. 2. `--skip 10` has no rows. 3. If it ended the import, that would give way, or
        # let the repaired source in, and the first rows would be appended again. Test: tests/cli/test_skipped_rows.py
        # The partition that has come furthest goes first: its entry speaks for all, whatever ends the process now.
        furthest_first = sorted(self._open, key=lambda number: (-self._reached[number].version, number))
        for number in furthest_first if self._made else []:
            # If it fails, the entry expires by itself, so the import need not fail for it.
            with contextlib.suppress(LithifyError):
                self._at(number).end_transaction(self.application, at=self._reached[number])

    def how_far(self, *, repeatable: bool = False) -> Progress:
        """`repeatable`: nothing is wrong with the source."""
        places = range(self._count) if self._partition is None else [self._partition]
        seen = self._new or all(number in self._reached for number in places)
        ahead = not seen or any(reach.version > self._done_to for reach in list(self._reached.values()))
        unknown = sum(list(self._unknown.values()))
        skip = self._in_order_from or (None if ahead or unknown else self._done_to)
        instead = self._instead
        return Progress(
            appended=self.appended,
            already_there=self.already_there,
            unknown=unknown,
            source_id=instead.source_id if instead else self.source_id,
            skip=instead.skip if instead else skip,
            passed_over=self.passed_over,
            forgotten=self._forgotten,
            told=instead is not None,
            repeatable=repeatable and not self._new,
        )
