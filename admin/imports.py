"""An import: the rows of a source into a topic, each once, however often it is interrupted and begun again.

In each partition it is an application that numbers its appends, and the version is a row's number in the source: what
is in up to there is in, what comes after is not, and the rows lie in the order of the source (docs/rfcs/0011).
"""

import contextlib
import re
import shlex
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import msgspec
import numpy as np
import numpy.typing as npt
import pyarrow as pa

from lithify.log.partition import Partition
from lithify.log.partitioner import murmur2, partitions_for_keys
from lithify.log.topic import Topic
from lithify.log.transactions import TransactionInfo
from lithify.manifest.model import Stretch
from lithify.manifest.transactions import Reach, TransactionStamp
from lithify.manifest.words import counted, numbers_text
from lithify.segment.arrays import from_longs
from lithify.store.errors import AlreadyExists, CommitUnknown, InvalidRequest, LithifyError

__all__ = ["SOURCE_ID_CHARACTERS_MAX", "Import", "Progress", "check_source_id"]

SOURCE_ID_CHARACTERS_MAX = 200
LOOKS_AT_ONCE = 16  # at partitions, where the topic has grown
KEYLESS_STRETCH_ROWS = 10_000  # rows without a key that go to one partition, before the next one's turn
_MADE = re.compile(r".*-[0-9a-f]{16}")  # a source's id that the command made itself
_LIKE_A_COUNT = re.compile(r".* over [0-9]+")


def check_source_id(given: str) -> str:
    if not 1 <= len(given) <= SOURCE_ID_CHARACTERS_MAX or not given.isprintable():
        raise InvalidRequest(f"--source-id is a text of 1 to {SOURCE_ID_CHARACTERS_MAX} printable characters")
    if _LIKE_A_COUNT.fullmatch(given):
        # With --partition, 'x over 4' would be taken for the import of 'x' into 4 partitions.
        raise InvalidRequest("--source-id cannot end in ' over' and a number, where imports note their partitions")
    return given


class Progress(msgspec.Struct, frozen=True, kw_only=True):
    """How far an import came, and how it goes on."""

    appended: int  # records that this run appended
    already_there: int  # that an earlier run had
    unknown: int  # that may have been appended
    source_id: str
    skip: int | None  # with which --skip it goes on; None: with the one that was given
    passed_over: int  # how many of the first records this run passed over
    forgotten: bool = False  # a partition that had some of it knows nothing of it any more

    def fields(self) -> dict[str, object]:
        return {name: value for name, value in msgspec.structs.asdict(self).items() if name != "forgotten"}

    def __str__(self) -> str:
        if not self.appended + self.already_there + self.unknown:
            return "Nothing was appended"
        told = f"{counted(self.appended, 'record')} {'was' if self.appended == 1 else 'were'} appended"
        if self.already_there:
            told += f", {self.already_there} were there already"
        if self.unknown:
            told += f", {self.unknown} may have been"
        if self.forgotten and self.skip is None:
            return f"{told}; compare the log with the source before you go on"
        # SUBTLE! Always by the name. A bad line is mended, and the file has another name: with --skip alone the first
        # rows would count as passed over there, although they are in. And always with the number where it is exact:
        # it holds where the name is not remembered any more. Test: tests/properties/test_imports.py
        skip = self.passed_over if self.skip is None else self.skip
        how = f"--source-id {shlex.quote(self.source_id)}" + (f" --skip {skip}" if skip else "")
        return f"{told}; go on with {how}, which appends what is missing and nothing twice"


