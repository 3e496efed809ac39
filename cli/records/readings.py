"""How the rows of a source are read: a part of what an import is (docs/rfcs/0011). The same file read with another key
column makes other records, so it is not the same import."""

import re
import shlex
from typing import NamedTuple
from urllib.parse import quote, unquote

import xxhash

from lithify.cli.records.formats import format_of
from lithify.cli.records.roles import Roles

__all__ = ["AS_RECORDS", "BY", "Application", "Reading", "parse_application", "reading_of", "told"]

_TEXT_CHARACTERS_MAX = 60  # a longer one is a digest; with the longest --source-id there is room for a digest alone
_SOURCE_CHARACTERS_MAX = 150
_FLAGS = {
    "key": "--key-column",
    "value": "--value-column",
    "timestamp": "--timestamp-column",
    "delete": "--delete-column",
    "delimiter": "-K",
    "format": "--format",
}
_FIELDS = rf"(?:{'|'.join([*_FLAGS, 'digest'])})=[A-Za-z0-9._~%-]*"
BY = rf"(?: by ({_FIELDS}(?: {_FIELDS})*))?"  # the reading in a name, if it has one
_APPLICATION = re.compile(rf"import (.*?){BY}(?: over ([0-9]+))?")


class Reading(NamedTuple):
    """`text` is what the import's name says of it; "" if the source is read as lithify's own records."""

    text: str

    def named(self, source_id: str) -> str:
        """`text`, or a digest of it where the name of the import of `source_id` has no room for it."""
        if len(self.text) > _TEXT_CHARACTERS_MAX or (self.text and len(source_id) > _SOURCE_CHARACTERS_MAX):
            return f"digest={xxhash.xxh32_hexdigest(self.text.encode())}"
        return self.text

    def within(self, source_id: str) -> str:
        named = self.named(source_id)
        return f"{source_id} by {named}" if named else source_id


AS_RECORDS = Reading("")


class Application(NamedTuple):
    """The parts of an import's name, as a partition remembers it."""

    source_id: str
    reading: str
    over: int | None


def parse_application(application: str) -> Application | None:
    """None: it is not an import."""
    found = _APPLICATION.fullmatch(application)
    return found and Application(found[1], found[2] or "", int(found[3]) if found[3] else None)


def reading_of(url: str, given_format: str | None, roles: Roles, delimiter: bytes | None) -> Reading:
    """Flags that change nothing about how `url` is read leave the name as it is."""
    fields = [("key", roles.key), *(("value", each) for each in roles.value)]
    fields += [("timestamp", roles.timestamp), ("delete", roles.delete)]
    fields.append(("delimiter", None if delimiter is None else delimiter.decode("utf-8", "backslashreplace")))
    if delimiter is None and given_format is not None and given_format != format_of(url):
        fields.append(("format", given_format))
    return Reading(" ".join(f"{name}={_quoted(given)}" for name, given in fields if given is not None))


def told(reading: str) -> str:
    """To say it in a sentence: "with --key-column id"."""
    fields = [each.partition("=") for each in reading.split(" ") if each]
    if any(name == "digest" for name, _, _ in fields):
        return "with other columns or another format"
    flags = " ".join(f"{_FLAGS[name]} {shlex.quote(unquote(given))}" for name, _, given in fields)
    return f"with {flags}" if flags else "without --key-column and the like"


def _quoted(text: str) -> str:
    return quote(text, safe="", errors="backslashreplace")
