"""Checks whether segments are what their references say, with signs of life: it may take longer than a lease (P5)."""

from collections.abc import Awaitable, Callable, Sequence

from lithify.compactor.engine import VerifyOutputs
from lithify.manifest.keys import PartitionKeys
from lithify.manifest.model import SegmentRef
from lithify.store.errors import Unavailable

__all__ = ["OUTPUTS_A_LOOK", "ShowLife", "bad_outputs", "look", "whole_outputs"]

OUTPUTS_A_LOOK = 64  # one HEAD each
ShowLife = Callable[[], Awaitable[None]]  # may raise, which ends the check


async def look(
    keys: PartitionKeys, segments: tuple[SegmentRef, ...], show_life: ShowLife, *, whole: bool
) -> frozenset[str]:
    """The ids of those that are missing or are not what was recorded. `whole`: check every byte's checksum too.

    SUBTLE! 1. The owner reads one large object for minutes and shows no life. 2. A standby takes over and checks for as
    long. 3. It is taken over in its turn. Therefore the check shows life on the way. Test: tests/e2e/test_long_looks.py
    """
    request = VerifyOutputs(keys, segments, whole=whole)
    while (bad := await request) is None:
        await show_life()
    return bad


async def whole_outputs(keys: PartitionKeys, outputs: Sequence[SegmentRef]) -> frozenset[str]:
    """The ids of those outputs that were found to be there, of their size, and to open, as far as one look tells within
    seconds. It shows no life, so it may go on beside a commit; whatever is not among them has to be looked at."""
    if len(outputs) > OUTPUTS_A_LOOK:
        return frozenset()
    try:
        bad = await VerifyOutputs(keys, tuple(outputs), whole=False)
    except Unavailable:
        return frozenset()
    return frozenset() if bad is None else frozenset(each.id for each in outputs) - bad


async def bad_outputs(keys: PartitionKeys, outputs: Sequence[SegmentRef], show_life: ShowLife) -> frozenset[str]:
    """The outputs of a job about to commit that are missing, of another size, or do not open."""
    bad: frozenset[str] = frozenset()
    for first in range(0, len(outputs), OUTPUTS_A_LOOK):
        # Not after the last batch: stopping there would throw away a finished check, and the next attempt must verify
        # every byte again.
        if first:
            await show_life()
        bad |= await look(keys, tuple(outputs[first : first + OUTPUTS_A_LOOK]), show_life, whole=False)
    return bad
