"""Which runs a tier merges: so many of similar size as bound their number, and none for nothing."""

from msgspec.structs import replace

from lithify.compactor.plan import FAN_IN_MAX, fan_in
from lithify.manifest.config import TopicConfig, parse
from lithify.manifest.debt import Due, NotDue, assess
from lithify.manifest.model import FORMAT, Manifest, SegmentRef, SortedRun
from lithify.manifest.reading import Reading
from lithify.manifest.units import units
from tests.refs import l0_ref

HOUR_MS = 3_600_000
NOW_MS = 1_000 * HOUR_MS
MIB = 1024 * 1024
NEVER_CLEAN = "1"  # min.cleanable.dirty.ratio


def config(policy: str = "compact", **settings: str) -> TopicConfig:
    named = {name.replace("_", "."): value for name, value in settings.items()}
    return parse({"cleanup.policy": policy, "l0.segments.tier": "2", "runs.tier": "3", **named})


def segment(at: int, size: int, age_ms: int, base_offset: int | None) -> SegmentRef:
    fields = {"rows": 10, "bytes": size, "timestamp_ms": NOW_MS - age_ms, "base_offset": base_offset}
    return l0_ref(f"{at:012d}-x", at * 10, **fields)


def partition(runs: list[int], l0: list[int], cleaned: int = 0, age_ms: int = HOUR_MS) -> Manifest:
    """Runs and L0 segments of these sizes, oldest first, of which the first `cleaned` are clean."""
    made = [segment(at, size, age_ms, None) for at, size in enumerate(runs)]
    return Manifest(
        format=FORMAT,
        topic="t",
        topic_id="i",
        partition=0,
        id=7,
        next_offset=10_000,
        cleaned_to=10 * cleaned,
        runs=tuple(SortedRun(id=f"run {at}", segments=(ref,)) for at, ref in enumerate(made)),
        l0=tuple(segment(len(runs) + at, size, age_ms, 10 * (len(runs) + at)) for at, size in enumerate(l0)),
    )


def due(manifest: Manifest, settings: TopicConfig) -> Due | None:
    return assess(Reading.of(manifest, None, settings, NOW_MS)).due


def sizes(manifest: Manifest, settings: TopicConfig) -> list[int]:
    found = due(manifest, settings)
    return [] if found is None else [unit.bytes for unit in found.units]


def test_small_runs_between_large_ones_count_with_these() -> None:
    lazy = config(min_cleanable_dirty_ratio=NEVER_CLEAN)
    assert sizes(partition([900, 10, 1000], []), lazy) == [900, 10, 1000]
    assert sizes(partition([5_000, 1000, 10], []), lazy) == [], "in falling steps, fewer than three on each"
    assert sizes(partition([5_000, 900, 1000, 10], []), lazy) == []
    assert sizes(partition([5_000, 900, 30, 1000, 10], []), lazy) == [900, 30, 1000]


def test_l0_takes_the_runs_along_with_which_it_would_be_merged_next() -> None:
    lazy = config(min_cleanable_dirty_ratio=NEVER_CLEAN)
    assert sizes(partition([100], [50, 50]), lazy) == [50, 50]
    assert sizes(partition([100, 100], [50, 50]), lazy) == [100, 100, 50, 50]
    assert sizes(partition([500, 500, 100, 100], [50, 50]), lazy) == [500, 500, 100, 100, 50, 50], "step by step"
    assert sizes(partition([5_000, 5_000, 100, 100], [50, 50]), lazy) == [100, 100, 50, 50]


def test_the_clean_run_is_in_no_tier() -> None:
    settings = config(min_cleanable_dirty_ratio="0.95")
    assert sizes(partition([100, 100, 100], [], cleaned=1), settings) == []
    assert sizes(partition([100, 100, 100, 100], [], cleaned=1), settings) == [100, 100, 100]
    assert sizes(partition([100, 100, 100, 100], [], cleaned=1), config("delete")) == [100, 100, 100, 100]


def test_a_tier_that_a_clean_will_soon_write_again_is_left_to_it() -> None:
    half = config(min_cleanable_dirty_ratio="0.5")
    assert sizes(partition([1200, 100, 100, 100], [], cleaned=1), half) == [100, 100, 100]
    assert sizes(partition([1199, 100, 100, 100], [], cleaned=1), half) == []
    assert sizes(partition([1199, 100, 100], [50, 50], cleaned=1), half) == [50, 50], "L0 is merged, but by itself"
    most = config(min_cleanable_dirty_ratio="0.75")
    assert sizes(partition([400, 100, 100, 100], [], cleaned=1), most) == [100, 100, 100]
    assert sizes(partition([399, 100, 100, 100], [], cleaned=1), most) == []
    told = assess(Reading.of(partition([1199, 100, 100, 100], [], cleaned=1), None, half, NOW_MS)).weighed
    assert [each.reason for each in told if isinstance(each, NotDue) and each.what == "merge runs"] == [
        "3 neighbouring runs of similar size; left alone, because a clean will soon rewrite them"
    ]


