"""When what waits for the grace period may go: for people who ask why nothing went yet. Coroutines that only read."""

from lithify.gc.collect import AGED_LOOK_BACK_MAX
from lithify.gc.reachable import collectable
from lithify.manifest.model import Boundary
from lithify.manifest.partition import PartitionFiles
from lithify.manifest.version import Version
from lithify.store.port import Now

__all__ = ["goes_at"]


async def goes_at(files: PartitionFiles, grace_ms: int) -> int | None:
    """The time, by the store's clock, from which a collection may delete the first of the segments that wait for the
    grace period. None: none waits, or no collection has seen yet that they were replaced, which begins the period
    (P17). Costs a request for each boundary file that is younger than the period."""
    newest = await files.boundary.refresh()
    head = await files.head()
    dead = newest.value.manifest if newest.value else 0
    waiting = [it.retired_at for it in collectable(head, head.id, files.homes) if it.retired_at > dead]
    if not waiting:
        return None
    now_ms, found_ms = await Now(), None
    version: Version[Boundary] | None = newest
    for _ in range(AGED_LOOK_BACK_MAX):
        if version is None or version.value is None or version.value.manifest_head - 1 < min(waiting):
            break
        seen_ms = version.value.committed_at_ms if version.modified_ms is None else version.modified_ms
        found_ms = seen_ms + grace_ms
        if found_ms <= now_ms:
            break
        version = await files.boundary.glance(version.number - 1) if version.number > 1 else None
    return found_ms
