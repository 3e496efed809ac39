"""What was written, where, and what became of it: read out of the store's objects, with none of the product's code.

Each numbered file is looked at in the moment that it appears, and each segment once.
"""

import io
import json
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass, field
from typing import Any, NamedTuple

import pyarrow.parquet as pq

from tests.sim.cast import Author, Violation
from tests.sim.world import World

__all__ = ["HASHES", "KEYS", "Position", "Row", "Shelf", "Truth", "home_of"]

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


def home_of(key: bytes, partitions: int) -> int:
    return HASHES[key] % partitions


class Row(NamedTuple):
    key: bytes
    value: bytes | None


class Position(NamedTuple):
    offset: int
    instance: str


@dataclass
class Shelf:
    """One partition."""

    number: int
    added_at: int  # step
    manifest: int = 0
    rows: dict[int, Row] = field(default_factory=dict)  # by offset: all that ever was
    live: frozenset[int] = frozenset()
    next_offset: int = 0
    floor: int = 0  # as it is stored
    deleted_to: int = 0
    positions: dict[str, Position] = field(default_factory=dict)
    replaced: set[tuple[str, str]] = field(default_factory=set)

    def explained(self, offset: int) -> bool:
        """Whether nobody need ever see the row: it was deleted by hand, or it was cleaned away and something of its key
        came later, or it is a tombstone that is gone."""
        if offset < self.deleted_to:
            return True
        if offset in self.live:
            return False
        row = self.rows[offset]
        return row.value is None or any(at > offset and other.key == row.key for at, other in self.rows.items())

    def between(self, first: int, end: int) -> Iterator[int]:
        return (offset for offset in range(first, end) if offset in self.rows)


Moved = Callable[[Shelf, str, Position | None, Position], None]
"""Hears of each position that is committed, before it counts: of which name, from where, to where."""


@dataclass
class Truth:
    """The witness of a world."""

    world: World
    moved: Moved
    shelves: dict[int, Shelf] = field(default_factory=dict)
    growths: list[tuple[int, list[int | None]]] = field(default_factory=list)  # former counts, and ends there
    partitions: int = 0
    known: set[bytes] = field(default_factory=set)  # values that somebody wrote, or will: each one once
    refused: set[bytes] = field(default_factory=set)  # of these, what certainly was not appended
    lies: dict[bytes, tuple[int, int]] = field(default_factory=dict)  # value -> partition, offset
    ordered: dict[bytes, tuple[str, int]] = field(default_factory=dict)  # value -> its source, and number there

    def __post_init__(self) -> None:
        self._offsets: dict[str, frozenset[int]] = {}  # of segments
        self._latest: dict[tuple[int, bytes, str], int] = {}  # by partition, key and source
        self._config = 0

    def created(self, author: Author, key: str, body: bytes) -> None:
        folder, _, name = key.rpartition("/")
        if name.endswith(".topic"):
            self._topic(json.loads(body))
        elif name.endswith(".manifest"):
            self._manifest(folder.removesuffix("/manifest"), json.loads(body))

    def _topic(self, file: dict[str, Any]) -> None:
        if file["id"] <= self._config:
            return
        self._config, self.partitions = file["id"], file["partitions"]
        self.growths = [(growth["partitions"], growth["ends"]) for growth in file["growths"]]
        for number in range(self.partitions):
            self._shelf(number).added_at = self._shelf(number).added_at or self.world.steps

    def _shelf(self, number: int) -> Shelf:
        return self.shelves.setdefault(number, Shelf(number, 0))

    def _manifest(self, folder: str, file: dict[str, Any]) -> None:
        shelf = self._shelf(file["partition"])
        if file["id"] <= shelf.manifest:
            return
        shelf.manifest = file["id"]
        live: set[int] = set()
        for segment in file.get("l0", ()):
            live |= self._read(folder, segment, shelf)
        for run in file.get("runs", ()):
            for segment in run["segments"]:
                live |= self._read(folder, segment, shelf)
        shelf.next_offset = file.get("next_offset", 0)
        shelf.floor = file.get("log_start_offset", 0)
        shelf.deleted_to = file.get("deleted_to", 0)
        shelf.live = frozenset(offset for offset in live if offset >= shelf.floor)
        for entry in file.get("consumers", ()):
            self._position(shelf, entry["name"], Position(entry.get("offset", 0), entry["instance"]))

    def _read(self, folder: str, segment: dict[str, Any], shelf: Shelf) -> frozenset[int]:
        name = f"{folder}/segments/{segment['id']}.parquet"
        known = self._offsets.get(name)
        if known is not None:
            return known
        found = self.world.objects.get(name)
        if found is None:
            raise Violation(f"partition {shelf.number}: segment {segment['id']} is named, and not there")
        table = pq.ParquetFile(io.BytesIO(found[0])).read(use_threads=False)
        rows = list(zip(table.column("key").to_pylist(), table.column("value").to_pylist(), strict=True))
        if "base_offset" in segment:
            offsets = [segment["base_offset"] + delta for delta in table.column("offset_delta").to_pylist()]
            for offset, row in sorted(zip(offsets, rows, strict=True)):
                self._new(shelf, offset, Row(*row))
        else:
            offsets = table.column("offset").to_pylist()
        for offset, row in zip(offsets, rows, strict=True):
            if shelf.rows.get(offset) != Row(*row):
                raise Violation(f"partition {shelf.number}: offset {offset} was {shelf.rows.get(offset)}, is {row}")
        self._offsets[name] = frozenset(offsets)
        return self._offsets[name]

    def _new(self, shelf: Shelf, offset: int, row: Row) -> None:
        if offset != len(shelf.rows):
            raise Violation(f"partition {shelf.number}: the log has {len(shelf.rows)} rows, and goes on at {offset}")
        shelf.rows[offset] = row
        if row.value is None:
            return
        if row.value in self.lies:
            raise Violation(f"{row} is in partition {shelf.number} at {offset}, and at {self.lies[row.value]}")
        if row.value not in self.known or row.value in self.refused:
            raise Violation(f"{row} is in partition {shelf.number} at {offset}, and nobody wrote it, or it was refused")
        self.lies[row.value] = shelf.number, offset
        if row.value in self.ordered:
            source, index = self.ordered[row.value]
            before = self._latest.get((shelf.number, row.key, source), -1)
            if before > index:
                raise Violation(f"{row} is in partition {shelf.number} at {offset}, behind number {before}")
            self._latest[shelf.number, row.key, source] = index

    def _position(self, shelf: Shelf, name: str, position: Position) -> None:
        before = shelf.positions.get(name)
        if position == before:
            return
        if (name, position.instance) in shelf.replaced:
            raise Violation(f"{name!r} of partition {shelf.number}: {position} is committed by who was replaced")
        if before is not None and before.instance != position.instance:
            shelf.replaced.add((name, before.instance))
        self.moved(shelf, name, before, position)
        shelf.positions[name] = position

    def put(self, author: Author, key: str, body: bytes) -> None:
        """Segments count once a manifest names them."""

    def deleting(self, author: Author, key: str) -> None:
        """What is missed, readers tell."""

    def access_denied(self, author: Author) -> None:
        """Told to who asked."""

    def as_of_now(self, author: Author) -> Callable[[], AbstractContextManager[None]]:
        return nullcontext

    def death_of(self, key: str) -> Callable[[], bool]:
        """A manifest dies once a later one is there."""
        return lambda: False
