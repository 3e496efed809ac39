"""What the ranges of a job dropped is told once for all of them, whatever was done again."""

from itertools import zip_longest

import msgspec
from hypothesis import given
from hypothesis import strategies as st

from lithify.manifest.jobs import Job, KeyRange, MergeCounts, MergeRules, Plan, RangeDone, discarded, recorded
from tests.protocol.scene import job, segment

STARTS = (0, 10, 20)
COUNTS = st.lists(st.integers(0, 9), max_size=len(STARTS)).map(tuple)
PLAN = Plan(
    ranges=tuple(KeyRange(low=bytes([at]) if at else None) for at in range(4)),
    rules=MergeRules(buckets=STARTS),
    output_bytes=1,
    input_bytes=1,
    input_rows=1,
    input_segments=1,
)


@st.composite
def ranges(draw: st.DrawFn) -> list[RangeDone]:
    """One for each of the plan; an earlier release counts no bytes."""
    return [
        RangeDone(
            index=index,
            attempt=1,
            outputs=(),
            counts=MergeCounts(rows_in=5),
            lost=draw(COUNTS),
            kept_bytes=draw(COUNTS) or (0,),
            lost_bytes=draw(COUNTS),
        )
        for index in range(len(PLAN.ranges))
    ]


def by_earlier(done: RangeDone) -> RangeDone:
    return msgspec.structs.replace(done, kept_bytes=(), lost_bytes=())


def sums(field: str, done: list[RangeDone]) -> tuple[int, ...]:
    return tuple(map(sum, zip_longest((0,) * len(STARTS), *(getattr(d, field) for d in done), fillvalue=0)))


STEPS = st.lists(
    st.one_of(
        st.tuples(st.just("record"), st.sets(st.integers(0, 3), min_size=1), st.booleans()),
        st.tuples(st.just("discard"), st.sets(st.integers(0, 3)), st.booleans()),
    ),
    max_size=8,
)


@given(ranges(), STEPS)
def test_the_sums_are_those_of_the_ranges_whatever_is_done_again(
    each: list[RangeDone], steps: list[tuple[str, set[int], bool]]
) -> None:
    at = job(plan=PLAN)
    for step, indexes, earlier in [*steps, ("record", {0, 1, 2, 3}, False)]:
        if step == "discard":
            at = discarded(at, indexes)
        else:
            new = [each[index] for index in indexes - {d.index for d in at.done}]
            at = recorded(at, map(by_earlier, new) if earlier else new)
    assert {d.index for d in at.done} == {0, 1, 2, 3}
    assert at.counted == ()
    assert at.lost() == tuple((start, rows) for start, rows in zip(STARTS, sums("lost", each), strict=True) if rows)
    sizes = zip(STARTS, sums("kept_bytes", each), sums("lost_bytes", each), strict=True)
    assert at.sizes() in (None, tuple(size for size in sizes if any(size[1:])))
    if not any(earlier for _, _, earlier in steps):
        assert at.sizes() is not None


@given(ranges())
def test_a_range_that_was_not_counted_makes_nothing_of_the_sums(each: list[RangeDone]) -> None:
    uncounted = recorded(job(plan=PLAN), [by_earlier(each[0]), *each[1:]])
    assert uncounted.sizes() is None
    assert recorded(discarded(uncounted, {1, 2, 3}), each[:1]).sizes() == recorded(job(plan=PLAN), each).sizes()
    counted_first = recorded(discarded(recorded(job(plan=PLAN), each), {1, 2, 3}), [by_earlier(each[0])])
    assert counted_first.sizes() == recorded(job(plan=PLAN), each).sizes()


@given(ranges(), st.sets(st.integers(0, 3)))
def test_a_job_that_an_earlier_release_began_is_told_alike(each: list[RangeDone], keep: set[int]) -> None:
    """It kept the counts of each range with the range."""
    theirs = job(plan=PLAN, done=tuple(each))
    left = discarded(theirs, keep)
    again = recorded(left, [d for d in each if d.index not in keep])
    assert (again.lost(), again.sizes()) == (theirs.lost(), theirs.sizes())


def of_ranges(count: int) -> Job:
    done = (
        RangeDone(
            index=index,
            attempt=1,
            outputs=(segment(f"o{index}"),),
            counts=MergeCounts(rows_in=5),
            lost=(1_000,) * 128,
            kept_bytes=(1_000_000,) * 128,
            lost_bytes=(1_000_000,) * 128,
        )
        for index in range(count)
    )
    return recorded(job(plan=PLAN), done)


def test_a_range_takes_the_same_room_however_many_buckets_there_are() -> None:
    of_two, of_ten = (len(msgspec.json.encode(of_ranges(count))) for count in (2, 10))
    assert (of_ten - of_two) // 8 < 1_200, "bytes of a range with its output"
