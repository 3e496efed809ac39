"""What consumers were handed, and what their positions may say by that."""

from collections import defaultdict
from dataclasses import dataclass, field

from lithify.log.follow import Gap, OffsetReset
from lithify.log.record import Record
from tests.sim.cast import Author, Violation
from tests.sim.clients.truth import OPERATOR, Log, Position, Row, Truth

__all__ = ["Caller", "Groups", "Opening"]

Place = tuple[str, int]
"""The name of a consumer, and a partition."""


@dataclass(eq=False)
class Opening:
    """One call that opens an instance."""

    name: str
    author: Author
    begins: OffsetReset  # where there is no position yet
    reset: OffsetReset  # where the log has no record at its position any more
    step: int
    ends: dict[int, int]  # of the logs when it began
    deleted_to: dict[int, int]  # as far as they had been deleted by hand
    over_at: int | None = None  # step; None: it has not ended well, and may still take the name


@dataclass
class Groups:
    """All instances of all names."""

    truth: Truth
    began: dict[str, int] = field(default_factory=dict)  # by name: step of its first position
    whole: set[str] = field(default_factory=set)  # names that read all partitions
    openings: dict[str, list[Opening]] = field(default_factory=lambda: defaultdict(list))
    dealt: dict[Place, set[int]] = field(default_factory=lambda: defaultdict(set))
    gaps: dict[Place, list[range]] = field(default_factory=lambda: defaultdict(list))
    rebuilt: dict[Place, int] = field(default_factory=lambda: defaultdict(int))  # offset before which a state has all
    asked: dict[Place, list[object]] = field(default_factory=lambda: defaultdict(list))  # of the operator

    def __post_init__(self) -> None:
        self.truth.hear_of_positions.append(self.moved)
        self.truth.opens = self._is_opening

    def opens(self, name: str, author: Author, reset: OffsetReset, begins: OffsetReset | None = None) -> Opening:
        truth = self.truth
        deleted_to = {number: log.deleted_to for number, log in truth.logs.items()}
        found = Opening(name, author, begins or reset, reset, truth.world.steps, truth.ends(), deleted_to)
        self.openings[name].append(found)
        return found

    def opened(self, opening: Opening) -> None:
        opening.over_at = self.truth.world.steps

    def _is_opening(self, name: str, author: Author) -> bool:
        mine = [opening for opening in self.openings[name] if opening.author == author]
        return bool(mine) and mine[-1].over_at is None

    def was_replaced(self, mine: Opening) -> bool:
        """Whether an instance that was not open before this one has the name somewhere, or had it."""
        others = any(
            other is not mine and (other.over_at is None or other.over_at > mine.step)
            for other in self.openings[mine.name]
        )
        for log in self.truth.logs.values():
            since = [taken.author for taken in log.taken[mine.name] if taken.step >= mine.step]
            if len(since) > 1 and (others or any(name == OPERATOR for name, _ in since)):
                return True
        return False

    def moved(self, log: Log, name: str, before: Position | None, now: Position | None, author: Author) -> None:
        where = f"{name!r} of partition {log.number}"
        if author[0] == OPERATOR and (before is None or now is None or before.instance != now.instance):
            self._is_as_asked(where, log, name, now)
        elif now is None:
            raise Violation(f"{where} is gone, and nobody deleted it")
        elif before is None:
            self._begins(where, log, name, now.offset)
        else:
            self._goes_on(where, log, name, before, now)

    def _is_as_asked(self, where: str, log: Log, name: str, now: Position | None) -> None:
        asked = self.asked[name, log.number]
        fits = {
            "delete": now is None,
            "earliest": now is not None and now.offset <= log.lost_to and not now.missed_to,
            "latest": now is not None and now.offset == log.next_offset,
        }
        if not any(fits.get(str(each), now is not None and now.offset == each) for each in asked):
            raise Violation(f"{where} is put to {now}, and {asked} was asked for")
        self.truth.world.held("what operators ask for")

    def _begins(self, where: str, log: Log, name: str, offset: int) -> None:
        """A new name: at the log's start or end, as it asks; at 0 in a partition that was added after it began."""
        openings = self.openings[name]
        began = self.began.setdefault(name, self.truth.world.steps)
        if name in self.whole and began < log.added_at and offset:
            raise Violation(f"{where} begins at {offset}, and the partition was added after it")
        least = min(opening.ends.get(log.number, 0) for opening in openings)
        resets = {opening.begins for opening in openings}
        starts, ends = offset <= log.lost_to, offset >= least
        first_count = self.truth.counts_from[0][1]
        if not ((starts and "earliest" in resets) or (ends and "latest" in resets)) and (
            offset or log.number < first_count
        ):
            raise Violation(
                f"{where} begins at {offset} of {log.lost_to} to {log.next_offset}, by {', '.join(sorted(resets))}"
            )
        self.truth.world.held(f"where a new name begins, {', '.join(sorted(resets))}")

    def _goes_on(self, where: str, log: Log, name: str, before: Position, now: Position) -> None:
        # A state store may commit a lower offset: it resumes from the end of its scan, which may be older than the
        # position.
        if now.offset < before.offset and name in self.whole:
            raise Violation(f"{where} goes back from {before.offset} to {now.offset}")
        for offset in log.between(before.offset, now.offset):
            if not self.seen((name, log.number), log, offset):
                raise Violation(f"{where} is committed at {now.offset}, and {offset} was not dealt with")
        if now.missed_to < before.missed_to and now.offset:
            began_at = log.taken[name][-1].offset
            anew = began_at == 0 and now.offset >= before.missed_to
            if not anew and self.rebuilt[name, log.number] < before.missed_to:
                raise Violation(f"{where} began at {began_at}, is at {now}, and has {before.missed_to} no more")
            self.truth.world.held("alarms that are cleared")

    def seen(self, place: Place, log: Log, offset: int) -> bool:
        return offset in self.dealt[place] or log.may_be_missing(offset) or any(offset in g for g in self.gaps[place])


