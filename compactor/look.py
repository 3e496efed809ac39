"""Are segments what their references say? A look that may take longer than a lease, with signs of life (P5)."""

from collections.abc import Awaitable, Callable, Sequence

from lithify.compactor.engine import VerifyOutputs
from lithify.manifest.keys import PartitionKeys
from lithify.manifest.model import SegmentRef

__all__ = ["OUTPUTS_A_LOOK", "ShowLife", "bad_outputs", "look"]

OUTPUTS_A_LOOK = 64  # one HEAD each
ShowLife = Callable[[], Awaitable[None]]  # it may raise, which ends the look


async def look(
    keys: PartitionKeys, segments: tuple[SegmentRef, ...], show_life: ShowLife, *, whole: bool
) -> frozenset[str]:
    """The ids of those that are missing or are not what was recorded; `whole`: by every byte's checksum, too.

    SUBTLE! One object may take minutes to read. Without a sign of life on the way a standby takes over, looks for as
    long, and is taken over in its turn. Test: tests/e2e/test_long_looks.py
    """
    request = VerifyOutputs(keys, segments, whole=whole)
    while (bad := await request) is None:
        await show_life()
    return bad


async def bad_outputs(keys: PartitionKeys, outputs: Sequence[SegmentRef], show_life: ShowLife) -> frozenset[str]:
    """Those of a job that is about to commit that are missing, of another size, or do not open."""
    bad: frozenset[str] = frozenset()
    for first in range(0, len(outputs), OUTPUTS_A_LOOK):
        if first:  # not after the last: to rest there costs the next attempt a look at every byte
            await show_life()
        bad |= await look(keys, tuple(outputs[first : first + OUTPUTS_A_LOOK]), show_life, whole=False)
    return bad
