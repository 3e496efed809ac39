"""Events as log lines: the default sink (docs/rfcs/0015)."""

import logging
import threading
from typing import Any

import msgspec
import structlog
from msgspec import structs

from lithify.events import notices, types
from lithify.events.types import Event, Sink
from lithify.store.apart import Fault, attempt

__all__ = ["both", "guarded", "log_event"]

log = structlog.wrap_logger(logging.getLogger("lithify.events"))


def log_event(event: Event) -> None:
    """Log what people want to know as info or above, everything else as debug."""
    if isinstance(event, types.JobChange):
        _log_job_change(event, _where(event))
    else:
        _log_other(event, _where(event))


def _log_job_change(event: types.JobChange, where: dict[str, Any]) -> None:
    match event:
        case types.Claimed():
            log.info("claimed", **where, epoch=event.epoch, former=event.former)
        case types.OwnerLeft():
            log.info("left", **where, epoch=event.epoch)
        case types.JobAdmitted():
            size, text = event.input, event.reason
            log.info("compaction admitted", **where, job=event.job, kind=event.kind, reason=text, **_sizes(size))
        case types.AttemptEnded(error=error) if error is not None:
            told = {"job": event.job, "attempt": event.attempt, "recorded": event.recorded}
            log.error("compaction attempt failed", **where, **told, error=f"{error.category}: {error.reason}")
        case types.JobEnded():
            _log_job(event, where)
        case _:
            _log_fields(event)


def _log_other(event: Event, where: dict[str, Any]) -> None:
    match event:
        case types.SegmentsDropped():
            log.info("segments dropped", **where, **_sizes(event.dropped))
        case types.Quarantined():
            log.error("quarantined", **where, segment=event.segment, reason=event.reason)
        case notices.Lost():
            log.warning("fenced", **where, error=event.fault.message)
        case notices.Rests():
            log.warning("partition rests", **where, reason=f"{event.outcome}: {event.reason}")
        case notices.Waits():
            text = f"a job of {event.bytes} bytes waits for a worker, or for room among the bytes in flight"
            log.warning("partition waits", **where, reason=text, since_ms=event.since_ms)
        case notices.Trouble():
            log.error(event.what, **where, kind=event.fault.kind, error=event.fault.message)
        case notices.Recovered():
            log.info(f"no longer: {event.what}", **where)
        case notices.Collected():
            log.info("collected", **where, objects=event.objects, bytes=event.bytes, boundary=event.boundary)
        case _:
            _log_fields(event)


def _log_fields(event: Event) -> None:
    fields = {name: _plain(value) for name, value in structs.asdict(event).items()}
    log.debug(str(event.__struct_config__.tag).replace("_", " "), **fields)


def _where(event: Event) -> dict[str, Any]:
    """The topic, its id and the partition, as far as the event has them."""
    named = {"topic": event.topic, "topic_id": event.topic_id, "partition": event.partition}
    return {name: value for name, value in named.items() if value not in ("", None)}


def _log_job(event: types.JobEnded, where: dict[str, Any]) -> None:
    tell = log.error if event.status == "failed" else log.info
    tell(
        f"compaction {event.status}",
        **where,
        reason=event.reason if event.error is None else event.error.reason,
        job=event.job,
        kind=event.kind,
        rows_in=event.counts.rows_in,
        rows_out=event.counts.rows_out,
        bytes_read=event.counts.bytes_read,
        bytes_written=event.counts.bytes_written,
        attempts=event.attempts,
    )


def _plain(value: object) -> object:
    return structs.asdict(value) if isinstance(value, msgspec.Struct) else value


def both(one: Sink, other: Sink) -> Sink:
    """A failure of the one does not keep events from the other."""
    sinks = guarded(one), guarded(other)

    def emit(event: Event) -> None:
        for sink in sinks:
            sink(event)

    return emit


def guarded(sink: Sink) -> Sink:
    """`sink`, without its exceptions: a failing sink must not disturb the work. The first failure is logged.
    Thread-safe if `sink` is."""
    failed = threading.Event()

    def emit(event: Event) -> None:
        outcome = attempt(lambda: sink(event))
        if isinstance(outcome, Fault) and not failed.is_set():
            failed.set()
            log.error("a sink of events failed; later failures are not logged", error=outcome.message)

    return emit


def _sizes(size: types.Amount) -> dict[str, int]:
    return {"segments": size.segments, "rows": size.rows, "bytes": size.bytes}
