"""What is due, and what a compactor does about it: Kafka's C1-C5 and the order of actions, as a pure function."""

from msgspec.structs import replace

from lithify.compactor.failures import RETRY_MAX_MS, source_set
from lithify.compactor.policy import (
    LEASE_MS,
    NOTHING_DUE,
    Admit,
    Drop,
    Propose,
    Resume,
    Settle,
    Wait,
    decide,
    decision,
    incumbent_lives,
    urgency_of,
)
from lithify.compactor.retiring import segments_of
from lithify.manifest.config import TopicConfig, parse
from lithify.manifest.debt import DebtName, NotDue, assess
from lithify.manifest.jobs import (
    Attempt,
    CompactorState,
    FailureCount,
    Job,
    JobError,
    KeyRange,
    MergeCounts,
    MergeRules,
    Plan,
)
from lithify.manifest.model import FORMAT, Bucket, CompletedJob, Manifest, Quarantine, Retention, SegmentRef, SortedRun
from lithify.manifest.reading import Reading
from lithify.manifest.words import DEBT_TEXTS
from tests.refs import l0_ref

HOUR_MS = 3_600_000
NOW_MS = 1_000 * HOUR_MS


def config(**settings: str) -> TopicConfig:
    named = {name.replace("_", "."): value for name, value in settings.items()}
    return parse({"cleanup.policy": "compact", **named})


def segment(at: int, size: int, age_ms: int = 0, horizon_ms: int | None = None) -> SegmentRef:
    horizons = {"min_horizon_ms": horizon_ms, "max_horizon_ms": horizon_ms}
    return l0_ref(f"{at:012d}-x", at * 10, rows=10, bytes=size, timestamp_ms=NOW_MS - age_ms, **horizons)


def urgency(reading: Reading) -> tuple[int, int]:
    return urgency_of(decide(reading), reading.config)


def head(*l0: SegmentRef, clean: int = 0, horizon_ms: int | None = None, **fields: object) -> Manifest:
    """Offsets below 100 are in a clean run of `clean` bytes; L0 segments follow."""
    runs = (SortedRun(id="clean", segments=(replace(segment(0, clean, 9 * HOUR_MS, horizon_ms), base_offset=None),)),)
    manifest = Manifest(
        format=FORMAT,
        topic="t",
        topic_id="i",
        partition=0,
        id=7,
        next_offset=10_000,
        cleaned_to=100 if clean else 0,
        runs=runs if clean else (),
        l0=l0,
    )
    return replace(manifest, **fields)


def state(*jobs: Job, failures: tuple[FailureCount, ...] = (), **fields: object) -> CompactorState:
    blank = CompactorState(
        format=FORMAT, topic="t", topic_id="i", partition=0, epoch=1, owner="me", jobs=jobs, failures=failures
    )
    return replace(blank, **fields)


def job(name: str, status: str = "in_progress", **fields: object) -> Job:
    plan = Plan(ranges=(KeyRange(),), rules=MergeRules(), output_bytes=1, input_bytes=1, input_rows=1, input_segments=1)
    blank = Job(id=name, status="in_progress", origin="manual", plan=plan, segments=("s",), created_at_ms=0)
    return replace(blank, status=status, **fields)


def due(manifest: Manifest, settings: TopicConfig) -> str | None:
    found = assess(Reading.of(manifest, None, settings, NOW_MS)).due
    return None if found is None else f"{found.kind}: {found.reason}"


def test_c1_the_dirty_ratio_must_be_above_its_threshold() -> None:
    assert assess(Reading.of(head(segment(10, 50), clean=50), None, config(), NOW_MS)).dirty_ratio == 0.5
    assert due(head(segment(10, 50), clean=50), config()) is None
    assert due(head(segment(10, 51), clean=50), config()) == "clean: dirty ratio 0.50 is above 0.5"
    assert due(head(segment(10, 10**9)), config(min_cleanable_dirty_ratio="1")) is None
    assert due(head(clean=50), config(min_cleanable_dirty_ratio="0")) is None, "nothing dirty, nothing due"


