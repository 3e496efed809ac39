"""R3 as a pure function: the floor over random logs, against the records themselves; Kafka's D1-D5 and D9."""

from dataclasses import dataclass, field
from itertools import accumulate, pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec.structs import replace

from lithify.manifest.appends import Append
from lithify.manifest.edits import Next, Refused
from lithify.manifest.floor import DropSegments, RaiseFloor
from lithify.manifest.model import FORMAT, TIME_INDEX_MAX, Manifest
from lithify.manifest.retention import Retention, log_start, logical_size
from lithify.store.errors import Fenced, OffsetOutOfRange
from tests.refs import segment_ref

FIRST = Manifest(format=FORMAT, id=1, nonce="n", topic="t", topic_id="i", partition=0)


@dataclass
class Log:
    """A manifest, and beside it each append as (offset, rows, bytes, latest timestamp)."""

    head: Manifest = FIRST
    appends: list[tuple[int, int, int, int]] = field(default_factory=list)

    def append(self, rows: int, size: int, timestamp_ms: int) -> None:
        segment = segment_ref(
            f"{self.head.id:012d}-{self.head.id:016x}", rows=rows, bytes=size, timestamp_ms=timestamp_ms
        )
        self.appends.append((self.head.next_offset, rows, size, timestamp_ms))
        self.edit(Append(segment, 100_000))

    def edit(self, edit: object) -> object:
        verdict = edit.apply(self.head, self.head.id + 1, 0)  # type: ignore[attr-defined]
        assert isinstance(verdict, Next), verdict
        self.head = replace(verdict.value, id=self.head.id + 1)
        return verdict.result


APPENDS = st.lists(st.tuples(st.integers(1, 50), st.integers(1, 10_000), st.integers(0, 5_000)), max_size=400)
BOUNDS = st.one_of(st.just(-1), st.integers(0, 20_000))


def log(appends: list[tuple[int, int, int]]) -> Log:
    made = Log()
    for rows, size, timestamp_ms in appends:
        made.append(rows, size, timestamp_ms)
    return made


def bounded(made: Log, **bounds: int) -> Log:
    made.head = replace(made.head, retention=Retention(**bounds))
    return made


def floor(appends: list[tuple[int, int, int]], now_ms: int = 0, **bounds: int) -> int:
    return log_start(log(appends).head, Retention(**bounds), now_ms)


@given(APPENDS, BOUNDS, BOUNDS, BOUNDS, st.integers(0, 30_000))
def test_the_floor_is_never_early_and_late_by_at_most_one_bucket(
    appends: list[tuple[int, int, int]], ms: int, size: int, records: int, now_ms: int
) -> None:
    made = log(appends)
    found = log_start(made.head, Retention(ms, size, records), now_ms)
    ends = [offset + rows for offset, rows, _, _ in made.appends]
    exact = 0  # the floor if every append were a bucket of its own
    for (_, _, _, timestamp_ms), end in zip(made.appends, ends, strict=True):
        left = [entry for entry in made.appends if entry[0] >= end]
        goes = (
            (ms >= 0 and now_ms - timestamp_ms > ms)
            or (size >= 0 and sum(entry[2] for entry in left) >= size)
            or (records >= 0 and sum(entry[1] for entry in left) >= records)
        )
        if not goes:
            break
        exact = end
    assert found <= exact, "never early"
    starts = [bucket.start for bucket in made.head.time_index]
    late = next((start for start in starts if start > found), made.head.next_offset)
    assert exact < late or exact == found, "late by at most one bucket"
    assert found in {0, *ends}, "the floor is a border between appends"


@given(APPENDS)
def test_the_index_counts_what_was_appended(appends: list[tuple[int, int, int]]) -> None:
    made = log(appends)
    index = made.head.time_index
    assert len(index) == min(len(appends), TIME_INDEX_MAX)
    assert sum(bucket.rows for bucket in index) == sum(rows for rows, _, _ in appends)
    assert sum(bucket.bytes for bucket in index) == sum(size for _, size, _ in appends)
    assert max((bucket.max_timestamp_ms for bucket in index), default=0) == max((t for *_, t in appends), default=0)
    assert all(a.start < b.start for a, b in pairwise(index))


@pytest.mark.slow
@given(st.lists(st.tuples(st.integers(1, 50), st.integers(1, 10_000), st.integers(0, 1_000)), min_size=300))
def test_no_joined_bucket_is_more_than_a_few_per_cent_of_the_log(appends: list[tuple[int, int, int]]) -> None:
    elapsed_ms, timed = 0, []
    for rows, size, later_ms in appends:
        elapsed_ms += later_ms
        timed.append((rows, size, elapsed_ms))
    index = log(timed).head.time_index
    single = {(rows, size) for rows, size, _ in timed}
    part = 6 / TIME_INDEX_MAX
    for before, bucket in pairwise(index):
        if (bucket.rows, bucket.bytes) in single:
            continue
        # Joined when the log was at most as large as it is now.
        assert bucket.rows <= part * sum(rows for rows, _, _ in timed)
        assert bucket.bytes <= part * sum(size for _, size, _ in timed)
        assert bucket.max_timestamp_ms - before.max_timestamp_ms <= part * (timed[-1][2] - timed[0][2])


