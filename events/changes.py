"""The events of a numbered file: what it says that the file before it did not (docs/rfcs/0015). Pure."""

from collections.abc import Iterable, Iterator
from typing import Protocol, TypeVar

from msgspec.structs import replace

from lithify.events.types import (
    Amount,
    Appended,
    AttemptBegan,
    AttemptEnded,
    CancelRequested,
    Change,
    CheckpointCreated,
    CheckpointRefreshed,
    CheckpointRemoved,
    Claimed,
    Compacted,
    ConsumerCommitted,
    ConsumerForgotten,
    EpochRaised,
    FloorRaised,
    GarbageForgotten,
    JobAdmitted,
    JobChange,
    JobEnded,
    JobRequested,
    ManifestChange,
    OrphanFloorRaised,
    OwnerLeft,
    PartitionCreated,
    PartitionSealed,
    ProducerForgotten,
    ProducerOpened,
    Quarantined,
    QuarantineLifted,
    RangesDiscarded,
    RangesRecorded,
    RetentionAltered,
    SegmentsDropped,
    Sink,
    TransactionEnded,
    TransactionForgotten,
    TransactionResumed,
    UploadBegun,
    UploadCommitted,
    UploadRemoved,
)
from lithify.manifest.jobs import CompactorState, Job, MergeCounts, RangeDone
from lithify.manifest.model import Manifest, Transaction
from lithify.manifest.partition import Committed, File

__all__ = ["amount", "changes_of", "changes_of_jobs", "changes_of_manifest", "changes_to"]


C = TypeVar("C", bound=Change)


class _Sized(Protocol):
    @property
    def rows(self) -> int: ...
    @property
    def bytes(self) -> int: ...


def amount(segments: Iterable[_Sized]) -> Amount:
    sizes = [(segment.rows, segment.bytes) for segment in segments]
    return Amount(len(sizes), sum(rows for rows, _ in sizes), sum(size for _, size in sizes))


def changes_of(previous: File | None, file: File) -> tuple[Change, ...]:
    """The changes of a file of either chain."""
    match previous, file:
        case Manifest() | None, Manifest():
            return changes_of_manifest(previous, file)
        case CompactorState() | None, CompactorState():
            return changes_of_jobs(previous, file)
        case _:
            raise TypeError("two files of one chain are needed")


def changes_to(sink: Sink) -> Committed:
    """Whoever is told of commits by it gives their changes to `sink`."""

    def committed(previous: File | None, file: File) -> None:
        for change in changes_of(previous, file):
            sink(change)

    return committed


def changes_of_manifest(previous: Manifest | None, manifest: Manifest) -> tuple[ManifestChange, ...]:
    """The changes in the order in which to report them. `previous`: the manifest before this one; None: this is number
    1. A commit that only makes room for the next one has no changes.

    Raises ValueError if `previous` has not the number before. SUBTLE! Without it nothing can be said of a file: 1. A
    partition has manifest 301. 2. Manifest 300 was collected. 3. Whoever compares 301 with nothing reports a partition
    that was just created. Callers report a gap. Test: tests/events/test_changes.py
    """
    found = (PartitionCreated(),) if previous is None else _manifest(previous, manifest)
    return tuple(replace(each, manifest=manifest.id) for each in _placed(found, previous, manifest))


def _placed(found: Iterable[C], previous: File | None, file: File) -> Iterator[C]:
    """Each change with its place. Raises ValueError as `changes_of_manifest`."""
    if file.id != (1 if previous is None else previous.id + 1):
        before = "no file" if previous is None else f"file {previous.id}"
        raise ValueError(f"the changes of file {file.id} cannot be told from {before}")
    for index, each in enumerate(found):
        yield replace(
            each,
            topic=file.topic,
            topic_id=file.topic_id,
            partition=file.partition,
            index=index,
            at_ms=file.committed_at_ms,
        )


def _manifest(before: Manifest, after: Manifest) -> Iterator[ManifestChange]:
    yield from _log(before, after)
    yield from _segments(before, after)
    if after.compactor_epoch > before.compactor_epoch:
        yield EpochRaised(epoch=after.compactor_epoch)
    if after.quarantine is not None and after.quarantine != before.quarantine:
        yield Quarantined(reason=after.quarantine.reason, segment=after.quarantine.segment)
    elif before.quarantine is not None and after.quarantine is None:
        yield QuarantineLifted(segment=before.quarantine.segment)
    if after.orphan_floor > before.orphan_floor:
        yield OrphanFloorRaised(orphan_floor=after.orphan_floor)
    yield from _checkpoints(before, after)
    yield from _clients(before, after)
    yield from _uploads(before, after)


