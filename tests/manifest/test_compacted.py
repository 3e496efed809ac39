"""The compacted state of a partition: for each key exactly its latest record below an offset. Against a model that
remembers every record that was ever appended, and merges by the kernel's own rules."""

import random
from collections.abc import Collection, Iterable, Sequence
from itertools import groupby
from typing import Any, Literal, NamedTuple

import pytest
from msgspec.structs import replace

from lithify.manifest.appends import Append
from lithify.manifest.compacted import CompactedState, compacted, is_clean
from lithify.manifest.compactions import CommitCompaction, coverage_offset
from lithify.manifest.edits import Next
from lithify.manifest.floor import DropSegments, RaiseFloor
from lithify.manifest.invariants import manifest_problems
from lithify.manifest.jobs import MergeRules
from lithify.manifest.model import FORMAT, Manifest, SegmentRef, SortedRun
from lithify.manifest.units import units
from lithify.segment.rules import Fate, fate, stamped
from tests.everyday import everyday_and_slow
from tests.protocol.scene import at, segment

FIRST = Manifest(format=FORMAT, id=1, nonce="n", topic="t", topic_id="i", partition=0)
KEYS = (b"a", b"b", b"c", None)
KEEP_MS = 2  # delete.retention.ms


class Row(NamedTuple):
    offset: int
    key: bytes | None
    dead: bool = False
    horizon_ms: int | None = None


class Log:
    """A manifest, the rows of its segments, and all that was ever appended."""

    def __init__(self) -> None:
        self.head = FIRST
        self.rows: dict[str, list[Row]] = {}
        self.ever: list[Row] = []
        self.now_ms = 0

    def append(self, *rows: tuple[bytes | None, bool] | bytes) -> None:
        base, name = self.head.next_offset, f"{self.head.id:012d}-{self.head.id:016x}"
        told = [(row, False) if isinstance(row, bytes) else row for row in rows]
        self.rows[name] = [Row(base + index, key, dead) for index, (key, dead) in enumerate(told)]
        self.ever += self.rows[name]
        self._commit(Append(replace(self._ref(name, self.rows[name], "offset"), base_offset=base), 10_000))

    def merge(
        self, taken: Collection[str], order: Literal["key", "offset"] = "key", *, drops: bool = True, cut: int = 9
    ) -> None:
        """Of the segments `taken`. What reaches down to the oldest offset, and drops, is a clean."""
        sources = [ref for ref in self.head.segments() if ref.id in taken]
        oldest = {ref.id for ref in units(self.head)[0].segments}
        drops = drops and order == "key"
        rules = MergeRules(
            order=order,
            drop_superseded=drops,
            drop_keyless=drops,
            floor=self.head.log_start_offset,
            clock_ms=self.now_ms,
            coverage_offset=coverage_offset(self.head, frozenset(taken)),
            stamp_horizon_ms=self.now_ms + KEEP_MS if drops and oldest <= {*taken} else None,
        )
        rows = sorted(row for ref in sources for row in self.rows[ref.id])
        newest = {row.key: row.offset for row in rows if row.key is not None}
        kept = [
            row._replace(
                horizon_ms=stamped(rules, offset=row.offset, tombstone=row.dead, horizon_ms=row.horizon_ms),
            )
            for row in rows
            if fate(
                rules,
                offset=row.offset,
                key=row.key,
                tombstone=row.dead,
                horizon_ms=row.horizon_ms,
                superseded=newest.get(row.key, -1) > row.offset,
            )
            is Fate.KEPT
        ]
        left = {row.offset for row in kept}
        job = f"{self.head.id:012d}-{self.head.id:08x}"
        made = [
            self._output(f"{job}-1-0-{number}", part, order) for number, part in enumerate(_parts(kept, order, cut))
        ]
        edit = CommitCompaction(
            epoch=0,
            job=job,
            segments=tuple(ref.id for ref in sources),
            run=SortedRun(id=job, segments=tuple(made)),
            coverage_offset=rules.coverage_offset,
            clean=rules.cleans,
            forget=tuple(done.id for done in self.head.completed_jobs),
            floor=rules.floor,
            lost=tuple((r.offset, 1) for r in rows if r.offset not in left and r.offset >= rules.floor),
        )
        self._commit(edit)

    def _output(self, name: str, rows: list[Row], order: str) -> SegmentRef:
        self.rows[name] = rows
        return self._ref(name, rows, order)

    def _ref(self, name: str, rows: Sequence[Row], order: str) -> SegmentRef:
        keys = [row.key for row in rows if row.key is not None]
        return segment(
            name,
            len(rows),
            min_key=min(keys) if len(keys) == len(rows) else None,
            max_key=max(keys, default=None),
            min_offset=min(row.offset for row in rows),
            max_offset=max(row.offset for row in rows),
            tombstones=sum(row.dead for row in rows),
            order=order,
        )

    def forget(self, below: int) -> None:
        self._commit(RaiseFloor(below))
        self._commit(DropSegments(0, frozenset()))

    def _commit(self, edit: Any) -> None:
        verdict = edit.apply(self.head, self.head.id + 1, self.now_ms)
        if isinstance(verdict, Next):
            following = at(verdict.value, self.head.id + 1)
            assert [*manifest_problems(self.head, following)] == []
            self.head = following

    def run(self, at_index: int = 0) -> list[str]:
        return [ref.id for ref in self.head.runs[at_index].segments]

    def l0(self, *indices: int) -> list[str]:
        return [self.head.l0[index].id for index in indices]

    def all(self) -> list[str]:
        return [ref.id for ref in self.head.segments()]

    def checked(self) -> CompactedState | None:
        """What it is, as the model has it, too."""
        found = compacted(self.head, self.head.log_start_offset, grown=False)
        if found is None:
            return None
        rows = [row for ref in found.segments for row in self.rows[ref.id]]
        latest = {row.key: row for row in self.ever if row.offset < found.as_of and row.key is not None}
        keys = [row.key for row in rows]
        assert keys == sorted(set(keys), key=lambda key: key or b""), "each key once, in key order"
        for row in rows:
            assert (row.offset, row.dead) == (latest[row.key].offset, latest[row.key].dead), row
        for row in (latest[key] for key in latest.keys() - {*keys}):
            assert row.dead or row.offset < found.floor, f"{row} is missing"
        others = [ref for ref in self.head.segments() if ref not in found.segments]
        assert all(ref.min_offset >= found.as_of for ref in others)
        assert found.tombstones == sum(row.dead for row in rows)
        return found