@pytest.mark.parametrize("measure", [0, 1, 2], ids=["rows", "bytes", "time"])
@pytest.mark.parametrize("small", [2, 60, TIME_INDEX_MAX - 2])
def test_the_two_neighbours_that_are_smallest_by_their_largest_measure_are_joined(measure: int, small: int) -> None:
    """The newest has nearly all there is of two measures; in the third, two neighbours are smaller than all others."""
    appends, elapsed_ms = list[tuple[int, int, int]](), 0
    for at in range(TIME_INDEX_MAX + 1):
        sizes = [1_000_000 if at == TIME_INDEX_MAX else 1] * 3
        sizes[measure] = 1 if at in (small, small + 1) else 1_000
        elapsed_ms += sizes[2]
        appends.append((sizes[0], sizes[1], elapsed_ms))
    starts = [0, *accumulate(rows for rows, _, _ in appends[:-1])]
    index = log(appends).head.time_index
    assert [bucket.start for bucket in index] == starts[: small + 1] + starts[small + 2 :]
    one, other = appends[small : small + 2]
    assert (index[small].rows, index[small].bytes) == (one[0] + other[0], one[1] + other[1])


THREE = [(5, 100, 10), (5, 100, 20), (5, 100, 30)]


@pytest.mark.parametrize(
    ("bounds", "now_ms", "expected"),
    [
        pytest.param({"ms": 10}, 20, 0, id="D1 exactly as old as the bound is not older"),
        pytest.param({"ms": 10}, 21, 5, id="D1 older"),
        pytest.param({"bytes": 200}, 0, 5, id="D2 as much as the bound remains"),
        pytest.param({"bytes": 201}, 0, 0, id="D2 never below the bound"),
        pytest.param({"bytes": 300}, 0, 0, id="D2 all of it is the bound"),
        pytest.param({"records": 10}, 0, 5, id="records as bytes"),
        pytest.param({"records": 11}, 0, 0, id="records never below the bound"),
        pytest.param({"ms": 0}, 1_000, 15, id="D4 everything by time"),
        pytest.param({"bytes": 0}, 0, 15, id="D4 everything by size"),
        pytest.param({"ms": 10, "bytes": 100}, 21, 10, id="D9 size is the more aggressive"),
        pytest.param({"ms": 0, "bytes": 300}, 25, 10, id="D9 time is the more aggressive"),
        pytest.param({}, 10**9, 0, id="no bound"),
    ],
)
def test_kafkas_rules(bounds: dict[str, int], now_ms: int, expected: int) -> None:
    assert floor(THREE, now_ms, **bounds) == expected


def test_d3_d5_a_record_from_the_future_keeps_all_after_it() -> None:
    assert floor([(5, 1, 10_000), (5, 1, 10), (5, 1, 20)], 1_000, ms=5) == 0
    assert floor([(5, 1, 10), (5, 1, 10_000), (5, 1, 20)], 1_000, ms=5) == 5


def test_d4_the_next_append_goes_on_from_the_old_end() -> None:
    made = bounded(log(THREE), records=0)
    made.edit(DropSegments(0, frozenset()))
    assert (made.head.log_start_offset, made.head.segments(), made.head.time_index) == (15, (), ())
    made.append(2, 10, 99)
    assert made.head.l0[0].base_offset == 15
    assert log_start(made.head, Retention(records=2), 0) == 15


def test_deletion_by_hand_may_cut_a_bucket() -> None:
    made = log(THREE)
    assert made.edit(RaiseFloor(7)) == 7
    assert (made.head.log_start_offset, made.head.deleted_to) == (7, 7)
    assert [bucket.start for bucket in made.head.time_index] == [5, 10]
    assert logical_size(made.head, 7) == (8, 160)
    assert log_start(made.head, Retention(records=5), 0) == 10
    beyond = RaiseFloor(16).apply(made.head, 9, 0)
    assert isinstance(beyond, Refused)
    assert isinstance(beyond.error, OffsetOutOfRange)


def test_whole_segments_below_the_floor_go_at_once_but_for_those_of_a_job() -> None:
    made = bounded(log(THREE), records=5)
    held = made.head.l0[0].id
    gone = made.edit(DropSegments(0, frozenset({held})))
    assert [ref.min_offset for ref in gone] == [5]  # type: ignore[attr-defined]
    assert [ref.min_offset for ref in made.head.l0] == [0, 10]
    assert [entry.id for entry in made.head.retired] == [ref.id for ref in gone]  # type: ignore[attr-defined]
    assert made.head.log_start_offset == 10
    fenced = DropSegments(-1, frozenset()).apply(made.head, 9, 0)
    assert isinstance(fenced, Refused)
    assert isinstance(fenced.error, Fenced)
