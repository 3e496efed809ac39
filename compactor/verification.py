"""A verification in stretches of a few seconds, so that its caller can show life between them (P5)."""

from collections.abc import Iterator

from lithify.compactor.engine import VerifyOutputs
from lithify.manifest.ages import young
from lithify.manifest.model import SegmentRef
from lithify.segment.segments import Segments
from lithify.segment.verify import CHECKS_MAX
from lithify.store.driver import Driver
from lithify.store.errors import Corrupt, NotFound
from lithify.store.fetching import begun

__all__ = ["STRETCH_MS", "Verification"]

STRETCH_MS = 5_000  # together with the longest read, well below the lease


class Verification:
    """One check of the segments of `request`. It begins at the first `go_on`."""

    def __init__(self, driver: Driver, request: VerifyOutputs) -> None:
        self.request = request
        self._driver = driver
        self._bad: set[str] = set()
        self._steps = self._look()

    def go_on(self) -> frozenset[str] | None:
        """The ids of the bad segments, once all are checked; None: there is more to do."""
        began_ms = self._driver.now_ms()
        for _ in self._steps:
            if not young(began_ms, self._driver.now_ms(), STRETCH_MS):
                return None
        return frozenset(self._bad)

    def _look(self) -> Iterator[None]:
        segments = Segments(self.request.keys, self._driver.homes)

        def begin(ref: SegmentRef) -> Iterator[None]:
            return segments.verify_steps(ref, whole=self.request.whole)

        for ref, steps in begun(begin, self.request.segments, CHECKS_MAX):
            try:
                yield from steps
            except (NotFound, Corrupt):
                self._bad.add(ref.id)
            yield
