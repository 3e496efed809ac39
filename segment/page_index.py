"""Where the pages of a row group lie and which keys they hold: Parquet's page index, with a checksum. Pure.

A segment with more rows than a page notes, in its footer's key-value metadata, where the indexes of each row group are
and what their checksum is (docs/rfcs/0025). The entry has a fixed length, so that the writer, who knows all that only
after the footer was made, can put it in place of zeros.
"""

import itertools
from collections.abc import Sequence
from typing import Any, NamedTuple

import xxhash

from lithify.segment import thrift
from lithify.segment.key_filter import KeyFilter

__all__ = ["PAGE_INDEXES", "Page", "RowGroupIndex", "Stripe", "locate", "parts_of", "placeholder", "put"]

PAGE_INDEXES = "lithify.page_indexes"
# For each row group: position and length of the key's bloom filter, of its column index and of all offset indexes, each
# as 10 and 8 hexadecimal digits; then the XXH3-64 of these three parts.
_PART = 18
_ENTRY = 3 * _PART + 16
_FILTER, _COLUMN_INDEX, _OFFSET_INDEXES = range(3)

Part = tuple[int, int]  # position in the object, length


class Page(NamedTuple):
    start: int  # position in the object
    bytes: int  # with its header
    rows: int


class Stripe(NamedTuple):
    """Rows of a row group between which and their neighbours the pages of all columns end. `low` and `high` are the
    exact bounds of its keys; None: it has no keyed record."""

    rows: int
    low: bytes | None
    high: bytes | None
    columns: tuple[tuple[Page, ...], ...]

    def may_hold(self, key: bytes) -> bool:
        return self.low is not None and self.high is not None and self.low <= key <= self.high


class RowGroupIndex(NamedTuple):
    filter: KeyFilter | None
    stripes: tuple[Stripe, ...]  # empty: it can only be read whole
    bytes: int


def placeholder(row_groups: int) -> str:
    return "0" * (_ENTRY * row_groups)


def put(footer: bytes, held: bytes, held_at: int) -> bytes:
    """`footer` with the entry in place of its zeros, if it has any. `held`: the bytes of the object from position
    `held_at` up to the footer."""
    groups = thrift.read(footer)[0][4]
    blank = placeholder(len(groups)).encode()
    at = footer.rfind(PAGE_INDEXES.encode())
    at = footer.find(blank, at) if at >= 0 else -1
    if at < 0:
        return footer
    entry = "".join(_entry(_parts(group[1]), held, held_at) for group in groups).encode()
    return footer[:at] + entry + footer[at + len(entry) :]


def _parts(columns: Sequence[thrift.Fields]) -> list[Part]:
    key = columns[0]
    offsets: list[Part] = [(column.get(4, 0), column.get(5, 0)) for column in columns]
    start, length = offsets[0][0], sum(size for _, size in offsets)
    together = all(after[0] == before[0] + before[1] for before, after in itertools.pairwise(offsets))
    return [
        (key[3].get(14, 0), key[3].get(15, 0)),
        (key.get(6, 0), key.get(7, 0)),
        (start, length) if together else (0, 0),
    ]


def _entry(parts: Sequence[Part], held: bytes, held_at: int) -> str:
    digest = xxhash.xxh3_64()
    for start, length in parts:
        digest.update(held[start - held_at :][:length] if length else b"")
    return "".join(f"{start:010x}{length:08x}" for start, length in parts) + digest.hexdigest()


def parts_of(metadata: dict[bytes, bytes], row_group: int) -> list[Part] | None:
    """The parts that make the index of a row group; None: the segment has none. Raises ValueError."""
    entry = metadata.get(PAGE_INDEXES.encode(), b"")[row_group * _ENTRY :][:_ENTRY]
    if not entry:
        return None
    places = [entry[at : at + _PART] for at in range(0, 3 * _PART, _PART)]
    return [(int(place[:10], 16), int(place[10:], 16)) for place in places]


def locate(metadata: dict[bytes, bytes], row_group: int, parts: Sequence[bytes], rows: int) -> RowGroupIndex | None:
    """The index of a row group of so many `rows`, from the contents of `parts_of`; None: they fail their checksum.
    Raises ValueError if the right bytes make no index."""
    digest = xxhash.xxh3_64()
    for part in parts:
        digest.update(part)
    claimed = metadata[PAGE_INDEXES.encode()][row_group * _ENTRY :][:_ENTRY][-16:]
    if digest.hexdigest().encode() != claimed:
        return None
    found = KeyFilter(parts[_FILTER]) if parts[_FILTER] else None
    stripes: tuple[Stripe, ...] = ()
    if parts[_COLUMN_INDEX] and parts[_OFFSET_INDEXES]:
        stripes = _stripes(_bounds(parts[_COLUMN_INDEX]), _pages(parts[_OFFSET_INDEXES], rows), rows)
    size = sum(map(len, parts)) + 1_000 * len(stripes)
    return RowGroupIndex(found, stripes, size)


def _bounds(content: bytes) -> list[tuple[bytes, bytes] | None]:
    """The smallest and the largest key of each page; None: it has none."""
    index = thrift.read(content)[0]
    return [None if null else (low, high) for null, low, high in zip(index[1], index[2], index[3], strict=True)]


def _pages(content: bytes, rows: int) -> list[list[tuple[int, Page]]]:
    """The pages of each column, with the number of their first row."""
    columns: list[list[tuple[int, Page]]] = []
    at = 0
    while at < len(content):
        index, at = thrift.read(content, at)
        places: list[Any] = index[1]
        firsts = [place[3] for place in places] + [rows]
        if firsts[0] != 0 or any(after <= before for before, after in itertools.pairwise(firsts)):
            raise ValueError("pages without rows")
        columns.append(
            [
                (first, Page(place[1], place[2], after - first))
                for place, first, after in zip(places, firsts, firsts[1:], strict=False)
            ]
        )
    return columns


def _stripes(
    bounds: list[tuple[bytes, bytes] | None], columns: list[list[tuple[int, Page]]], rows: int
) -> tuple[Stripe, ...]:
    if len(bounds) != len(columns[0]):
        raise ValueError("the two indexes of the key disagree")
    common = sorted(set.intersection(*({first for first, _ in pages} for pages in columns)))
    stripes: list[Stripe] = []
    taken = [0] * len(columns)
    for first, end in zip(common, [*common[1:], rows], strict=True):
        parts: list[tuple[Page, ...]] = []
        keys: list[tuple[bytes, bytes]] = []
        for number, pages in enumerate(columns):
            start = stop = taken[number]
            while stop < len(pages) and pages[stop][0] < end:
                stop += 1
            parts.append(tuple(page for _, page in pages[start:stop]))
            if number == 0:
                keys = [bound for bound in bounds[start:stop] if bound is not None]
            taken[number] = stop
        low, high = (min(k for k, _ in keys), max(k for _, k in keys)) if keys else (None, None)
        stripes.append(Stripe(end - first, low, high, tuple(parts)))
    return tuple(stripes)
