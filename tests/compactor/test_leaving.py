"""Who ends gives up what it owns, so that a successor need not wait for a lease (P5, docs/rfcs/0014).

Tried, and caught here: one that keeps it, one that gives up what another owns or what was never claimed, one that
leaves while it runs or while a turn of an interrupted run is under way, one that asks a store that is away once for
each partition, or again and again, one that stops at a partition that refuses, one that says nothing of a store that
went back in time, one that a child process closes, and a service that waits for its collection first.
"""

import threading
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pytest
from msgspec.structs import replace

import lithify
from lithify.admin.daemon import Compacting, run_together
from lithify.compactor.coordinator import Coordinator
from lithify.compactor.engines.local import LocalEngine
from lithify.compactor.job_edits import Leave
from lithify.compactor.scheduler import Scheduler
from lithify.events.event_log import log_event
from lithify.events.notices import Trouble
from lithify.events.types import Claimed, Event, OwnerLeft
from lithify.manifest.edits import Already, Next, Refused
from lithify.manifest.jobs import Attempt, CompactorState
from lithify.manifest.reading import first_state
from lithify.store.errors import ErrorKind, Fenced
from lithify.store.port import Outcome
from tests.clock import HandClock
from tests.compactor.serving import Running, append_to, eventually
from tests.e2e.workload import partition_files
from tests.protocol.scene import FIRST, job

EAGER = {"cleanup.policy": "compact", "min.cleanable.dirty.ratio": "0"}


def state_of(warehouse: lithify.Warehouse, topic: str) -> CompactorState:
    state = warehouse.driver.run(partition_files(warehouse, topic).compactor_state())
    assert state is not None
    return state


def compact_once(warehouse: lithify.Warehouse, sink: Callable[[Event], None] = lambda event: None) -> None:
    with lithify.Compactor(warehouse, engine="local", events=sink) as compactor:
        compactor.run_once()


def test_who_comes_next_begins_at_once(warehouse: lithify.Warehouse, clock: HandClock) -> None:
    users = warehouse.create_topic("users", 1, EAGER).partition(0)
    append_to(users, 8)
    told: list[Event] = []
    compact_once(warehouse, told.append)
    state = state_of(warehouse, "users")
    assert (state.epoch, state.owner, bool(state.owner_name)) == (1, "", True), "its name stays, for people"
    append_to(users, 8)
    at_ms = clock.now_ms
    with Running(lithify.Compactor(warehouse, engine="local", interval_ms=1, events=told.append)):
        assert eventually(lambda: not users.describe().l0)
    assert clock.now_ms == at_ms, "no time has passed"
    seen = [each for each in told if isinstance(each, Claimed | OwnerLeft)]
    assert [(type(each), each.epoch) for each in seen] == [(Claimed, 1), (OwnerLeft, 1), (Claimed, 2), (OwnerLeft, 2)]
    assert [each.former for each in seen if isinstance(each, Claimed)] == ["", ""], "nobody was replaced"


def test_explain_and_the_survey_still_name_who_was_there(warehouse: lithify.Warehouse) -> None:
    append_to(warehouse.create_topic("users", 1, EAGER).partition(0), 8)
    compact_once(warehouse)
    owner = lithify.Admin(warehouse).explain("users", 0).compactor
    assert owner is not None
    assert (owner.name, owner.at_work) == (state_of(warehouse, "users").owner_name, False)


def test_what_another_has_claimed_meanwhile_stays_its_own(warehouse: lithify.Warehouse) -> None:
    users = warehouse.create_topic("users", 1, EAGER).partition(0)
    append_to(users, 8)
    mine, rival = (lithify.Compactor(warehouse, engine="local") for _ in range(2))
    mine.run_once()
    append_to(users, 8)
    rival.run_once(take_over=True)
    owner = state_of(warehouse, "users").owner
    mine.close()
    assert state_of(warehouse, "users").owner == owner != ""
    rival.close()
    assert state_of(warehouse, "users").owner == ""


def test_who_claimed_nothing_writes_nothing(warehouse: lithify.Warehouse) -> None:
    append_to(warehouse.create_topic("users", 1, EAGER).partition(0), 8)
    lithify.Compactor(warehouse, engine="local").run_once()
    before = state_of(warehouse, "users")
    compact_once(warehouse)
    assert state_of(warehouse, "users") == before


