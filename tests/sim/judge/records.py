"""The records of simulated segments: rows of JSON, [offset, key, token, tombstone, timestamp, horizon, size]."""

from collections.abc import Iterable, Iterator, Sequence
from typing import Any, NamedTuple

from tests.sim.judge.layout import Json, load

__all__ = ["Record", "Records"]


class Record(NamedTuple):
    offset: int
    key: str | None
    token: str
    tombstone: bool
    timestamp_ms: int
    horizon_ms: int | None
    size: int


class Records:
    """Every segment's rows as they were first stored, and every append's timestamps by offset."""

    def __init__(self) -> None:
        self._stored: dict[str, list[list[Any]]] = {}
        self._records: dict[tuple[str, int], Sequence[Record]] = {}  # by segment and the offset that it begins at
        self._stamped: dict[int, int] = {}

    def put(self, segment: str, body: bytes) -> None:
        if segment not in self._stored:
            self._stored[segment] = load(body)

    def of(self, ref: Json) -> Sequence[Record]:
        base = ref.get("base_offset") or 0
        found = self._records.get((ref["id"], base))
        if found is None:
            stored = self._stored[ref["id"]]
            found = self._records[ref["id"], base] = [Record(offset + base, *rest) for offset, *rest in stored]
        return found

    def of_all(self, refs: Iterable[Json]) -> dict[int, Record]:
        return {record.offset: record for ref in refs for record in self.of(ref)}

    def appended(self, ref: Json) -> None:
        self._stamped.update((record.offset, record.timestamp_ms) for record in self.of(ref))

    def ever(self, first: int, end: int) -> Iterator[int]:
        """Timestamps of what was appended from `first` to before `end`."""
        return (self._stamped[offset] for offset in range(first, end) if offset in self._stamped)