def test_c4_what_is_younger_than_the_lag_and_all_above_it_is_left_alone() -> None:
    lag = config(min_compaction_lag_ms=str(HOUR_MS))
    young, old = HOUR_MS - 1, HOUR_MS
    mixed = head(segment(10, 70, old), segment(11, 5, young), segment(12, 9, old), clean=30)
    debt = assess(Reading.of(mixed, None, lag, NOW_MS))
    assert (debt.clean_bytes, debt.dirty_bytes, debt.young_bytes) == (30, 70, 14)
    assert debt.due is not None
    assert [unit.id for unit in debt.due.units] == ["clean", "000000000010-x"]
    assert due(head(segment(10, 70, young), clean=30), lag) is None
    future = head(segment(10, 70, -HOUR_MS))
    assert due(future, config()) == "clean: dirty ratio 1.00 is above 0.5", "without a lag no record is too young"


def test_c5_overdue_is_cleaned_whatever_the_ratio() -> None:
    late = config(min_cleanable_dirty_ratio="1", max_compaction_lag_ms=str(6 * HOUR_MS))
    assert due(head(segment(10, 1, 6 * HOUR_MS), clean=99), late) is None
    told = due(head(segment(10, 1, 6 * HOUR_MS + 1), clean=99), late)
    assert told == "clean: max.compaction.lag.ms: the oldest uncleaned record is 6.0 h old"


def test_expired_tombstones_alone_are_a_debt_once_all_of_them_have_expired() -> None:
    keep = config(delete_retention_ms=str(HOUR_MS))
    assert due(head(clean=50, horizon_ms=NOW_MS), keep) == "clean: tombstones expired 0 ms ago"
    assert due(head(clean=50, horizon_ms=NOW_MS + 1), keep) is None
    assert due(head(clean=50, horizon_ms=NOW_MS, last_cleaned_at_ms=NOW_MS), keep) is not None


def test_under_a_steady_stream_of_deletes_the_earliest_waits_one_period_more() -> None:
    keep = config(delete_retention_ms=str(HOUR_MS))
    steady = head(clean=50, horizon_ms=NOW_MS - HOUR_MS + 1)
    (run,) = steady.runs
    later = replace(run.segments[0], max_horizon_ms=NOW_MS + 1)
    steady = replace(steady, runs=(replace(run, segments=(later,)),))
    assert due(steady, keep) is None
    waited = replace(later, min_horizon_ms=NOW_MS - HOUR_MS)
    steady = replace(steady, runs=(replace(run, segments=(waited,)),))
    assert due(steady, keep) == "clean: tombstones expired 1.0 h ago"


def test_l0_segments_and_similar_runs_are_tiered() -> None:
    lazy = config(min_cleanable_dirty_ratio="1", l0_segments_tier="4", runs_tier="3")
    assert due(head(*(segment(10 + i, 5) for i in range(3))), lazy) is None
    assert (
        due(head(*(segment(10 + i, 5) for i in range(4))), lazy)
        == "tier: 4 L0 segments to merge (l0.segments.tier is 4)"
    )

    def runs(*sizes: int) -> tuple[SortedRun, ...]:
        made = [replace(segment(20 + i, size), base_offset=None) for i, size in enumerate(sizes)]
        return tuple(SortedRun(id=f"run {i}", segments=(ref,)) for i, ref in enumerate(made))

    assert due(head(runs=runs(100, 120, 90)), lazy) == "tier: 3 neighbouring runs of similar size (runs.tier is 3)"
    assert due(head(runs=runs(1000, 100, 10)), lazy) is None
    mixed = assess(Reading.of(head(runs=runs(5000, 100, 120, 90)), None, lazy, NOW_MS)).due
    assert mixed is not None
    assert [unit.id for unit in mixed.units] == ["run 1", "run 2", "run 3"]


def test_delete_topics_are_tiered_and_never_cleaned() -> None:
    settings = parse({"cleanup.policy": "delete", "l0.segments.tier": "2"})
    assert due(head(segment(10, 5)), settings) is None
    assert due(head(segment(10, 5), segment(11, 5)), settings) == "tier: 2 L0 segments to merge (l0.segments.tier is 2)"


def test_the_order_of_actions() -> None:
    dirty = head(segment(10, 99))
    running, asked = job("running"), job("asked", "submitted", plan=None)
    idle = Reading.of(dirty, None, config(), NOW_MS)
    assert decide(idle) == Propose(assess(idle).due)  # type: ignore[arg-type]
    assert decide(Reading.of(dirty, state(asked, running), config(), NOW_MS)) == Resume(running)
    assert decide(Reading.of(dirty, state(asked), config(), NOW_MS)) == Admit(asked)
    cancelled = replace(asked, cancel_requested=True)
    settled = decide(Reading.of(dirty, state(running, cancelled), config(), NOW_MS))
    assert settled == Settle(cancelled, "cancelled", "cancelled on request", ended_by="request")


