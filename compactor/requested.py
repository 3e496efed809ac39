"""What becomes of a waiting request: how it is decided, and how the sources it names change when other jobs merge
them. Pure (P15)."""

from msgspec.structs import replace

from lithify.compactor.plan import Proposal, choose_requested, kind_of
from lithify.compactor.policy import given_up_first, tiered_first
from lithify.compactor.relocating import Ends
from lithify.compactor.retiring import no_room
from lithify.manifest.categories import Category
from lithify.manifest.homes import refuse_unreachable
from lithify.manifest.jobs import Job, JobError
from lithify.manifest.partition import PartitionFiles
from lithify.manifest.reading import Reading
from lithify.manifest.units import segments_of
from lithify.manifest.words import span_text
from lithify.store.errors import InvalidRequest

__all__ = ["after_merge", "requested_merge", "waits_for"]


def requested_merge(reading: Reading, request: Job, files: PartitionFiles) -> Proposal | Ends:
    """The job that `request` becomes, or how it ends without one."""
    manifest, _, config, now_ms = reading
    try:
        chosen = choose_requested(manifest, request.requested, now_ms, config)
        segments = segments_of(chosen)
        refuse_unreachable(files.keys, segments, files.homes)
    except InvalidRequest as error:
        return Ends("failed", str(error), JobError(Category.INVALID, str(error)))
    if not chosen:
        lag = span_text(config.min_compaction_lag_ms)
        young = f"every segment has records younger than min.compaction.lag.ms ({lag})"
        return Ends("completed", f"nothing to compact: {young if manifest.segments() else 'it is empty'}")
    refused = no_room(chosen, manifest)
    if refused is not None:
        return Ends("failed", refused, JobError(Category.NO_ROOM, refused))
    first = tiered_first(chosen, config)
    if first is not None:
        held, reason = first
        given_up = given_up_first(held, reason, reading)
        if given_up is not None:  # otherwise the request would wait for ever for a tier that ends at once
            return Ends("failed", given_up, JobError(Category.GIVEN_UP, given_up))
        return Proposal(held, "tier", reason)
    reason = "requested: full" if not request.requested else "requested: by sources"
    return Proposal(chosen, kind_of(reading, chosen), reason, request)


def waits_for(request: Job, reading: Reading) -> str:
    """What comes before `request` is done, for people."""
    manifest, _, config, now_ms = reading
    if request.relocates:
        return "a compactor"
    try:
        first = tiered_first(choose_requested(manifest, request.requested, now_ms, config), config)
    except InvalidRequest as error:
        return f"a compactor, which will reject it: {error}"
    return "a compactor" if first is None else f"a compactor, which must first do another merge: {first[1]}"


def after_merge(request: Job, done: Job, divided: frozenset[str]) -> Job:
    """`request`, after `done` was committed: if all that it merged is requested, its run takes the place of these
    sources. So a request that one merge cannot hold continues from the run of each tier that comes first. `divided`:
    the runs of which only the first segments were merged; their rest stays requested.

    If other sources were merged too, or nothing requested is left, it stays as it is. A source that no longer exists is
    refused later, at admission; the remainder of a divided run keeps the run's id.
    """
    merged = frozenset[str]() if done.relocates else frozenset(done.sources)
    if request.status != "submitted" or not merged or not merged.issubset(request.requested):
        return request
    run = (done.destination,) if done.outputs() else ()
    at = min(index for index, name in enumerate(request.requested) if name in merged)
    before, after = request.requested[:at], request.requested[at:]
    requested = (*before, *run, *(name for name in after if name not in merged or name in divided))
    return replace(request, requested=requested) if requested else request
