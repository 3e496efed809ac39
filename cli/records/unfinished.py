"""Imports of the same path, but another content, that have not ended: most likely the source was repaired since, and
its first rows are stored (docs/rfcs/0011)."""

import re
import shlex
from collections.abc import Callable, Collection
from typing import NamedTuple

from lithify.cli.records.import_entries import Entries, look_at
from lithify.cli.records.readings import BY, Reading, told
from lithify.log.topic import Topic
from lithify.log.transactions import TransactionInfo
from lithify.segment.partitioner import murmur2
from lithify.store.errors import InvalidRequest, LithifyError

__all__ = ["KEYLESS_PLACES", "MadeName", "SamePath", "Unfinished", "made_name"]

# Rows without a key begin in one of so many partitions: the path determines these, the content chooses among them.
KEYLESS_PLACES = 16
_MADE = re.compile(r"((.*)-[0-9a-f]{8})-([0-9a-f]{16})")


class MadeName(NamedTuple):
    """A name that the command made for a source that it could look at."""

    path: str  # the end of the URL, and a digest of the path
    url_end: str
    content: str  # a digest

    def first_places(self, count: int, stretch: int = 0) -> list[int]:
        """Where a stretch of rows without a key may go, for any content. The first stretch is 0."""
        base = murmur2(f"import {self.path} over {count}".encode()) & 0xFFFF
        return [(base + stretch + n) % count for n in range(min(KEYLESS_PLACES, count))]

    def first_place(self, count: int) -> int:
        places = self.first_places(count)
        return places[int(self.content, 16) % len(places)]


def made_name(source_id: str) -> MadeName | None:
    """None: a person gave the id, an earlier lithify made it, or it was made at random."""
    match = _MADE.fullmatch(source_id)
    return MadeName(*match.groups()) if match else None


class Unfinished(NamedTuple):
    """An import that has not ended."""

    source_id: str
    version: int  # how far it has come where it was found
    skip: int | None  # the --skip to continue it with; 0: none needed; None: it cannot be continued
    read: str = ""  # if its rows were read in another way: "with --key-column id"

    def refusal(self, where: str) -> InvalidRequest:
        text = (
            f"{where}: an earlier import of this path, {self.source_id}, has not finished: it has reached record "
            f"{self.version} here. If this is the same source (repaired, or fetched again), "
        )
        if self.skip is None:
            text += "compare the log with it by hand: this run has already appended records as well"
        else:
            flags = f"--source-id {shlex.quote(self.source_id)}" + (f" --skip {self.skip}" if self.skip else "")
            how = f" {self.read} and" if self.read else " with"
            text += f"run the command again{how} {flags}, which appends the rest without duplicates"
        return InvalidRequest(
            f"{text}. If it is a different source, give --new-source. If the earlier import is still running, wait "
            "until it has finished"
        )


class SamePath:
    """Other imports of the path of `name`; with --partition, those into this one partition."""

    def __init__(
        self,
        topic: Topic,
        source_id: str,
        reading: Reading,
        name: MadeName,
        partition: int | None,
        now_ms: Callable[[], int],
    ) -> None:
        self._topic = topic
        self._source_id = source_id
        self._reading = reading
        self._partition = partition
        self._now_ms = now_ms
        # An earlier lithify made names without a digest of the path: of these, only those with the same content count.
        former = re.escape(f"{name.url_end}-{name.content}")
        over = r" over ([0-9]+)" if partition is None else "()"
        self._shape = re.compile(rf"import ({re.escape(name.path)}-[0-9a-f]{{16}}|{former}){BY}{over}")
        self._over: set[str] = set()  # applications that are known to have ended

    def met(self, entries: Entries, application: str, done_to: int) -> Unfinished | None:
        """The latest one that a partition remembers; None: there is none. `application` has sent or skipped the
        rows up to `done_to`."""
        for entry in reversed([each for each in self._open(entries) if self._content(each) != self._source_id]):
            theirs, mine, all_told = self._everywhere(entry.application, application)
            theirs = theirs or [entry]
            latest = max(each.version for each in theirs)
            if any(each.ended and each.version == latest for each in theirs):
                self._over.add(entry.application)  # it has ended, but could not say so everywhere
                continue
            found = self._shape.fullmatch(entry.application)
            assert found is not None
            source_id, count = found[1], int(found[3] or 1)
            reached = [each.version for each in theirs]
            if all_told and len(theirs) == count and min(reached) == latest:
                skip = latest  # all rows up to it are stored, and no others
            else:
                skip = max((last for each in theirs for _, last in each.passed_over), default=0)
            # The present import has stored the rows up to `done_to`, in partitions that the earlier one did not reach.
            skip = max(skip, done_to)
            ahead = any(each.version > skip for each in mine)
            theirs_read = found[2] or ""
            read = "" if theirs_read == self._reading.named(source_id) else told(theirs_read)
            return Unfinished(source_id, entry.version, None if ahead else skip, read)
        return None

    def replaced(self, entries: Entries) -> bool:
        """Whether another content of the path was imported to its end."""
        return any(each.ended and self._content(each) not in ("", self._source_id) for each in entries)

    def end(self) -> None:
        """The caller says that they were other sources: mark them as ended, so that they refuse no import."""
        looks = look_at(self._topic, self._numbers())
        for number, entries in looks.items():
            for entry in [] if isinstance(entries, LithifyError) else self._open(entries):
                self._topic.partition(number).end_transaction(entry.application)

    def _open(self, entries: Entries) -> list[TransactionInfo]:
        found = [
            each
            for each in entries
            if not each.ended
            and each.application not in self._over
            and (match := self._shape.fullmatch(each.application))
            and (match[1], match[2] or "") != (self._source_id, self._reading.named(self._source_id))
        ]
        if not found:
            return []
        # An entry idle for longer counts as forgotten, whether or not its place was needed.
        since = self._now_ms() - self._topic.parsed_config.transactional_id_expiration_ms
        return [each for each in found if (each.committed_at_ms or 0) >= since]

    def _content(self, entry: TransactionInfo) -> str:
        found = self._shape.fullmatch(entry.application)
        return found[1] if found else ""

    def _everywhere(self, *applications: str) -> tuple[list[TransactionInfo], list[TransactionInfo], bool]:
        """What all partitions remember of two applications, and whether all of them answered."""
        looks = look_at(self._topic, self._numbers())
        told = [each for look in looks.values() if not isinstance(look, LithifyError) for each in look]
        theirs, mine = ([each for each in told if each.application == name] for name in applications)
        return theirs, mine, not any(isinstance(look, LithifyError) for look in looks.values())

    def _numbers(self) -> Collection[int]:
        return range(self._topic.partitions) if self._partition is None else [self._partition]
