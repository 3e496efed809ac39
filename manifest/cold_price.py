"""What it costs that a merge takes segments from cold homes, and when a clean is worth that (docs/rfcs/0031). Pure."""

from collections.abc import Iterable

import msgspec

from lithify.manifest.config import TopicConfig
from lithify.manifest.homes import in_warehouse
from lithify.manifest.model import SegmentRef
from lithify.manifest.words import counted
from lithify.store.home_prices import prices_of
from lithify.store.prices import DAY_MS, GB, MONTH_DAYS, STANDARD

__all__ = ["PAYBACK_DAYS", "ColdPrice", "cold_price", "kept_usd", "too_dear"]

PAYBACK_DAYS = 90  # the longest minimum storage duration of a class


class ColdPrice(msgspec.Struct, frozen=True, kw_only=True):
    """Of reading and replacing segments outside the warehouse, at list prices, without requests."""

    segments: int
    bytes: int
    retrieval_usd: float
    early_usd: float  # for what is left of their minimum storage duration, at least

    @property
    def usd(self) -> float:
        return self.retrieval_usd + self.early_usd


def cold_price(segments: Iterable[SegmentRef], config: TopicConfig, now_ms: int) -> ColdPrice:
    """Of those of `segments` that are outside the warehouse.

    A copy's age counts from its own writing. An earlier lithify did not note that: such a copy is no older than the
    time since its newest record had the age local.retention.ms, so at least the rest of the duration from then is paid.
    """
    cold = [ref for ref in segments if not in_warehouse(ref)]
    retrieval = early = 0.0
    for ref in cold:
        prices, size_gb = prices_of(ref.home), ref.bytes / GB
        moved_ms = ref.moved_ms or ref.max_timestamp_ms + max(config.local_retention_ms, 0)
        left_days = prices.days_min - min(max(now_ms - moved_ms, 0) / DAY_MS, prices.days_min)
        retrieval += prices.retrieved_gb * size_gb
        early += prices.stored_gb_month * size_gb * left_days / MONTH_DAYS
    size = sum(ref.bytes for ref in cold)
    return ColdPrice(segments=len(cold), bytes=size, retrieval_usd=retrieval, early_usd=early)


def kept_usd(dirty_bytes: int) -> float:
    """What a clean can save at most: each dirty record makes one record superfluous at most, so about as many bytes as
    are dirty, which the warehouse would store for PAYBACK_DAYS."""
    return STANDARD.stored_gb_month * dirty_bytes / GB * PAYBACK_DAYS / MONTH_DAYS


def too_dear(segments: Iterable[SegmentRef], dirty_bytes: int, config: TopicConfig, now_ms: int) -> str | None:
    """Why a clean of `segments` for the dirty ratio alone waits: what it takes from cold homes costs more than it can
    save. That ends when more is dirty; in a partition that nobody writes to, it may last. None: it is worth it."""
    price, most = cold_price(segments, config, now_ms), kept_usd(dirty_bytes)
    if price.usd <= most:
        return None
    return (
        f"{counted(price.segments, 'segment')} of its sources in cold homes would cost {price.usd:.6f} USD "
        f"({price.retrieval_usd:.6f} retrieval, {price.early_usd:.6f} for their minimum storage duration), and what is "
        f"dirty at most {most:.6f} USD in {PAYBACK_DAYS} days; it waits until more is dirty, or for "
        "max.compaction.lag.ms if that is set"
    )
