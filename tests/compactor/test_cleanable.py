"""C4 and R4 where units reach across the lag's boundary, or lie young below `cleaned_to`: what a clean may hold."""

from msgspec.structs import replace

from lithify.manifest.config import TopicConfig, parse
from lithify.manifest.debt import assess
from lithify.manifest.model import FORMAT, Manifest, SegmentRef, SortedRun
from lithify.manifest.reading import Reading
from tests.refs import l0_ref

HOUR_MS = 3_600_000
NOW_MS = 1_000 * HOUR_MS
LAG = {"cleanup.policy": "compact", "min.compaction.lag.ms": str(HOUR_MS), "min.cleanable.dirty.ratio": "0"}
CONFIG: TopicConfig = parse(LAG)


def segment(first: int, last: int, *, age_ms: int) -> SegmentRef:
    return l0_ref(f"{first:012d}-x", first, rows=last - first + 1, bytes=100, timestamp_ms=NOW_MS - age_ms)


def partition(*l0: SegmentRef, run: SegmentRef, cleaned_to: int = 0) -> Manifest:
    runs = (SortedRun(id="run", segments=(replace(run, base_offset=None),)),)
    first = Manifest(format=FORMAT, id=7, topic="t", topic_id="i", partition=0)
    return replace(first, next_offset=1_000, cleaned_to=cleaned_to, runs=runs, l0=l0)


def chosen(manifest: Manifest) -> list[int]:
    due = assess(Reading.of(manifest, None, CONFIG, NOW_MS)).due
    return [] if due is None else [unit.min_offset for unit in due.units]


def test_what_lies_before_the_young_is_cleaned() -> None:
    old, young = segment(20, 29, age_ms=2 * HOUR_MS), segment(30, 39, age_ms=0)
    assert chosen(partition(old, young, run=segment(0, 9, age_ms=2 * HOUR_MS))) == [0, 20]


def test_a_run_that_reaches_across_the_young_is_not_gone_around() -> None:
    """A clean without it would have coverage offset 0, leave everything as dirty as before, and be due for ever."""
    across = segment(0, 49, age_ms=2 * HOUR_MS)
    old, young = segment(20, 29, age_ms=2 * HOUR_MS), segment(30, 39, age_ms=0)
    assert chosen(partition(old, young, run=across)) == []
    assert chosen(partition(replace(young, min_timestamp_ms=0, max_timestamp_ms=0), run=across)) == [0, 30]


def test_a_young_run_is_left_alone_though_it_is_clean() -> None:
    """The lag was raised since. A clean with it may drop nothing, and would stamp tombstones above what stays."""
    old = segment(20, 29, age_ms=2 * HOUR_MS)
    assert chosen(partition(old, run=segment(0, 9, age_ms=0), cleaned_to=10)) == []