def test_a_committed_job_is_completed_whatever_was_requested() -> None:
    done = job("done", cancel_requested=True)
    committed = head(completed_jobs=(CompletedJob("done", 5),))
    assert decide(Reading.of(committed, state(done), config(), NOW_MS)) == Settle(done, "completed", "committed")
    assert decide(Reading.of(replace(committed, sealed=True), state(done), config(), NOW_MS)) == Settle(
        done, "completed", "committed"
    )


def test_quarantine_and_seal_stop_everything_but_settling() -> None:
    ill = head(segment(10, 99), quarantine=Quarantine("bad bytes", "s", 0))
    assert decide(Reading.of(ill, state(job("running")), config(), NOW_MS)) == Wait(
        "quarantined because of a damaged segment: bad bytes; "
        f"then 'lithify compaction retry {ill.topic} --partition 0'"
    )
    gone = head(sealed=True)
    assert decide(Reading.of(gone, state(job("running")), config(), NOW_MS)) == Settle(
        job("running"), "cancelled", "the topic was deleted", ended_by="deletion"
    )
    assert decide(Reading.of(gone, None, config(), NOW_MS)) == Wait("the topic was deleted")


def test_failures_wait_and_are_given_up_at_the_cap() -> None:
    dirty = head(segment(10, 99))
    chosen = assess(Reading.of(dirty, None, config(), NOW_MS)).due
    assert chosen is not None
    error = JobError("memory", "out of memory")

    def failed(segments: tuple[str, ...], count: int, retry_at_ms: int) -> CompactorState:
        failure = FailureCount(sources=source_set(segments), count=count, error=error, retry_at_ms=retry_at_ms)
        return state(failures=(failure,))

    sources = segments_of(chosen.units)
    waiting = decide(Reading.of(dirty, failed(sources, 1, NOW_MS + 5), config(), NOW_MS))
    assert isinstance(waiting, Wait)
    assert waiting.until_ms == NOW_MS + 5
    assert isinstance(decide(Reading.of(dirty, failed(sources, 1, NOW_MS), config(), NOW_MS)), Propose)
    given_up = decide(Reading.of(dirty, failed(sources, 10, NOW_MS), config(), NOW_MS))
    assert isinstance(given_up, Wait)
    assert given_up.until_ms is None
    assert "out of memory" in given_up.reason

    running = job("running")
    capped = replace(failed(running.segments, 10, NOW_MS), jobs=(running,))
    ended = decide(Reading.of(dirty, capped, config(), NOW_MS))
    assert isinstance(ended, Settle)
    assert (ended.status, ended.error.category if ended.error else "") == ("failed", "attempts")
    later = replace(failed(running.segments, 2, NOW_MS + 9), jobs=(running,))
    assert isinstance(decide(Reading.of(dirty, later, config(), NOW_MS)), Wait)


def test_an_incumbent_lives_while_a_job_of_its_runs_and_writes() -> None:
    attempt = Attempt(number=1, epoch=1, worker="w", started_at_ms=0)
    running = state(job("running", attempts=(attempt,)), heartbeat_at_ms=NOW_MS - LEASE_MS + 1)
    assert incumbent_lives(running, NOW_MS)
    assert not incumbent_lives(replace(running, heartbeat_at_ms=NOW_MS - LEASE_MS), NOW_MS), "its lease is over"
    rested = job("running", attempts=(replace(attempt, ended_at_ms=1),))
    assert not incumbent_lives(replace(running, jobs=(rested,)), NOW_MS), "it left its job to be resumed"
    assert not incumbent_lives(replace(running, owner=""), NOW_MS)
    assert incumbent_lives(replace(running, jobs=(rested,), planning=True), NOW_MS), "it claimed, and plans its job"


