"""Converts bytes in any of Arrow's layouts to the plain one: 32-bit offsets into one content buffer.

Views, dictionaries and large offsets may represent more than that layout can hold, from a few bytes of memory. Arrow's
own cast of views does not notice, and its offsets wrap. So the represented size is counted before a column is
converted.
"""

from collections.abc import Callable
from typing import Any

import numpy as np
import pyarrow as pa

from lithify.segment.arrays import Flags, Longs, from_flags, longs, nulls

__all__ = ["as_bytes", "as_lists", "content_bytes", "is_bytes", "is_pairs"]

_T = pa.types
_SHORT: tuple[Callable[[Any], bool], ...] = (_T.is_binary, _T.is_string)
_LARGE: tuple[Callable[[Any], bool], ...] = (_T.is_large_binary, _T.is_large_string)
_VIEWS: tuple[Callable[[Any], bool], ...] = (_T.is_binary_view, _T.is_string_view)
_LISTS: tuple[Callable[[Any], bool], ...] = (_T.is_list, _T.is_large_list, _T.is_fixed_size_list, _T.is_map)
_PLAIN_BYTES_MAX = (1 << 31) - 1
_ENTRY_BYTES = 8  # of a list of pairs in the plain layout: the ends of its key and its value
_VIEW_WORDS = 4  # 32-bit words of a view, the first is its length


def _is(kind: Any, tests: tuple[Callable[[Any], bool], ...]) -> bool:
    return any(test(kind) for test in tests)


def is_bytes(kind: Any) -> bool:
    """Whether `as_bytes` takes arrays of this type."""
    if _T.is_dictionary(kind):
        kind = kind.value_type
    return _is(kind, (*_SHORT, *_LARGE, *_VIEWS, _T.is_fixed_size_binary, _T.is_null))


def is_pairs(kind: Any) -> bool:
    """Whether `as_lists` takes arrays of this type: lists of keys and values, or maps."""
    if _T.is_map(kind):
        return is_bytes(kind.key_type) and is_bytes(kind.item_type)
    entry = kind.value_type if _is(kind, _LISTS) else None
    if entry is None or not _T.is_struct(entry) or [child.name for child in entry] != ["key", "value"]:
        return False
    return all(is_bytes(child.type) for child in entry)


def content_bytes(array: Any) -> int:
    """The size of all values together, once each is stored by itself, for an array with `is_bytes` or `is_pairs`. Of
    lists, entries under a null count too, and for each entry the lengths of its key and value."""
    if _is(array.type, _LISTS):
        _, absent, *columns = _entries(array)
        return len(absent) * _ENTRY_BYTES + sum(content_bytes(column) for column in columns)
    return int(_lengths(array).sum())


def _lengths(array: Any) -> Longs:
    kind = array.type
    if len(array) == 0 or _T.is_null(kind):
        return np.zeros(len(array), np.int64)
    if _T.is_dictionary(kind):
        found, codes = _lengths(array.dictionary), array.indices.cast(pa.int64())
        known = np.where(nulls(codes), len(found), longs(codes))
        return np.append(found, 0).take(known, mode="clip")
    if _T.is_fixed_size_binary(kind):
        lengths = np.full(len(array), kind.byte_width, np.int64)
    elif _is(kind, _VIEWS):
        words = np.frombuffer(array.buffers()[1], np.int32)[::_VIEW_WORDS]
        lengths = words[array.offset : array.offset + len(array)].astype(np.int64)
    else:
        lengths = np.diff(_offsets(array))
    lengths[nulls(array)] = 0
    return lengths


def _offsets(array: Any) -> Longs:
    """Where each value of a non-empty array begins, and where the last ends."""
    if _T.is_fixed_size_list(array.type):
        return np.arange(array.offset, array.offset + len(array) + 1, dtype=np.int64) * array.type.list_size
    wide = _is(array.type, (*_LARGE, _T.is_large_list))
    whole = np.frombuffer(array.buffers()[1], np.int64 if wide else np.int32)
    return whole[array.offset : array.offset + len(array) + 1].astype(np.int64)


def as_bytes(array: Any) -> pa.Array:
    """The same values as type `binary`. Requires: `content_bytes` is below 2 GiB. Raises ArrowInvalid for a dictionary
    above that, however little of it is used."""
    kind = array.type
    if _T.is_dictionary(kind):  # by hand: Arrow cannot decode dictionaries of views
        if content_bytes(array.dictionary) > _PLAIN_BYTES_MAX:
            raise pa.ArrowInvalid("the dictionary is too large")
        return as_bytes(array.dictionary).take(array.indices)
    if not _is(kind, _LARGE) or len(array) == 0:
        return array.cast(pa.binary())
    offsets = _offsets(array)  # by hand: Arrow rejects a short slice of a long array
    first, last = int(offsets[0]), int(offsets[-1])
    content = array.buffers()[2]
    content = pa.py_buffer(b"") if content is None else content.slice(first, last - first)
    return pa.Array.from_buffers(pa.binary(), len(array), [_validity(array), _short(offsets - first), content])


def as_lists(array: Any) -> pa.Array:
    """Pairs as lists of structs of a text `key` and bytes `value`. Requires: `content_bytes` is below 2 GiB. Raises
    ArrowInvalid if a key is not valid UTF-8."""
    if len(array) == 0:
        return pa.array([], pa.list_(pa.struct([("key", pa.string()), ("value", pa.binary())])))
    offsets, absent, keys, values = _entries(array)
    pairs = [as_bytes(keys).cast(pa.string()), as_bytes(values)]
    entries = pa.StructArray.from_arrays(pairs, names=["key", "value"], mask=from_flags(absent))
    buffers = [_validity(array), _short(offsets)]
    return pa.Array.from_buffers(pa.list_(entries.type), len(array), buffers, children=[entries])


def _entries(array: Any) -> tuple[Longs, Flags, Any, Any]:
    """For lists: where each begins among their entries, which entries are null, and the entries' keys and values."""
    if len(array) == 0:
        return np.zeros(1, np.int64), np.zeros(0, np.bool_), pa.nulls(0), pa.nulls(0)
    offsets = _offsets(array)
    first, count = int(offsets[0]), int(offsets[-1] - offsets[0])
    if _T.is_map(array.type):
        keys, values = (column.slice(first, count) for column in (array.keys, array.items))
        return offsets - first, np.zeros(count, np.bool_), keys, values
    entries = array.values.slice(first, count)
    return offsets - first, nulls(entries), entries.field(0), entries.field(1)


def _validity(array: Any) -> pa.Buffer:
    return pa.py_buffer(np.packbits(~nulls(array), bitorder="little"))


def _short(offsets: Longs) -> pa.Buffer:
    return pa.py_buffer(np.ascontiguousarray(offsets, np.int32))
