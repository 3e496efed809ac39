"""What the history keeps of a job that has ended: its name and counts, since every commit writes the history again."""

import itertools
from functools import cache
from typing import Any

import pytest
from msgspec.structs import replace
from structlog.testing import capture_logs

import lithify
from lithify.compactor.engines.local import LocalEngine
from lithify.compactor.failures import RETRY_MAX_MS
from lithify.compactor.info import compaction_info
from lithify.compactor.job_edits import ClaimState, Finish, Heartbeat
from lithify.gc.reachable import protecting_job
from lithify.manifest.claims import fenced
from lithify.manifest.codec import decode, encode
from lithify.manifest.invariants import check_compactor
from lithify.manifest.jobs import (
    ATTEMPTS_KEPT,
    ENDED_ATTEMPTS_KEPT,
    ENDED_SOURCES_KEPT,
    HISTORY_MAX,
    Attempt,
    CompactorState,
    Job,
    JobError,
    KeyRange,
    MergeCounts,
    MergeRules,
    Plan,
    RangeDone,
    Status,
    summed_up,
)
from lithify.manifest.keys import SegmentId
from lithify.manifest.model import FORMAT
from lithify.store.errors import Corrupt, Unavailable
from tests.clock import HandClock
from tests.compactor.serving import append_to
from tests.protocol.scene import TOPIC_ID, after, segment

EPOCH, RANGES, SOURCES = 3, 400, 250
ERROR = JobError("engine", "the executor was lost with the task on it; see Spark's own log for why")
BYTES_MAX = 4_096  # of a finished job, in a `.compactor` file
EMPTY = CompactorState(format=FORMAT, topic="t", topic_id=TOPIC_ID, partition=0, epoch=EPOCH, owner="me", nonce="n")


def large(number: int) -> Job:
    """A job of many ranges and sources, all its ranges but one recorded, after the most attempts that are kept."""
    job_id = f"000000000001-{number:08x}"
    ids = tuple(SegmentId.for_append(number, f"{n:016x}") for n in range(SOURCES))
    bounds = [None, *(b"key-%028d" % n for n in range(1, RANGES)), None]
    ranges = tuple(KeyRange(low, high) for low, high in itertools.pairwise(bounds))
    counts = MergeCounts(rows_in=10, rows_out=5, superseded=5, bytes_read=900, bytes_written=400, gets=3, puts=1)
    outputs = [segment(SegmentId.for_output(job_id, 9, n, "0" * 16), 5) for n in range(RANGES - 1)]
    return Job(
        id=job_id,
        kind="clean",
        status="in_progress",
        origin="scheduler",
        sources=ids,
        segments=ids,
        destination=job_id,
        plan=Plan(
            ranges=ranges, rules=MergeRules(), output_bytes=1, input_bytes=9_000, input_rows=99, input_segments=SOURCES
        ),
        attempts=tuple(
            Attempt(number=n, epoch=EPOCH, worker="w:1", started_at_ms=n, error=ERROR) for n in range(5, 21)
        ),
        done=tuple(RangeDone(index=n, attempt=9, outputs=(ref,), counts=counts) for n, ref in enumerate(outputs)),
        reason="tier: 250 inputs",
        created_at_ms=1,
        started_at_ms=2,
    )


@cache
def ended(*, whole: bool = False, status: Status = "failed") -> CompactorState:
    """A full history of such jobs; `whole`: as an earlier release kept them."""
    state = EMPTY
    for number in range(HISTORY_MAX):
        state = replace(state, jobs=(large(number),))
        if whole:
            kept = replace(large(number), status=status, error=ERROR, completed_at_ms=5)
            state = replace(state, jobs=(), history=(*state.history, kept))
        else:
            state = after(state, Finish(EPOCH, large(number).id, status, "given up", ERROR))
    return state


@pytest.mark.slow
def test_a_heartbeat_beside_64_failed_jobs_of_400_ranges_is_small() -> None:
    """It was 14.3 MB while the history kept jobs whole, and is 0.13."""
    before, now = (len(encode(after(state, Heartbeat(EPOCH)))) for state in (ended(whole=True), ended()))
    assert before > 10_000_000
    assert now < HISTORY_MAX * BYTES_MAX
    assert len(encode(after(EMPTY, Heartbeat(EPOCH)))) < 1_000


