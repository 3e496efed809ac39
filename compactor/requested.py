"""What becomes of the sources that a request names while it waits. Pure (P15)."""

from msgspec.structs import replace

from lithify.manifest.jobs import Job

__all__ = ["after_merge"]


def after_merge(request: Job, done: Job) -> Job:
    """`request`, once `done` was committed: where all that it merged is asked for, its run takes the place of these
    sources. So a request that one merge cannot hold goes on from the run of each tier that comes first.

    Where others were merged with them, or nothing of them is left to ask for, it stays as it is, and is refused: its
    sources are no more.
    """
    merged = frozenset(done.sources)
    if request.status != "submitted" or not merged or not merged.issubset(request.requested):
        return request
    run = (done.destination,) if done.outputs() else ()
    at = min(index for index, name in enumerate(request.requested) if name in merged)
    before, after = request.requested[:at], request.requested[at:]
    requested = (*before, *run, *(name for name in after if name not in merged))
    return replace(request, requested=requested) if requested else request