def test_a_clock_that_was_ahead_holds_nothing_up_once_it_is_right() -> None:
    """A failure, a throttled job and a heartbeat that were written a year ahead: each would wait for a year."""
    year_ms = 365 * 24 * HOUR_MS
    dirty = head(segment(10, 99))
    chosen = assess(Reading.of(dirty, None, config(), NOW_MS)).due
    assert chosen is not None
    error = JobError("unavailable", "no answer")
    sources = source_set(segments_of(chosen.units))
    failed = state(failures=(FailureCount(sources=sources, count=1, error=error, retry_at_ms=NOW_MS + year_ms),))
    assert isinstance(decide(Reading.of(dirty, failed, config(), NOW_MS)), Propose)
    running = job("running")
    again = FailureCount(sources=source_set(running.segments), count=1, error=error, retry_at_ms=NOW_MS + year_ms)
    assert isinstance(decide(Reading.of(dirty, state(running, failures=(again,)), config(), NOW_MS)), Resume)
    longest = replace(failed, failures=(replace(failed.failures[0], retry_at_ms=NOW_MS + RETRY_MAX_MS),))
    assert isinstance(decide(Reading.of(dirty, longest, config(), NOW_MS)), Wait)

    slow = config(compaction_throttle_bytes_per_second="100")
    read = MergeCounts(bytes_read=1_000)
    paced_to_ms = NOW_MS + year_ms + 10_000
    ended = job("last", "completed", started_at_ms=NOW_MS + year_ms, counts=read, paced_to_ms=paced_to_ms)
    assert isinstance(decide(Reading.of(dirty, replace(state(), history=(ended,)), slow, NOW_MS)), Propose)

    attempt = Attempt(number=1, epoch=1, worker="w", started_at_ms=0)
    ahead = state(job("running", attempts=(attempt,)), heartbeat_at_ms=NOW_MS + LEASE_MS - 1)
    assert incumbent_lives(ahead, NOW_MS), "two stores' nodes, or two machines, differ by a little"
    assert not incumbent_lives(replace(ahead, heartbeat_at_ms=NOW_MS + LEASE_MS), NOW_MS)


def indexed(manifest: Manifest, *ages_ms: int) -> Manifest:
    """A time index of one bucket for each L0 segment, so many milliseconds old."""
    pairs = zip(manifest.l0, ages_ms, strict=True)
    buckets = tuple(Bucket(ref.min_offset, NOW_MS - age_ms, ref.rows, ref.bytes) for ref, age_ms in pairs)
    return replace(manifest, time_index=buckets, next_offset=manifest.l0[-1].max_offset + 1)


KEEP_AN_HOUR = parse({"cleanup.policy": "compact,delete", "retention.ms": str(HOUR_MS)})
EXPIRED = indexed(head(segment(10, 5), segment(11, 5), retention=Retention(ms=HOUR_MS)), HOUR_MS + 1, 0)


def test_segments_below_the_floor_are_dropped_before_anything_else() -> None:
    first, second = EXPIRED.l0
    action = decide(Reading.of(EXPIRED, state(job("running")), KEEP_AN_HOUR, NOW_MS))
    assert isinstance(action, Drop)
    assert assess(Reading.of(EXPIRED, None, KEEP_AN_HOUR, NOW_MS)).droppable == (first,)
    ill = replace(EXPIRED, quarantine=Quarantine("bad bytes", "s", 0))
    assert isinstance(decide(Reading.of(ill, None, KEEP_AN_HOUR, NOW_MS)), Drop), (
        "a damaged segment keeps nothing that expired"
    )
    held = state(job("running", segments=(first.id, second.id)))
    assert isinstance(decide(Reading.of(EXPIRED, held, KEEP_AN_HOUR, NOW_MS)), Resume), (
        "it goes with the job that holds it"
    )


def test_a_paused_topic_is_left_alone_but_for_what_expired() -> None:
    paused = config(compaction_paused="true")
    dirty = head(segment(10, 99))
    for busy in (None, state(job("running")), state(job("asked", "submitted", plan=None))):
        assert decide(Reading.of(dirty, busy, paused, NOW_MS)) == Wait("compaction.paused is true")
    cancelled = job("running", cancel_requested=True)
    assert isinstance(decide(Reading.of(dirty, state(cancelled), paused, NOW_MS)), Settle)
    quiet = parse({"cleanup.policy": "compact,delete", "retention.ms": str(HOUR_MS), "compaction.paused": "true"})
    assert isinstance(decide(Reading.of(EXPIRED, None, quiet, NOW_MS)), Drop)