def test_closing_it_while_it_runs_gives_nothing_up(warehouse: lithify.Warehouse) -> None:
    users = warehouse.create_topic("users", 1, EAGER).partition(0)
    append_to(users, 8)
    compactor = lithify.Compactor(warehouse, engine=LocalEngine(1), interval_ms=1)
    with Running(compactor):
        assert eventually(lambda: not users.describe().l0)
        compactor.close()
        assert state_of(warehouse, "users").owner != ""


def test_a_store_that_is_away_is_asked_once(warehouse: lithify.Warehouse, monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("one", "other", "third"):
        append_to(warehouse.create_topic(name, 1, EAGER).partition(0), 8)
    told: list[Event] = []
    compactor = lithify.Compactor(warehouse, engine="local", events=told.append)
    compactor.run_once()
    asked: list[str] = []

    def away(key: str, body: bytes, frees: bool = False) -> lithify.Unavailable:
        asked.append(key)
        raise lithify.Unavailable("no answer")

    monkeypatch.setattr("lithify.compactor.service.many", lambda do, things: [do(each) for each in things])
    monkeypatch.setattr(warehouse.driver.store, "create", away)
    compactor.close()
    assert len({key.split("/")[0] for key in asked}) == 1
    assert [each.what for each in told if isinstance(each, Trouble)] == ["partitions not left"]


def _owned(warehouse: lithify.Warehouse, *names: str, told: list[Event] | None = None) -> lithify.Compactor:
    """A compactor that owns a partition of each of these topics."""
    for name in names:
        append_to(warehouse.create_topic(name, 1, EAGER).partition(0), 8)
    sink = log_event if told is None else told.append
    compactor = lithify.Compactor(warehouse, engine="local", events=sink)
    compactor.run_once()
    return compactor


def _owners(warehouse: lithify.Warehouse, *names: str) -> dict[str, bool]:
    return {name: bool(state_of(warehouse, name).owner) for name in names}


def test_what_became_of_it_is_not_asked_again(warehouse: lithify.Warehouse, monkeypatch: pytest.MonkeyPatch) -> None:
    compactor = _owned(warehouse, "users")
    asked: list[str] = []

    def unknown(key: str, body: bytes, frees: bool = False) -> Outcome:
        asked.append(key)
        return Outcome.UNKNOWN

    monkeypatch.setattr(warehouse.driver.store, "create", unknown)
    compactor.close()
    assert len(asked) == 1


@pytest.mark.parametrize("error", [lithify.AccessDenied("no"), lithify.Corrupt("damaged")])
def test_one_that_refuses_keeps_no_other(
    warehouse: lithify.Warehouse, monkeypatch: pytest.MonkeyPatch, error: lithify.LithifyError
) -> None:
    told: list[Event] = []
    compactor = _owned(warehouse, "one", "other", "third", told=told)
    create = warehouse.driver.store.create

    def refuse(key: str, body: bytes, frees: bool = False) -> Outcome:
        if key.startswith("one/"):
            raise error
        return create(key, body, frees)

    monkeypatch.setattr("lithify.compactor.service.many", lambda do, things: [do(each) for each in things])
    monkeypatch.setattr(warehouse.driver.store, "create", refuse)
    compactor.close()
    assert _owners(warehouse, "one", "other", "third") == {"one": True, "other": False, "third": False}
    found = [(each.what, each.topic) for each in told if isinstance(each, Trouble)]
    assert found == [("partition not left", "one")]


def test_a_store_that_went_back_in_time_is_told(warehouse: lithify.Warehouse, monkeypatch: pytest.MonkeyPatch) -> None:
    told: list[Event] = []
    compactor = _owned(warehouse, "users", told=told)

    def refused(self: Leave, head: CompactorState, number: int, now_ms: int) -> Refused:
        return Refused(lithify.EpochRegression("the epoch was 2, and is 1"))

    monkeypatch.setattr(Leave, "apply", refused)
    compactor.close()
    assert [each.fault.kind for each in told if isinstance(each, Trouble) and each.fault] == [
        ErrorKind.EPOCH_REGRESSION
    ]


def test_the_engine_ends_however_leaving_did(warehouse: lithify.Warehouse, monkeypatch: pytest.MonkeyPatch) -> None:
    engine = LocalEngine(1)
    closed: list[bool] = []
    monkeypatch.setattr(engine, "close", lambda: closed.append(True))
    compactor = lithify.Compactor(warehouse, engine=engine)

    def interrupted(self: object) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr("lithify.compactor.service.Service.leave", interrupted)
    with pytest.raises(KeyboardInterrupt):
        compactor.close()
    assert closed == [True]


def test_a_child_process_gives_up_nothing(warehouse: lithify.Warehouse, monkeypatch: pytest.MonkeyPatch) -> None:
    compactor = _owned(warehouse, "users")
    with monkeypatch.context() as child:
        child.setattr("os.getpid", lambda: 1)
        compactor.close()
    assert _owners(warehouse, "users") == {"users": True}
    assert compactor.run_once().partitions, "the parent's is not closed"
    compactor.close()
    assert _owners(warehouse, "users") == {"users": False}


class _Interrupted(ThreadPoolExecutor):
    """A second Ctrl-C ends the wait for its threads."""

    def __exit__(self, *_: object) -> None:
        self.shutdown(wait=False)
        raise KeyboardInterrupt


def test_nothing_is_given_up_while_a_turn_of_an_interrupted_run_is_under_way(
    warehouse: lithify.Warehouse, monkeypatch: pytest.MonkeyPatch
) -> None:
    append_to(warehouse.create_topic("users", 1, EAGER).partition(0), 8)
    compactor = lithify.Compactor(warehouse, engine="local", interval_ms=1)
    plans, goes_on = threading.Event(), threading.Event()
    hear: Any = vars(Scheduler)["_hear"]
    begun: Any = vars(Coordinator)["_begun"]

    def interrupt(self: Scheduler[Any]) -> None:
        if plans.is_set():
            raise KeyboardInterrupt
        hear(self)

    async def long_begun(*given: Any) -> Any:
        plans.set()
        goes_on.wait()
        return await begun(*given)

    monkeypatch.setattr(Coordinator, "_begun", long_begun)  # after the claim
    with monkeypatch.context() as interrupted:
        interrupted.setattr("lithify.compactor.scheduler.ThreadPoolExecutor", _Interrupted)
        interrupted.setattr(Scheduler, "_hear", interrupt)
        with pytest.raises(KeyboardInterrupt):
            compactor.run_once()
    compactor.close()
    held = _owners(warehouse, "users")
    goes_on.set()
    assert held == {"users": True}


def test_a_service_gives_up_its_partitions_before_its_collection_has_ended(warehouse: lithify.Warehouse) -> None:
    append_to(warehouse.create_topic("users", 1, EAGER).partition(0), 8)
    compacting = Compacting(lithify.Compactor(warehouse, engine="local", interval_ms=1), 1)
    collects, ends = threading.Event(), threading.Event()

    class Collection:
        def run(self) -> None:
            collects.set()
            ends.wait()

        def stop(self) -> None: ...

    service = threading.Thread(target=run_together, args=([compacting, Collection()],))
    service.start()
    try:
        assert collects.wait(60)
        assert eventually(lambda: warehouse.topic("users").partition(0).describe().l0 == ())
        compacting.stop()
        assert eventually(lambda: not state_of(warehouse, "users").owner)
    finally:
        ends.set()
        service.join()


@pytest.mark.parametrize(
    ("epoch", "owner", "open_attempt", "says"),
    [
        (3, "me", False, Next),
        (3, "me", True, Already),
        (3, "", False, Already),
        (4, "other", False, Refused),
    ],
)
def test_the_edit(epoch: int, owner: str, open_attempt: bool, says: type) -> None:
    attempts = (Attempt(number=1, epoch=3, worker="me:1", started_at_ms=1, ended_at_ms=None if open_attempt else 2),)
    held = {"epoch": epoch, "owner": owner, "owner_name": "me:1", "planning": True}
    head = replace(first_state(FIRST), id=9, jobs=(job(attempts=attempts),), **held)
    verdict = Leave(3).apply(head, 10, 77)
    assert type(verdict) is says
    if isinstance(verdict, Next):
        assert (verdict.value.owner, verdict.value.owner_name, verdict.value.planning) == ("", "me:1", False)
    if isinstance(verdict, Refused):
        assert isinstance(verdict.error, Fenced)


def test_a_closed_compactor_claims_nothing_any_more(warehouse: lithify.Warehouse) -> None:
    append_to(warehouse.create_topic("users", 1, EAGER).partition(0), 8)
    compactor = lithify.Compactor(warehouse, engine="local")
    compactor.close()
    compactor.close()
    for run in (compactor.run_once, compactor.run):
        with pytest.raises(lithify.InvalidRequest, match="this compactor is closed; make a new one"):
            run()
    assert warehouse.driver.run(partition_files(warehouse, "users").compactor_state()) is None