def _log(before: Manifest, after: Manifest) -> Iterator[ManifestChange]:
    known = {ref.id for ref in before.l0}
    producers = {batch.base_offset: p.id for p in after.producers if p.touched_at == after.id for batch in p.batches}
    sent = [entry for entry in after.transactions if _sent(entry, before, after)]
    for ref in after.l0:
        if ref.id not in known and ref.base_offset is not None:
            of = next((entry for entry in sent if 0 <= ref.base_offset - entry.base_offset < entry.rows), None)
            yield Appended(
                segment=ref.id,
                offset=ref.base_offset,
                size=amount((ref,)),
                producer=producers.get(ref.base_offset, ""),
                application="" if of is None else of.application,
                version=None if of is None else of.version,
            )
    if after.log_start_offset > before.log_start_offset or after.deleted_to > before.deleted_to:
        yield FloorRaised(
            before=before.log_start_offset,
            log_start_offset=after.log_start_offset,
            by_hand=after.deleted_to > before.deleted_to,
        )
    if after.retention is not None and (after.retention, after.config_at) != (before.retention, before.config_at):
        yield RetentionAltered(retention=after.retention, config_at=after.config_at)


def _sent(entry: Transaction, before: Manifest, after: Manifest) -> bool:
    """Whether an append that made `after` is the latest of `entry`."""
    return entry.touched_at == after.id and before.next_offset <= entry.base_offset < after.next_offset


def _segments(before: Manifest, after: Manifest) -> Iterator[ManifestChange]:
    live = {ref.id for ref in after.segments()}
    gone = amount(ref for ref in before.segments() if ref.id not in live)
    if after.sealed and not before.sealed:
        yield PartitionSealed(let_go=gone)
        return
    known = {done.id for done in before.completed_jobs}
    job = next((done.id for done in after.completed_jobs if done.id not in known), None)
    if job is not None:
        had = {ref.id for ref in before.segments()}
        made = amount(ref for ref in after.segments() if ref.id not in had)
        yield Compacted(job=job, replaced=gone, made=made, cleaned_to=after.cleaned_to)
    elif gone.segments:
        yield SegmentsDropped(dropped=gone)
    left = {entry.id for entry in after.retired}
    forgotten = amount(entry for entry in before.retired if entry.id not in left)
    if forgotten.segments:
        yield GarbageForgotten(forgotten=forgotten)


def _checkpoints(before: Manifest, after: Manifest) -> Iterator[ManifestChange]:
    known, left = {c.id: c for c in before.checkpoints}, {c.id for c in after.checkpoints}
    for pin in after.checkpoints:
        if pin.id not in known:
            yield CheckpointCreated(owner=pin.owner, name=pin.name, checkpoint=pin.id, expires_at_ms=pin.expires_at_ms)
        elif pin != known[pin.id]:
            yield CheckpointRefreshed(
                owner=pin.owner, name=pin.name, checkpoint=pin.id, expires_at_ms=pin.expires_at_ms
            )
    for pin in before.checkpoints:
        if pin.id not in left:
            yield CheckpointRemoved(owner=pin.owner, name=pin.name, checkpoint=pin.id)


def _clients(before: Manifest, after: Manifest) -> Iterator[ManifestChange]:
    positions = {each.name: each for each in before.consumers}
    for consumer in after.consumers:
        if consumer != positions.pop(consumer.name, None):
            yield ConsumerCommitted(name=consumer.name, offset=consumer.offset, missed_to=consumer.missed_to)
    for name in positions:
        yield ConsumerForgotten(name=name)
    producers = {each.id: each.epoch for each in before.producers}
    for producer in after.producers:
        if producer.epoch != producers.pop(producer.id, None):
            yield ProducerOpened(producer=producer.id, epoch=producer.epoch)
    for name in producers:
        yield ProducerForgotten(producer=name)
    applications = {each.application: each.ended for each in before.transactions}
    for each in after.transactions:
        ended = applications.pop(each.application, False)
        if ended != each.ended:
            yield (TransactionEnded if each.ended else TransactionResumed)(application=each.application)
    for name in applications:
        yield TransactionForgotten(application=name)


