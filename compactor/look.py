"""Checks whether segments are what their references say, with signs of life: it may take longer than a lease (P5)."""

from collections.abc import Awaitable, Callable, Sequence
from typing import NamedTuple

from lithify.compactor.engine import VerifyOutputs
from lithify.manifest.ages import young
from lithify.manifest.keys import PartitionKeys
from lithify.manifest.model import SegmentRef
from lithify.store.errors import Unavailable
from lithify.store.port import Now

__all__ = ["OUTPUTS_A_LOOK", "Found", "ShowLife", "bad_outputs", "look", "whole_outputs"]

OUTPUTS_A_LOOK = 64  # one HEAD each
_FOUND_FRESH_MS = 2_000
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


class Found(NamedTuple):
    """Outputs that were found to be whole, by a look that began at `at_ms`."""

    ids: frozenset[str] = frozenset()
    at_ms: int = 0

    def lately(self, now_ms: int) -> frozenset[str]:
        """If that was a moment ago: whoever looked beside a write may have waited long for its answer."""
        return self.ids if young(self.at_ms, now_ms, _FOUND_FRESH_MS) else frozenset()


async def whole_outputs(keys: PartitionKeys, outputs: Sequence[SegmentRef]) -> Found:
    """Those outputs that are there, of their size, and open, as far as one look tells within seconds. It shows no life,
    so it may go on beside a commit; whatever is not among them has to be looked at."""
    at_ms = await Now()
    if len(outputs) > OUTPUTS_A_LOOK:
        return Found()
    try:
        bad = await VerifyOutputs(keys, tuple(outputs), whole=False, once=True)
    except Unavailable:
        return Found()
    return Found() if bad is None else Found(frozenset(each.id for each in outputs) - bad, at_ms)


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
