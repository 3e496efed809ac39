"""Thrift's compact protocol, as far as Parquet's page headers and page indexes need it (docs/rfcs/0025).

Structs are dicts by field number: what is unknown is read over, and kept. Bytes that are no struct raise ValueError.
"""

from typing import Any

__all__ = ["Fields", "field", "listing", "read", "span_of", "text", "whole"]

Fields = dict[int, Any]

_TRUE, _FALSE, _BYTE, _I16, _I32, _I64, _DOUBLE, _BINARY, _LIST, _SET, _MAP, _STRUCT = range(1, 13)
_DEPTH_MAX = 16


def read(content: bytes, start: int = 0) -> tuple[Fields, int]:
    """The struct that begins at `start`, and where it ends."""
    try:
        return _struct(content, start, 0)
    except IndexError:
        raise ValueError("a struct goes on beyond its bytes") from None


def span_of(content: bytes, wanted: int) -> tuple[int, int]:
    """Where the value of field `wanted` of the struct at the beginning starts and ends."""
    try:
        at, number = 0, 0
        while content[at]:
            kind, number, at = _head(content, at, number)
            end = at if kind in (_TRUE, _FALSE) else _value(content, at, kind, 1)[1]
            if number == wanted:
                return at, end
            at = end
    except IndexError:
        raise ValueError("a struct goes on beyond its bytes") from None
    raise ValueError(f"a struct has no field {wanted}")


def _struct(content: bytes, at: int, depth: int) -> tuple[Fields, int]:
    if depth > _DEPTH_MAX:
        raise ValueError("structs within structs are too deep")
    found: Fields = {}
    number = 0
    while content[at]:
        kind, number, at = _head(content, at, number)
        if kind in (_TRUE, _FALSE):
            found[number] = kind == _TRUE
        else:
            found[number], at = _value(content, at, kind, depth + 1)
    return found, at + 1


def _head(content: bytes, at: int, before: int) -> tuple[int, int, int]:
    """A field's type, its number, and where its value begins."""
    byte = content[at]
    if byte >> 4:
        return byte & 15, before + (byte >> 4), at + 1
    number, end = _zigzag(content, at + 1)
    return byte & 15, number, end


def _value(content: bytes, at: int, kind: int, depth: int) -> tuple[Any, int]:
    if kind in (_I16, _I32, _I64):
        return _zigzag(content, at)
    if kind == _BINARY:
        length, at = _varint(content, at)
        if at + length > len(content):
            raise IndexError
        return content[at : at + length], at + length
    if kind == _STRUCT:
        return _struct(content, at, depth)
    if kind in (_LIST, _SET):
        return _list(content, at, depth)
    if kind in (_BYTE, _TRUE, _FALSE):  # of a list: one byte each
        return content[at] == _TRUE if kind != _BYTE else content[at], at + 1
    if kind == _DOUBLE:
        if at + 8 > len(content):
            raise IndexError
        return content[at : at + 8], at + 8
    raise ValueError(f"there is no type {kind} here")


def _list(content: bytes, at: int, depth: int) -> tuple[list[Any], int]:
    if depth > _DEPTH_MAX:
        raise ValueError("lists within lists are too deep")
    size, kind = content[at] >> 4, content[at] & 15
    at += 1
    if size == 15:
        size, at = _varint(content, at)
    if size > len(content) - at:  # each takes at least a byte
        raise IndexError
    found: list[Any] = []
    for _ in range(size):
        value, at = _value(content, at, kind, depth + 1)
        found.append(value)
    return found, at


def _varint(content: bytes, at: int) -> tuple[int, int]:
    value, shift = 0, 0
    while True:
        byte = content[at]
        at += 1
        value |= (byte & 127) << shift
        if byte < 128:
            return value, at
        shift += 7
        if shift > 63:
            raise ValueError("a number is too long")


def _zigzag(content: bytes, at: int) -> tuple[int, int]:
    value, at = _varint(content, at)
    return (value >> 1) ^ -(value & 1), at


def whole(number: int) -> bytes:
    """A whole number, as the value of a field of 32 or 64 bits."""
    return _plain(number << 1 if number >= 0 else (-number << 1) - 1)


def text(content: bytes) -> bytes:
    """Bytes, as the value of a field."""
    return _plain(len(content)) + content


def listing(kind: str, values: list[bytes]) -> bytes:
    """A list of values of one kind: "i32", "text" or "struct"."""
    number = {"i32": _I32, "text": _BINARY, "struct": _STRUCT}[kind]
    size = len(values)
    head = bytes([size << 4 | number]) if size < 15 else bytes([15 << 4 | number]) + _plain(size)
    return head + b"".join(values)


def field(step: int, kind: str, value: bytes) -> bytes:
    """A field whose number is `step` (below 16) above that of the one before it."""
    number = {"i32": _I32, "i64": _I64, "text": _BINARY, "list": _LIST, "struct": _STRUCT}[kind]
    return bytes([step << 4 | number]) + value


def _plain(value: int) -> bytes:
    out = bytearray()
    while value > 127:
        out.append(value & 127 | 128)
        value >>= 7
    out.append(value)
    return bytes(out)
