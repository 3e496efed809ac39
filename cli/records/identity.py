"""The name of a source of records, by which its import can be continued: different contents get different names.

Only the whole content would be certain, and reading it costs as much as the import. So the name is made from: the
location, the size, the version or else the time (if known), and a digest of both ends (docs/rfcs/0011).
"""

import os
import re
from collections.abc import Mapping
from datetime import datetime
from typing import Any, NamedTuple

import xxhash
from fsspec.implementations.local import LocalFileSystem

from lithify.cli.records.bulk import file_system, is_pipe
from lithify.cli.records.explained import explained
from lithify.store.driver import new_id
from lithify.store.urls import shown

__all__ = ["LOCAL_BYTES", "LOOKED_AT_BYTES", "Identity", "identify", "mark_of", "name_end", "place_of"]

LOOKED_AT_BYTES = 1 << 16  # of each end
LOCAL_BYTES = 32 << 20  # of a local file: takes a few hundredths of a second
_NAME_CHARACTERS_MAX = 100

# Names that fsspec's filesystems use for these, in lower case and without separators. The first one present counts:
# those that depend on the content come before times.
_VERSIONS = ("etag", "versionid", "generation", "contentmd5", "md5hash", "md5checksum", "md5", "digest", "contenthash")
_SUMS = ("crc32c", "crc", "sha256", "sha1", "sha", "blobid", "checksum")
_TIMES = ("mtime", "lastmodified", "modificationtime", "modifiedtime", "timemodified", "servermodified", "modify")
_MORE_TIMES = ("modified", "lastwritetime", "updated", "datetime", "created", "timecreated")
_MARKS = (*_VERSIONS, *_SUMS, *_TIMES, *_MORE_TIMES)


class Identity(NamedTuple):
    name: str
    new: bool = False  # made at random: nobody else knows it
    # The parts that were compared, if no version and no time is known and the source is larger than these.
    compared: str = ""


def identify(url: str, options: Mapping[str, Any]) -> Identity:
    """Standard input and pipes get a new name each time: they can be read only once, so they are not examined."""
    if url == "-":
        return Identity(f"stdin-{new_id()}", new=True)
    with explained(shown(url)):
        system, path = file_system(url, options)
        found = system.info(path)
        name = name_end(re.split(r"[?#]", path)[0])
        if is_pipe(system, path):
            return Identity(f"{name}-{new_id()}", new=True)
        mark, size = mark_of(found), found.get("size")
        digest, compared = _ends(system, path, size)
    # A source that was read whole is the same whenever it was fetched, copied or touched.
    place = place_of(system, path)
    known = repr((place, size, mark if compared else "", digest)).encode()
    where = xxhash.xxh32_hexdigest(place.encode())  # identifies a repaired source (cli/records/unfinished.py)
    return Identity(f"{name}-{where}-{xxhash.xxh3_64_hexdigest(known)}", compared="" if mark else compared)


def name_end(path: str) -> str:
    """The last part of `path`, in characters that the name of an application may have anywhere."""
    return re.sub(r"[^A-Za-z0-9._-]", "_", path.rstrip("/").rpartition("/")[2])[-_NAME_CHARACTERS_MAX:]


def place_of(system: Any, path: str) -> str:
    """`path`, however it was spelled.

    SUBTLE! 1. ../sales/ is imported. 2. Its full path is imported, or the same from another folder. 3. As another
    place, all of it would be appended again. Test: tests/cli/test_source_identity.py"""
    return os.path.normpath(path) if isinstance(system, LocalFileSystem) else path


def mark_of(found: Mapping[str, Any]) -> str:
    """The version or the time in `found`; "" if there is none."""
    told = {re.sub(r"[^a-z0-9]", "", key.lower()): value for key, value in found.items()}
    mark = next((told[name] for name in _MARKS if told.get(name)), "")
    return mark.isoformat() if isinstance(mark, datetime) else str(mark)


def _ends(system: Any, path: str, size: int | None) -> tuple[str, str]:
    """A digest of the first and last bytes, and a text that says which; "" if these are all."""
    local = isinstance(system, LocalFileSystem)
    length = LOCAL_BYTES if local else LOOKED_AT_BYTES
    unit = f"{length >> 20} MiB" if local else f"{length >> 10} KiB"
    with system.open(path, "rb", block_size=length) as file:
        first = _up_to(length, file)
        digest = xxhash.xxh3_64(first)
        if size is None and len(first) < length:
            return digest.hexdigest(), ""
        rest = 0 if size is None else min(size - length, length)
        if rest > 0:
            try:
                file.seek((size or 0) - rest)
                digest.update(_up_to(rest, file))
            except (ValueError, NotImplementedError):  # a stream: it only goes forward
                size = None
    if size is None:
        return digest.hexdigest(), f"its first {unit}"
    return digest.hexdigest(), "" if size <= 2 * length else f"its first and last {unit}"


def _up_to(length: int, file: Any) -> bytes:
    """Streams return what has arrived, which may be less than requested."""
    pieces: list[bytes] = []
    while length > 0 and (piece := file.read(length)):
        pieces.append(piece)
        length -= len(piece)
    return b"".join(pieces)
