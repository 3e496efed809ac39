"""Where the bytes of a plan's sources lie. Of a far store, the footers that are asked for next are under way."""

from collections.abc import Callable
from typing import TYPE_CHECKING

from lithify.compactor.engine import WeighSegment
from lithify.manifest.model import SegmentRef
from lithify.segment.ranges import row_group_weights
from lithify.segment.read import SegmentReader
from lithify.segment.segments import Segments
from lithify.store.fetching import soon
from lithify.store.homes import Homes

if TYPE_CHECKING:
    from lithify.segment.ranges import Weight

__all__ = ["Weighing"]


class Weighing:
    """The weights of one plan. Holds the footers (64 KiB each) that are under way; to drop it is to give them up."""

    def __init__(self, homes: Homes) -> None:
        self._homes = homes
        self._begun: dict[str, tuple[SegmentReader, Callable[[], memoryview]]] = {}

    def weigh(self, request: WeighSegment) -> "tuple[Weight, ...]":
        """Raises Corrupt and NotFound, and reads the segment again if it is asked for again."""
        segments = Segments(request.keys, self._homes)
        for ref in (request.segment, *request.ahead):
            if ref.id not in self._begun:
                self._begun[ref.id] = _begun(segments, ref)
        reader, footer = self._begun.pop(request.segment.id)
        reader.open(footer())
        return tuple(row_group_weights(reader))


def _begun(segments: Segments, ref: SegmentRef) -> tuple[SegmentReader, Callable[[], memoryview]]:
    reader = segments.reader(ref)
    return reader, soon(reader.request(*reader.tail), far=reader.far, apart=reader.apart)
