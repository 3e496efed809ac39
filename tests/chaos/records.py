"""Numbered records of several writers, and what each writer learned of them."""

import threading
from collections import Counter, defaultdict
from dataclasses import dataclass, field

import lithify

KEYS = 13  # of each writer


def record(writer: str, number: int) -> lithify.Record:
    """A record nobody else writes; its key comes again and again."""
    return lithify.Record(f"{writer}-{number % KEYS}".encode(), f"{writer}:{number}".encode())


@dataclass
class Told:
    """What writers were told: where their records are, or that nobody can tell (None). Thread-safe."""

    offsets: defaultdict[tuple[str, int], dict[int, bytes]] = field(default_factory=lambda: defaultdict(dict))
    maybe: set[bytes] = field(default_factory=set)
    _lock: threading.Lock = field(default_factory=threading.Lock)

    def appended(self, partition: lithify.Partition, offsets: range, records: list[lithify.Record]) -> None:
        assert len(offsets) == len(records)
        for offset, one in zip(offsets, records, strict=True):
            self.at(partition.topic, partition.number, offset, one)

    def at(self, topic: str, partition: int, offset: int, one: lithify.Record) -> None:
        assert one.value is not None
        with self._lock:
            taken = self.offsets[topic, partition].setdefault(offset, one.value)
        assert taken == one.value, f"{topic}/{partition} offset {offset} was given to {taken!r} and to {one.value!r}"

    def unknown(self, records: list[lithify.Record]) -> None:
        with self._lock:
            self.maybe |= {one.value for one in records if one.value is not None}


@dataclass
class Tally:
    """How often what came to pass. Thread-safe."""

    counts: Counter[str] = field(default_factory=Counter)
    _lock: threading.Lock = field(default_factory=threading.Lock)

    def __call__(self, what: str, times: int = 1) -> None:
        with self._lock:
            self.counts[what] += times