class Import:
    """`partition`: all rows go there; None: each where its key belongs. `new`: nobody can have sent anything under this
    name. `given`: a person gave the name."""

    def __init__(
        self,
        topic: Topic,
        source_id: str,
        partition: int | None,
        skip: int = 0,
        *,
        new: bool = False,
        given: bool = False,
    ) -> None:
        self.source_id = source_id
        self._given = given
        self.offsets: dict[int, range] = {}  # from the first to the last that each partition was given
        self.appended = self.already_there = self._unknown = 0
        self._topic = topic
        self._partition = partition
        self._new = new
        self.passed_over = self._done_to = skip  # every row up to the latter is in, or was to be passed over
        self._in_order_from: int | None = None  # rows up to there would come after later ones, and are left out
        self._forgotten = False
        self._open: set[int] = set()  # partitions that know it, and not that it has ended
        self._reached: dict[int, Reach] = {}  # of the partitions that were looked at
        self.application = f"import {source_id}"
        self._count = topic.partitions
        if partition is None:
            if not new:
                self._count = _began_over(topic, self.application) or topic.partitions
            self.application += f" over {self._count}"
        else:
            self._at(partition)  # refused at once where there is none of this number
        self.began_over = self._count if self._count < topic.partitions else None  # the topic has grown since
        self._first = murmur2(self.application.encode()) & 0xFFFF  # where rows without a key begin

    def _look(self, number: int) -> Reach:
        """How far the import is in a partition."""
        known = self._at(number).transactions()
        found = next((each for each in known if each.application == self.application), None)
        reach = Reach(found.version, tuple(Stretch(*each) for each in found.passed_over)) if found else Reach()
        self._reached[number] = reach
        if found and not found.ended:
            self._open.add(number)
        return reach

    def _reach(self, number: int) -> Reach:
        """As it was last seen: where it is another by now, the append is refused."""
        known = self._reached.get(number)
        if known is not None:
            return known
        return Reach() if self._new else self._look(number)

    def _at(self, number: int) -> Partition:
        return self._topic.partition(number)

    def append(self, records: Any, first: int, *, last: bool) -> None:
        """A batch: rows `first` and on of the source, without a gap to the one before. `last`: it is its end. Requires:
        none before it raised."""
        table = self._topic.prepare(records, first=first)
        rows = np.arange(first, first + table.num_rows)
        places = self._places(table.column("key").chunk(0), rows)
        numbers = np.unique(places).tolist()
        for number in numbers:
            self._check_order(number, rows[places == number], self._reach(number))
        for number in numbers:
            # SUBTLE! Only the last part of all says that it is the end. Said with another, it would be said of an
            # import that is not over if a later part fails: the entry would give way first, and its rows come again.
            # Test: tests/admin/test_imports.py
            final = last and number == numbers[-1]
            self._append_to(number, table, rows[places == number], first, last=final)
        self._done_to = first + table.num_rows - 1

    def _places(self, keys: Any, rows: npt.NDArray[np.int64]) -> npt.NDArray[np.int64]:
        """Where each row goes. It must not depend on how the source is cut into batches."""
        if self._partition is not None:
            return np.full(len(rows), self._partition, np.int64)
        places = partitions_for_keys(keys, self._count)
        stretches = self._first + (rows - 1) // KEYLESS_STRETCH_ROWS
        return np.where(places < 0, stretches % self._count, places)

    def _append_to(self, number: int, table: pa.Table, mine: npt.NDArray[np.int64], first: int, *, last: bool) -> None:
        """What is missing of the rows `mine`, which are all that this batch has for a partition."""
        end = first + table.num_rows - 1
        while True:
            reach = self._reach(number)
            self._check_order(number, mine, reach)
            missing = mine[mine > reach.version]
            if not len(missing):
                self.already_there += len(mine)
                return
            part = table.take(from_longs(missing - first)).combine_chunks()
            last = last and self._made
            stamp = TransactionStamp(self.application, end, reach, first=self.passed_over + 1, last=last)
            self._unknown = len(missing)  # until it is known: whatever ends the process now leaves it open
            try:
                given = self._at(number).append_prepared(part, transaction=stamp)
            except AlreadyExists:
                self._unknown = 0
                # Another process sends the same source, or an earlier request came late.
                if _progress(self._look(number)) <= _progress(reach):
                    raise
                continue
            except CommitUnknown:
                raise
            except LithifyError as error:
                self._unknown = 0
                if isinstance(error, InvalidRequest) and reach != Reach():
                    with contextlib.suppress(LithifyError):
                        self._forgotten = self._look(number) == Reach()
                raise
            self._unknown = 0
            self.already_there += len(mine) - len(missing)
            self._appended(number, given, reach.after(stamp.first, stamp.version), last=last)
            return

    def _check_order(self, number: int, mine: npt.NDArray[np.int64], reach: Reach) -> None:
        """What was passed over is not appended any more once later rows are in: of two values of a key the older one
        would win, and where another import has these rows, they would be there twice."""
        late = [each for each in reach.passed_over if np.any((mine >= each.first) & (mine <= each.last))]
        if late:
            self._in_order_from = late[-1].last
            these = numbers_text("record", range(late[0].first, late[0].last + 1))
            were = "was" if late[0].first == late[0].last else "were"
            raise InvalidRequest(
                f"{self._topic.name}/{number}: {these} of the source {were} passed over (--skip), and later ones are "
                "in. Appended now, they would come after these, and twice if another import has them. Give --skip "
                f"{self._in_order_from}, which leaves them out"
            )

    def _appended(self, number: int, given: range, reach: Reach, *, last: bool) -> None:
        self.appended += len(given)
        self._reached[number] = reach
        before = self.offsets.get(number)
        self.offsets[number] = range(before.start if before else given.start, given.stop)
        if last:
            self._open.discard(number)
        else:
            self._open.add(number)

    @property
    def found_by_name(self) -> bool:
        """A name that the command made itself and a person gave again: the source may have another name by now."""
        return self._given and self._made

    @property
    def _made(self) -> bool:
        return _MADE.fullmatch(self.source_id) is not None

    def end(self) -> None:
        """All rows are in, but for those that were passed over. Where a person named the source, it may grow, and is
        not ended."""
        for number in sorted(self._open) if self._made else []:
            # Were it never told, the entry would expire by itself: no reason to say that the import failed.
            with contextlib.suppress(LithifyError):
                self._at(number).end_transaction(self.application, at=self._reached[number])

    def how_far(self) -> Progress:
        places = range(self._count) if self._partition is None else [self._partition]
        seen = self._new or all(number in self._reached for number in places)
        ahead = not seen or any(reach.version > self._done_to for reach in self._reached.values())
        return Progress(
            appended=self.appended,
            already_there=self.already_there,
            unknown=self._unknown,
            source_id=self.source_id,
            skip=self._in_order_from or (None if ahead or self._unknown else self._done_to),
            passed_over=self.passed_over,
            forgotten=self._forgotten,
        )


