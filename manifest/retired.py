"""Segments that are no longer live, but may still be read by earlier manifests (P16). Pure."""

from collections.abc import Iterable

from lithify.manifest.model import Retired, SegmentRef

__all__ = ["retire"]


def retire(segments: Iterable[SegmentRef], number: int) -> list[Retired]:
    """The retired entries of `segments`, as of manifest `number` (P16)."""
    return [
        Retired(
            id=s.id,
            home=s.home,
            bytes=s.bytes,
            rows=s.rows,
            base_offset=s.base_offset,
            added_at=s.added_at,
            retired_at=number,
        )
        for s in segments
    ]
