"""P12: a resume verifies what is recorded and redoes only what is missing, whatever interrupted the job."""

import pytest

from lithify.compactor.coordinator import Coordinator
from lithify.manifest.partition import PartitionFiles
from lithify.store.errors import CommitUnknown
from lithify.store.port import Create
from tests.compactor.scripted_engine import Landed, ScriptedEngine
from tests.compactor.simulated_engine import merge, with_engine
from tests.interleave import World
from tests.protocol.scene import CONFIG, KEYS, ROWS, Held, append_rows, new_partition


def held_after_the_first_range(world: World, coordinator: Coordinator) -> Held:
    """A coordinator that has recorded one of three ranges."""
    held = Held(world, with_engine(KEYS, coordinator.step(CONFIG), []))
    held.until(lambda r: isinstance(r, Create) and b'"done":[{' in r.body)
    held.go()
    return held


def interrupt(world: World, how: str) -> Coordinator:
    """Interrupt a job after its first range; answers with whoever goes on."""
    coordinator = Coordinator(PartitionFiles(KEYS), "first:1")
    held = held_after_the_first_range(world, coordinator)
    if how == "crash":
        return Coordinator(PartitionFiles(KEYS), "second:1")
    if how == "take-over":
        return Coordinator(PartitionFiles(KEYS), "rival:1")
    assert how == "unknown"
    with pytest.raises(CommitUnknown):
        held.end_in_silence()
    return coordinator


@pytest.mark.parametrize("how", ["crash", "take-over", "unknown"])
def test_only_what_is_missing_is_done_again(how: str) -> None:
    world = new_partition()
    world.alone(append_rows(PartitionFiles(KEYS), ROWS))
    successor = interrupt(world, how)
    recorded = world.alone(PartitionFiles(KEYS).compactor_state()).jobs[0].done
    assert [d.index for d in recorded] == [0]
    written: list[str] = []
    step = world.alone(with_engine(KEYS, successor.step(CONFIG, take_over=True), written))
    assert step.outcome == "worked"
    assert len(written) == 2
    assert all("-2-0-" not in name for name in written)
    runs = world.alone(PartitionFiles(KEYS).head()).runs
    assert runs[0].segments[0].id == recorded[0].outputs[0].id
    assert sum(s.rows for s in runs[0].segments) == 6


@pytest.mark.parametrize("how", ["gone", "damaged"])
def test_a_recorded_output_that_is_gone_or_damaged_is_written_again(how: str) -> None:
    world = new_partition()
    world.alone(append_rows(PartitionFiles(KEYS), ROWS))
    successor = interrupt(world, "crash")
    lost = world.alone(PartitionFiles(KEYS).compactor_state()).jobs[0].done[0].outputs[0].id
    body, modified_ms = world.objects.pop(KEYS.segment(lost))
    if how == "damaged":
        world.objects[KEYS.segment(lost)] = bytes([body[0] ^ 1]) + body[1:], modified_ms
    written: list[str] = []
    step = world.alone(with_engine(KEYS, successor.step(CONFIG, take_over=True), written))
    assert step.outcome == "worked"
    assert len(written) == 3
    assert lost not in written
    live = world.alone(PartitionFiles(KEYS).head()).segments()
    assert all(KEYS.segment(s.id) in world.objects for s in live)


def test_a_clean_stop_keeps_what_has_finished_and_the_next_run_goes_on() -> None:
    world = new_partition()
    world.alone(append_rows(PartitionFiles(KEYS), ROWS))
    coordinator = Coordinator(PartitionFiles(KEYS), "first:1")
    stopped = _run_and_stop_after_one(world, coordinator)
    assert stopped.outcome == "stopped"
    state = world.alone(PartitionFiles(KEYS).compactor_state())
    assert [d.index for d in state.jobs[0].done] == [0]
    assert all(a.ended_at_ms is not None and a.error is None for a in state.jobs[0].attempts)
    assert state.failures == ()
    written: list[str] = []
    step = world.alone(with_engine(KEYS, Coordinator(PartitionFiles(KEYS), "second:1").step(CONFIG), written))
    assert step.outcome == "worked"
    assert len(written) == 2


def _run_and_stop_after_one(world: World, coordinator: Coordinator) -> object:
    """One range lands, then the process is told to leave."""

    class Stopped(ScriptedEngine):
        landed = False

        def look(self, timeout_ms: int) -> Landed:
            found = () if self.landed else super().look(timeout_ms)
            self.landed = True
            return found

        def stop_asked(self) -> bool:
            return self.landed

    engine = Stopped(lambda task: world.alone(merge(KEYS, task)))
    held = Held(world, coordinator.step(CONFIG))
    while held.request is not None:
        engine.advance(held)
    return held.result
