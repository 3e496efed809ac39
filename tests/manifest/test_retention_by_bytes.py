"""retention.bytes once merges have been through the log: never early, late by at most one bucket, and no merge alone
moves a floor; against records that each know their size (R3, D2; the measure is told in docs/rfcs/0007)."""

from bisect import bisect_right
from dataclasses import dataclass, field
from fractions import Fraction
from unittest.mock import patch

import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec.structs import replace

from lithify.manifest.appends import Append
from lithify.manifest.compactions import CommitCompaction
from lithify.manifest.edits import Next
from lithify.manifest.floor import RaiseFloor
from lithify.manifest.invariants import manifest_problems
from lithify.manifest.model import FORMAT, Manifest, SegmentRef, SortedRun
from lithify.manifest.retention import Retention, log_start
from tests.refs import segment_ref

FIRST = Manifest(format=FORMAT, id=1, nonce="n", topic="t", topic_id="i", partition=0)
SIZES = st.one_of(st.integers(1, 40), st.integers(1_000, 90_000))  # of records: small and large, nothing between
ROUNDING = 2  # bytes of a bucket, at each merge


@dataclass
class Record:
    offset: int
    size: int
    takes: Fraction  # bytes of the store, by the measure of RFC 0007


@dataclass
class Log:
    """A manifest, and beside it every live record."""

    frame: int = 0  # bytes that an object takes besides its records
    packing: int = 100  # per cent of its records' size that a merged one takes
    head: Manifest = FIRST
    live: dict[str, list[Record]] = field(default_factory=dict)  # by segment

    def append(self, sizes: list[int], packing: int) -> None:
        base, name = self.head.next_offset, f"{self.head.id:012d}-{self.head.id:016x}"
        raw_bytes = sum(sizes)
        ref = self._ref(name, range(len(sizes)), raw_bytes, self.frame + raw_bytes * packing // 100)
        self.live[name] = [
            Record(base + at, size, Fraction(ref.bytes * size, raw_bytes)) for at, size in enumerate(sizes)
        ]
        self._commit(Append(ref, 100_000))

    def merge(self, held: list[SegmentRef], drop: int, *, starts: list[int] | None = None, counts: bool = True) -> None:
        """Every `drop`-th record is dropped; 0 drops none. `starts`: the buckets at admission."""
        starts = starts or [bucket.start for bucket in self.head.time_index]
        sources = sorted((r for ref in held for r in self.live.pop(ref.id)), key=lambda r: r.offset)
        gone = sources[::drop] if drop else []
        kept = [record for record in sources if record not in gone]
        job = f"{self.head.id:012d}-{self.head.id:08x}"
        outputs: tuple[SegmentRef, ...] = ()
        if kept:
            raw_bytes = sum(record.size for record in kept)
            made = self._ref(f"{job}-1-0-0", [r.offset for r in kept], raw_bytes, self._merged_bytes(kept))
            outputs = (replace(made, base_offset=None),)
            takes = [min(record.takes, Fraction(record.size)) for record in kept]
            less = min(Fraction(made.bytes) / sum(takes), Fraction(1))
            self.live[made.id] = [replace_takes(r, part * less) for r, part in zip(kept, takes, strict=True)]
        edit = CommitCompaction(
            epoch=0,
            job=job,
            segments=tuple(ref.id for ref in held),
            run=SortedRun(id=job, segments=outputs),
            coverage_offset=0,
            clean=False,
            forget=tuple(done.id for done in self.head.completed_jobs),
            lost=tuple((record.offset, 1) for record in gone),
            sizes=by_bucket(starts, kept, gone) if counts else None,
        )
        self._commit(edit)

    def _merged_bytes(self, kept: list[Record]) -> int:
        return self.frame + sum(record.size for record in kept) * self.packing // 100

    def _ref(self, name: str, offsets: range | list[int], raw_bytes: int, size: int) -> SegmentRef:
        reach = {"rows": len(offsets), "base_offset": 0, "min_offset": offsets[0], "max_offset": offsets[-1]}
        return segment_ref(name, bytes=max(size, 1), raw_bytes=raw_bytes, **reach, order="offset")

    def _commit(self, edit: Append | CommitCompaction | RaiseFloor) -> None:
        verdict = edit.apply(self.head, self.head.id + 1, 0)
        assert isinstance(verdict, Next), verdict
        following = replace(verdict.value, id=self.head.id + 1)
        assert list(manifest_problems(self.head, following)) == []
        self.head = following

    def raise_floor(self, before: int) -> None:
        self._commit(RaiseFloor(before))

    def records(self) -> list[Record]:
        return sorted((r for records in self.live.values() for r in records), key=lambda r: r.offset)

    def taken(self) -> list[Fraction]:
        """What the live records of each bucket take."""
        starts = [bucket.start for bucket in self.head.time_index]
        found = [Fraction(0)] * len(starts)
        for record in self.records():
            at = bisect_right(starts, record.offset) - 1
            if at >= 0:
                found[at] += record.takes
        return found


def replace_takes(record: Record, takes: Fraction) -> Record:
    return Record(record.offset, record.size, takes)


def by_bucket(starts: list[int], kept: list[Record], gone: list[Record]) -> tuple[tuple[int, int, int], ...]:
    """As the tasks count them."""
    sums = {start: [0, 0] for start in starts}
    for column, records in enumerate((kept, gone)):
        for record in records:
            at = bisect_right(starts, record.offset) - 1
            if at >= 0:
                sums[starts[at]][column] += record.size
    return tuple((start, keeps, loses) for start, (keeps, loses) in sums.items())


APPENDS = st.tuples(st.just("append"), st.lists(SIZES, min_size=1, max_size=8), st.integers(0, 9))
MERGES = st.tuples(st.just("merge"), st.integers(0, 5), st.integers(0, 9))
HISTORIES = st.lists(st.one_of(APPENDS, APPENDS, MERGES), min_size=4, max_size=24)


def play(log: Log, history: list[tuple[str, object, int]], *, drops: bool = True, packings: bool = False) -> None:
    for what, first, second in history:
        if what == "append":
            assert isinstance(first, list)
            log.append(first, 10 * second + 10 if packings else 100)
            continue
        assert isinstance(first, int)
        units = [run.segments for run in log.head.runs] + [(ref,) for ref in log.head.l0]
        chosen = units[first : first + 1 + second] or units
        if not chosen:
            continue
        before = {size: log_start(log.head, Retention(bytes=size), 0) for size in (1, 300, 20_000, 100_000, 400_000)}
        log.merge([ref for unit in chosen for ref in unit], first % 4 if drops else 0)
        after = {size: log_start(log.head, Retention(bytes=size), 0) for size in before}
        assert all(after[size] <= before[size] for size in before), "a merge alone raises no floor"


def judge(log: Log, bound: int) -> None:
    """The floor over whole buckets, by what their records take."""
    starts = [bucket.start for bucket in log.head.time_index]
    left = sum(log.taken())
    exact = 0
    for size, end in zip(log.taken(), [*starts, log.head.next_offset][1:], strict=True):
        left -= size
        if left < bound:
            break
        exact = end
    assert log_start(log.head, Retention(bytes=bound), 0) == exact


@given(HISTORIES, st.integers(0, 400_000), st.sampled_from([4, 128]))
def test_the_floor_is_that_of_the_records(history: list[tuple[str, object, int]], bound: int, buckets: int) -> None:
    """Stored as they are: the index counts to the byte, whatever was merged, dropped and joined."""
    log = Log()
    with patch("lithify.manifest.time_index.TIME_INDEX_MAX", buckets):
        play(log, history)
    assert [bucket.bytes for bucket in log.head.time_index] == log.taken()
    assert [bucket.raw_bytes for bucket in log.head.time_index] == log.taken()
    judge(log, bound)


@given(HISTORIES, st.integers(0, 3_000), st.integers(10, 130))
def test_frames_and_codecs_move_it_by_no_more_than_roundings(
    history: list[tuple[str, object, int]], frame: int, packing: int
) -> None:
    """Each object has a frame, each append a codec that suits it more or less, and merged objects another one."""
    log = Log(frame, packing)
    play(log, history, packings=True)
    counted, taken = [bucket.bytes for bucket in log.head.time_index], log.taken()
    assert sum(counted) <= sum(ref.bytes for ref in log.head.segments()), "what is counted is stored"
    for at, _ in enumerate(counted):
        assert abs(sum(taken[at:]) - sum(counted[at:])) <= ROUNDING * len(history) * len(counted)


@given(HISTORIES, HISTORIES, st.integers(0, 9))
def test_what_nobody_counted_is_never_early(
    history: list[tuple[str, object, int]], more: list[tuple[str, object, int]], first: int
) -> None:
    """A job that an earlier release recorded: the index may count less than is there, and never more."""
    log = Log()
    play(log, [*history, ("append", [10, 4_000], 0)])
    units = [run.segments for run in log.head.runs] + [(ref,) for ref in log.head.l0]
    log.merge([ref for unit in units[first:] or units for ref in unit], 3, counts=False)
    log.append([500, 20], 100)
    play(log, more)
    counted, taken = [bucket.bytes for bucket in log.head.time_index], log.taken()
    assert all(count <= takes for count, takes in zip(counted, taken, strict=True))


def test_an_index_of_an_earlier_release_is_counted_on() -> None:
    log = Log()
    log.append([3_000] * 10, 100)
    log.append([10] * 10, 100)
    log.head = replace(log.head, time_index=tuple(replace(b, raw_bytes=0) for b in log.head.time_index))
    log.merge(list(log.head.l0), 2)
    log.append([3_000] * 10, 100)
    assert [bucket.bytes for bucket in log.head.time_index] == log.taken() == [15_000, 50, 30_000]
    assert [bucket.raw_bytes for bucket in log.head.time_index] == log.taken()


@pytest.mark.parametrize("drop", [0, 2])
def test_buckets_that_were_joined_or_went_below_the_floor_meanwhile_are_found_again(drop: int) -> None:
    log = Log()
    for size in (500, 7, 90, 4_000):
        log.append([size] * 6, 100)
    starts, held = [bucket.start for bucket in log.head.time_index], list(log.head.l0)
    with patch("lithify.manifest.time_index.TIME_INDEX_MAX", 3):
        log.append([60] * 6, 100)
    log.raise_floor(12)
    assert len(log.head.time_index) < len(starts)
    log.merge(held, drop, starts=starts)
    assert [bucket.bytes for bucket in log.head.time_index] == log.taken()
