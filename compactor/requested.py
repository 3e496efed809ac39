"""How the sources named by a waiting request change when other jobs merge them. Pure (P15)."""

from msgspec.structs import replace

from lithify.compactor.plan import choose_requested
from lithify.compactor.policy import tiered_first
from lithify.manifest.jobs import Job
from lithify.manifest.reading import Reading
from lithify.store.errors import InvalidRequest

__all__ = ["after_merge", "waits_for"]


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
