"""Which kind of turn a partition wants."""

import pytest
from msgspec.structs import replace

from lithify.compactor.failures import source_set
from lithify.compactor.needs import SHORT_BYTES, SHORT_SECONDS, want
from lithify.compactor.policy import Admit, Propose, Resume, Wait, decide
from lithify.compactor.retiring import segments_of
from lithify.compactor.turns import Want
from lithify.manifest.config import TopicConfig
from lithify.manifest.debt import DebtName
from lithify.manifest.jobs import Attempt, FailureCount, JobError
from lithify.manifest.model import Manifest
from lithify.manifest.reading import Reading
from tests.compactor.test_policy import NOW_MS, config, head, job, segment, state


def wanted(manifest: Manifest, settings: TopicConfig) -> Want:
    return want(
        decide(Reading.of(manifest, None, settings, NOW_MS)), Reading.of(manifest, None, settings, NOW_MS), owned=True
    )


def test_a_short_job_reads_little_or_relieves_pressure() -> None:
    eager = config(min_cleanable_dirty_ratio="0")
    small, large = head(segment(10, SHORT_BYTES)), head(segment(10, SHORT_BYTES + 1))
    assert wanted(small, eager).short
    assert not wanted(large, eager).short
    pressed = wanted(head(segment(10, SHORT_BYTES + 1)), config(l0_segments_max="1", min_cleanable_dirty_ratio="1"))
    assert pressed.short
    assert pressed.bytes == SHORT_BYTES + 1


LARGE = SHORT_BYTES // 10


@pytest.mark.parametrize(("count", "most", "short"), [(12, "12", True), (3_100, "4096", True), (3_000, "4096", False)])
def test_what_relieves_pressure_is_short_whether_one_merge_can_hold_it_or_not(
    count: int, most: str, short: bool
) -> None:
    """And where it was interrupted. The default limit is above what one merge holds, so there it is always a part."""
    settings = config(l0_segments_max=most, min_cleanable_dirty_ratio="1")
    manifest = head(*(replace(segment(10 + at, LARGE), min_offset=at, max_offset=at) for at in range(count)))
    begun = decide(Reading.of(manifest, None, settings, NOW_MS))
    assert isinstance(begun, Propose)
    assert (begun.due.debt is DebtName.FAN_IN) is (count > 12)
    assert wanted(manifest, settings).short is short
    left = job("left", kind="tier", origin="scheduler", segments=segments_of(begun.due.units))
    assert left.plan is not None
    left = replace(left, plan=replace(left.plan, input_bytes=SHORT_BYTES + 1))
    assert want(Resume(left), Reading.of(manifest, state(left), settings, NOW_MS), owned=True).short is short
    others = replace(left, segments=(*left.segments, "a run's"))
    assert not want(Resume(others), Reading.of(manifest, state(others), settings, NOW_MS), owned=True).short
    asked = replace(left, origin="manual")
    assert not want(Resume(asked), Reading.of(manifest, state(asked), settings, NOW_MS), owned=True).short


def test_what_a_throttle_stretches_is_not_short() -> None:
    for rate, short in ((1_000, True), (999, False), (-1, True)):
        slow = config(min_cleanable_dirty_ratio="0", compaction_throttle_bytes_per_second=str(rate))
        assert wanted(head(segment(10, 1_000 * SHORT_SECONDS)), slow).short is short


def test_nothing_to_do_and_retention_are_edits() -> None:
    for manifest in (head(clean=5), head(segment(10, 5), log_start_offset=500)):
        assert wanted(manifest, config()).bytes == 0


def test_what_a_person_asked_for_is_known_when_it_is_begun_and_when_it_goes_on() -> None:
    manifest, asked = head(segment(10, 5)), job("asked", "submitted", plan=None)
    assert want(Admit(asked), Reading.of(manifest, state(asked), config(), NOW_MS), owned=True).asked
    assert want(Resume(job("asked")), Reading.of(manifest, state(), config(), NOW_MS), owned=True).asked
    assert not want(
        Resume(job("due", origin="scheduler")), Reading.of(manifest, state(), config(), NOW_MS), owned=True
    ).asked
    assert not want(Wait("nothing"), Reading.of(manifest, None, config(), NOW_MS), owned=True).asked


def test_who_may_have_killed_its_compactors_runs_alone() -> None:
    open_attempt = Attempt(number=1, epoch=1, worker="w", started_at_ms=0)
    guilty = job("guilty", attempts=(open_attempt,))
    once = FailureCount(sources=source_set(("s",)), count=0, lost=1, error=JobError("", ""), retry_at_ms=0)
    known = state(guilty, failures=(once,))
    assert not want(Resume(guilty), Reading.of(head(), known, config(), NOW_MS), owned=True).alone
    assert want(Resume(guilty), Reading.of(head(), known, config(), NOW_MS), owned=False).alone, (
        "the claim will count the attempt"
    )
