"""Which run lists a manifest has: how its runs are divided among them. Pure (docs/rfcs/0027).

A manifest's runs are looked at as rows, one for each segment, in the order of the runs and of the segments in them. The
first rows are listed, some in each list; the rest is in the manifest.
"""

from collections.abc import Iterable, Iterator
from itertools import groupby
from typing import NamedTuple

from lithify.manifest.model import Manifest, RunList, SegmentRef, SortedRun

__all__ = ["INLINE_MAX", "LIST_MAX", "Row", "Span", "as_runs", "laid_out", "rows_of", "with_lists"]

INLINE_MAX = 64  # segments of runs that a manifest lists itself: 20 KB
LIST_MAX = 2_048  # segments in one run list: 600 KB
_LISTS_PER_FULL = 4  # if there are more lists than this, for each that could be full, all are written anew


class Row(NamedTuple):
    """One segment of a run."""

    run: str
    reaches_to: int
    segment: SegmentRef


class Span(NamedTuple):
    rows: tuple[Row, ...]
    stored: RunList | None  # None: it is to be listed anew


def rows_of(runs: Iterable[SortedRun]) -> Iterator[Row]:
    return (Row(run.id, run.reaches_to, segment) for run in runs for segment in run.segments)


def as_runs(rows: Iterable[Row]) -> tuple[SortedRun, ...]:
    return tuple(
        SortedRun(id=name, reaches_to=reaches_to, segments=tuple(row.segment for row in some))
        for (name, reaches_to), some in groupby(rows, key=lambda row: row[:2])
    )


def laid_out(head: Manifest | None, runs: Iterable[SortedRun]) -> list[Span]:
    """What is listed of `runs`, in order. The rest is short enough for the manifest.

    A list of `head` stays if nothing in it changed. What is listed anew takes in the lists before it that are not
    longer than it: so there are few lists, and a segment is written again only a few times until its list is full.
    """
    rows = tuple(rows_of(runs))
    if len(rows) <= INLINE_MAX:
        return []
    spans = _spans(head, rows)
    if spans[-1].stored is None and len(spans[-1].rows) <= INLINE_MAX:
        rows = rows[: -len(spans.pop().rows)]
    found: list[Span] = []
    for span in spans:
        if span.stored is not None:
            found.append(span)
            continue
        anew = span.rows
        while found and len(found[-1].rows) <= min(len(anew), LIST_MAX - 1):
            anew = found.pop().rows + anew
        found += _cut(anew)
    scattered = len(found) > _LISTS_PER_FULL * (1 + len(rows) // LIST_MAX)
    return _cut(rows) if scattered else found


def _spans(head: Manifest | None, rows: tuple[Row, ...]) -> list[Span]:
    """`rows`, divided into what lists of `head` hold, and what is between these."""
    begins = {} if head is None else {held[0].segment.id: Span(held, each) for each, held in with_lists(head)}
    found: list[Span] = []
    at = since = 0
    while at < len(rows):
        known = begins.get(rows[at].segment.id)
        if known is None or rows[at : at + len(known.rows)] != known.rows:
            at += 1
            continue
        if since < at:
            found.append(Span(rows[since:at], None))
        found.append(known)
        at = since = at + len(known.rows)
    return found if since == at else [*found, Span(rows[since:], None)]


def with_lists(manifest: Manifest) -> Iterator[tuple[RunList, tuple[Row, ...]]]:
    """Its lists, each with what it holds."""
    rows = tuple(rows_of(manifest.runs)) if manifest.lists else ()
    at = 0
    for each in manifest.lists:
        yield each, rows[at : at + each.segments]
        at += each.segments


def _cut(rows: tuple[Row, ...]) -> list[Span]:
    return [Span(rows[at : at + LIST_MAX], None) for at in range(0, len(rows), LIST_MAX)]
