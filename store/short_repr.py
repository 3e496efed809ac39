"""Reprs of answers, for a REPL and for tracebacks: a line, however much an answer holds. Pure."""

from typing import Any

import msgspec

__all__ = ["named_repr", "short_repr", "shortened"]

_SHOWN_MAX = 4
_TEXT_MAX = 80
_NAME_MAX = 120


def short_repr(self: Any) -> str:
    """A struct's `__repr__`. Structs in a collection are counted, not shown; so is a collection of more than a few."""
    fields = (f"{name}={_short(getattr(self, name))}" for name in self.__struct_fields__)
    return f"{type(self).__name__}({', '.join(fields)})"


def named_repr(it: object, name: str, *figures: str) -> str:
    """Of an object that is no struct: its class, what it is about, and a few figures. At most 200 characters, if the
    figures are short. Requires: `name` holds no secret."""
    return f"{type(it).__name__}({', '.join([repr(shortened(name)), *figures])})"


def shortened(name: str, most: int = _NAME_MAX) -> str:
    """Without its middle, if it is longer."""
    return name if len(name) <= most else f"{name[: most - most // 3 - 1]}…{name[-(most // 3) :]}"


def _short(value: Any) -> str:
    if isinstance(value, tuple | list | dict):
        plain = len(value) <= _SHOWN_MAX and not any(isinstance(each, msgspec.Struct) for each in value)
        return repr(value) if plain else f"<{len(value)}>"
    if isinstance(value, str) and len(value) > _TEXT_MAX:
        return repr(value[:_TEXT_MAX] + "…")
    return repr(value)
