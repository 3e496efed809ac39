"""Cutting a job into tasks (P9, R5): ranges cover everything once, and a task is given no segment it cannot need."""

import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec.structs import replace

from lithify.compactor.plan import Proposal, choose_requested, fan_in, freeze, kind_of, offset_ranges, tasks
from lithify.manifest.config import parse
from lithify.manifest.jobs import KeyRange
from lithify.manifest.model import FORMAT, Manifest, SegmentRef
from lithify.manifest.reading import Reading
from lithify.manifest.units import units
from lithify.segment.execute import execute
from lithify.store.errors import InvalidRequest
from lithify.store.homes import only_here
from lithify.store.memory import MemoryStore
from tests.refs import l0_ref, sorted_run

MIB = 1024 * 1024


def segment(name: str, first: int, last: int, size: int = MIB, keys: tuple[bytes, bytes] = (b"a", b"z")) -> SegmentRef:
    sizes = {"rows": last - first + 1, "bytes": size, "raw_bytes": 2 * size}
    return l0_ref(f"000000000001-{name}", first, **sizes, min_key=keys[0], max_key=keys[1])


@given(st.lists(st.tuples(st.integers(1, 50), st.integers(1, 5_000)), min_size=1, max_size=40), st.integers(1, 9_000))
def test_offset_ranges_cover_every_segment_in_one_task(sizes: list[tuple[int, int]], target_bytes: int) -> None:
    segments: list[SegmentRef] = []
    at = 0
    for index, (rows, size) in enumerate(sizes):
        segments.append(segment(str(index), at, at + rows - 1, size))
        at += rows
    ranges = offset_ranges(segments, target_bytes)
    assert ranges[0].low_offset is None
    assert ranges[-1].high_offset is None
    assert [r.high_offset for r in ranges[:-1]] == [r.low_offset for r in ranges[1:]]
    config = parse({})
    head = Manifest(format=FORMAT, topic="t", topic_id="i", partition=0, id=1, l0=tuple(segments), next_offset=at)
    job = freeze(Reading.of(head, None, config, 0), Proposal(units(head), "tier", ""), ranges, "j")
    given_out = [
        ref.id for task in tasks(head, job, 1, range(len(ranges))) for source in task.sources for ref in source
    ]
    assert sorted(given_out) == sorted(s.id for s in segments), "each segment is in one task"


def test_a_straddling_segment_is_not_cut() -> None:
    ranges = offset_ranges([segment("a", 0, 9), segment("b", 5, 30), segment("c", 10, 19), segment("d", 31, 40)], 1)
    assert [r.high_offset for r in ranges] == [31, None]


def test_a_task_is_given_the_segments_of_its_keys_only() -> None:
    run = sorted_run("r", segment("lo", 0, 9, keys=(b"a", b"f")), segment("hi", 10, 19, keys=(b"g", b"z")))
    head = Manifest(
        format=FORMAT,
        topic="t",
        topic_id="i",
        partition=0,
        id=1,
        runs=(run,),
        l0=(segment("l0", 20, 29),),
        next_offset=30,
    )
    ranges = (KeyRange(None, b"c"), KeyRange(b"c", b"g"), KeyRange(b"g", None))
    config = parse({"cleanup.policy": "compact"})
    job = freeze(Reading.of(head, None, config, 0), Proposal(units(head), "clean", ""), ranges, "j")
    names = [
        [ref.id.partition("-")[2] for source in task.sources for ref in source]
        for task in tasks(head, job, 1, range(3))
    ]
    assert names == [["lo", "hi", "l0"], ["lo", "l0"], ["hi", "l0"]]
    assert job.plan is not None
    assert job.plan.rules.coverage_offset == 30
    assert job.plan.rules.stamp_horizon_ms == 86_400_000


def test_more_than_one_merge_can_hold_is_tiered_first() -> None:
    def chosen(count: int, size: int, largest_row: int = 0) -> int:
        l0 = tuple(replace(segment(str(i), i, i, size), max_row_bytes=largest_row) for i in range(count))
        head = Manifest(format=FORMAT, topic="t", topic_id="i", partition=0, id=1, l0=l0, next_offset=count)
        return len(fan_in(units(head)))

    assert chosen(8, 100 * MIB) == 8
    assert chosen(40, 100 * MIB) == 12
    assert chosen(200, 1_000) == 200
    assert chosen(4_000, 1_000) == 256
    # The largest record counts for each source, and six times besides (benchmarks/extremes.py).
    assert chosen(40, 100 * MIB, 6 * MIB) == 10
    assert chosen(40, 100 * MIB, 20 * MIB) == 7
    assert chosen(40, 100 * MIB, 30 * MIB) == 4
    assert chosen(40, 100 * MIB, 64 * MIB) == chosen(2, 100 * MIB, 64 * MIB) == 2


def test_a_task_without_sources_writes_nothing() -> None:
    head = Manifest(
        format=FORMAT,
        topic="t",
        topic_id="i",
        partition=0,
        id=1,
        l0=(segment("l0", 0, 9, keys=(b"a", b"b")),),
        next_offset=10,
    )
    config = parse({"cleanup.policy": "compact"})
    ranges = (KeyRange(None, b"c"), KeyRange(b"c", None))
    job = freeze(Reading.of(head, None, config, 0), Proposal(units(head), "clean", ""), ranges, "j")
    (empty,) = tasks(head, job, 1, [1])
    assert empty.sources == ()
    store = MemoryStore()
    assert execute(empty, only_here(store)).outputs == ()
    assert not store.list("").objects


def test_a_request_of_young_records_cleans_nothing() -> None:
    lag = parse({"cleanup.policy": "compact", "min.compaction.lag.ms": "1000"})
    head = Manifest(
        format=FORMAT, topic="t", topic_id="i", partition=0, id=1, l0=(segment("a", 0, 9), segment("b", 10, 19))
    )
    oldest, newest = units(head)
    assert kind_of(Reading.of(head, None, lag, 1_000), [oldest]) == "clean"
    assert kind_of(Reading.of(head, None, lag, 1_000), [newest]) == "tier", "an older segment is left out"
    assert kind_of(Reading.of(head, None, lag, 999), [oldest, newest]) == "tier", (
        "what may not be dropped is not clean afterwards"
    )
    assert kind_of(Reading.of(head, None, parse({}), 1_000), [oldest]) == "tier", "only compacted topics are cleaned"


@pytest.mark.parametrize("policy", ["compact", "delete"])
def test_a_full_request_leaves_the_young_out_only_where_compaction_drops_records(policy: str) -> None:
    """Named by itself a young one is taken anywhere; beside an old one only where nothing is dropped."""
    config = parse({"cleanup.policy": policy, "min.compaction.lag.ms": "1000"})
    young = replace(segment("b", 10, 19), max_timestamp_ms=900)
    head = Manifest(format=FORMAT, topic="t", topic_id="i", partition=0, id=1, l0=(segment("a", 0, 9), young))
    old, late = (unit.id for unit in units(head))
    assert [u.id for u in choose_requested(head, (), 1_899, config)] == ([old] if policy == "compact" else [old, late])
    assert [u.id for u in choose_requested(head, (), 1_900, config)] == [old, late]
    assert [u.id for u in choose_requested(head, (late,), 1_899, config)] == [late]
    if policy == "delete":
        assert [u.id for u in choose_requested(head, (late, old), 1_899, config)] == [old, late]
    else:
        with pytest.raises(InvalidRequest, match=rf"{late} holds records younger than min.compaction.lag.ms"):
            choose_requested(head, (late, old), 1_899, config)
