"""Records as rows in arrays, without Parquet: merged by the kernel's own rules, and told of in references. Pure."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from lithify.manifest.jobs import MergeRules
from lithify.manifest.model import SegmentRef
from lithify.segment.merge import Tally
from lithify.segment.rules import NO_HORIZON, Fate, fates, stamps

__all__ = ["KEY_DIGITS", "Rows", "joined", "merged", "reference"]

KEY_DIGITS = 12


@dataclass(frozen=True, slots=True)
class Rows:
    """Columns of equal length; `key` as a number, `horizon_ms` NO_HORIZON where there is none."""

    key: Any
    offset: Any
    timestamp_ms: Any
    tombstone: Any
    horizon_ms: Any

    def __len__(self) -> int:
        return len(self.key)

    def take(self, at: Any) -> "Rows":
        return Rows(self.key[at], self.offset[at], self.timestamp_ms[at], self.tombstone[at], self.horizon_ms[at])


def joined(parts: Sequence[Rows]) -> Rows:
    names = Rows.__slots__
    return Rows(**{name: np.concatenate([getattr(part, name) for part in parts]) for name in names})


def merged(rules: MergeRules, rows: Rows, raw_row_bytes: int) -> tuple[Rows, Tally]:
    """What `rules` keep of `rows`, in their order, and what became of all."""
    rows = rows.take(np.lexsort((rows.offset, rows.key)) if rules.order == "key" else np.argsort(rows.offset))
    superseded = np.zeros(len(rows), np.bool_)
    superseded[:-1] = rules.drop_superseded & (rows.key[1:] == rows.key[:-1])
    known = {"offset": rows.offset, "tombstone": rows.tombstone, "horizon_ms": rows.horizon_ms}
    fate = fates(rules, keyless=np.zeros(len(rows), np.bool_), superseded=superseded, **known)
    tally = Tally(rules.buckets)
    tally.count(fate, rows.offset, np.full(len(rows), raw_row_bytes, np.int64))
    stamp = stamps(rules, **known)
    stamped = np.where(stamp, rules.stamp_horizon_ms or 0, rows.horizon_ms)
    kept = Rows(rows.key, rows.offset, rows.timestamp_ms, rows.tombstone, stamped).take(fate == Fate.KEPT)
    return kept, tally


def reference(name: str, rows: Rows, row_bytes: int, order: str) -> SegmentRef:
    horizons = rows.horizon_ms[rows.horizon_ms != NO_HORIZON]
    return SegmentRef(
        id=name,
        bytes=len(rows) * row_bytes,
        raw_bytes=2 * len(rows) * row_bytes,
        rows=len(rows),
        min_key=b"%0*d" % (KEY_DIGITS, rows.key.min()),
        max_key=b"%0*d" % (KEY_DIGITS, rows.key.max()),
        min_offset=int(rows.offset.min()),
        max_offset=int(rows.offset.max()),
        min_timestamp_ms=int(rows.timestamp_ms.min()),
        max_timestamp_ms=int(rows.timestamp_ms.max()),
        tombstones=int(rows.tombstone.sum()),
        min_horizon_ms=int(horizons.min()) if len(horizons) else None,
        max_horizon_ms=int(horizons.max()) if len(horizons) else None,
        order=order,
        checksum="0" * 16,
    )
