"""Every list of the numbered files has a bound, and a stated behaviour at it; a manifest stays small."""

from collections.abc import Callable
from typing import Any

import msgspec
import pytest
from msgspec.structs import replace

from lithify.compactor.job_edits import Admit, EndAttempt, Finish, StartAttempt
from lithify.compactor.request_edits import Submit
from lithify.manifest.appends import Append
from lithify.manifest.codec import encode
from lithify.manifest.edits import Next, Refused
from lithify.manifest.invariants import check_manifest
from lithify.manifest.jobs import (
    ATTEMPTS_KEPT,
    FAILURES_MAX,
    HISTORY_MAX,
    IN_PROGRESS_MAX,
    REQUESTS_MAX,
    Attempt,
    CompactorState,
    FailureCount,
    JobError,
)
from lithify.manifest.keys import SegmentId
from lithify.manifest.lifetime import Seal
from lithify.manifest.model import (
    COMPLETED_JOBS_MAX,
    FORMAT,
    PINS_MAX,
    PRODUCER_BATCHES_KEPT,
    PRODUCERS_MAX,
    RETIRED_MAX,
    TRANSACTIONS_MAX,
    UPLOADS_MAX,
    Bucket,
    Checkpoint,
    CompletedJob,
    Manifest,
    ProducerBatch,
    ProducerEntry,
    Retired,
    SegmentRef,
    SortedRun,
    Transaction,
    Upload,
)
from lithify.manifest.pins import CreateCheckpoint
from lithify.manifest.producers import OpenProducer, ProducerStamp
from lithify.manifest.transactions import TransactionStamp
from lithify.manifest.uploads import BeginUpload
from lithify.store.errors import Corrupt, Unavailable
from tests.protocol.scene import FIRST, TOPIC_ID, at, job, replacing, segment
from tests.refs import segment_ref

ERROR = JobError("memory", "the worker died")
HEAD = at(FIRST, 100)
STATE = CompactorState(format=FORMAT, topic="t", topic_id=TOPIC_ID, partition=0, epoch=1, owner="me")
APPEND = segment("000000000099-x")


def l0(index: int, **fields: Any) -> SegmentRef:
    place = {"base_offset": index, "min_offset": index, "max_offset": index, "added_at": 1}
    return segment(f"s{index}", 1, **place, **fields)


def retired(count: int) -> tuple[Retired, ...]:
    return tuple(Retired(id=f"r{n}", bytes=1, rows=1, added_at=1, retired_at=2) for n in range(count))


def checkpoints(count: int) -> tuple[Checkpoint, ...]:
    return tuple(Checkpoint(id=f"c{n}", name=f"c{n}", manifest=1, created_at_ms=0) for n in range(count))


def uploads(count: int) -> tuple[Upload, ...]:
    return tuple(Upload(id=f"{n:016x}", begun_at=1, expires_at_ms=9) for n in range(count))


def compaction(head: Manifest, **fields: Any) -> Any:
    return replacing(head, head.l0, 0, job="000000000099-0000abcd", **fields)


def asked(name: str) -> Any:
    return job(name, status="submitted", origin="manual", plan=None, segments=(), sources=())


JOBS = tuple(job(f"j{n}", segments=(f"x{n}",)) for n in range(IN_PROGRESS_MAX))
TWO = replace(HEAD, l0=(l0(0), l0(1)), next_offset=2)

