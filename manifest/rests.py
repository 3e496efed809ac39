"""When a partition at rest is looked at again, and which of its chains is asked then (docs/rfcs/0026). Pure.

What falls due by time is known from the manifest that was read last, so it needs no look. A look asks whether somebody
else has written: one GET of the number after the newest that was seen.
"""

import zlib
from typing import NamedTuple

__all__ = ["BOUNDARY_MS", "COLLECTED_AFTER_MS", "EVERY_ROUND", "Asks", "Rest", "Rests"]

COLLECTED_AFTER_MS = 300_000  # no number is collected sooner after its creation: the shortest grace period of services
BOUNDARY_MS = 4 * 3_600_000  # the boundary of a partition at rest is asked for at least so often
_PHASES = 1 << 16


class Asks(NamedTuple):
    """The chains that a look asks for a next number."""

    manifest: bool = False
    compactor: bool = False
    boundary: bool = False


class Rest:
    """The rest of one partition, from the moment at which everything was known (`now_ms`).

    Looks become rarer, in proportion to how long it has rested, until each asks one chain and each chain is asked
    within `bound_ms`. `round_ms`: how far apart looks can be made at best; a look that would be late at the next
    chance is made at this one. Times are by the store's clock. `bound_ms` 0: both chains at each chance.
    """

    def __init__(self, rests: "Rests", phase: float, now_ms: int) -> None:
        self._round_ms = rests.round_ms
        self._most_ms = (rests.bound_ms - rests.round_ms) // 2  # between two looks
        self._collected_after_ms = rests.collected_after_ms
        self._grows = 0.3 + 0.7 * phase
        self._since_ms = self._manifest_ms = self._compactor_ms = now_ms
        self._boundary_ms = now_ms - int(phase * BOUNDARY_MS)

    def asks(self, now_ms: int) -> Asks:
        """What to ask now."""
        first, last = sorted((self._manifest_ms, self._compactor_ms))
        if now_ms < last:  # the clock stepped back: how long it was is not known
            return Asks(True, True, True)
        boundary = self._asks_boundary(now_ms, first)
        gap_ms = min(int((last - self._since_ms) * self._grows), self._most_ms)
        if gap_ms <= self._round_ms:
            return Asks(True, True, boundary)
        if now_ms + self._round_ms - last <= gap_ms:
            return Asks()
        manifest = self._manifest_ms == first
        return Asks(manifest, not manifest, boundary)

    def asked(self, asks: Asks, now_ms: int) -> None:
        """Nothing new was found."""
        if asks.manifest:
            self._manifest_ms = now_ms
        if asks.compactor:
            self._compactor_ms = now_ms
        if asks.boundary:
            self._boundary_ms = now_ms

    def _asks_boundary(self, now_ms: int, asked_ms: int) -> bool:
        """SUBTLE! 1. We sleep for hours at manifest 7. 2. Manifests 8 to 400 come, and 8 is collected. 3. We ask for 8,
        find nothing, and rest for ever. Between two questions that are closer together than a grace period no number
        can come and be collected; after a longer pause the boundary is asked for, too. Test:
        tests/manifest/test_rests.py
        """
        return now_ms - asked_ms >= self._collected_after_ms or now_ms - self._boundary_ms >= BOUNDARY_MS


class Rests(NamedTuple):
    """How partitions rest: see Rest."""

    bound_ms: int
    round_ms: int
    collected_after_ms: int = COLLECTED_AFTER_MS

    def begin(self, name: str, now_ms: int) -> Rest:
        """Those that came to rest together are not looked at together: the name decides how soon."""
        return Rest(self, zlib.crc32(name.encode()) % _PHASES / _PHASES, now_ms)


EVERY_ROUND = Rests(0, 0)
