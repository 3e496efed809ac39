"""Numbers, and the work that pays a debt, in sentences for people. Pure."""

from collections.abc import Iterable, Sequence
from itertools import groupby
from typing import Protocol

__all__ = [
    "DEBT_TEXTS",
    "counted",
    "numbers_text",
    "quarantine_text",
    "retried_text",
    "room_text",
    "size_text",
    "span_text",
    "tried_again_text",
]

DEBT_TEXTS = {
    "floor": "drop segments",
    "overdue": "clean overdue records",
    "runs-pressure": "merge runs, to relieve reads",
    "l0-pressure": "merge L0 segments, to relieve appends",
    "dirty": "clean dirty records",
    "tombstones": "clean expired tombstones",
    "l0": "merge L0 segments",
    "runs": "merge runs",
    "cold": "move old segments",
    "fan-in": "merge some inputs first",
}
"""By the name of the debt (lithify.manifest.debt)."""

_KIB = 1024
_STEPS_MS = ((86_400_000, "d"), (3_600_000, "h"), (60_000, "min"), (1_000, "s"))


def span_text(span_ms: int) -> str:
    """A span of time: 3.5 h."""
    for step, unit in _STEPS_MS:
        if abs(span_ms) >= step:
            return f"{span_ms / step:.1f} {unit}"
    return f"{span_ms} ms"


def size_text(size: int) -> str:
    """Bytes: 1.5 MiB."""
    amount, unit = float(size), "B"
    for unit in ("B", "KiB", "MiB", "GiB", "TiB"):
        if amount < _KIB or unit == "TiB":
            break
        amount /= _KIB
    return f"{size} B" if unit == "B" else f"{amount:.1f} {unit}"


def counted(count: int, noun: str) -> str:
    """1 segment, 2 segments."""
    return f"{count} {noun}" if count == 1 else f"{count} {noun}s"


def room_text(l0_segments: int, most: int) -> str:
    """How appends fare, of a partition that is near its limit of L0 segments, or has reached it."""
    fare = "slowed down" if l0_segments < most else "refused"
    return f"appends are {fare}: {counted(l0_segments, 'L0 segment')} of at most {most}"


def numbers_text(noun: str, numbers: Sequence[int]) -> str:
    """partition 3; partitions 0 to 4, 7. Requires: `numbers` ascend."""
    stretches = [
        [number for _, number in stretch] for _, stretch in groupby(enumerate(numbers), lambda pair: pair[1] - pair[0])
    ]
    texts = [f"{each[0]} to {each[-1]}" if len(each) > 2 else ", ".join(map(str, each)) for each in stretches]
    return f"{noun}{'' if len(numbers) == 1 else 's'} {', '.join(texts)}"


class _Segment(Protocol):
    @property
    def id(self) -> str: ...
    @property
    def min_offset(self) -> int: ...
    @property
    def max_offset(self) -> int: ...


def retried_text(topic: str, partition: int, reason: str) -> str:
    """The `reason` of a quarantine, and the command that ends it once that is put right."""
    told = reason.rstrip(". ").removesuffix(", then retry")
    return f"{told}; then 'lithify compaction retry {topic} --partition {partition}'"


def tried_again_text(topic: str, partition: int, failing: str) -> str:
    """How the latest attempt of a job failed, and the command that says when the next one is."""
    return f"{failing}; 'lithify compaction explain {topic} --partition {partition}' says when it is tried again"


def quarantine_text(topic: str, partition: int, reason: str, damaged: str | None, live: Iterable[_Segment]) -> str:
    """Why compaction of a partition is stopped, and how to allow it again. `damaged`: the segment's id; it may no
    longer be `live`."""
    found = next((segment for segment in live if segment.id == damaged), None)
    held = "" if found is None else f"it holds offsets {found.min_offset} to {found.max_offset}; "
    way = f"'lithify compaction retry {topic} --partition {partition}'"
    told = f"quarantined: {reason.rstrip('. ')}; {held}once the segment is restored, or no longer in the log, run {way}"
    return told if found is None else f"{told}; the quarantine also ends when retention drops the segment"