def _parts(rows: Iterable[Row], order: str, cut: int) -> list[list[Row]]:
    """In key order they are cut between keys only."""
    if order == "offset":
        loose = [[row] for row in rows]
    else:
        by_key = sorted(rows, key=lambda row: (row.key is not None, row.key or b"", row.offset))
        loose = [[*same] for _, same in groupby(by_key, key=lambda row: row.key)]
    parts: list[list[Row]] = []
    for group in loose:
        if parts and len(parts[-1]) + len(group) <= cut:
            parts[-1] += group
        else:
            parts.append(group)
    return parts


def test_a_clean_of_everything_is_the_state_at_its_end() -> None:
    log = Log()
    log.append(b"a", b"b")
    log.append((b"b", True), b"c")
    log.merge(log.all(), cut=1)
    found = log.checked()
    assert found is not None
    assert (found.as_of, found.run, len(found.segments), found.tombstones) == (4, log.head.runs[0].id, 3, 1)
    log.append(b"a")
    assert log.checked() == found, "what comes later changes nothing of it"
    log.append(b"b")
    log.merge(log.l0(0, 1))
    assert log.checked() == found, "nor what is made of that"


def test_nothing_is_compacted_before_the_first_clean() -> None:
    log = Log()
    assert log.checked() is None
    log.append(b"a")
    log.append(b"a")
    log.append(b"a")
    log.merge(log.l0(1, 2))
    assert log.checked() is None


def test_a_clean_around_an_append_is_the_state_of_no_offset() -> None:
    """The run reaches beyond `cleaned_to`: a's record at 0 gave way to the one at 4, which at offset 2 had not come."""
    log = Log()
    log.append(b"a", b"b")
    log.append(b"c", b"c")
    log.append(b"a", b"c")
    log.merge(log.l0(0, 2))
    (run,) = log.head.runs
    assert (log.head.cleaned_to, run.segments[0].max_offset) == (2, 5)
    assert compacted(log.head, 0, grown=False) is None
    assert not is_clean(units(log.head)[0], log.head.cleaned_to), "nor is it clean: it is dirty at once"


def test_what_gave_way_around_an_append_is_missing_from_the_clean_of_that_append() -> None:
    """First and third append are merged, and a's record at 0 goes; the second, cleaned then, lies below all that is
    left, but a's latest record below 2 is nowhere any more."""
    log = Log()
    log.append(b"a")
    log.append(b"b")
    log.append(b"a")
    log.append(b"c")
    log.merge(log.l0(0, 2))
    log.merge(log.l0(0))
    assert log.head.cleaned_to == 2
    assert is_clean(units(log.head)[0], 2)
    assert log.checked() is None
    log.merge(log.all())
    found = log.checked()
    assert found is not None
    assert found.as_of == 4


