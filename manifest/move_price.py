"""What it takes, and costs at list prices, to move segments to another home (docs/rfcs/0031). Pure.

A copy that the store makes by itself is no cheaper in this than one that passes through a worker: S3 charges the copy
request at the price of the destination's class, and the retrieval of the source's bytes if its class charges for that
(docs/cost-of-homes.md, "What a move costs").
"""

from collections.abc import Iterable, Sequence
from typing import NamedTuple

import msgspec

from lithify.manifest.cold_price import cold_price
from lithify.manifest.config import TopicConfig
from lithify.manifest.model import SegmentRef
from lithify.store.home_names import physical
from lithify.store.home_prices import prices_of

__all__ = ["COPY_BYTES", "PART_BYTES", "Copying", "MovePrice", "by_the_store", "copying", "move_price"]

PART_BYTES = 8 << 20  # that one request reads, or writes, of what passes through a worker
COPY_BYTES = 1 << 30  # that one request has the store copy
_SHOWN_USD = 0.0000005  # with six digits after the point


class Copying(NamedTuple):
    """The requests for one segment."""

    reads: int  # GET and HEAD, of what is copied
    looks: int  # GET and HEAD, of the copy
    writes: int  # PUT, COPY and POST


def by_the_store(source: str, target: str) -> bool:
    """Whether the store itself copies from home `source` to home `target`: within the warehouse's own bucket. Between
    two buckets of one S3 it may, but that is not known before it was tried."""
    return physical(source) == physical(target)


def copying(size: int, *, by_the_store: bool) -> Copying:
    """To copy an object of `size` bytes, and to open the copy. If the store copies it, it is asked for the checksums of
    both; else the bytes pass through a worker."""
    if by_the_store:
        return Copying(1, 4, _in_parts(size, COPY_BYTES))
    return Copying(max(-(-size // PART_BYTES), 1), 3, _in_parts(size, PART_BYTES))


def _in_parts(size: int, part: int) -> int:
    """With one to begin and one to complete, if there are several."""
    parts = -(-size // part)
    return 1 if parts <= 1 else parts + 2


class MovePrice(msgspec.Struct, frozen=True, kw_only=True):
    """Of a move, in dollars at the list prices of S3; a home that is no S3 costs nothing."""

    segments: int
    bytes: int
    requests_usd: float  # those of the copies, without the compactor's own
    retrieval_usd: float  # of what lies in a class that charges for reading
    early_usd: float  # for what is left of the minimum storage duration of the class that they leave

    @property
    def usd(self) -> float:
        return self.requests_usd + self.retrieval_usd + self.early_usd

    @property
    def text(self) -> str:
        """In dollars, with its parts, but for those that are too small to be shown."""
        parts = (
            (self.requests_usd, "requests"),
            (self.retrieval_usd, "retrieval"),
            (self.early_usd, "for the minimum storage duration"),
        )
        if self.usd < _SHOWN_USD:
            return "less than 0.000001 USD at S3's list prices"
        shown = ", ".join(f"{usd:.6f} {what}" for usd, what in parts if usd >= _SHOWN_USD)
        return f"{self.usd:.6f} USD at S3's list prices ({shown})"


def move_price(segments: Iterable[SegmentRef], home: str, config: TopicConfig, now_ms: int) -> MovePrice:
    """Of copying `segments` to `home`, and of deleting them where they are."""
    moved: Sequence[SegmentRef] = tuple(segments)
    leaves = cold_price(moved, config, now_ms)
    return MovePrice(
        segments=len(moved),
        bytes=sum(ref.bytes for ref in moved),
        requests_usd=sum(_requests_usd(ref, home) for ref in moved),
        retrieval_usd=leaves.retrieval_usd,
        early_usd=leaves.early_usd,
    )


def _requests_usd(ref: SegmentRef, home: str) -> float:
    made = copying(ref.bytes, by_the_store=by_the_store(ref.home, home))
    source, target = prices_of(ref.home), prices_of(home)
    return made.reads * source.get + made.looks * target.get + made.writes * target.put