# name: (a head at the bound, an edit that would pass it, the same head with room for one more)
REFUSING: dict[str, tuple[Any, Any, Any]] = {
    "l0": (
        replace(HEAD, l0=tuple(l0(n) for n in range(8)), next_offset=8),
        Append(APPEND, 8),
        replace(HEAD, l0=tuple(l0(n) for n in range(7)), next_offset=7),
    ),
    "retired": (
        replace(TWO, retired=retired(RETIRED_MAX - 1)),
        compaction(TWO),
        replace(TWO, retired=retired(RETIRED_MAX - 2)),
    ),
    "completed_jobs": (
        replace(TWO, completed_jobs=tuple(CompletedJob(f"j{n}", 1) for n in range(COMPLETED_JOBS_MAX))),
        compaction(TWO),
        replace(TWO, completed_jobs=tuple(CompletedJob(f"j{n}", 1) for n in range(COMPLETED_JOBS_MAX - 1))),
    ),
    "producers": (
        replace(HEAD, producers=tuple(ProducerEntry(id=f"p{n}", epoch=1, touched_at=50) for n in range(PRODUCERS_MAX))),
        OpenProducer("new"),
        replace(
            HEAD,
            orphan_floor=51,  # now the oldest may give way
            producers=tuple(ProducerEntry(id=f"p{n}", epoch=1, touched_at=50) for n in range(PRODUCERS_MAX)),
        ),
    ),
    "transactions": (
        replace(
            HEAD,
            transactions=tuple(
                Transaction(application=f"a{n}", version=1, base_offset=0, rows=1) for n in range(TRANSACTIONS_MAX)
            ),
        ),
        Append(APPEND, 8, transaction=TransactionStamp("new", 1)),
        replace(
            HEAD,
            transactions=tuple(
                Transaction(application=f"a{n}", version=1, base_offset=0, rows=1) for n in range(TRANSACTIONS_MAX - 1)
            ),
        ),
    ),
    "checkpoints": (
        replace(HEAD, checkpoints=checkpoints(PINS_MAX["user"])),
        CreateCheckpoint("new", "new", None),
        replace(HEAD, checkpoints=checkpoints(PINS_MAX["user"] - 1)),
    ),
    "uploads": (
        replace(HEAD, uploads=uploads(UPLOADS_MAX)),
        BeginUpload("f" * 16, 10),
        replace(HEAD, uploads=uploads(UPLOADS_MAX - 1)),
    ),
    "jobs in progress": (
        replace(STATE, jobs=JOBS),
        Admit(1, job()),
        replace(STATE, jobs=(*(asked(f"r{n}") for n in range(REQUESTS_MAX)), *JOBS[:-1])),
    ),
    "requests": (
        replace(STATE, jobs=tuple(asked(f"r{n}") for n in range(REQUESTS_MAX))),
        Submit(STATE, asked("new")),
        replace(STATE, jobs=(*JOBS, *(asked(f"r{n}") for n in range(REQUESTS_MAX - 1)))),
    ),
}


@pytest.mark.parametrize("name", REFUSING)
def test_at_the_bound_the_edit_is_refused_as_unavailable_and_below_it_is_not(name: str) -> None:
    full, edit, roomy = REFUSING[name]
    verdict = edit.apply(full, 101, 0)
    assert isinstance(verdict, Refused)
    assert isinstance(verdict.error, Unavailable)
    assert isinstance(edit.apply(roomy, 101, 0), Next)


def _batches() -> int:
    entry = ProducerEntry(
        id="p",
        epoch=1,
        next_sequence=PRODUCER_BATCHES_KEPT,
        batches=tuple(ProducerBatch(n, 1, n) for n in range(PRODUCER_BATCHES_KEPT)),
        touched_at=1,
    )
    edit = Append(APPEND, 8, ProducerStamp("p", 1, PRODUCER_BATCHES_KEPT))
    batches = edit.apply(replace(HEAD, producers=(entry,)), 101, 0).value.producers[0].batches  # type: ignore[union-attr]
    assert [b.sequence for b in batches] == list(range(1, PRODUCER_BATCHES_KEPT + 1))
    return len(batches)


def _attempts() -> int:
    many = tuple(Attempt(number=n, epoch=1, worker="w", started_at_ms=0) for n in range(1, ATTEMPTS_KEPT + 1))
    edit = StartAttempt(1, job().id, ATTEMPTS_KEPT + 1, "w")
    attempts = edit.apply(replace(STATE, jobs=(job(attempts=many),)), 2, 0).value.jobs[0].attempts  # type: ignore[union-attr]
    assert attempts[-1].number == ATTEMPTS_KEPT + 1
    return len(attempts)


def _history() -> int:
    past = tuple(job(f"j{n}", status="completed") for n in range(HISTORY_MAX))
    history = Finish(1, job().id, "failed", "").apply(replace(STATE, jobs=(job(),), history=past), 2, 0).value.history  # type: ignore[union-attr]
    assert (history[0].id, history[-1].id) == ("j1", job().id)
    return len(history)


