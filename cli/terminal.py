"""Text for a terminal: contents from users and damaged files must not control it.

Escape sequences begin with C0 or C1 characters; direction marks show a line in another order. Each is printed as
\\uXXXX, also in JSON, where that means the same character.
"""

import json
import re
from typing import Any

import click
import msgspec

__all__ = ["json_bytes", "plain", "plain_bytes", "plain_json", "warn"]

# C0, DEL and C1; line and paragraph separators; direction marks, embeddings, overrides and isolates; lone surrogates
# (bytes of the command line that are not UTF-8), which cannot be written at all.
_STEERS = re.compile("[\x00-\x1f\x7f-\x9f\u061c\u200e\u200f\u2028-\u202e\u2066-\u2069\ud800-\udfff]")
_STEERS_UTF8 = re.compile(
    rb"\x7f|\xc2[\x80-\x9f]|\xd8\x9c|\xe2(?:\x80[\x8e\x8f\xa8-\xae]|\x81[\xa6-\xa9])"  # C0: JSON has none unescaped
)


def plain(text: str) -> str:
    """The text on one line, with everything that controls a terminal escaped."""
    return _STEERS.sub(lambda found: f"\\u{ord(found[0]):04x}", text)


def plain_json(document: bytes) -> bytes:
    """The same document: such characters occur only in strings of JSON. Requires: it was encoded by msgspec."""
    return _STEERS_UTF8.sub(lambda found: b"\\u%04x" % ord(found[0].decode()), document)


def json_bytes(value: Any) -> bytes:
    """`value` (structs, mappings, lists) as JSON for a terminal; a file name that is not UTF-8 is escaped too."""
    try:
        return plain_json(msgspec.json.encode(value))
    except UnicodeEncodeError:
        return plain_json(json.dumps(msgspec.to_builtins(value), separators=(",", ":")).encode())


def plain_bytes(stored: bytes) -> str:
    """The bytes of an object, possibly damaged, line by line."""
    return "\n".join(plain(line) for line in stored.decode(errors="backslashreplace").split("\n"))


def warn(text: str) -> None:
    """One line on standard error."""
    click.echo(f"lithify: {plain(text)}", err=True)
