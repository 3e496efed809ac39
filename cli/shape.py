"""The shape of a partition, drawn: what lies loose, the sorted runs as bars, the floor, and what is pinned.

Bars lie over the key range, cut where segments begin and end: key bounds in order, at equal distances. For topics in
offset order they lie over the offsets. Keys themselves are contents of records, and are not shown. Pure.
"""

import bisect
from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, NamedTuple

from lithify.cli.output import count_text, counted_text, size_text

if TYPE_CHECKING:
    from lithify.log.info import PartitionInfo, SegmentInfo

__all__ = ["FILLED", "PLAIN", "shape_lines"]

L0_DRAWN_MAX = 8
_BAR_CELLS_MIN = 16

FILLED = "░▒▓█"  # from the smallest to the largest segment
PLAIN = ".:=#"  # where a terminal has no other characters


class _Bar(NamedTuple):
    label: str
    segments: "Sequence[SegmentInfo]"


def shape_lines(part: "PartitionInfo", width: int, shades: str = FILLED) -> Iterator[str]:
    """Drawn for `width` cells. Sizes are told by shades: a segment's of the largest one, in four steps."""
    runs = sorted((_Bar(run.id, run.segments) for run in part.runs), key=lambda bar: _size(bar.segments))
    newest = part.l0[-L0_DRAWN_MAX:]
    bars = [*(_Bar(ref.id, (ref,)) for ref in reversed(newest)), *runs]
    if not bars:
        yield "no segments yet"
        return
    by_key = all(ref.order == "key" for bar in bars for ref in bar.segments)
    label = max(len(bar.label) for bar in bars)
    figures = max(len(_figures(bar.segments)) for bar in bars)
    cells = max(width - label - figures - 6, _BAR_CELLS_MIN)
    axis = _KeyAxis(bars, cells) if by_key else _OffsetAxis(part, cells)
    largest = max(ref.bytes for bar in bars for ref in bar.segments)

    def drawn(bar: _Bar) -> str:
        line = [" "] * cells
        for ref in bar.segments:
            first, last = axis.stretch(ref)
            shade = shades[min(3, 4 * ref.bytes // (largest + 1))]
            line[first : last + 1] = shade * (last - first + 1)
        return f"  {bar.label:{label}}  {''.join(line)}  {_figures(bar.segments)}".rstrip()

    what = "keys, from the lowest to the highest" if by_key else "offsets, from the lowest to the highest"
    yield f"{'':{label + 4}}{what}"
    yield f"L0: {counted_text(len(part.l0), 'segment')}, {size_text(_size(part.l0))}"
    yield from map(drawn, bars[: len(newest)])
    if len(part.l0) > len(newest):
        yield f"  and {counted_text(len(part.l0) - len(newest), 'older segment')}"
    yield f"runs: {len(runs)}, {size_text(sum(_size(bar.segments) for bar in runs))}"
    yield from map(drawn, bars[len(newest) :])
    if isinstance(axis, _OffsetAxis):
        at = axis.place(part.log_start_offset)
        yield f"  {'':{label}}  {'':{at}}^ the log starts here"


def _size(segments: "Sequence[SegmentInfo]") -> int:
    return sum(ref.bytes for ref in segments)


def _figures(segments: "Sequence[SegmentInfo]") -> str:
    rows = count_text(sum(ref.rows for ref in segments))
    pieces = f"  {len(segments)} segments" if len(segments) > 1 else ""
    return f"{size_text(_size(segments)):>9} {rows:>9} rows{pieces}"


class _KeyAxis:
    def __init__(self, bars: Sequence[_Bar], cells: int) -> None:
        bounds = {key for bar in bars for ref in bar.segments for key in (ref.min_key, ref.max_key) if key is not None}
        self._bounds = sorted(bounds)
        self._cells = cells

    def stretch(self, ref: "SegmentInfo") -> tuple[int, int]:
        """The first and the last cell of a segment's keys; without a bound it reaches to the end of the axis."""
        first = 0 if ref.min_key is None else self._place(ref.min_key)
        last = self._cells - 1 if ref.max_key is None else self._place(ref.max_key)
        return first, max(first, last)

    def _place(self, key: bytes) -> int:
        return bisect.bisect_left(self._bounds, key) * (self._cells - 1) // max(1, len(self._bounds) - 1)


class _OffsetAxis:
    def __init__(self, part: "PartitionInfo", cells: int) -> None:
        refs = [*part.l0, *(ref for run in part.runs for ref in run.segments)]
        self._first = min([part.log_start_offset, *(ref.min_offset for ref in refs)])
        self._span = max(1, part.next_offset - 1 - self._first)
        self._cells = cells

    def stretch(self, ref: "SegmentInfo") -> tuple[int, int]:
        return self.place(ref.min_offset), self.place(ref.max_offset)

    def place(self, offset: int) -> int:
        return min(self._cells - 1, (offset - self._first) * (self._cells - 1) // self._span)
