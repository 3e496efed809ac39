"""What it costs to record a job: the bytes of `.compactor` files that are written for each of its key ranges."""

from itertools import pairwise

import msgspec
from msgspec.structs import replace

from lithify.compactor.job_edits import Finish, Heartbeat, Record
from lithify.compactor.progress import UNRECORDED_SHARE
from lithify.manifest.codec import encode
from lithify.manifest.edits import Next
from lithify.manifest.jobs import (
    HISTORY_MAX,
    CompactorState,
    Job,
    KeyRange,
    MergeCounts,
    MergeRules,
    Plan,
    RangeDone,
)
from lithify.manifest.keys import SegmentId
from lithify.manifest.model import FORMAT, SegmentRef

__all__ = ["Recording", "recording"]

_RANGES = (40, 400, 4_000)
_SOURCES = 256


class Recording(msgspec.Struct, frozen=True):
    ranges: int
    writes: int  # where they land one after the other, faster than signs of life come
    bytes_per_range: float
    heartbeat_bytes: int  # at its end, beside as many finished jobs of this kind as are kept


def recording() -> list[Recording]:
    return [_one(ranges) for ranges in _RANGES]


def _one(ranges: int) -> Recording:
    state = CompactorState(format=FORMAT, topic="many", topic_id="one", partition=0, id=1, nonce="n", epoch=1)
    for number in range(HISTORY_MAX):
        job = _job(number, 1)
        finish = Finish(1, job.id, "completed", job.reason)
        state = _after(replace(state, jobs=(replace(job, done=tuple(_done(job, n) for n in range(1))),)), finish)
    job = _job(HISTORY_MAX, ranges)
    state, writes, written, landed = replace(state, jobs=(job,)), 0, 0, []
    for index in range(ranges):
        landed.append(_done(job, index))
        if len(landed) * UNRECORDED_SHARE >= len(state.jobs[0].done) or index == ranges - 1:
            state, landed = _after(state, Record(1, job.id, tuple(landed))), []
            writes, written = writes + 1, written + len(encode(state))
    return Recording(ranges, writes, written / ranges, len(encode(_after(state, Heartbeat(1)))))


def _after(state: CompactorState, edit: "Record | Finish | Heartbeat") -> CompactorState:
    verdict = edit.apply(state, state.id + 1, 1_700_000_000_000)
    assert isinstance(verdict, Next)
    return replace(verdict.value, id=state.id + 1)


def _job(number: int, ranges: int) -> Job:
    job_id = SegmentId.for_job(number, f"{number:032x}")
    sources = tuple(SegmentId.for_append(n, f"{n:032x}") for n in range(_SOURCES))
    bounds = [None, *(b"account-%08d" % n for n in range(1, ranges)), None]
    plan = Plan(
        ranges=tuple(KeyRange(low, high) for low, high in pairwise(bounds)),
        rules=MergeRules(),
        output_bytes=1,
        input_bytes=1,
        input_rows=1,
        input_segments=_SOURCES,
    )
    return Job(
        id=job_id,
        kind="clean",
        status="in_progress",
        origin="scheduler",
        sources=sources,
        segments=sources,
        destination=job_id,
        plan=plan,
        reason="dirty ratio 0.61 is above 0.5",
        created_at_ms=1_700_000_000_000,
        started_at_ms=1_700_000_000_000,
    )


def _done(job: Job, index: int) -> RangeDone:
    output = SegmentRef(
        id=SegmentId.for_output(job.id, 1, index, f"{index:032x}"),
        bytes=250_000_000,
        raw_bytes=900_000_000,
        rows=2_000_000,
        min_key=b"account-%08d" % index,
        max_key=b"account-%08d" % (index + 1),
        min_offset=0,
        max_offset=10**9,
        min_timestamp_ms=1_600_000_000_000,
        max_timestamp_ms=1_700_000_000_000,
        checksum="0" * 16,
    )
    counts = MergeCounts(rows_in=4_000_000, rows_out=2_000_000, superseded=2_000_000, bytes_read=500_000_000)
    return RangeDone(index=index, attempt=1, outputs=(output,), counts=counts)
