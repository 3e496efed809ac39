"""Which segments of a manifest may hold a key: what `may_hold` says of each, without asking each. Pure."""

from bisect import bisect_left, bisect_right
from itertools import accumulate, takewhile

from lithify.manifest.bounds import Bounds, may_hold
from lithify.manifest.model import Manifest, SegmentRef

__all__ = ["KeyMap"]


class KeyMap:
    """Made once per manifest. Memory: a few references to each segment."""

    def __init__(self, manifest: Manifest) -> None:
        self._alone = list(manifest.l0)
        self._runs: list[_Run] = []
        for run in manifest.runs:
            if len(run.segments) > 1 and all(ref.order == "key" for ref in run.segments):
                self._runs.append(_Run(run.segments))
            else:
                self._alone.extend(run.segments)

    def candidates(self, key: bytes, floor: int) -> list[SegmentRef]:
        """The segments that may hold a record of `key` with an offset ≥ `floor`, the one with the newest first."""
        wanted = Bounds.of_key(key, floor)
        found = [ref for ref in self._alone if may_hold(ref, wanted)]
        for run in self._runs:
            found.extend(ref for ref in run.near(key) if may_hold(ref, wanted))
        found.sort(key=_newest, reverse=True)
        return found


def _newest(ref: SegmentRef) -> int:
    return ref.max_offset


class _Run:
    """Segments in key order. Bounds are cut to 32 bytes, so two neighbours may have the same."""

    def __init__(self, refs: tuple[SegmentRef, ...]) -> None:
        self._refs = refs
        lows = [ref.min_key or b"" for ref in reversed(refs)]
        self._lows = list(accumulate(lows, min))[::-1]
        # From the first one on that has keys but no upper bound, all may hold what is above.
        bounded = takewhile(lambda ref: ref.max_key is not None or ref.min_key is None, refs)
        self._highs = list(accumulate((ref.max_key or b"" for ref in bounded), max))

    def near(self, key: bytes) -> tuple[SegmentRef, ...]:
        """All that may hold `key`, and perhaps others."""
        return self._refs[bisect_left(self._highs, key) : bisect_right(self._lows, key)]
