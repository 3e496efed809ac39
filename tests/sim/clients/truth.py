"""The witness of a world of clients: which record is at which offset, what of it is still there, and who has which
position. It reads the store's objects by `json` and Parquet, and shares no code with the product.

Each numbered file is looked at in the moment that it appears, and each segment once. What a file says of itself is held
to what the actors asked for: a growth's ends, what was deleted by hand, the log's start.
"""

import json
from collections import defaultdict
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass, field
from typing import Any, NamedTuple

import pyarrow as pa
import pyarrow.parquet as pq

from tests.sim.cast import Author, Violation
from tests.sim.world import World

__all__ = ["HASHES", "KEYS", "OPERATOR", "Log", "Position", "Row", "Taken", "Truth", "partition_of_key"]

OPERATOR = "operator"  # the actor that resets consumers, and deletes them

# By key: Kafka's hash of it, without its sign.
HASHES = {
    b"a": 584102524,
    b"c": 270014794,
    b"d": 284602193,
    b"e": 1180016954,
    b"f": 55990575,
    b"h": 1489429165,
}
KEYS = tuple(HASHES)


def partition_of_key(key: bytes, partitions: int) -> int:
    return HASHES[key] % partitions


class Row(NamedTuple):
    key: bytes
    value: bytes | None


class Position(NamedTuple):
    offset: int
    instance: str
    missed_to: int = 0


class Taken(NamedTuple):
    """A name changed hands."""

    step: int
    author: Author
    offset: int


@dataclass
class Log:
    """That of one partition."""

    number: int
    added_at: int  # step
    manifest: int = 0
    rows: dict[int, Row] = field(default_factory=dict)  # by offset: all that ever was
    live: frozenset[int] = frozenset()
    next_offset: int = 0
    floor: int = 0  # as it is stored
    deleted_to: int = 0
    keeps: int | None = None  # retention.records
    delete_asked: set[int] = field(default_factory=set)  # offsets before which somebody was to delete
    positions: dict[str, Position] = field(default_factory=dict)
    replaced: set[tuple[str, str]] = field(default_factory=set)
    taken: dict[str, list[Taken]] = field(default_factory=lambda: defaultdict(list))  # by consumer
    epochs: dict[str, int] = field(default_factory=dict)  # by producer
    fenced: dict[str, list[int]] = field(default_factory=lambda: defaultdict(list))  # by producer: steps

    @property
    def lost_to(self) -> int:
        """What lies before may be gone: it was deleted by hand, or retention lets it expire."""
        return max(self.deleted_to, 0 if self.keeps is None else self.next_offset - self.keeps)

    def taken_by(self, name: str, author: Author) -> int | None:
        """The position at which this process last took the consumer over."""
        return next((taken.offset for taken in reversed(self.taken[name]) if taken.author == author), None)

    def may_be_missing(self, offset: int) -> bool:
        """Whether nobody need ever see the row: it was deleted by hand, or it was cleaned away and something of its key
        came later, or it is a tombstone that is gone."""
        if offset < self.deleted_to:
            return True
        if offset in self.live:
            return False
        row = self.rows[offset]
        return row.value is None or any(at > offset and other.key == row.key for at, other in self.rows.items())

    def after(self, offset: int) -> range:
        return range(offset + 1, len(self.rows))

    def between(self, first: int, end: int) -> Iterator[int]:
        return (offset for offset in range(first, end) if offset in self.rows)


Moved = Callable[[Log, str, Position | None, Position | None, Author], None]
"""Hears of each position that is committed, before it counts: of which name, from where, to where, by whom."""