def test_a_log_in_offset_order_is_clean_and_no_compacted_state() -> None:
    """cleanup.policy was compact, then delete: what was cleaned is merged in offset order. Nothing of it is dirty, and
    its segments are not apart in keys."""
    log = Log()
    log.append(b"b", b"a")
    log.append(b"b")
    log.merge(log.all())
    assert log.checked() is not None
    log.merge(log.all(), "offset", cut=1)
    assert is_clean(units(log.head)[0], log.head.cleaned_to)
    assert log.checked() is None
    log.merge(log.run()[:1])  # back to compact: its first segments are sorted by key alone
    assert [run.segments[0].order for run in log.head.runs] == ["key", "offset"]
    assert log.checked() is None


def test_the_part_of_an_unfinished_clean_that_lies_below_it_is_no_state() -> None:
    """A clean around an append, then offset order, then the first segment sorted alone: it ends at `cleaned_to`, and
    a's record below that has given way to a later one."""
    log = Log()
    log.append(b"a", b"b")
    log.append(b"c", b"c")
    log.append(b"a", b"c")
    log.merge(log.l0(0, 2))
    log.merge(log.all(), "offset", cut=1)
    log.merge(log.run()[:1], drops=False)
    while any(run.segments[0].order == "offset" for run in log.head.runs):
        at_index = next(i for i, run in enumerate(log.head.runs) if run.segments[0].order == "offset")
        log.merge(log.run(at_index), drops=False)
    assert log.head.cleaned_to == 2
    assert [max(s.max_offset for s in run.segments) < 2 for run in log.head.runs] == [True, False]
    assert log.checked() is None


def test_tombstones_stay_until_their_horizon_and_are_counted() -> None:
    log = Log()
    log.append(b"a", b"b")
    log.append((b"a", True), b"c")
    log.merge(log.all())
    found = log.checked()
    assert found is not None
    assert found.tombstones == 1
    log.now_ms += KEEP_MS
    log.merge(log.all())
    found = log.checked()
    assert found is not None
    assert (found.tombstones, [row.key for row in log.rows[found.segments[0].id]]) == (0, [b"b", b"c"])


def test_what_lies_below_the_floor_may_be_in_it_or_not() -> None:
    log = Log()
    log.append(b"a", b"b")
    log.append(b"c", b"d")
    log.merge(log.all(), cut=1)
    log.forget(1)
    found = log.checked()
    assert found is not None
    assert (found.floor, len(found.segments)) == (1, 3), "a's segment was dropped"
    log.forget(4)
    assert log.checked() is None, "nothing is left"


def test_a_run_of_an_earlier_lithify_tells_nothing_of_what_it_has_absorbed() -> None:
    log = Log()
    log.append(b"a")
    log.merge(log.all())
    log.append(b"b")
    log.append(b"b")
    log.merge(log.l0(0, 1))
    found = log.checked()
    assert found is not None
    older = replace(log.head, runs=tuple(SortedRun(id=run.id, segments=run.segments) for run in log.head.runs))
    assert compacted(older, 0, grown=False) is None
    log.head = older
    log.merge(log.all())
    log.append(b"c")
    log.append(b"c")
    log.merge(log.l0(0, 1))
    assert log.checked() is not None, "the next clean has absorbed it"


HISTORIES = 1_500
STATES_MIN = 5_000  # that the histories came to, so that the property is about something


def operate(log: Log, letter: str, x: int, y: int) -> None:
    """`x` and `y` say what it is about."""
    chosen = [ref.id for bit, unit in enumerate(units(log.head)) if x >> bit % 8 & 1 for ref in unit.segments]
    match letter:
        case "a":
            log.append(*((KEYS[x >> 2 * n & 3], x >> n & 5 == 5) for n in range(y)))
        case "m" if chosen:
            log.merge(chosen, cut=y)
        case "y" if chosen:
            log.merge(chosen, drops=False, cut=y)
        case "f" if log.head.segments():
            log.merge(log.all(), cut=y)
        case "o" if chosen:
            log.merge(chosen if x & 1 else log.all(), "offset", cut=y)
        case "d":
            for run in log.head.runs:
                if run.segments[0].order == "offset":
                    log.merge([ref.id for ref in run.segments[:y]], drops=bool(x & 1))
                    break
        case "r" if y == 1:
            log.forget(min(log.head.log_start_offset + x % 4, log.head.next_offset))
        case _:
            log.now_ms += 1


@pytest.mark.slow
@pytest.mark.parametrize("played", everyday_and_slow([range(300)], [range(300, HISTORIES)]))
def test_it_is_the_latest_record_of_each_key_and_nothing_else(played: range) -> None:
    """In histories of appends, merges of anything in either order, divided runs, and floors that rise."""
    states = 0
    for seed in played:
        dice, log = random.Random(seed), Log()
        for _ in range(dice.randrange(3, 25)):
            operate(log, dice.choice("aaaaammmyfodrt"), dice.randrange(256), dice.randint(1, 3))
            try:
                states += log.checked() is not None
            except AssertionError as error:
                raise AssertionError(f"seed {seed}: {error}") from error
    assert states > STATES_MIN * len(played) / HISTORIES
