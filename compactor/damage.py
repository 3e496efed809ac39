"""Is a source really damaged? Looked at again before anybody is called (R6)."""

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
    """The first of `suspects` that every one of a few looks, with pauses between, finds damaged or missing. None where
    each was found whole once.

    SUBTLE! That somebody read a source damaged says nothing of the object: one bit may have flipped on the way or in a
    worker's memory, one reply may have been another's. A quarantine stops the partition until a person comes, so it
    takes more than one reply. Test: tests/protocol/test_r6_quarantine.py
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