@dataclass
class Truth:
    """The witness of a world."""

    world: World
    hear_of_positions: list[Moved] = field(default_factory=list)
    opens: Callable[[str, Author], bool] = field(default=lambda name, author: False)  # an instance of it, just now
    logs: dict[int, Log] = field(default_factory=dict)
    keeps: int | None = None  # retention.records of the topic
    growths: list[tuple[int, list[int | None]]] = field(default_factory=list)  # former counts, and ends there
    partitions: int = 0
    counts_from: list[tuple[int, int]] = field(default_factory=list)  # since when, and so many partitions
    growing: list[tuple[str, dict[int, int]]] = field(default_factory=list)  # asked by whom, and the ends by then
    known: set[bytes] = field(default_factory=set)  # values that somebody wrote, or will: each one once
    refused: set[bytes] = field(default_factory=set)  # of these, what certainly was not appended
    found_at: dict[bytes, tuple[int, int]] = field(default_factory=dict)  # value -> partition, offset
    ordered: dict[bytes, tuple[str, int]] = field(default_factory=dict)  # value -> its source, and number there

    def __post_init__(self) -> None:
        self._offsets: dict[str, frozenset[int]] = {}  # of segments
        self._latest: dict[tuple[int, bytes, str], int] = {}  # by partition, key and source
        self._config = 0

    def created(self, author: Author, key: str, body: bytes) -> None:
        folder, _, name = key.rpartition("/")
        if name.endswith(".topic"):
            self._topic(json.loads(body), author)
        elif name.endswith(".manifest"):
            self._manifest(folder.removesuffix("/manifest"), json.loads(body), author)

    def _topic(self, file: dict[str, Any], author: Author) -> None:
        if file["id"] <= self._config:
            return
        growths = [(growth["partitions"], growth["ends"]) for growth in file["growths"]]
        if file["partitions"] != self.partitions:
            self.counts_from.append((self.world.now_ms, file["partitions"]))
            if self.partitions:
                self._grown(growths, author)
        elif growths != self.growths:
            raise Violation(f"the topic did not grow, and its growths were {self.growths}, are {growths}")
        self._config, self.partitions, self.growths = file["id"], file["partitions"], growths
        for number in range(self.partitions):
            self._log(number).added_at = self._log(number).added_at or self.world.steps

    def grows(self, actor: str) -> None:
        """The actor is about to ask for growth."""
        self.growing.append((actor, self.ends()))

    def ends(self) -> dict[int, int]:
        return {number: log.next_offset for number, log in self.logs.items()}

    def _grown(self, growths: list[tuple[int, list[int | None]]], author: Author) -> None:
        """Each end that is noted lies between the log's end at the call and the one at the announcement."""
        asked = [ends for actor, ends in self.growing if actor == author[0]]
        *before, (count, ends) = growths
        if before != self.growths or count != self.partitions or len(ends) > count:
            raise Violation(f"{self.partitions} partitions grow, their growths were {self.growths}, are {growths}")
        for number, end in enumerate(ends):
            least, most = min((each.get(number, 0) for each in asked), default=0), self.logs[number].next_offset
            if (end is None and self.world.rested) or (end is not None and not least <= end <= most):
                raise Violation(f"partition {number} ended between {least} and {most}, and its growth notes {end}")
        self.world.held("the ends of a growth")

    def counts_since(self, ms: int) -> set[int]:
        """The partition counts that held at some time since then."""
        later = [count for since, count in self.counts_from if since > ms]
        earlier = [count for since, count in self.counts_from if since <= ms]
        return {*later, *earlier[-1:]}

    def _log(self, number: int) -> Log:
        return self.logs.setdefault(number, Log(number, 0, keeps=self.keeps))

    def _manifest(self, folder: str, file: dict[str, Any], author: Author) -> None:
        log = self._log(file["partition"])
        if file["id"] <= log.manifest:
            return
        log.manifest = file["id"]
        live: set[int] = set()
        if sum("base_offset" in each and each["added_at"] == file["id"] for each in file.get("l0", ())) > 1:
            self.world.counts["commit of several appends"] += 1
        for segment in file.get("l0", ()):
            live |= self._read(folder, segment, log)
        for run in file.get("runs", ()):
            for segment in run["segments"]:
                live |= self._read(folder, segment, log)
        log.next_offset = file.get("next_offset", 0)
        self._starts_at(log, file.get("log_start_offset", 0), file.get("deleted_to", 0))
        before, log.live = log.live, frozenset(offset for offset in live if offset >= log.floor)
        positions = {
            entry["name"]: Position(entry.get("offset", 0), entry["instance"], entry.get("missed_to", 0))
            for entry in file.get("consumers", ())
        }
        for name in log.positions.keys() - positions.keys():
            gone = log.positions.pop(name)
            for moved in self.hear_of_positions:
                moved(log, name, gone, None, author)
        for name, position in positions.items():
            self._position(log, name, position, author)
        self._alarms(log, before)
        for entry in file.get("producers", ()):
            if entry["epoch"] != log.epochs.get(entry["id"]):
                log.epochs[entry["id"]] = entry["epoch"]
                log.fenced[entry["id"]].append(self.world.steps)

    def _starts_at(self, log: Log, floor: int, deleted_to: int) -> None:
        if deleted_to not in (log.deleted_to, *log.delete_asked):
            raise Violation(f"partition {log.number} is deleted to {deleted_to}, and asked for was {log.delete_asked}")
        log.deleted_to = deleted_to
        if not log.floor <= floor <= log.lost_to:
            raise Violation(f"partition {log.number} begins at {floor}, before at {log.floor}; at most {log.lost_to}")
        log.floor = floor

    def _alarms(self, log: Log, before: frozenset[int]) -> None:
        """Whoever has not read a tombstone that is cleaned away, and of whose key nothing comes later, is alarmed."""
        for offset in before - log.live:
            key, value = log.rows[offset]
            if value is not None or offset < log.floor or any(log.rows[at].key == key for at in log.after(offset)):
                continue
            self.world.held("tombstones that are cleaned away")
            for name, position in log.positions.items():
                if position.offset <= offset < position.missed_to or position.offset > offset:
                    continue
                raise Violation(f"{name!r} of partition {log.number} is at {position}, and {offset} was cleaned away")

    def _read(self, folder: str, segment: dict[str, Any], log: Log) -> frozenset[int]:
        name = f"{folder}/segments/{segment['id']}.parquet"
        known = self._offsets.get(name)
        if known is not None:
            return known
        found = self.world.objects.get(name)
        if found is None:
            raise Violation(f"partition {log.number}: segment {segment['id']} is named, and not there")
        place = "offset_delta" if "base_offset" in segment else "offset"
        file = pq.ParquetFile(pa.BufferReader(found[0]), pre_buffer=False)
        table = file.read(["key", "value", place], use_threads=False)
        rows = list(zip(table.column("key").to_pylist(), table.column("value").to_pylist(), strict=True))
        if "base_offset" in segment:
            offsets = [segment["base_offset"] + delta for delta in table.column(place).to_pylist()]
            for offset, row in sorted(zip(offsets, rows, strict=True)):
                self._new(log, offset, Row(*row))
        else:
            offsets = table.column(place).to_pylist()
        for offset, row in zip(offsets, rows, strict=True):
            if log.rows.get(offset) != Row(*row):
                raise Violation(f"partition {log.number}: offset {offset} was {log.rows.get(offset)}, is {row}")
        self._offsets[name] = frozenset(offsets)
        return self._offsets[name]

    def _new(self, log: Log, offset: int, row: Row) -> None:
        if offset != len(log.rows):
            raise Violation(f"partition {log.number}: the log has {len(log.rows)} rows, and goes on at {offset}")
        log.rows[offset] = row
        if log.number not in {partition_of_key(row.key, count) for _, count in self.counts_from}:
            raise Violation(f"{row} is in partition {log.number}, where no count has put its key")
        if row.value is None:
            return
        if row.value in self.found_at:
            raise Violation(f"{row} is in partition {log.number} at {offset}, and at {self.found_at[row.value]}")
        if row.value not in self.known or row.value in self.refused:
            raise Violation(f"{row} is in partition {log.number} at {offset}, and nobody wrote it, or it was refused")
        self.found_at[row.value] = log.number, offset
        if row.value in self.ordered:
            source, index = self.ordered[row.value]
            before = self._latest.get((log.number, row.key, source), -1)
            if before > index:
                raise Violation(f"{row} is in partition {log.number} at {offset}, behind number {before}")
            self._latest[log.number, row.key, source] = index

    def _position(self, log: Log, name: str, position: Position, author: Author) -> None:
        before = log.positions.get(name)
        if position == before:
            return
        # A reset, or a taking over, whose first try is unknown may come twice: it is the later one that counts.
        twice = author[0] == OPERATOR or self.opens(name, author)
        if (name, position.instance) in log.replaced and not twice:
            raise Violation(f"{name!r} of partition {log.number}: {position} is committed by who was replaced")
        log.replaced.discard((name, position.instance))
        if before is None or before.instance != position.instance:
            log.taken[name].append(Taken(self.world.steps, author, position.offset))
            if before is not None:
                log.replaced.add((name, before.instance))
        for moved in self.hear_of_positions:
            moved(log, name, before, position, author)
        log.positions[name] = position

    def put(self, author: Author, key: str, body: bytes, home: str = "") -> None:
        """A segment counts from when a manifest names it."""

    def deleting(self, author: Author, key: str) -> None:
        """Readers notice what they miss."""

    def access_denied(self, author: Author) -> None:
        """Whoever asked is told."""

    def as_of_now(self, author: Author) -> Callable[[], AbstractContextManager[None]]:
        return nullcontext

    def death_of(self, key: str) -> Callable[[], bool]:
        """A manifest dies once a later one is there."""
        return lambda: False
