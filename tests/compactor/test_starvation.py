"""No work keeps another from being done for ever: across kinds of topic, behind what fails, and under steady load."""

from typing import Any

import numpy as np
import pytest
from msgspec.structs import replace

from benchmarks.simulation import Simulation
from lithify.compactor.failures import source_set
from lithify.compactor.plan import Proposal, fan_in, freeze
from lithify.compactor.policy import NOTHING_DUE, Drop, Propose, Wait, decide, decision
from lithify.compactor.retiring import segments_of
from lithify.manifest.config import LONG_MAX, parse, validate
from lithify.manifest.debt import RUNS_CROWDED_TIERS, Due, NotDue, assess
from lithify.manifest.jobs import FailureCount, JobError, KeyRange, MergeCounts
from lithify.manifest.model import RETIRED_MAX, Retired, SortedRun
from lithify.manifest.pins import waiting_text
from lithify.manifest.reading import Reading
from lithify.manifest.units import Unit, units
from tests.compactor.test_policy import HOUR_MS, NOW_MS, config, head, job, segment, state, urgency

EIGHT_L0 = tuple(segment(10 + at, 5) for at in range(8))


def failed(chosen: tuple[Unit, ...], count: int, retry_at_ms: int = NOW_MS) -> FailureCount:
    error = JobError("memory", "out of memory")
    return FailureCount(sources=source_set(segments_of(chosen)), count=count, error=error, retry_at_ms=retry_at_ms)


def proposed(action: object) -> Due:
    assert isinstance(action, Propose)
    return action.due


def test_a_debt_is_as_urgent_in_one_kind_of_topic_as_in_another() -> None:
    crowd = head(*EIGHT_L0)
    routine = urgency(Reading.of(crowd, None, parse({"cleanup.policy": "delete"}), NOW_MS))
    pressure = parse({"cleanup.policy": "delete", "l0.segments.max": "8"})
    ranks = [
        urgency(Reading.of(head(segment(10, 1, 2)), None, config(max_compaction_lag_ms="1"), NOW_MS)),
        urgency(Reading.of(crowd, None, pressure, NOW_MS)),
        urgency(Reading.of(head(segment(10, 99)), None, config(), NOW_MS)),
        routine,
    ]
    assert ranks == sorted(ranks)
    assert len(set(ranks)) == len(ranks)
    assert urgency(Reading.of(crowd, None, config(l0_segments_max="8"), NOW_MS)) == ranks[1]


def test_a_full_l0_of_one_segment_is_emptied() -> None:
    """Nothing else would be due, and no append would be taken again."""
    for policy in ("compact", "delete"):
        one = parse({"cleanup.policy": policy, "l0.segments.max": "1"})
        found = assess(Reading.of(head(segment(10, 1), clean=99), None, one, NOW_MS)).due
        assert found is not None
        assert (found.kind, found.debt, len(found.units)) == ("tier", "l0-pressure", 1)
    two = config(l0_segments_max="2", min_compaction_lag_ms=str(HOUR_MS))
    assert (
        assess(Reading.of(head(segment(10, 1, HOUR_MS), segment(11, 1), clean=99), None, two, NOW_MS)).due is not None
    )


def test_what_was_given_up_keeps_no_other_work_waiting() -> None:
    dirty = head(*EIGHT_L0)
    clean, tier = assess(Reading.of(dirty, None, config(), NOW_MS)).all_due
    assert (clean.debt, tier.debt) == ("dirty", "l0")
    few = head(*EIGHT_L0, segment(99, 200, 1), clean=50)
    settings = config(min_compaction_lag_ms="1")
    few = replace(few, l0=tuple(replace(s, max_timestamp_ms=NOW_MS - 1) for s in few.l0))
    clean, tier = assess(Reading.of(few, None, settings, NOW_MS)).all_due
    poisoned = state(failures=(failed(clean.units, 10),))
    decided = decide(Reading.of(few, poisoned, settings, NOW_MS))
    assert proposed(decided) == tier
    passed = {it.what: it.reason for it in decision(Reading.of(few, poisoned, settings, NOW_MS)).passed}
    given_up = "given up: 10 attempts in a row made no progress; the last: out of memory"
    assert passed["clean dirty records"] == f"due ({clean.reason}), but {given_up}; it will be tried once more in 1.0 d"
    both = state(failures=(failed(clean.units, 10), failed(tier.units, 2, NOW_MS + 7)))
    waiting = decide(Reading.of(few, both, settings, NOW_MS))
    assert isinstance(waiting, Wait)
    assert waiting.until_ms == NOW_MS + 7
    assert "given up" in waiting.reason


