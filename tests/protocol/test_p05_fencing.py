"""P5: a claim is an edit; every later edit of the compactor carries its epoch."""

import pytest
from msgspec.structs import replace

from lithify.compactor.coordinator import Coordinator
from lithify.compactor.job_edits import Admit, ClaimState, Heartbeat, Record, StartAttempt
from lithify.compactor.policy import LEASE_MS
from lithify.compactor.request_edits import Submit
from lithify.manifest.claims import Claim
from lithify.manifest.edits import Already, Refused
from lithify.manifest.jobs import Attempt, CompactorState
from lithify.manifest.model import FORMAT
from lithify.manifest.partition import PartitionFiles
from lithify.manifest.quarantine import SetQuarantine
from lithify.manifest.reading import first_state
from lithify.store.errors import CommitUnknown, EpochRegression, Fenced, Unavailable
from lithify.store.port import Create, Delete, Get, Outcome, Put
from tests.compactor.simulated_engine import with_engine
from tests.interleave import World
from tests.protocol.scene import (
    CONFIG,
    FIRST,
    KEYS,
    ROWS,
    TOPIC_ID,
    Held,
    append_rows,
    appends,
    at,
    claim,
    compact,
    job,
    new_partition,
)


def state(epoch: int, owner: str = "me", **fields: object) -> CompactorState:
    plain = {"format": FORMAT, "topic": "t", "topic_id": TOPIC_ID, "partition": 0, "epoch": epoch, "owner": owner}
    return CompactorState(**{**plain, **fields})


def step(world: World, coordinator: Coordinator, *, take_over: bool = False) -> object:
    return world.alone(with_engine(KEYS, coordinator.step(CONFIG, take_over), []))


def test_a_claim_goes_to_the_manifest_first_then_to_the_compactors_file() -> None:
    world, files = new_partition(), PartitionFiles(KEYS)
    held = Held(world, claim(files))
    epoch = held.end()
    created = [r.key for r in held.asked if isinstance(r, Create)]
    assert created == [KEYS.manifest.key(2), KEYS.compactor.key(1)]
    assert world.alone(files.head()).compactor_epoch == epoch == 1
    assert world.alone(files.compactor_state()).epoch == 1


def test_the_incumbent_meets_the_new_epoch_at_its_next_write() -> None:
    world, old, new = new_partition(), PartitionFiles(KEYS), PartitionFiles(KEYS)
    first = world.alone(claim(old, "old"))
    world.alone(appends(old, 2))
    assert world.alone(claim(new, "new")) == first + 1
    for commit in (old.compactor.commit(Heartbeat(first)), compact(old, first)):
        held = Held(world, commit)
        with pytest.raises(Fenced, match="another compactor took over"):
            held.end()
        assert held.asked_for(Delete) == []
    after = world.alone(new.compactor_state())
    assert (after.owner, after.failures) == ("new", ())


def test_between_the_halves_of_a_claim_the_incumbents_commit_is_fenced_already() -> None:
    world, old = new_partition(), PartitionFiles(KEYS)
    first = world.alone(claim(old, "old"))
    world.alone(appends(old, 2))
    world.alone(PartitionFiles(KEYS).manifest.commit(Claim(None)))
    with pytest.raises(Fenced):
        world.alone(compact(old, first))


@pytest.mark.parametrize("edit", [SetQuarantine(3, "reason", "s"), Heartbeat(3), StartAttempt(3, "j", 1, "w")])
def test_every_edit_of_the_compactor_checks_its_epoch(edit: object) -> None:
    for stored, error in ((4, Fenced), (2, EpochRegression)):
        head = at(FIRST, 9) if isinstance(edit, SetQuarantine) else state(stored)
        if isinstance(edit, SetQuarantine):
            head = type(head)(format=FORMAT, topic="t", topic_id=TOPIC_ID, partition=0, id=9, compactor_epoch=stored)
        verdict = edit.apply(head, 10, 0)  # type: ignore[attr-defined]
        assert type(verdict.error) is error


def test_admission_and_progress_check_their_epoch() -> None:
    for edit in (Admit(3, job()), Record(3, "000000000001-0000abcd", ())):
        verdict = edit.apply(state(4, jobs=(job(),)), 10, 0)
        assert isinstance(verdict.error, Fenced)


def test_a_claim_carries_submitted_and_running_jobs_over() -> None:
    jobs = (job(), job("000000000001-0000beef", status="submitted", plan=None, segments=(), sources=()))
    verdict = ClaimState(state(0, ""), 5, "new", "new:1").apply(state(4, "old", jobs=jobs), 10, 77)
    assert [(j.id, j.status) for j in verdict.value.jobs] == [(j.id, j.status) for j in jobs]
    assert (verdict.value.epoch, verdict.value.owner, verdict.value.heartbeat_at_ms) == (5, "new", 77)


