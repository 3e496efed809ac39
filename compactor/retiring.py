"""Room in the manifest's list of retired segments, for a job or for retention. Pure."""

from collections.abc import Sequence

from lithify.manifest.debt import Due
from lithify.manifest.model import RETIRED_LISTS_MAX, RETIRED_MAX, Manifest
from lithify.manifest.pins import lists_waiting_text, waiting_text
from lithify.manifest.units import Unit

__all__ = ["has_no_room", "no_room", "segments_of"]


def has_no_room(due: Due, manifest: Manifest) -> str | None:
    """Why there is no room for `due`. A drop needs room for one segment: it takes as many as fit."""
    return no_room(due.units, manifest, 1 if due.kind == "drop" else None)


def no_room(chosen: Sequence[Unit], manifest: Manifest, segments: int | None = None) -> str | None:
    """Why the retired list cannot take `chosen` (or so many `segments`), and what to do. None: it can."""
    if len(manifest.retired_lists) + len(manifest.lists) > RETIRED_LISTS_MAX:  # a commit may replace all of them
        return lists_waiting_text(manifest)
    needed = len(segments_of(tuple(chosen))) if segments is None else segments
    if len(manifest.retired) + needed <= RETIRED_MAX:
        return None
    if needed <= RETIRED_MAX:
        return waiting_text(manifest)
    largest = max(chosen, key=lambda unit: len(unit.segments))
    if len(largest.segments) > RETIRED_MAX:
        way = f"run {largest.id} alone has {len(largest.segments)}: copy the data to a topic with more partitions"
    else:
        way = (
            "raise compaction.output.bytes, and first merge neighbouring inputs that have fewer segments "
            "('lithify compaction submit --sources')"
        )
    return f"it would replace {needed} segments, and one commit can retire {RETIRED_MAX}: {way}"


def segments_of(chosen: Sequence[Unit]) -> tuple[str, ...]:
    return tuple(segment.id for unit in chosen for segment in unit.segments)