def _uploads(before: Manifest, after: Manifest) -> Iterator[ManifestChange]:
    known = {upload.name: upload for upload in before.uploads}
    for upload in after.uploads:
        was = known.pop(upload.name, None)
        if was is None:
            yield UploadBegun(upload=upload.name, expires_at_ms=upload.expires_at_ms)
        if upload.appended is not None and (was is None or was.appended is None):
            yield UploadCommitted(upload=upload.name, offset=upload.appended.base_offset, rows=upload.appended.rows)
    for upload in known.values():
        yield UploadRemoved(upload=upload.name, appended=upload.appended is not None)


def changes_of_jobs(previous: CompactorState | None, state: CompactorState) -> tuple[JobChange, ...]:
    """As `changes_of_manifest`, for a `.compactor` file. A sign of life is not a change."""
    return tuple(replace(each, compactor=state.id) for each in _placed(_jobs(previous, state), previous, state))


def _jobs(before: CompactorState | None, after: CompactorState) -> Iterator[JobChange]:
    former = "" if before is None or not before.owner else before.owner_name
    if after.owner and (before is None or (before.epoch, before.owner) != (after.epoch, after.owner)):
        yield Claimed(epoch=after.epoch, owner=after.owner_name, former=former)
    if former and not after.owner:
        yield OwnerLeft(epoch=after.epoch, owner=former)
    known = {} if before is None else {job.id: job for job in (*before.history, *before.jobs)}
    for job in after.jobs:
        yield from _job(known.get(job.id), job)
    for job in after.history:
        was = known.get(job.id)
        if was is None or was.active:
            yield from _ended(job)


def _job(before: Job | None, job: Job) -> Iterator[JobChange]:
    if before is None and job.plan is None:
        yield JobRequested(job=job.id, sources=len(job.requested))
    if job.cancel_requested and (before is None or not before.cancel_requested):
        yield CancelRequested(job=job.id)
    plan = job.plan
    if plan is None:
        return
    if before is None or before.plan is None:
        yield JobAdmitted(
            job=job.id,
            kind=job.kind or "tier",
            origin=job.origin,
            reason=job.reason,
            input=Amount(plan.input_segments, plan.input_rows, plan.input_bytes),
            ranges=len(plan.ranges),
        )
    attempts = {} if before is None else {attempt.number: attempt for attempt in before.attempts}
    for attempt in job.attempts:
        was = attempts.get(attempt.number)
        if was is not None and was.ended_at_ms is None and attempt.ended_at_ms is not None:
            yield AttemptEnded(job=job.id, attempt=attempt.number, recorded=attempt.ranges_done, error=attempt.error)
    done = {} if before is None else {each.index: each for each in before.done}
    fresh = [each for each in job.done if each.index not in done]
    left = {each.index for each in job.done}
    lost = [each for index, each in done.items() if index not in left]
    if lost:
        outputs = amount(ref for each in lost for ref in each.outputs)
        yield RangesDiscarded(job=job.id, discarded=len(lost), recorded=len(job.done), lost=outputs)
    for attempt in job.attempts:
        if attempt.number not in attempts:
            yield AttemptBegan(
                job=job.id,
                attempt=attempt.number,
                worker=attempt.worker,
                recorded=len(job.done) - len(fresh),
                ranges=len(plan.ranges),
            )
    if fresh:
        yield _recorded(job, fresh, len(plan.ranges))


def _recorded(job: Job, fresh: list[RangeDone], ranges: int) -> RangesRecorded:
    return RangesRecorded(
        job=job.id,
        fresh=len(fresh),
        recorded=len(job.done),
        ranges=ranges,
        made=amount(ref for each in fresh for ref in each.outputs),
        counts=sum((each.counts for each in fresh), start=MergeCounts()),
    )


def _ended(job: Job) -> Iterator[JobChange]:
    if job.status == "submitted" or job.status == "in_progress":
        return
    yield JobEnded(
        job=job.id,
        kind=job.kind,
        origin=job.origin,
        status=job.status,
        reason=job.reason,
        error=job.error,
        attempts=job.last_attempt,
        ranges=job.ranges,
        recorded=job.ranges_done,
        input=Amount(job.input_segments, job.counts.rows_in, job.input_bytes),
        made=Amount(job.output_segments, job.counts.rows_out, job.output_bytes),
        counts=job.counts,
        created_at_ms=job.created_at_ms,
        started_at_ms=job.started_at_ms,
        peak_memory_bytes=job.peak_memory_bytes,
    )