@pytest.mark.parametrize(("epoch", "owner"), [(6, ""), (6, "other"), (5, "other")])
def test_a_claim_expects_a_smaller_stored_epoch(epoch: int, owner: str) -> None:
    verdict = ClaimState(state(0, ""), 5, "new", "new:1").apply(state(epoch, owner), 10, 0)
    assert isinstance(verdict.error, Fenced)


def test_an_admins_file_between_the_halves_of_a_claim_is_taken_over() -> None:
    """The claimer took epoch 1 in the manifest; an admin who read that manifest wrote `.compactor` 1 at epoch 1; the
    claimer finds its own epoch there, owned by nobody."""
    world, files = new_partition(), PartitionFiles(KEYS)
    epoch = world.alone(files.manifest.commit(Claim(None))).result
    head = world.alone(files.head())
    request = job(status="submitted", origin="manual", plan=None, segments=(), sources=())
    world.alone(PartitionFiles(KEYS).compactor.commit(Submit(first_state(head), request)))
    world.alone(files.compactor.commit(ClaimState(first_state(head), epoch, "me", "me:1")))
    after = world.alone(files.compactor_state())
    assert (after.epoch, after.owner, [j.id for j in after.jobs]) == (1, "me", [request.id])


def test_of_two_that_look_at_once_one_claims_and_the_other_stands_by() -> None:
    """Before, the claim that lost the race for the number was put on top of the winner's, which was at work by then."""
    world = new_partition()
    world.alone(append_rows(PartitionFiles(KEYS), ROWS))
    first, second = (
        Held(world, with_engine(KEYS, Coordinator(PartitionFiles(KEYS), owner).step(CONFIG), []))
        for owner in ("first:1", "second:1")
    )
    for held in (first, second):
        held.until(lambda request: isinstance(request, Create))
    first.until(lambda request: isinstance(request, Put))  # its job runs
    assert second.end().outcome == "standby"
    assert first.end().outcome == "worked"
    assert world.alone(PartitionFiles(KEYS).head()).compactor_epoch == 1


def test_an_order_to_take_over_claims_whoever_came_first() -> None:
    world = new_partition()
    world.alone(append_rows(PartitionFiles(KEYS), ROWS))
    ordered = Coordinator(PartitionFiles(KEYS), "ordered:1").step(CONFIG, take_over=True)
    held = Held(world, with_engine(KEYS, ordered, []))
    held.until(lambda request: isinstance(request, Create))
    world.alone(PartitionFiles(KEYS).manifest.commit(Claim(0)))
    assert held.end().outcome == "worked"
    assert world.alone(PartitionFiles(KEYS).head()).compactor_epoch == 2


def test_a_claim_is_made_once_whatever_becomes_of_its_replies() -> None:
    head = at(FIRST, 7)
    assert Claim(0).apply(head, 8, 0).result == 1
    assert Claim(0).apply(replace(head, compactor_epoch=1), 9, 0) == Already(None)
    verdict = Claim(2).apply(replace(head, compactor_epoch=1), 9, 0)
    assert isinstance(verdict, Refused)
    assert isinstance(verdict.error, EpochRegression)


def test_who_never_heard_whether_its_claim_landed_knows_itself_in_what_it_finds() -> None:
    """The store goes away between the second half of a claim and its answer, again and again. Else it would take itself
    for a rival: stand by for a lease, and take what it owns for lost."""
    world, me = new_partition(), Coordinator(PartitionFiles(KEYS), "me:1", stands_by=True)
    world.alone(append_rows(PartitionFiles(KEYS), ROWS))
    for number, lands in ((1, True), (2, False), (2, True)):
        held = Held(world, with_engine(KEYS, me.step(CONFIG), []))
        key = KEYS.compactor.key(number)
        asked = held.until(lambda request, key=key: isinstance(request, Create) and request.key == key)
        assert isinstance(asked, Create)
        if lands:
            world.objects[asked.key] = asked.body, world.now_ms
        with pytest.raises(CommitUnknown):
            _end_while_the_store_is_away(held)
        world.alone(me.files.compactor_state())
        assert me.owns
    assert step(world, me).outcome == "worked"
    assert world.alone(PartitionFiles(KEYS).head()).compactor_epoch == 4


