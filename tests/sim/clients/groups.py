"""What consumers were handed, and what their positions may say by that."""

from collections import defaultdict
from dataclasses import dataclass, field

from lithify.log.follow import Gap
from lithify.log.record import Record
from tests.sim.cast import Violation
from tests.sim.clients.truth import Position, Row, Shelf, Truth

__all__ = ["Caller", "Groups"]

Place = tuple[str, int]
"""The name of a consumer, and a partition."""


@dataclass
class Groups:
    """Over all instances of each name."""

    began: dict[str, int] = field(default_factory=dict)  # step of the first position, of names that read all partitions
    whole: set[str] = field(default_factory=set)  # these names
    dealt: dict[Place, set[int]] = field(default_factory=lambda: defaultdict(set))
    gaps: dict[Place, list[range]] = field(default_factory=lambda: defaultdict(list))
    truth: Truth = field(init=False)

    def moved(self, shelf: Shelf, name: str, before: Position | None, now: Position) -> None:
        where = f"{name!r} of partition {shelf.number}"
        if before is None:
            step = self.truth.world.steps
            began = self.began.setdefault(name, step)
            if name in self.whole and began < shelf.added_at and now.offset:
                raise Violation(f"{where} begins at {now.offset}, and the partition was added after it")
            return
        # A state that was read out of an older snapshot than the position is goes on from there, and says so.
        if now.offset < before.offset and name in self.whole:
            raise Violation(f"{where} goes back from {before.offset} to {now.offset}")
        for offset in shelf.between(before.offset, now.offset):
            if not self.seen((name, shelf.number), shelf, offset):
                raise Violation(f"{where} is committed at {now.offset}, and {offset} was not dealt with")

    def seen(self, place: Place, shelf: Shelf, offset: int) -> bool:
        return offset in self.dealt[place] or shelf.explained(offset) or any(offset in g for g in self.gaps[place])


class Caller:
    """Who holds one consumer, and deals with what it is handed before it comes back for more."""

    def __init__(self, groups: Groups, name: str, positions: dict[int, int]) -> None:
        self._groups = groups
        self.name = name
        self.next = dict(positions)  # by partition: behind what it was handed last
        self._pending: list[tuple[int, int]] = []
        self._gaps: list[tuple[int, range]] = []

    def came_back(self) -> None:
        for number, offset in self._pending:
            self._groups.dealt[self.name, number].add(offset)
        for number, gap in self._gaps:
            self._groups.gaps[self.name, number].append(gap)
        self._pending, self._gaps = [], []

    def rebuilt(self, number: int, end: int) -> None:
        """Its state shows everything before `end`."""
        self._groups.dealt[self.name, number] |= set(range(end))

    def handed(self, number: int, item: Record | Gap) -> None:
        where = f"{self.name!r} of partition {number}"
        shelf = self._groups.truth.shelves[number]
        if isinstance(item, Gap):
            first, end = item.start_offset, item.end_offset
            self._gaps.append((number, range(first, end)))
        else:
            assert item.offset is not None
            first, end = item.offset, item.offset + 1
            if shelf.rows.get(item.offset) != Row(item.key or b"", item.value):
                raise Violation(f"{where} is handed {item}, which is {shelf.rows.get(item.offset)}")
            self._pending.append((number, item.offset))
        if number not in self.next and number in self._groups.truth.shelves:
            self.next[number] = 0  # it was added since
            position = shelf.positions.get(self.name)
            if position is not None:
                self.next[number] = position.offset
        if first < self.next[number]:
            raise Violation(f"{where} is handed {first} after {self.next[number] - 1}")
        for offset in shelf.between(self.next[number], first):
            if not shelf.explained(offset):
                raise Violation(f"{where} is handed {first} after {self.next[number] - 1}, and {offset} is there")
        self.next[number] = end