def _failures() -> int:
    past = tuple(FailureCount(sources=f"f{n}", count=1, error=ERROR, retry_at_ms=0) for n in range(FAILURES_MAX))
    running = job(attempts=(Attempt(number=1, epoch=1, worker="w", started_at_ms=0),))
    failures = EndAttempt(1, job().id, ERROR).apply(replace(STATE, jobs=(running,), failures=past), 2, 0).value.failures  # type: ignore[union-attr]
    assert failures[0].sources == "f1"
    return len(failures)


FORGETTING: dict[str, tuple[Callable[[], int], int]] = {
    "producer batches": (_batches, PRODUCER_BATCHES_KEPT),
    "attempts": (_attempts, ATTEMPTS_KEPT),
    "history": (_history, HISTORY_MAX),
    "failures": (_failures, FAILURES_MAX),
}


@pytest.mark.parametrize("name", FORGETTING)
def test_at_the_bound_the_oldest_is_forgotten(name: str) -> None:
    length, bound = FORGETTING[name]
    assert length() == bound


@pytest.mark.parametrize("name", ["completed_jobs", "producers", "transactions", "checkpoints", "retired", "uploads"])
def test_a_manifest_beyond_a_bound_is_not_written(name: str) -> None:
    full = REFUSING[name][0]
    beyond = replace(full, **{name: getattr(full, name) * 2})
    with pytest.raises(Corrupt, match=f"{name} is bounded by"):
        check_manifest(None, replace(beyond, id=1))


def test_sealing_may_pass_the_bound_of_retired_segments() -> None:
    full = replace(TWO, retired=retired(RETIRED_MAX))
    verdict = Seal().apply(full, 101, 0)
    assert isinstance(verdict, Next)
    assert len(verdict.value.retired) == RETIRED_MAX + 2
    check_manifest(full, at(verdict.value, 101))


def key(index: int) -> bytes:
    return f"user-{index:012d}".encode()[:17]


def realistic(index: int, **fields: Any) -> SegmentRef:
    """As a busy partition has them: 16-17 byte keys, 500 million records, 100,000 manifests."""
    plain: dict[str, Any] = {
        "bytes": 183_456_789,
        "raw_bytes": 912_345_678,
        "rows": 1_234_567,
        "min_key": f"user-{index:011d}".encode(),
        "max_key": f"user-{index + 1:012d}".encode(),
        "min_timestamp_ms": 1_760_000_000_000,
        "max_timestamp_ms": 1_760_003_600_000,
        "added_at": 123_456,
        "checksum": "0123456789abcdef",
    }
    return segment_ref(**{**plain, **fields})


def test_a_manifest_takes_no_more_than_350_bytes_for_a_segment() -> None:
    base, rows = 500_000_000, 12_345
    loose = tuple(
        realistic(
            n,
            segment_id=SegmentId.for_append(123_000 + n, "0123456789abcdef"),
            bytes=1_234_567,
            raw_bytes=5_678_901,
            rows=rows,
            tombstones=123 * (n % 2),
            base_offset=base + n * rows,
            min_offset=base + n * rows,
            max_offset=base + (n + 1) * rows - 1,
        )
        for n in range(100)
    )
    job_id = SegmentId.for_job(123_000, "0123456789abcdef")
    merged = tuple(
        realistic(
            2 * n,
            segment_id=SegmentId.for_output(job_id, 2, n, "fedcba98"),
            tombstones=1_234 * (n % 2),
            min_horizon_ms=1_760_086_400_000 if n % 2 else None,
            min_offset=n,
            max_offset=base - 1,
        )
        for n in range(400)
    )
    run = SortedRun(id=job_id, segments=merged)
    manifest = replace(HEAD, id=130_000, next_offset=base + 100 * rows, l0=loose, runs=(run,))
    manifest = replace(manifest, time_index=(Bucket(0, 1_760_003_600_000, manifest.rows, 9_876_543_210),))
    check_manifest(replace(manifest, id=manifest.id - 1), manifest)
    assert len(encode(manifest)) / 500 <= 350
    assert max(len(msgspec.json.encode(ref)) for ref in manifest.segments()) <= 360