def test_slowed_writers_come_before_a_clean_and_young_segments_are_merged_among_themselves() -> None:
    tight = config(l0_segments_max="8")
    crowd = head(*(segment(10 + i, 50) for i in range(6)))
    found = assess(Reading.of(crowd, None, tight, NOW_MS))
    assert found.due is not None
    assert (found.due.kind, found.due.debt) == ("tier", "l0-pressure")
    assert assess(Reading.of(head(*crowd.l0[:5]), None, tight, NOW_MS)).due.debt == "dirty"  # type: ignore[union-attr]
    lagging = config(l0_segments_max="8", min_compaction_lag_ms=str(HOUR_MS))
    mixed = head(segment(10, 50, HOUR_MS), *(segment(11 + i, 50) for i in range(5)))
    young = assess(Reading.of(mixed, None, lagging, NOW_MS)).due
    assert young is not None
    assert [unit.min_offset for unit in young.units] == [110, 120, 130, 140, 150]


def test_every_debt_has_a_text_for_people() -> None:
    assert set(DEBT_TEXTS) == {debt.value for debt in DebtName}


def test_everything_not_chosen_has_its_reason() -> None:
    lag = config(min_compaction_lag_ms=str(HOUR_MS), min_cleanable_dirty_ratio="0.9")
    manifest = head(segment(10, 70, HOUR_MS), segment(11, 5, HOUR_MS - 9), segment(12, 9, HOUR_MS), clean=30)
    found = decision(Reading.of(manifest, None, lag, NOW_MS))
    assert found.action == NOTHING_DUE
    assert {it.what: it.reason for it in found.passed} == {
        "drop segments": "no segment lies wholly below the log start offset",
        "merge runs, to relieve reads": "0 runs of similar size; urgent at 24",
        "clean overdue records": "max.compaction.lag.ms is not set",
        "merge L0 segments, to relieve appends": "3 L0 segments: appends slow down at 3072 and stop at 4096",
        "clean dirty records": "dirty ratio 0.70 is not above 0.9",
        "merge L0 segments": "1 L0 segment; merged once there are 8 (l0.segments.tier)",
        "merge runs": "0 neighbouring runs of similar size; merged once there are 3 (runs.tier)",
        "clean expired tombstones": "no tombstone is due to expire",
        "clean": "already clean",
        "000000000010-x": "no work that is due needs it",
        "000000000011-x": "younger than min.compaction.lag.ms, for another 9 ms",
        "000000000012-x": "it comes after one that is younger than min.compaction.lag.ms",
    }
    dirty = head(segment(10, 99))
    cleaning = job("running", kind="clean", segments=(dirty.l0[0].id,))
    busy = decision(Reading.of(dirty, state(cleaning), config(), NOW_MS))
    assert NotDue("000000000010-x", "an active job holds it") in busy.passed
    assert NotDue("clean dirty records", "dirty ratio 1.00 is above 0.5; under way: job running") in busy.passed
    told = "0 of 1 L0 segment (active jobs hold 1); merged once there are 8 (l0.segments.tier)"
    assert NotDue("merge L0 segments", told) in busy.passed
    some = head(segment(10, 99), segment(11, 99))
    held = decision(Reading.of(some, state(job("running", kind="clean", segments=(some.l0[0].id,))), config(), NOW_MS))
    why = "dirty ratio 1.00 is above 0.5; waiting for the jobs that hold some of its inputs"
    assert NotDue("clean dirty records", why) in held.passed
    asked = decision(Reading.of(dirty, state(job("asked", "submitted", plan=None)), config(), NOW_MS))
    assert asked.passed[0].reason.endswith("it waits for job asked, which was requested")


def test_who_needs_it_most_goes_first() -> None:
    overdue = config(max_compaction_lag_ms=str(HOUR_MS))
    late = head(segment(10, 1, 2 * HOUR_MS), clean=99)
    dirty, idle = head(segment(10, 99)), head(clean=5)
    ranks = [
        urgency(Reading.of(dirty, state(job("running")), config(), NOW_MS)),
        urgency(Reading.of(late, None, overdue, NOW_MS)),
        urgency(Reading.of(dirty, None, config(compaction_priority="9"), NOW_MS)),
        urgency(Reading.of(dirty, None, config(), NOW_MS)),
        urgency(Reading.of(idle, None, config(compaction_priority="9"), NOW_MS)),
    ]
    assert ranks == sorted(ranks)
    assert len(set(ranks)) == len(ranks)
