"""One decision goes by one reading of the clock, whatever the next one says; a plan is called by what it does."""

from msgspec.structs import replace

from lithify.compactor.coordinator import Coordinator
from lithify.compactor.engine import StartTasks
from lithify.compactor.plan import Proposal, freeze
from lithify.manifest.config import parse
from lithify.manifest.jobs import KeyRange
from lithify.manifest.partition import PartitionFiles
from lithify.manifest.reading import Reading
from lithify.manifest.units import units
from lithify.store.port import Now
from tests.compactor.scripted_engine import ScriptedEngine
from tests.interleave import World
from tests.protocol.scene import KEYS, ROWS, Held, append_rows, new_partition

LAG_MS = 1_000
LAGGING = parse({"cleanup.policy": "compact", "min.compaction.lag.ms": str(LAG_MS), "min.cleanable.dirty.ratio": "0"})
SERVERS_DIFFER_MS = 2_000


def with_rows() -> World:
    world = new_partition()
    world.alone(append_rows(PartitionFiles(KEYS), ROWS))
    return world


def test_a_clean_is_no_clean_by_a_clock_that_has_stepped_back_since() -> None:
    """Two servers of a store whose Dates differ by seconds: by the first its records are past the lag, by the other
    not. A clean that drops nothing must not stamp horizons, nor raise cleaned_to: deleted keys would come back."""
    world = with_rows()
    coordinator = Coordinator(PartitionFiles(KEYS), "me:1")
    reading_ms = LAG_MS + SERVERS_DIFFER_MS
    for behind_ms in (0, SERVERS_DIFFER_MS):  # before the claim, and after it
        held = Held(world, coordinator.step(LAGGING, True))
        readings = 0
        while held.request is not None and not isinstance(held.request, StartTasks):
            if isinstance(held.request, Now):
                readings += 1
                held.reply(reading_ms if readings == 1 else reading_ms - SERVERS_DIFFER_MS - LAG_MS // 2 - behind_ms)
            else:
                ScriptedEngine().advance(held)
        state = world.alone(PartitionFiles(KEYS).compactor_state())
        for job in state.jobs:
            assert job.plan.rules.cleans == (job.kind == "clean")
            assert job.plan.rules.drop_superseded or job.plan.rules.stamp_horizon_ms is None


def test_what_a_plan_is_called_follows_from_what_it_does() -> None:
    head = with_rows().alone(PartitionFiles(KEYS).head())
    kinds = {}
    for now_ms in (LAG_MS - 1, LAG_MS):
        reading = Reading.of(head, None, LAGGING, now_ms)
        job = freeze(reading, Proposal(units(head), "clean", ""), (KeyRange(),), "j")
        assert job.plan is not None
        kinds[job.kind] = job.plan.rules
    assert kinds["tier"].stamp_horizon_ms is None
    assert not kinds["tier"].cleans
    assert kinds["clean"].cleans
    assert not replace(kinds["clean"], drop_superseded=False).cleans, "as an earlier version may have frozen it"