@pytest.mark.slow
@pytest.mark.parametrize("status", ["failed", "cancelled", "completed"])
def test_an_ended_job_still_tells_how_far_it_came(status: Status) -> None:
    info = compaction_info("t", 0, ended(status=status).history[-1], 0)
    done = RANGES if status == "completed" else RANGES - 1
    progress = info.progress
    assert (progress.completion_percentage, progress.output_segments_written) == (
        round(100 * done / RANGES, 1),
        RANGES - 1,
    )
    assert (progress.total_input_segments, progress.bytes_processed) == (SOURCES, int(9_000 * done / RANGES))
    assert (progress.ranges, progress.ranges_done) == (RANGES, done)
    assert progress.input_segments_processed == int(SOURCES * done / RANGES)
    assert (info.counts.rows_in, info.status, info.phase) == (10 * (RANGES - 1), status, "done")
    assert (len(info.sources), info.total_sources) == (ENDED_SOURCES_KEPT, SOURCES)
    assert [attempt.number for attempt in info.attempts] == list(range(21 - ENDED_ATTEMPTS_KEPT, 21))


def test_it_protects_the_names_of_its_outputs_as_before() -> None:
    state = ended()
    output = SegmentId.for_output(large(7).id, 1, 0, "a" * 16)
    job = protecting_job(output, state)
    assert job is not None
    assert (job.id, job.plan, job.done, job.segments) == (large(7).id, None, (), ())


@pytest.mark.slow
def test_the_next_claim_lessens_what_an_earlier_release_kept_whole() -> None:
    old = ended(whole=True)
    stored = replace(old, id=1)
    read = decode(CompactorState, encode(stored), "compactor", 1)
    assert read == stored, "an old file is read as it is"
    assert [compaction_info("t", 0, job, 0) for job in read.history] == [
        compaction_info("t", 0, summed_up(job), 0) for job in read.history
    ], "and tells the same"
    claimed = after(read, ClaimState(EMPTY, EPOCH + 1, "new", "new:1"))
    assert claimed.history == tuple(map(summed_up, old.history))
    assert len(encode(claimed)) < HISTORY_MAX * BYTES_MAX
    assert fenced("t", 0, claimed.epoch, EPOCH) is not None


def test_summing_up_again_changes_nothing() -> None:
    asked = Job(
        id="x",
        status="failed",
        origin="manual",
        requested=tuple(map(str, range(99))),
        created_at_ms=0,
    )
    for job in (replace(large(1), status="failed"), replace(large(1), status="completed"), asked):
        once = summed_up(job)
        assert summed_up(once) == once
        assert once.input_sources == len(job.sources or job.requested)


def test_no_job_enters_the_history_whole() -> None:
    kept = replace(large(1), status="failed")
    with pytest.raises(Corrupt, match="without its plan and outputs"):
        check_compactor(replace(EMPTY, jobs=(large(1),), id=4), replace(EMPTY, history=(kept,), id=5))


class Away(LocalEngine):
    """It takes no tasks, until it is back."""

    away = True

    def start(self, *args: Any, **named: Any) -> Any:
        if self.away:
            raise Unavailable("no master")
        return super().start(*args, **named)


def test_the_log_tells_how_many_attempts_there_were_and_not_how_many_are_kept(
    warehouse: lithify.Warehouse, clock: HandClock
) -> None:
    append_to(warehouse.create_topic("users", 1, {"cleanup.policy": "compact"}).partition(0), 8)
    engine = Away(1)
    compactor = lithify.Compactor(warehouse, engine=engine)
    with capture_logs() as logged:
        for attempt in range(ATTEMPTS_KEPT + 2):
            engine.away = attempt <= ATTEMPTS_KEPT
            compactor.run_once()
            clock.now_ms += RETRY_MAX_MS
    told = [
        (line["event"], line.get("attempt", line.get("attempts")))
        for line in logged
        if "job" in line and line["log_level"] != "debug"
    ]
    failed = [("compaction attempt failed", number) for number in range(1, ATTEMPTS_KEPT + 2)]
    admitted = ("compaction admitted", None)
    assert told == [admitted, *failed, ("compaction completed", ATTEMPTS_KEPT + 2)]
