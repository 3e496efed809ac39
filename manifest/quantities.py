"""What somebody meant who wrote a unit where a number of milliseconds or bytes is asked for: "1d", "1GB". Pure."""

import re

__all__ = ["unit_hint"]

_NUMBER = re.compile(r"([0-9]{1,12})\s*([A-Za-z]+)")
_MS = {
    **dict.fromkeys(("ms",), 1),
    **dict.fromkeys(("s", "sec", "second", "seconds"), 1_000),
    **dict.fromkeys(("m", "min", "minute", "minutes"), 60_000),
    **dict.fromkeys(("h", "hour", "hours"), 3_600_000),
    **dict.fromkeys(("d", "day", "days"), 86_400_000),
    **dict.fromkeys(("w", "week", "weeks"), 7 * 86_400_000),
}
_BYTES = {"b": 1} | {
    unit: 1 << 10 * power
    for power, letter in enumerate("kmgt", start=1)
    for unit in (letter, f"{letter}b", f"{letter}ib")
}
_TABLES = {"ms": (_MS, "milliseconds"), "bytes": (_BYTES, "bytes")}


def unit_hint(name: str, text: object) -> str:
    """The end of a refusal of `text`: ": for 1d, write 86400000 (milliseconds)"; "" if it is not a number with a unit.
    The end of the name says what is counted. K, M, G and T are powers of 1024, as sizes of segments are."""
    units, counted = _TABLES.get(re.split(r"[._-]", name.lower())[-1], ({}, ""))
    found = _NUMBER.fullmatch(text.strip()) if isinstance(text, str) else None
    if found is None or found[2].lower() not in units:
        return ""
    return f": for {found[0]}, write {int(found[1]) * units[found[2].lower()]} ({counted})"