class Caller:
    """Who holds one instance, and deals with what it is handed before it comes back for more."""

    def __init__(self, groups: Groups, opening: Opening, positions: dict[int, int]) -> None:
        """`positions`: where it says that it begins, by partition."""
        self._groups = groups
        self.opening = opening
        self.name = opening.name
        self.next = dict(positions)  # by partition: behind what it was handed last
        self._pending: list[tuple[int, int]] = []
        self._gaps: list[tuple[int, range]] = []
        self._begins_at: dict[int, int] = {}

    def took(self) -> None:
        """It begins where the name was when it took it over."""
        for number, begins in self.next.items():
            taken = self._groups.truth.logs[number].taken_by(self.name, self.opening.author)
            if taken != begins:
                raise Violation(f"{self.name!r} of partition {number} begins at {begins}, was taken at {taken}")

    def begins_at_the_start_of(self, number: int) -> None:
        """At the log's start, wherever that is: what expires until it comes there is no gap."""
        self._begins_at[number] = self._groups.truth.logs[number].lost_to

    def came_back(self) -> None:
        for number, offset in self._pending:
            self._groups.dealt[self.name, number].add(offset)
        for number, gap in self._gaps:
            self._groups.gaps[self.name, number].append(gap)
        self._pending, self._gaps = [], []

    def rebuilt(self, number: int, end: int) -> None:
        """Its state shows everything before `end`."""
        self._groups.dealt[self.name, number] |= set(range(end))
        self._groups.rebuilt[self.name, number] = max(self._groups.rebuilt[self.name, number], end)

    def handed(self, number: int, item: Record | Gap) -> None:
        where = f"{self.name!r} of partition {number}"
        log = self._groups.truth.logs[number]
        if number not in self.next:  # it was added since, or has begun at the log's start
            self.next[number] = log.taken_by(self.name, self.opening.author) or 0
        if isinstance(item, Gap):
            first, end = item.start_offset, item.end_offset
            self._is_lost(where, log, first, end)
            self._gaps.append((number, range(first, end)))
        else:
            assert item.offset is not None
            first, end = item.offset, item.offset + 1
            if log.rows.get(item.offset) != Row(item.key or b"", item.value):
                raise Violation(f"{where} is handed {item}, which is {log.rows.get(item.offset)}")
            self._pending.append((number, item.offset))
        if number in self._begins_at:
            self.next[number] = min(first, self._begins_at.pop(number))
        if first < self.next[number]:
            raise Violation(f"{where} is handed {first} after {self.next[number] - 1}")
        for offset in log.between(self.next[number], first):
            if not log.may_be_missing(offset):
                raise Violation(f"{where} is handed {first} after {self.next[number] - 1}, and {offset} is there")
        self.next[number] = end

    def _is_lost(self, where: str, log: Log, first: int, end: int) -> None:
        """A gap holds what expired, up to the log's start; with "latest" up to its end. Nothing deleted by hand."""
        to_the_end = self.opening.reset == "latest" and self.next[log.number] < log.lost_to
        if first >= end or end > (log.next_offset if to_the_end else log.lost_to):
            raise Violation(f"{where} is told a gap from {first} to {end}, and nothing is lost from {log.lost_to} on")
        if first < self.opening.deleted_to.get(log.number, 0):
            raise Violation(f"{where} is told a gap from {first} to {end}, and its beginning was deleted by hand")
        self._groups.truth.world.held("gaps")