def _progress(reach: Reach) -> tuple[int, int]:
    """Grows with each append."""
    return reach.version, -sum(each.last - each.first + 1 for each in reach.passed_over)


def _began_over(topic: Topic, name: str) -> int | None:
    """Over how many partitions this import began; None: as many as there are, or it begins now."""
    former = topic.former_partitions()
    if not former:
        return None
    shape = re.compile(re.escape(name) + r" over ([0-9]+)")
    looks = _all_entries(topic)
    entries = [each for look in looks if not isinstance(look, LithifyError) for each in look]
    found = {int(match[1]) for each in entries if (match := shape.fullmatch(each.application))}
    if len(found) > 1:
        counts = " and ".join(map(str, sorted(found)))
        raise InvalidRequest(
            f"topic {topic.name}: {name} was begun over {counts} partitions, while the topic grew. Compare the log "
            f"with the source; 'lithify transaction forget {topic.name} …' forgets what is wrong"
        )
    failed = {n: look for n, look in enumerate(looks[: max(former)]) if isinstance(look, LithifyError)}
    if failed and not found:
        # It may be the only one that knows. Over another count the import's rows would go elsewhere, and come twice.
        error = next(iter(failed.values()))
        error.add_note(
            f"topic {topic.name} has grown to {counted(topic.partitions, 'partition')}, and without "
            f"{numbers_text('partition', list(failed))} it is not known over how many this import began; nothing was "
            "appended. With --partition the question does not arise"
        )
        raise error
    return found.pop() if found else None


def _all_entries(topic: Topic) -> list[tuple[TransactionInfo, ...] | LithifyError]:
    """Of each partition, or why it does not tell."""

    def look(number: int) -> tuple[TransactionInfo, ...] | LithifyError:
        try:
            return topic.partition(number).transactions()
        except LithifyError as error:
            return error

    with ThreadPoolExecutor(LOOKS_AT_ONCE, thread_name_prefix="lithify-import") as pool:
        return list(pool.map(look, range(topic.partitions)))
