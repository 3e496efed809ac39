"""The records of simulated segments: rows of JSON, [offset, key, token, tombstone, timestamp, horizon, size]."""

from collections.abc import Iterable, Iterator
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
        self._stamped: dict[int, int] = {}

    def put(self, segment: str, body: bytes) -> None:
        if segment not in self._stored:
            self._stored[segment] = load(body)

    def of(self, ref: Json) -> Iterator[Record]:
        base = ref.get("base_offset") or 0
        for offset, *rest in self._stored[ref["id"]]:
            yield Record(offset + base, *rest)

    def of_all(self, refs: Iterable[Json]) -> dict[int, Record]:
        return {record.offset: record for ref in refs for record in self.of(ref)}

    def appended(self, ref: Json) -> None:
        self._stamped.update((record.offset, record.timestamp_ms) for record in self.of(ref))

    def ever(self, first: int, end: int) -> Iterator[int]:
        """Timestamps of what was appended from `first` to before `end`."""
        return (self._stamped[offset] for offset in range(first, end) if offset in self._stamped)
