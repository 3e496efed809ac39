"""Events as log lines, and sinks that fail."""

import msgspec
import pytest
from structlog.testing import capture_logs

import lithify
from lithify.events import notices, types
from lithify.events.event_log import guarded, log_event
from lithify.events.types import Amount, Event
from lithify.manifest.jobs import JobError, MergeCounts
from lithify.store.apart import Fault
from lithify.store.driver import new_id
from lithify.store.errors import Fenced

FAULT = Fault.of(Fenced("another compactor has taken over"))

LEVELS = {
    types.Claimed(epoch=2, owner="b:2", former="a:1"): ("info", "claimed"),
    types.OwnerLeft(epoch=2, owner="b:2"): ("info", "left"),
    types.JobAdmitted(job="j", kind="tier", origin="manual", reason="r", input=Amount(1, 2, 3), ranges=4): (
        "info",
        "compaction admitted",
    ),
    types.AttemptEnded(job="j", attempt=1, recorded=0, error=JobError("memory", "too large")): (
        "error",
        "compaction attempt failed",
    ),
    types.AttemptEnded(job="j", attempt=1, recorded=0, error=None): ("debug", "attempt ended"),
    types.SegmentsDropped(dropped=Amount(1, 2, 3)): ("info", "segments dropped"),
    types.Quarantined(reason="r", segment="s"): ("error", "quarantined"),
    notices.Lost(fault=FAULT): ("warning", "fenced"),
    notices.Rests(outcome="standby", reason="r"): ("warning", "partition rests"),
    notices.Waits(bytes=1, since_ms=2): ("warning", "partition waits"),
    notices.Trouble(what="partition failed", fault=FAULT): ("error", "partition failed"),
    notices.Recovered(what="partition failed"): ("info", "no longer: partition failed"),
    notices.Collected(topic_id="i", objects=1, bytes=2, boundary=3): ("info", "collected"),
    types.GarbageForgotten(forgotten=Amount(1, 2, 3)): ("debug", "garbage forgotten"),
}


@pytest.mark.parametrize("event", LEVELS, ids=lambda event: type(event).__name__)
def test_each_event_has_its_line(event: Event) -> None:
    placed = msgspec.structs.replace(event, topic="users", partition=3)
    with capture_logs() as lines:
        log_event(placed)
    assert [(line["log_level"], line["event"]) for line in lines] == [LEVELS[event]]
    assert (lines[0]["topic"], lines[0]["partition"]) == ("users", 3)


@pytest.mark.parametrize(("status", "level"), [("completed", "info"), ("cancelled", "info"), ("failed", "error")])
def test_the_end_of_a_job_has_its_line(status: "types.Ended", level: str) -> None:
    ended = types.JobEnded(
        job="j",
        kind="clean",
        origin="scheduler",
        status=status,
        reason="dirty",
        error=None,
        attempts=3,
        ranges=4,
        recorded=4,
        input=Amount(1, 2, 3),
        made=Amount(1, 1, 1),
        counts=MergeCounts(rows_in=2, rows_out=1),
        created_at_ms=1,
        started_at_ms=2,
        peak_memory_bytes=5,
    )
    with capture_logs() as lines:
        log_event(ended)
    assert [(line["log_level"], line["event"], line["attempts"]) for line in lines] == [
        (level, f"compaction {status}", 3)
    ]


def test_a_sink_that_fails_is_told_once_and_disturbs_nothing() -> None:
    seen: list[Event] = []

    def failing(event: Event) -> None:
        seen.append(event)
        raise RuntimeError("the words of a record")

    warehouse = lithify.open(f"memory://{new_id()}")
    topic = warehouse.create_topic("users", 1, {"min.cleanable.dirty.ratio": "0", "cleanup.policy": "compact"})
    topic.partition(0).append([lithify.Record(key=b"k", value=b"v")])
    compactor = lithify.Compactor(warehouse, "local", events=failing)
    with capture_logs() as lines:
        report = compactor.run_once()
    assert [job.status for job in report.jobs] == ["completed"]
    assert len(seen) > 5
    (line,) = [line for line in lines if line["log_level"] == "error"]
    assert line["event"].startswith("a sink of events failed")
    assert "record" not in line["error"]


def test_the_sink_given_is_the_only_one() -> None:
    emit = guarded(lambda _: None)
    with capture_logs() as lines:
        emit(notices.Lost(fault=FAULT))
    assert lines == []
