"""Who ends gives up what it owns, so that a successor need not wait for a lease (P5, docs/rfcs/0014).

Tried, and caught here: one that keeps it, one that gives up what another owns or what was never claimed, one that
leaves while it runs, one that asks a store that is away once for each partition.
"""

from collections.abc import Callable

import pytest
from msgspec.structs import replace

import lithify
from lithify.compactor.engines.local import LocalEngine
from lithify.compactor.job_edits import Leave
from lithify.events.notices import Trouble
from lithify.events.types import Claimed, Event, OwnerLeft
from lithify.manifest.commit import Already, Next, Refused
from lithify.manifest.jobs import Attempt, CompactorState
from lithify.manifest.reading import first_state
from lithify.store.errors import Fenced
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
