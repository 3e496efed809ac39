"""A store without room, at the end: what retention lets go of becomes room all the same (RFC 0012)."""

from msgspec.structs import replace

from lithify.compactor.coordinator import Coordinator
from lithify.gc.collect import collect
from lithify.manifest.catalog import keep_bounds
from lithify.manifest.config import TopicConfig, parse
from lithify.manifest.lifetime import Seal
from lithify.store.errors import Unavailable
from lithify.store.port import Now, Pause
from tests.sim.cast import Actor
from tests.sim.judge.floors import log_start
from tests.sim.judge.layout import Json, segments_of
from tests.sim.places import files_of
from tests.sim.site import Site
from tests.sim.truth import Truth

__all__ = ["free_a_full_store"]

STEPS_MAX = 50
PASSES_MAX = 8  # one boundary ages at a time, and what checkpoints let go of waits for the next


async def free_a_full_store(actor: Actor, site: Site, truth: Truth) -> None:
    """Compactor and collector are given nothing but the reserve, and no upload. Nothing that is below the floor, and
    held by no job, may stay; nor may the list of what was retired, or of what nobody pins any more."""
    files = files_of(truth.keys)
    last = [topic for topic in site.oracle.topics if topic.topic_id == truth.keys.topic_id][-1]
    if last.deleted:
        await files.manifest.commit(Seal())
    else:
        await keep_bounds(files, last)
        site.oracle.begins(actor.author, paused=False)
        site.oracle.may_take_over(actor.author, True)
        await _drop(site, truth, parse(last.config))
    judged, kept = site.oracle.judge.partition(truth.keys.root), ""
    for _ in range(PASSES_MAX):
        await Pause(2 * (site.grace_ms + 2 * site.skew_ms) + 2_000)
        await collect(files, site.grace_ms)
        kept = _kept(judged.head)
        if not kept:
            return
    truth.fail(f"a full store keeps what was retired: {kept}")


def _kept(head: Json) -> str:
    """What is retired, or was pinned, and nobody has looked at (P16)."""
    return next((str(each["id"]) for each in head.get("retired", ())), "") or str(
        next(iter(head.get("unpinned", ())), "")
    )


async def _drop(site: Site, truth: Truth, config: TopicConfig) -> None:
    config = replace(config, compaction_paused=False)
    coordinator = Coordinator(files_of(truth.keys), "on a full store")
    looked_ms = 0  # before the last step: what expires while it plans a job is left to the next
    refused: Unavailable | None = None
    try:  # what needs uploads comes after what is dropped
        for _ in range(STEPS_MAX):
            looked_ms = await Now()
            if (await coordinator.step(config, take_over=True)).outcome in ("idle", "waiting"):
                break
    except Unavailable as error:
        refused = error
    judged = site.oracle.judge.partition(truth.keys.root)
    head, jobs = judged.head, judged.state.get("jobs", ())
    if (
        refused is not None
        and not jobs
        and len(segments_of(head)) < 2
        and not site.oracle.judge.may_owe(truth.keys.root, truth.keys.topic_id, await Now())
    ):
        truth.fail(f"nothing is due, and a pass on a full store fails: {refused} (RFC 0012)")
    held = {segment for job in jobs if job.get("plan") for segment in job["segments"]}
    floor = log_start(head, looked_ms)
    left = [each["id"] for each in segments_of(head) if each["max_offset"] < floor and each["id"] not in held]
    if left:
        truth.fail(f"a full store keeps what is below the floor: {left[0]}")