def test_what_is_tiered_first_is_given_up_like_any_other() -> None:
    """Its failures are counted by its own sources, not by those of the clean that it is to make smaller."""
    many = head(*(segment(10 + at, 5) for at in range(300)))
    (clean, _) = assess(Reading.of(many, None, config(), NOW_MS)).all_due
    first = proposed(decide(Reading.of(many, None, config(), NOW_MS)))
    assert (first.kind, first.debt, first.urgency) == ("tier", "fan-in", clean.urgency)
    assert first.units == tuple(fan_in(clean.units))
    assert isinstance(decide(Reading.of(many, state(failures=(failed(first.units, 10),)), config(), NOW_MS)), Wait)
    found = decision(Reading.of(many, None, config(), NOW_MS))
    passed = {it.what: it.reason for it in found.passed}
    assert passed["clean dirty records"] == f"{clean.reason}; {first.reason}"
    taken = "other work that is due will take it: clean dirty records"
    assert len([it for it in found.passed if it.reason == taken]) == 300 - len(first.units)


def test_nothing_starts_that_could_not_commit() -> None:
    entry = Retired(id="gone", bytes=1, rows=1, added_at=1, retired_at=2)
    full = head(segment(10, 99), retired=(entry,) * RETIRED_MAX)
    waiting = decide(Reading.of(full, None, config(), NOW_MS))
    assert isinstance(waiting, Wait)
    assert "replaced segments wait for collection: run 'lithify gc run'" in waiting.reason
    assert isinstance(decide(Reading.of(replace(full, retired=full.retired[1:]), None, config(), NOW_MS)), Propose)


def test_a_drop_without_room_waits_and_says_for_what() -> None:
    """The edit would be refused at every pass: a failure each time, where nothing is wrong."""
    entry = Retired(id="gone", bytes=1, rows=1, added_at=1, retired_at=2)
    full = head(segment(10, 99), segment(11, 1), retired=(entry,) * RETIRED_MAX, log_start_offset=110)
    for settings in (config(), config(cleanup_policy="compact,delete", min_cleanable_dirty_ratio="1")):
        waiting = decide(Reading.of(full, None, settings, NOW_MS))
        assert isinstance(waiting, Wait)
        assert waiting.until_ms is None
        assert waiting.reason == (f"due (1 segment (99 B) lies below the log start offset), but {waiting_text(full)}")
    assert isinstance(decide(Reading.of(replace(full, retired=full.retired[1:]), None, config(), NOW_MS)), Drop)


