"""Is a source really damaged? It is read again before the partition is quarantined (R6)."""

from lithify.compactor.look import ShowLife, look
from lithify.manifest.keys import PartitionKeys
from lithify.manifest.model import SegmentRef
from lithify.store.port import Pause

__all__ = ["first_damaged"]

LOOKS = 3
PAUSE_MS = 1_000  # before the second look; twice that before the third


async def first_damaged(
    keys: PartitionKeys, suspects: tuple[SegmentRef, ...], show_life: ShowLife
) -> SegmentRef | None:
    """The first of `suspects` that is found damaged or missing each time, in three looks with pauses between them.
    None: each was found whole at least once.

    SUBTLE! One damaged read says nothing about the object: a bit may have flipped on the way or in a worker's memory,
    or a reply may have belonged to another request. A quarantine stops the partition until a person comes, so it takes
    more than one reply. Test: tests/protocol/test_r6_quarantine.py
    """
    for suspect in suspects:
        for again in range(LOOKS):
            if again:
                await Pause(PAUSE_MS * 2 ** (again - 1))
            await show_life()
            if not await look(keys, (suspect,), show_life, whole=True):
                break
        else:
            return suspect
    return None