def test_young_runs_are_merged_among_themselves() -> None:
    lag = config(min_compaction_lag_ms=str(2 * HOUR_MS))
    assert sizes(partition([100, 100, 100], [50] * 9), lag) == [100, 100, 100]
    old = partition([100, 100], [])
    young = partition([100, 100, 100, 100], [], age_ms=0)
    mixed = replace(young, runs=(*old.runs, *young.runs[2:]), cleaned_to=0)
    short = config(min_compaction_lag_ms=str(HOUR_MS), min_cleanable_dirty_ratio=NEVER_CLEAN)
    assert sizes(mixed, short) == [], "never across the lag"


def test_the_clean_run_is_in_no_tier_though_it_is_young() -> None:
    """The lag was raised since: among young runs it would be dirty again, all of it."""
    lag = config(min_compaction_lag_ms=str(2 * HOUR_MS))
    assert sizes(partition([100, 100, 100], [], cleaned=1), lag) == []
    assert sizes(partition([100, 100, 100, 100], [], cleaned=1), lag) == [100, 100, 100]


def test_what_a_tier_makes_is_not_similar_to_its_inputs() -> None:
    """Else it would be written again with the next of them, and not once on each step."""
    lazy = config(min_cleanable_dirty_ratio=NEVER_CLEAN)
    assert sizes(partition([300, 100, 100], []), lazy) == []
    assert sizes(partition([201, 100, 100], []), lazy) == []
    assert sizes(partition([200, 100, 100], []), lazy) == [200, 100, 100]


def test_crowded_runs_are_merged_before_l0_though_a_clean_would_soon_write_them_again() -> None:
    tight = config(l0_segments_max="4", min_cleanable_dirty_ratio="0.9")
    assert sizes(partition([900, *[10] * 23], [1] * 3, cleaned=1), tight) == [1] * 3
    assert sizes(partition([900, *[10] * 24], [1] * 3, cleaned=1), tight) == [10] * 24


def test_of_an_offset_ordered_topic_full_runs_are_not_merged() -> None:
    settings = config("delete", compaction_output_bytes="1024")
    assert sizes(partition([1023, 1000, 1000], []), settings) == [1023, 1000, 1000]
    assert sizes(partition([1024, 1000, 1000], []), settings) == []
    assert sizes(partition([400, 1024, 400, 400], []), settings) == [], "nor gone around"
    assert sizes(partition([400, 1024, 400, 400, 400], []), settings) == [400, 400, 400]


def test_what_is_tiered_first_is_cheap_and_enough_or_all_that_one_merge_holds() -> None:
    def chosen(runs: list[int], l0: list[int]) -> list[int]:
        return [unit.bytes for unit in fan_in(units(partition(runs, l0)))]

    assert chosen([900], [1] * (FAN_IN_MAX - 1)) == [900] + [1] * (FAN_IN_MAX - 1)
    assert chosen([900], [1] * FAN_IN_MAX) == [1, 1], "the large run waits"
    assert chosen([900], [5] + [1] * 600 + [3]) == [1] * FAN_IN_MAX, "again and again"
    assert chosen([100 * MIB] * 12, []) == [100 * MIB] * 12
    assert chosen([900 * MIB, 90 * MIB], [80 * MIB] * 11) == [80 * MIB] * 2
    assert chosen([900 * MIB, 80 * MIB, 90 * MIB], [80 * MIB] * 37) == [80 * MIB] * 12


def test_what_has_moved_is_no_part_of_a_tier() -> None:
    """It would come back. In offset order, nothing is merged across it either."""
    delete = config("delete")
    manifest = partition([1000, 1000, 1000, 1000], [])
    assert sizes(manifest, delete) == [1000] * 4
    moved = replace(manifest.runs[0], segments=(replace(manifest.runs[0].segments[0], home="memory://cold"),))
    found = due(replace(manifest, runs=(moved, *manifest.runs[1:])), delete)
    assert found is not None
    assert [unit.id for unit in found.units] == ["run 1", "run 2", "run 3"]
