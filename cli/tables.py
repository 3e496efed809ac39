"""Tables of a terminal: as many columns as fit, and never a word, a number or an id in two pieces.

Too narrow, a table wraps its headers between words. Then prose goes to lines of its own below each row, the columns of
least interest are left out, and at last what names the row gets a line of its own above it. Pure.
"""

from collections.abc import Iterator, Sequence
from typing import NamedTuple

__all__ = ["Columns", "Line", "drawn", "wrapped"]

_GAP = 2  # cells between two columns
_INDENT = "  "
_PROSE_CELLS_MIN = 40  # narrower, prose is easier to read below its row


class Columns(NamedTuple):
    """The columns of a table. Those whose name begins with '#' are numbers, aligned to the right."""

    names: Sequence[str]
    less: Sequence[str] = ()  # may be left out, the first ones first
    lead: str = ""  # names the row: if it is too long, it stands above it
    prose: bool = False  # the last column is text of any length


class Line(NamedTuple):
    text: str
    head: bool = False


class _Layout(NamedTuple):
    across: list[int]  # columns side by side
    widths: list[int]  # of these
    lead: int | None = None  # the column above each row
    below: int | None = None  # the column below each row
    left_out: tuple[int, ...] = ()


def drawn(columns: Columns, cells: Sequence[Sequence[str]], width: int, *, wide: bool = False) -> Iterator[Line]:
    """The lines of a table for a terminal of `width` cells. `wide`: all columns side by side, whatever the width."""
    names = [name.removeprefix("#") for name in columns.names]
    layout = _all(names, cells) if wide else _fitting(columns, names, cells, width)
    right = {at for at, name in enumerate(columns.names) if name.startswith("#")}
    indent = "" if layout.lead is None else _INDENT
    heads = [_words(names[at], size) for at, size in zip(layout.across, layout.widths, strict=True)]
    if any(names):
        if layout.lead is not None:
            yield Line(names[layout.lead], head=True)
        for line in _rows(layout, heads, right, bottom=True):
            yield Line(indent + line, head=True)
    for row in cells:
        if layout.lead is not None:
            yield Line(row[layout.lead])
        prose, pieces = layout.below, [[row[at]] for at in layout.across]
        if columns.prose and prose is None and not wide:
            last, room = len(names) - 1, layout.widths[-1]
            if any(_cells(word) > room for word in row[last].split()):
                prose, pieces[-1] = last, [""]  # of this row
            else:
                pieces[-1] = _words(row[last], room)
        for line in _rows(layout, pieces, right):
            yield Line(indent + line)
        if prose is not None and row[prose]:
            label = f"{names[prose]}: " if prose == layout.below else ""
            yield from map(Line, wrapped(f"{indent}{_INDENT}{label}{row[prose]}", width, indent + _INDENT * 2))
    if layout.left_out:
        text = f"left out: {', '.join(names[at] for at in layout.left_out)} (--wide shows all columns)"
        yield from map(Line, wrapped(text, width))


def wrapped(text: str, width: int, indent: str | None = None) -> list[str]:
    """Lines of at most `width` cells, but words stay whole. `indent`: of the second and later lines; by default two
    more than the text's own."""
    if _cells(text) <= width:
        return [text]
    own = text[: len(text) - len(text.lstrip(" "))]
    further = own + _INDENT if indent is None else indent
    lines = [own]
    started = False
    for word in text.split():
        line = f"{lines[-1]} {word}" if started else lines[-1] + word
        if started and _cells(line) > width:
            lines.append(further + word)
        else:
            lines[-1] = line
        started = True
    return lines


def _fitting(columns: Columns, names: list[str], cells: Sequence[Sequence[str]], width: int) -> _Layout:
    every = _all(names, cells)
    if _total(every.widths) <= width:
        return every
    longest = [max((_cells(word) for word in name.split()), default=0) for name in names]
    least = [max([head, *(_cells(row[at]) for row in cells)]) for at, head in enumerate(longest)]
    last = len(names) - 1
    across = list(range(len(names)))
    if _total(least) <= width:
        return _Layout(across, least)
    below = None
    if columns.prose:
        rest = width - _total(least[:last]) - _GAP
        if rest >= _PROSE_CELLS_MIN:
            return _Layout(across, [*least[:last], rest])
        below = across.pop()

    def fits(*more: int, indent: str = "") -> bool:
        return len(indent) + _total([least[at] for at in (*across, *more)]) <= width

    left_out: list[int] = []
    for name in columns.less:
        if fits():
            break
        left_out.append(names.index(name))
        across.remove(left_out[-1])
    lead, indent = None, ""
    if not fits() and columns.lead:
        lead, indent = names.index(columns.lead), _INDENT
        across.remove(lead)
    for at in reversed(left_out[:]):  # there may be room again
        if fits(at, indent=indent):
            across.append(at)
            left_out.remove(at)
    across.sort()
    return _Layout(across, [least[at] for at in across], lead, below, tuple(sorted(left_out)))


def _all(names: list[str], cells: Sequence[Sequence[str]]) -> _Layout:
    widths = [max([_cells(name), *(_cells(row[at]) for row in cells)]) for at, name in enumerate(names)]
    return _Layout(list(range(len(names))), widths)


def _total(widths: Sequence[int]) -> int:
    return sum(widths) + _GAP * (len(widths) - 1)


def _words(text: str, width: int) -> list[str]:
    return wrapped(text.strip(), width, "") or [""]


def _rows(layout: _Layout, pieces: list[list[str]], right: set[int], *, bottom: bool = False) -> Iterator[str]:
    """The lines of one row, whose cells may have several: aligned to the top, or to the `bottom`."""
    height = max(map(len, pieces), default=0)
    for number in range(height):
        line = ""
        for at, size, piece in zip(layout.across, layout.widths, pieces, strict=True):
            place = number - (height - len(piece) if bottom else 0)
            text = piece[place] if 0 <= place < len(piece) else ""
            space = " " * (size - _cells(text))
            line += (space + text if at in right else text + space) + " " * _GAP
        yield line.rstrip()


def _cells(text: str) -> int:
    """Cells that a terminal shows it in: two for each East Asian character."""
    from rich.cells import cell_len

    return cell_len(text)
