"""Point reads ask the warehouse first, and each home in threads of its own."""

from collections.abc import Callable, Sequence
from typing import Any, TypeVar

import pytest
from msgspec.structs import replace

from lithify.segment.points import Elsewhere, Points
from lithify.segment.segments import Segments
from lithify.store.cache import Cache
from lithify.store.errors import Unavailable
from lithify.store.homes import HERE, Homes
from lithify.store.memory import MemoryStore
from tests.segment.points import KEYS, manifest, stored

T = TypeVar("T")


class Asked(MemoryStore):
    """Notes what is read of it, and in whose threads."""

    def __init__(self, threads: list[str], name: str) -> None:
        super().__init__()
        self.threads = threads
        self.name = name
        self.reads = 0
        self.away = False

    def read(self, key: str, start: int, length: int) -> bytes:
        self.reads += 1
        assert self.threads[-1:] == [self.name], "its reads are made in its own threads"
        if self.away:
            raise Unavailable(f"home {self.name} is away")
        return super().read(key, start, length)

    def side_by_side(self, calls: Sequence[Callable[[], T]]) -> Sequence[T | Exception]:
        self.threads.append(self.name)
        try:
            return super().side_by_side(calls)
        finally:
            self.threads.pop()


@pytest.fixture
def threads() -> list[str]:
    return []


@pytest.fixture
def here(threads: list[str]) -> Asked:
    return Asked(threads, "here")


@pytest.fixture
def cold(threads: list[str]) -> Asked:
    return Asked(threads, "cold")


@pytest.fixture
def points(here: Asked, cold: Asked) -> Points:
    """`a` is old and cold, `b` is in both homes, `c` is hot."""
    rows: list[dict[str, Any]] = [
        {"key": key, "value": value, "offset": offset, "headers": None}
        for key, value, offset in ((b"a", b"0", 0), (b"b", b"1", 1), (b"b", b"2", 2), (b"c", b"3", 3))
    ]
    old = replace(stored(cold, "old", rows[:2]), home="cold")
    new = stored(here, "new", rows[2:])
    return Points(Segments(KEYS, Homes({HERE: here, "cold": cold})), Cache(), manifest([new], [old]))


def test_what_is_hot_does_not_ask_a_cold_home(points: Points, here: Asked, cold: Asked) -> None:
    cold.away = True
    found = points.latest([b"b", b"c"], 0)
    assert {key: row.value for key, row in found.items()} == {b"b": b"2", b"c": b"3"}
    assert (cold.reads, here.reads > 0) == (0, True)
    assert points.latest([b"b", b"c"], 0, here_only=True) == found


def test_what_is_cold_is_asked_for_there(points: Points, cold: Asked) -> None:
    with pytest.raises(Elsewhere):
        points.latest([b"a", b"c"], 0, here_only=True)
    assert cold.reads == 0
    assert {key: row.value for key, row in points.latest([b"a", b"c"], 0).items()} == {b"a": b"0", b"c": b"3"}
    assert cold.reads > 0


def test_a_cold_home_that_is_away_is_named(points: Points, cold: Asked) -> None:
    cold.away = True
    with pytest.raises(Unavailable, match="home cold is away"):
        points.latest([b"a"], 0)
