"""What a compaction is expected to take."""

import pytest
from msgspec.structs import replace

from lithify.compactor.estimate import estimate, target_bytes
from lithify.manifest.config import TopicConfig
from lithify.manifest.debt import assess
from lithify.manifest.jobs import CompactorState, Estimate, Kind, MergeCounts, MergeRules, Plan
from lithify.manifest.model import SortedRun
from lithify.manifest.reading import Reading
from lithify.manifest.units import units
from tests.compactor.test_policy import NOW_MS, config, head, job, segment, state


def test_an_estimate_goes_by_the_last_of_its_kind() -> None:
    manifest = head(segment(10, 400), segment(11, 600))
    chosen = assess(Reading.of(manifest, None, config(), NOW_MS)).due
    assert chosen is not None

    def foretold(known: CompactorState | None, settings: TopicConfig) -> Estimate:
        return estimate(Reading.of(manifest, known, settings, NOW_MS), chosen.units, "clean")

    blind = foretold(None, config())
    assert (blind.input_bytes, blind.output_bytes, blind.input_rows, blind.output_rows) == (1_000, 1_000, 20, 20)
    plan = Plan(ranges=(), rules=MergeRules(), output_bytes=1, input_bytes=100, input_rows=1, input_segments=1)
    last = job("last", "completed", kind="clean", plan=plan, output_bytes=25, counts=MergeCounts(rows_in=8, rows_out=4))
    other = job(
        "other", "completed", kind="tier", plan=plan, output_bytes=100, counts=MergeCounts(rows_in=8, rows_out=8)
    )
    known = foretold(replace(state(), history=(last, other)), config())
    assert (known.output_bytes, known.output_rows, known.basis) == (250, 10, "how last went")
    assert known.ranges == 1
    assert foretold(None, config(compaction_output_bytes="1024")).ranges == 1


def test_what_is_clean_already_is_no_fewer_for_another_clean() -> None:
    """3,000 records of 500 keys were cleaned; one more came. A sixth of 501 would be foretold."""
    big = replace(segment(0, 5_000), rows=500, tombstones=20, min_offset=0, max_offset=2_999, base_offset=None)
    manifest = head(segment(300, 10), runs=(SortedRun(id="clean", segments=(big,)),), cleaned_to=3_000)
    plan = Plan(ranges=(), rules=MergeRules(), output_bytes=1, input_bytes=60, input_rows=6, input_segments=1)
    last = job("last", "completed", kind="clean", plan=plan, output_bytes=10, counts=MergeCounts(rows_in=6, rows_out=1))
    after = replace(state(), history=(last,))

    def foretold(kind: Kind = "clean", **fields: int) -> Estimate:
        return estimate(Reading.of(replace(manifest, **fields), after, config(), NOW_MS), units(manifest), kind)

    known = foretold()
    assert (known.input_rows, known.output_rows, known.output_bytes) == (510, 480, 4_800)
    half = foretold(log_start_offset=1_500)
    assert (half.output_rows, half.output_bytes) == (240, 2_400)
    assert foretold(log_start_offset=9_999).output_rows == 85
    assert foretold(cleaned_to=2_999).output_rows == 85, "it is not clean"
    assert foretold("tier").output_rows == 510


@pytest.mark.parametrize(
    ("mib", "ranges"),
    [(1, 1), (64, 1), (65, 2), (81, 2), (162, 2), (192, 4), (324, 4), (400, 8), (648, 8), (1_296, 8), (4_096, 16)],
)
def test_there_are_as_many_ranges_as_workers_share_evenly(mib: int, ranges: int) -> None:
    """Five equal ranges take two workers as long as six. Above 2 GiB the size of an output decides."""
    target = target_bytes(config(), mib << 20)
    assert -(-(mib << 20) // target) == ranges


def test_a_range_is_no_larger_than_an_output_may_be() -> None:
    assert target_bytes(config(compaction_output_bytes="1048576"), 100 << 20) == 1 << 20
