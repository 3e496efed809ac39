"""Are segments what their references say? A look that may take longer than a lease, with signs of life (P5)."""

from collections.abc import Awaitable, Callable

from lithify.compactor.engine import VerifyOutputs
from lithify.manifest.keys import PartitionKeys
from lithify.manifest.model import SegmentRef

__all__ = ["ShowLife", "look"]

ShowLife = Callable[[], Awaitable[None]]


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
