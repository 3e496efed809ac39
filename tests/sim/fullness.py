"""A store without room, at the end: what retention lets go of becomes room all the same (RFC 0012)."""

from msgspec.structs import replace

from lithify.compactor.coordinator import Coordinator
from lithify.compactor.policy import Wait, decide, pinned_by
from lithify.gc.collect import collect
from lithify.gc.reachable import pinned_manifests
from lithify.manifest.catalog import keep_bounds
from lithify.manifest.edits import Seal
from lithify.manifest.floor import droppable
from lithify.manifest.partition import PartitionFiles
from lithify.manifest.retention import floor_at
from lithify.store.errors import Unavailable
from lithify.store.port import Now, Pause
from tests.sim.site import Site
from tests.sim.truth import Truth

__all__ = ["free_a_full_store"]

STEPS_MAX = 50
PASSES_MAX = 8  # one boundary ages at a time, and what checkpoints let go of waits for the next


async def free_a_full_store(site: Site, truth: Truth) -> None:
    """Compactor and collector are given nothing but the reserve, and no upload. Nothing that is below the floor, and
    held by no job, may stay; nothing retired, and pinned by no checkpoint, either."""
    files = PartitionFiles(truth.keys)
    last = [topic for topic in site.oracle.topics if topic.topic_id == truth.keys.topic_id][-1]
    if last.deleted:
        await files.manifest.commit(Seal())
    else:
        await keep_bounds(files, last)
        await _drop(files, truth)
    kept: list[str] = []
    for _ in range(PASSES_MAX):
        await Pause(2 * (site.grace_ms + 2 * site.skew_ms) + 2_000)
        await collect(files, site.grace_ms)
        head = await files.head()
        pins = pinned_manifests(head)
        kept = [it.id for it in head.retired if not any(it.added_at <= pin < it.retired_at for pin in pins)]
        if not kept:
            return
    truth.fail(f"a full store keeps what was retired: {kept[0]}")


async def _drop(files: PartitionFiles, truth: Truth) -> None:
    config = replace(truth.configs[-1], compaction_paused=False)
    coordinator = Coordinator(PartitionFiles(truth.keys), "on a full store")
    looked_ms = 0  # before the last step: what expires while it plans a job is left to the next
    refused: Unavailable | None = None
    try:  # what needs uploads comes after what is dropped
        for _ in range(STEPS_MAX):
            looked_ms = await Now()
            if (await coordinator.step(config, take_over=True)).outcome in ("idle", "waiting"):
                break
    except Unavailable as error:
        refused = error
    head = await files.head()
    if refused is not None and isinstance(decide(head, await files.compactor_state(), config, await Now()), Wait):
        truth.fail(f"nothing is due, and a pass on a full store fails: {refused} (RFC 0012)")
    left = droppable(head, floor_at(head, looked_ms), pinned_by(await files.compactor_state()))
    if left:
        truth.fail(f"a full store keeps what is below the floor: {left[0].id}")