def test_what_no_collection_makes_room_for_says_what_to_do() -> None:
    parts = tuple(segment(20 + at, 1) for at in range(RETIRED_MAX // 2 + 1))
    two = head(runs=(SortedRun(id="a", segments=parts), SortedRun(id="b", segments=parts)))
    waiting = decide(Reading.of(two, None, config(), NOW_MS))
    assert isinstance(waiting, Wait)
    told = f"but it would replace {RETIRED_MAX + 2} segments, and one commit can retire {RETIRED_MAX}: "
    assert (
        told + "raise compaction.output.bytes, and first merge neighbouring inputs that have fewer segments"
        in waiting.reason
    )
    assert "gc run" not in waiting.reason
    one = head(segment(99_999, 1), runs=(SortedRun(id="a", segments=parts * 2),))
    waiting = decide(Reading.of(one, None, config(), NOW_MS))
    assert isinstance(waiting, Wait)
    assert f"run a alone has {RETIRED_MAX + 2}: copy the data to a topic with more partitions" in waiting.reason


READ = MergeCounts(bytes_read=1_000)


def test_where_nothing_is_due_nothing_waits() -> None:
    """'compactor run --once' would say that something is left to do."""
    slow = config(compaction_throttle_bytes_per_second="100")
    last = job("last", "completed", started_at_ms=NOW_MS, counts=READ, paced_to_ms=NOW_MS + 10_000)
    after = replace(state(), history=(last,))
    assert decide(Reading.of(head(clean=99), after, slow, NOW_MS)) == NOTHING_DUE
    assert decide(Reading.of(head(clean=99), None, config(compaction_paused="true"), NOW_MS)) == NOTHING_DUE
    asked = replace(after, jobs=(job("asked", "submitted"),))
    waiting = decide(Reading.of(head(clean=99), asked, slow, NOW_MS))
    assert isinstance(waiting, Wait)
    assert waiting.until_ms == NOW_MS + 10_000


def test_a_refused_request_takes_no_throttle_off() -> None:
    slow = config(compaction_throttle_bytes_per_second="100")
    last = job("last", "completed", started_at_ms=NOW_MS, counts=READ, paced_to_ms=NOW_MS + 10_000)
    after = replace(state(), history=(last, job("refused", "failed"), job("empty", "cancelled", started_at_ms=NOW_MS)))
    waiting = decide(Reading.of(head(segment(10, 99)), after, slow, NOW_MS))
    assert isinstance(waiting, Wait)
    assert waiting.until_ms == NOW_MS + 10_000


def test_a_horizon_fits_its_column_however_long_tombstones_stay() -> None:
    ever = config(delete_retention_ms=str(LONG_MAX))
    manifest = head(segment(10, 5))
    planned = freeze(Reading.of(manifest, None, ever, 1), Proposal(units(manifest), "clean", ""), (KeyRange(),), "j")
    assert planned.plan is not None
    assert planned.plan.rules.stamp_horizon_ms == LONG_MAX - 1, "the largest stands for none"


def test_a_unit_that_due_work_would_take_says_so() -> None:
    found = decision(Reading.of(head(segment(10, 99)), None, config(compaction_paused="true"), NOW_MS))
    assert found.passed[-1] == NotDue("000000000010-x", "other work that is due will take it: clean dirty records")


def loaded(appends_per_job: int, jobs: int, settings: dict[str, str], deletes: float = 0) -> Simulation:
    """So many appends come while each job runs: L0 is never at rest."""
    random = np.random.default_rng(7)
    simulation = Simulation(parse(validate({"cleanup.policy": "compact", **settings})), row_bytes=1_000)
    for _ in range(jobs):
        for _ in range(appends_per_job):
            simulation.now_ms += 60_000
            keys: Any = random.integers(0, 100_000, 4)
            simulation.append(keys, random.random(4) < deletes)
        simulation.compact(jobs_max=1)
    return simulation


def test_tiers_without_end_starve_no_clean_of_tombstones() -> None:
    lazy = {"min.cleanable.dirty.ratio": "1", "delete.retention.ms": str(HOUR_MS)}
    simulation = loaded(8, 60, {**lazy, "min.cleanable.dirty.ratio": "0"}, deletes=0.5)
    simulation.config = parse({"cleanup.policy": "compact", **lazy})
    before = simulation.figures.jobs["tombstones"]
    for _ in range(20):
        for _ in range(8):
            simulation.now_ms += 60_000
            simulation.append(np.arange(4), np.zeros(4, np.bool_))
        simulation.compact(jobs_max=1)
    assert simulation.figures.jobs["tombstones"] > before
    assert simulation.figures.fruitless == []


@pytest.mark.slow
def test_pressure_without_end_lets_no_runs_pile_up() -> None:
    for least in ("0.5", "1"):
        simulation = loaded(20, 300, {"l0.segments.max": "16", "min.cleanable.dirty.ratio": least})
        assert simulation.figures.appends_refused > 0, "more is appended than is merged"
        assert simulation.figures.jobs["l0-pressure"] > 0
        most = RUNS_CROWDED_TIERS * simulation.config.runs_tier
        assert simulation.figures.runs_max <= 3 * most, "so many on each of a few steps"
        assert simulation.figures.fruitless == []


def test_a_throttled_topic_gives_the_last_jobs_bytes_their_time() -> None:
    slow = config(compaction_throttle_bytes_per_second="100")
    counts = MergeCounts(bytes_read=1_000)
    last = job("last", "completed", started_at_ms=NOW_MS, counts=counts, paced_to_ms=NOW_MS + 10_000)
    dirty = head(segment(10, 99))
    after = replace(state(), history=(last,))
    waiting = decide(Reading.of(dirty, after, slow, NOW_MS + 9_999))
    assert isinstance(waiting, Wait)
    assert waiting.until_ms == NOW_MS + 10_000
    assert isinstance(decide(Reading.of(dirty, after, slow, NOW_MS + 10_000)), Propose)
    assert isinstance(decide(Reading.of(dirty, after, config(), NOW_MS)), Propose)
    raised = decide(Reading.of(dirty, after, config(compaction_throttle_bytes_per_second="1000"), NOW_MS))
    assert isinstance(raised, Wait)
    assert raised.until_ms == NOW_MS + 1_000


def test_a_throttle_that_is_lowered_holds_for_what_begins_after_it() -> None:
    """1 TB was read without one, or at 100 MB a second: at 1 MB a second it would have taken eleven days."""
    dirty, lowered = head(segment(10, 99)), config(compaction_throttle_bytes_per_second="1000000")
    counts = MergeCounts(bytes_read=10**12)
    for paced_to_ms in (None, NOW_MS - 1):
        last = job("last", "completed", started_at_ms=NOW_MS - 3 * HOUR_MS, counts=counts, paced_to_ms=paced_to_ms)
        assert isinstance(decide(Reading.of(dirty, replace(state(), history=(last,)), lowered, NOW_MS)), Propose)
