"""A job that waits for its next attempt, and requests that wait, keep nobody from what would otherwise stop appends."""

from typing import Any

import pytest
from msgspec.structs import replace

from lithify import Admin, Compactor, Record
from lithify import open as open_warehouse
from lithify.compactor import plan
from lithify.compactor.coordinator import Coordinator
from lithify.compactor.engines.local import LocalEngine
from lithify.compactor.failures import source_set
from lithify.compactor.policy import Admit, Propose, Resume, Wait, decide
from lithify.compactor.request_edits import Submit
from lithify.compactor.retiring import segments_of
from lithify.manifest.jobs import IN_PROGRESS_MAX, REQUESTS_MAX, FailureCount, Job, JobError
from lithify.manifest.partition import PartitionFiles
from lithify.manifest.reading import Reading, first_state
from lithify.store.driver import new_id
from lithify.store.errors import AccessDenied
from lithify.store.homes import only_here
from tests.compactor.simulated_engine import with_engine
from tests.compactor.test_policy import HOUR_MS, NOW_MS, config, head, job, segment, state
from tests.protocol.scene import CONFIG, KEYS, ROWS, append_rows, new_partition
from tests.protocol.scene import job as job_of

HELD = tuple(segment(10 + at, 5) for at in range(8))
LATER = tuple(segment(100 + at, 5) for at in range(8))
PRESSED = config(l0_segments_max="16")


def failed(*jobs: Job, again_ms: int = 9) -> Any:
    error = JobError("store_denied", "403")
    failures = tuple(
        FailureCount(sources=source_set(each.segments), count=0, error=error, retry_at_ms=NOW_MS + again_ms + at)
        for at, each in enumerate(jobs)
    )
    return state(*jobs, failures=failures)


def test_beside_a_job_that_waits_to_be_tried_again_pressure_is_relieved() -> None:
    waits = job("waits", segments=tuple(s.id for s in HELD))
    found = decide(Reading.of(head(*HELD, *LATER), failed(waits), PRESSED, NOW_MS))
    assert isinstance(found, Propose)
    assert (found.due.kind, found.due.debt) == ("tier", "l0-pressure")
    assert segments_of(found.due.units) == tuple(s.id for s in LATER)
    assert isinstance(decide(Reading.of(head(*HELD, *LATER), failed(waits, again_ms=0), PRESSED, NOW_MS)), Resume)


def test_nothing_else_begins_beside_it() -> None:
    waits = job("waits", segments=tuple(s.id for s in HELD))
    asked = job("asked", "submitted", plan=None, segments=())
    easy = config(min_cleanable_dirty_ratio="0", max_compaction_lag_ms=str(HOUR_MS))
    found = decide(Reading.of(head(*HELD, *LATER), failed(waits, asked), easy, NOW_MS))
    assert isinstance(found, Wait)
    assert found.reason.startswith("job waits failed (403)")


def test_whoever_is_tried_again_first_says_when_there_is_something_to_do() -> None:
    jobs = [job(name, segments=(each.id,)) for name, each in zip("ab", HELD, strict=False)]
    late, early = failed(*jobs, again_ms=9).failures
    found = decide(
        Reading.of(head(*HELD), state(*jobs, failures=(replace(late, retry_at_ms=NOW_MS + 99), early)), PRESSED, NOW_MS)
    )
    assert isinstance(found, Wait)
    assert found.until_ms == NOW_MS + 10


def test_so_many_may_wait_for_their_next_attempts_and_no_more() -> None:
    jobs = [job(f"j{at}", segments=(each.id,)) for at, each in enumerate(HELD)]
    assert len(jobs) == IN_PROGRESS_MAX
    assert isinstance(decide(Reading.of(head(*HELD, *LATER), failed(*jobs[1:]), PRESSED, NOW_MS)), Propose)
    assert isinstance(decide(Reading.of(head(*HELD, *LATER), failed(*jobs), PRESSED, NOW_MS)), Wait)


class _Denying:
    """A store whose one object has a key that is disabled."""

    def __init__(self, inner: Any, denied: str) -> None:
        self._inner, self._denied = inner, denied

    def once(self) -> "_Denying":
        return self

    def __getattr__(self, name: str) -> Any:
        method = getattr(self._inner, name)

        def asked(*args: Any, **named: Any) -> Any:
            if args and args[0] == self._denied:
                raise AccessDenied(f"{self._denied}: 403, its key is disabled")
            return method(*args, **named)

        return asked if callable(method) else method


class _Denied(LocalEngine):
    denied = ""

    def start(self, homes: Any, tasks: Any, label: str) -> Any:
        denying: Any = _Denying(homes.here, self.denied)
        return super().start(only_here(denying), tasks, label)


def test_appends_go_on_for_as_long_as_one_object_is_denied() -> None:
    """Each run meets the job first, whose time has come."""
    engine, clock = _Denied(1), [NOW_MS]
    with open_warehouse(f"memory://{new_id()}", clock=lambda: clock[0]) as warehouse:
        settings = {"cleanup.policy": "compact", "l0.segments.max": "16", "min.cleanable.dirty.ratio": "0.5"}
        partition = warehouse.create_topic("users", 1, settings).partition(0)
        for number in range(8):
            partition.append([Record(b"%d" % number, b"v")])
        listed = warehouse.driver.store.list("users/", None).objects
        engine.denied = next(each.key for each in listed if each.key.endswith(".parquet"))
        compactor = Compactor(warehouse, engine=engine)
        for number in range(30):
            compactor.run_once()
            partition.append([Record(b"a%d" % number, b"v")])
            partition.append([Record(b"b%d" % number, b"v")])
            clock[0] += 600_000
        (left,) = (job for job in Admin(warehouse).compactions("users") if job.status == "in_progress")
        assert len(left.attempts) > 1


def test_as_many_requests_as_there_may_be_wait_for_a_tier_that_begins(monkeypatch: pytest.MonkeyPatch) -> None:
    """The tier that comes before a request that one merge cannot hold is one more job."""
    monkeypatch.setattr(plan, "FAN_IN_MAX", 2)
    world, files = new_partition(), PartitionFiles(KEYS)
    world.alone(append_rows(files, ROWS))
    first = first_state(world.alone(files.head()))
    for number in range(REQUESTS_MAX):
        asked = job_of(
            f"000000000001-{number:08x}", status="submitted", origin="manual", plan=None, segments=(), sources=()
        )
        world.alone(files.compactor.commit(Submit(first, asked)))
    assert isinstance(
        decide(Reading.of(world.alone(files.head()), world.alone(files.compactor_state()), CONFIG, world.now_ms)), Admit
    )
    coordinator = Coordinator(PartitionFiles(KEYS), "me:1")
    for _ in range(2 * REQUESTS_MAX):
        step = world.alone(with_engine(KEYS, coordinator.step(CONFIG), []))
        if step.outcome == "idle":
            break
        assert step.outcome == "worked", step.detail
    assert world.alone(files.compactor_state()).jobs == ()
