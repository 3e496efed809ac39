"""Open and check the segments of a partition by their references, whichever home each of them is in."""

from collections.abc import Iterable, Iterator
from dataclasses import dataclass

from lithify.manifest.homes import Where, in_warehouse, refuse_unreachable, where
from lithify.manifest.keys import PartitionKeys
from lithify.manifest.model import SegmentRef
from lithify.segment.cold_reads import ColdReads
from lithify.segment.columns import ALL, Columns
from lithify.segment.read import FETCH_BYTES_MAX, SegmentReader
from lithify.segment.verify import check_rows, verify, verify_quick, verify_steps
from lithify.store.homes import Homes
from lithify.store.port import Store

__all__ = ["Segments"]


@dataclass(frozen=True, slots=True)
class Segments:
    """Thread-safe; keeps nothing open. Each method raises InvalidRequest for a segment in none of `homes`, and NotFound
    or Corrupt like the function of lithify.segment with its name. `cold_reads` counts what its readers read elsewhere
    than in the warehouse."""

    keys: PartitionKeys
    homes: Homes
    cold_reads: ColdReads | None = None

    def reader(self, ref: SegmentRef, fetch_bytes: int = FETCH_BYTES_MAX, *, columns: Columns = ALL) -> SegmentReader:
        """It opens the segment at the first use."""
        told = None if self.cold_reads is None or in_warehouse(ref) else self.cold_reads.add
        return SegmentReader(*self.find(ref), ref, fetch_bytes=fetch_bytes, columns=columns, opens=False, told=told)

    def verify_quick(self, ref: SegmentRef) -> None:
        verify_quick(*self.find(ref), ref)

    def verify(self, ref: SegmentRef) -> None:
        verify(*self.find(ref), ref)

    def check_rows(self, ref: SegmentRef, steps: Iterator[None]) -> None:
        check_rows(*self.find(ref), ref, steps)

    def verify_steps(self, ref: SegmentRef, *, whole: bool) -> Iterator[None]:
        return verify_steps(*self.find(ref), ref, whole=whole)

    def refuse_unreachable(self, refs: Iterable[SegmentRef]) -> None:
        refuse_unreachable(self.keys, refs, self.homes.names)

    def place(self, ref: SegmentRef) -> Where:
        """The home of a segment, and its key there."""
        self.refuse_unreachable([ref])
        return where(self.keys, ref)

    def find(self, ref: SegmentRef) -> tuple[Store, str]:
        """The store of a segment, and its key there."""
        home, key = self.place(ref)
        return self.homes.store(home), key
