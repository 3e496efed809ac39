"""When a person should ask whether a compactor runs."""

import lithify
from lithify.admin.overdue import OVERDUE_MS, overdue
from lithify.compactor.job_edits import Admit, ClaimState, StartAttempt
from lithify.compactor.plan import Proposal, freeze
from lithify.compactor.policy import LEASE_MS, Propose, decide
from lithify.compactor.request_edits import Submit
from lithify.log.warehouse import Warehouse
from lithify.manifest.claims import Claim
from lithify.manifest.config import TopicConfig, parse
from lithify.manifest.jobs import Attempt, CompactorState, Job, KeyRange
from lithify.manifest.reading import Reading, first_state
from lithify.store.driver import Driver
from lithify.store.memory import MemoryStore
from tests.clock import HandClock
from tests.compactor.test_policy import HOUR_MS, NOW_MS, config, head, job, segment, state
from tests.log.compaction import files_of

DIRTY = head(segment(10, 99, 2 * HOUR_MS), segment(11, 99, 2 * HOUR_MS))
EVERYTHING = tuple(each.id for each in DIRTY.segments())


def told(known: CompactorState | None = None, settings: TopicConfig | None = None) -> str | None:
    return overdue(Reading.of(DIRTY, known, settings or config(), NOW_MS))


def running(seen_ms: int) -> CompactorState:
    attempt = Attempt(number=1, epoch=1, worker="host:1", started_at_ms=NOW_MS - 2 * HOUR_MS)
    return state(job("long", segments=EVERYTHING, attempts=(attempt,)), heartbeat_at_ms=seen_ms, owner_name="host:1")


def test_what_is_due_is_overdue_after_an_hour() -> None:
    assert told() == (
        "a clean (dirty ratio 1.00 is above 0.5) seems to have been due for 2.0 h, judging by the records"
    )
    young = head(segment(10, 99, OVERDUE_MS - 1))
    assert overdue(Reading.of(young, None, config(), NOW_MS)) is None
    assert overdue(Reading.of(head(clean=5), None, config(), NOW_MS)) is None


def test_what_a_live_compactor_works_on_is_not() -> None:
    assert told(running(NOW_MS - LEASE_MS + 1)) is None


def test_what_a_dead_compactor_left_is() -> None:
    assert told(running(NOW_MS - HOUR_MS)) == "job long is in progress, and no compactor has worked on it for 1.0 h"
    assert told(running(NOW_MS - HOUR_MS + 1)) is None


def test_a_request_that_nobody_decides_is() -> None:
    asked = job("asked", "submitted", plan=None, segments=(), created_at_ms=NOW_MS - 3 * HOUR_MS)
    assert told(state(asked, owner="")) == "job asked is submitted, and no compactor has worked on it for 3.0 h"


def test_what_is_paused_on_purpose_is_not() -> None:
    assert told(settings=config(compaction_paused="true")) is None
    assert told(running(0), config(compaction_paused="true")) is None


def test_describe_calls_nothing_due_that_a_job_works_on() -> None:
    warehouse = Warehouse(Driver(MemoryStore(), HandClock(NOW_MS)))
    settings = {"cleanup.policy": "compact", "min.cleanable.dirty.ratio": "0"}
    part = warehouse.create_topic("users", config=settings, probe=False).partition(0)
    for value in (b"old", b"new"):
        part.append([lithify.Record(b"k", value)])
    due = part.describe().due
    assert due is not None
    assert due.startswith("clean: ")
    files, run = files_of(warehouse, "users"), warehouse.driver.run
    epoch = run(files.manifest.commit(Claim(None))).result
    manifest = run(files.head())
    run(files.compactor.commit(ClaimState(first_state(manifest), epoch, "o", "host:1")))
    reading = Reading.of(manifest, run(files.compactor_state()), parse(settings), NOW_MS)
    action = decide(reading)
    assert isinstance(action, Propose)
    proposal = Proposal(action.due.units, action.due.job_kind, action.due.reason)
    begun: Job = freeze(reading, proposal, (KeyRange(),), "000000000005-0000abcd")
    run(files.compactor.commit(Admit(epoch, begun)))
    run(files.compactor.commit(StartAttempt(epoch, begun.id, 1, "host:1")))
    assert part.describe().due is None


def test_describe_says_if_the_jobs_cannot_be_read() -> None:
    warehouse = Warehouse(Driver(MemoryStore(), HandClock(NOW_MS)))
    part = warehouse.create_topic("users", probe=False).partition(0)
    files = files_of(warehouse, "users")
    asked = job("000000000001-0000abcd", "submitted", plan=None, segments=())
    warehouse.driver.run(files.compactor.commit(Submit(first_state(warehouse.driver.run(files.head())), asked)))
    warehouse.store.put(files.keys.compactor.key(1), b"{")
    due = warehouse.topic("users").partition(part.number).describe().due
    assert due is not None
    assert due.startswith(f"unknown, as the jobs cannot be read: {files.keys.compactor.key(1)}")
