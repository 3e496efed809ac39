"""P5 while a job is planned: its owner shows life, whoever waits does so by the lease, and the mark ends when nobody
needs it (docs/rfcs/0003)."""

from lithify.compactor.coordinator import Coordinator
from lithify.compactor.engine import VerifyOutputs, WeighSegment
from lithify.compactor.look import OUTPUTS_A_LOOK, bad_outputs
from lithify.compactor.policy import LEASE_MS
from lithify.manifest.config import parse
from lithify.manifest.floor import RaiseFloor
from lithify.manifest.jobs import CompactorState
from lithify.manifest.partition import PartitionFiles
from lithify.store.errors import Corrupt, Unavailable
from lithify.store.port import Create
from tests.compactor.simulated_engine import with_engine
from tests.interleave import World
from tests.protocol.scene import CONFIG, KEYS, ROWS, Held, append_rows, new_partition, segment


def with_rows() -> World:
    world = new_partition()
    world.alone(append_rows(PartitionFiles(KEYS), ROWS))
    return world


def state(world: World) -> CompactorState:
    found = world.alone(PartitionFiles(KEYS).compactor_state())
    assert found is not None
    return found


def step(world: World, coordinator: Coordinator, take_over: bool = False) -> str:
    return world.alone(with_engine(KEYS, coordinator.step(CONFIG, take_over), [])).outcome


def planning(world: World, coordinator: Coordinator) -> Held:
    """It has claimed, and waits for the footer of the first source."""
    held = Held(world, with_engine(KEYS, coordinator.step(CONFIG), [], weighs=False))
    held.until(lambda request: isinstance(request, WeighSegment))
    return held


def test_however_long_one_plans_another_waits_for_it() -> None:
    world, mine = with_rows(), Coordinator(PartitionFiles(KEYS), "mine:1")
    held = planning(world, mine)
    while isinstance(held.request, WeighSegment):
        world.now_ms += LEASE_MS - 1_000  # one footer of a terabyte after the other
        assert step(world, Coordinator(PartitionFiles(KEYS), "other:1")) == "standby"
        held.reply(())
        held.until(lambda request: isinstance(request, WeighSegment) or "/segments/" in getattr(request, "key", ""))
    assert len(held.asked_for(WeighSegment)) == len(ROWS)
    assert step(world, Coordinator(PartitionFiles(KEYS), "other:1")) == "standby"
    assert held.end().outcome == "worked"
    assert world.alone(PartitionFiles(KEYS).head()).compactor_epoch == 1
    assert not state(world).planning


def test_who_dies_over_planning_loses_the_lease_and_no_more() -> None:
    world = with_rows()
    planning(world, Coordinator(PartitionFiles(KEYS), "dead:1"))
    world.now_ms += LEASE_MS // 2
    assert step(world, Coordinator(PartitionFiles(KEYS), "other:1")) == "standby"
    world.now_ms += LEASE_MS
    assert step(world, Coordinator(PartitionFiles(KEYS), "other:1")) == "worked"


def test_an_owner_that_finds_nothing_to_do_holds_nobody_up() -> None:
    """It claimed for a drop, which needs no job; a clean run of one process follows that of another at once."""
    world = with_rows()
    end = world.alone(PartitionFiles(KEYS).head()).next_offset
    world.alone(PartitionFiles(KEYS).manifest.commit(RaiseFloor(end)))
    coordinator = Coordinator(PartitionFiles(KEYS), "mine:1")
    assert step(world, coordinator) == "worked"
    assert state(world).planning
    assert step(world, coordinator) == "idle"
    assert not state(world).planning
    head = world.alone(PartitionFiles(KEYS).head()).id
    assert step(world, coordinator) == "idle"
    assert world.alone(PartitionFiles(KEYS).head()).id == head
    world.alone(append_rows(PartitionFiles(KEYS), ROWS))
    assert step(world, Coordinator(PartitionFiles(KEYS), "other:1")) == "worked", "without waiting for a lease"


def test_a_plan_that_fails_ends_the_mark() -> None:
    world = with_rows()
    held = planning(world, Coordinator(PartitionFiles(KEYS), "mine:1"))
    assert isinstance(held.request, WeighSegment)
    del world.objects[KEYS.segment(held.request.segment.id)]
    held.fail(Corrupt(f"{held.request.segment.id} is damaged"))
    assert held.end().outcome == "failed"
    assert not state(world).planning
    assert world.alone(PartitionFiles(KEYS).head()).quarantine is not None


def test_a_long_look_at_many_outputs_shows_life_too() -> None:
    """Else a standby takes over just before the commit, verifies as long, and is taken over in its turn."""
    shown = list[int]()

    async def show_life() -> None:
        shown.append(len(held.asked_for(VerifyOutputs)))

    outputs = tuple(segment(f"000000000001-{number:08x}-1-0-00000000") for number in range(3 * OUTPUTS_A_LOOK))
    held = Held(new_partition(), bad_outputs(KEYS, outputs, show_life))
    while held.request is not None:
        assert isinstance(held.request, VerifyOutputs)
        assert len(held.request.segments) == OUTPUTS_A_LOOK
        held.reply(frozenset())
    assert shown == [1, 2]


def test_on_a_full_store_a_pass_that_dropped_what_it_could_ends_well() -> None:
    """What frees space is taken, and nothing else: the mark of the claim must not stay behind as a failure."""
    world, files = with_rows(), PartitionFiles(KEYS)
    world.alone(files.manifest.commit(RaiseFloor(3)))
    keeps = parse({"cleanup.policy": "delete"})
    mine, outcomes = Coordinator(PartitionFiles(KEYS), "mine:1"), list[str]()
    for _ in range(3):
        held = Held(world, with_engine(KEYS, mine.step(keeps), []))
        while held.request is not None:
            if isinstance(held.request, Create) and not held.request.frees:
                held.fail(Unavailable("no space left on device"))
            else:
                held.go()
        outcomes.append(held.result.outcome)
    assert outcomes == ["worked", "idle", "idle"]
    assert not state(world).planning