def test_who_could_not_end_its_claim_waits_for_no_owner_where_there_is_none() -> None:
    """The second half of its claim never arrives; an admin writes the first `.compactor`, which names no owner. Before,
    it waited a lease for somebody without a name."""
    world, me = new_partition(), Coordinator(PartitionFiles(KEYS), "me:1", stands_by=True)
    world.alone(append_rows(PartitionFiles(KEYS), ROWS))
    held = Held(world, with_engine(KEYS, me.step(CONFIG), []))
    held.until(lambda request: isinstance(request, Create) and request.key == KEYS.compactor.key(1))
    with pytest.raises(CommitUnknown):
        _end_while_the_store_is_away(held)
    request = job(status="submitted", origin="manual", plan=None, segments=(), sources=())
    world.alone(PartitionFiles(KEYS).compactor.commit(Submit(first_state(world.alone(me.files.head())), request)))
    assert step(world, me).outcome == "worked"


def _end_while_the_store_is_away(held: Held) -> None:
    while held.request is not None:
        match held.request:
            case Create():
                held.reply(Outcome.UNKNOWN)
            case Get():
                held.fail(Unavailable("away"))
            case _:
                held.go()


def test_a_store_that_went_back_in_time_stops_the_compactor_loudly() -> None:
    verdict = Heartbeat(5).apply(state(4), 10, 0)
    assert isinstance(verdict.error, EpochRegression)
    assert "lost acknowledged writes" in str(verdict.error)


def running(heartbeat_at_ms: int) -> CompactorState:
    attempt = Attempt(number=1, epoch=1, worker="old:1", started_at_ms=0)
    return state(1, "old", owner_name="old:1", jobs=(job(attempts=(attempt,)),), heartbeat_at_ms=heartbeat_at_ms)


@pytest.mark.parametrize(("age_ms", "outcome"), [(LEASE_MS // 2, "standby"), (LEASE_MS + 1, "failed")])
def test_a_standby_waits_while_the_incumbent_shows_life(age_ms: int, outcome: str) -> None:
    """ "failed": it took over, and found the job's sources gone."""
    world = new_partition()
    files = PartitionFiles(KEYS)
    epoch = world.alone(claim(files, "old"))
    world.alone(files.compactor.commit(Admit(epoch, job())))
    world.alone(files.compactor.commit(StartAttempt(epoch, job().id, 1, "old:1")))
    world.now_ms += age_ms
    done = step(world, Coordinator(PartitionFiles(KEYS), "new:1"))
    assert done.outcome == outcome  # type: ignore[attr-defined]
    assert ("old:1" in done.detail) == (outcome == "standby")  # type: ignore[attr-defined]


def test_told_to_take_over_it_does() -> None:
    world, files = new_partition(), PartitionFiles(KEYS)
    epoch = world.alone(claim(files, "old"))
    world.alone(files.compactor.commit(Admit(epoch, job())))
    world.alone(files.compactor.commit(StartAttempt(epoch, job().id, 1, "old:1")))
    step(world, Coordinator(PartitionFiles(KEYS), "new:1"), take_over=True)
    assert world.alone(files.head()).compactor_epoch == epoch + 1


def test_a_coordinator_claims_only_when_something_is_due() -> None:
    world = new_partition()
    assert step(world, Coordinator(PartitionFiles(KEYS), "idle:1")).outcome == "idle"  # type: ignore[attr-defined]
    assert world.alone(PartitionFiles(KEYS).head()).id == 1


def test_a_fenced_coordinator_is_no_owner_any_more() -> None:
    world, coordinator = World(0), Coordinator(PartitionFiles(KEYS), "old:1")
    world = new_partition()
    files = PartitionFiles(KEYS)
    request = job(status="submitted", origin="manual", plan=None, segments=(), sources=())
    world.alone(files.compactor.commit(Submit(first_state(world.alone(files.head())), request)))
    step(world, coordinator)
    assert coordinator.owns
    world.alone(claim(PartitionFiles(KEYS), "new"))
    again = job("000000000001-0000beef", status="submitted", origin="manual", plan=None, segments=(), sources=())
    world.alone(files.compactor.commit(Submit(first_state(world.alone(files.head())), again)))
    with pytest.raises(Fenced):
        step(world, coordinator)
    assert not coordinator.owns
    assert coordinator.fenced


def test_fenced_after_an_outcome_that_is_not_known_it_is_no_owner_any_more_either() -> None:
    world, coordinator = new_partition(), Coordinator(PartitionFiles(KEYS), "old:1")
    world.alone(append_rows(PartitionFiles(KEYS), ROWS))
    held = Held(world, with_engine(KEYS, coordinator.step(CONFIG), []))
    create = held.until(lambda r: isinstance(r, Create) and b'"done":[{' in r.body)
    assert isinstance(create, Create)
    held.reply(Outcome.UNKNOWN)
    world.alone(claim(PartitionFiles(KEYS), "new"))
    held.until(lambda r: isinstance(r, Get) and r.key == create.key)
    held.reply(None)  # gone: somebody had it, and it was collected
    with pytest.raises(Fenced):
        held.end()
    assert (coordinator.owns, coordinator.fenced) == (False, True)
