"""The format of a file of records, by its name: Parquet, or CSV or lines of JSON, possibly compressed."""

import bz2
import gzip
import io
import lzma
import re
from collections.abc import Callable
from functools import partial
from typing import Any, Literal, cast, get_args

import pyarrow as pa

from lithify.store.errors import InvalidRequest
from lithify.store.urls import shown

__all__ = [
    "FORMATS",
    "Format",
    "check_format",
    "check_target_format",
    "compressed",
    "decompressed",
    "format_of",
    "is_compressed",
    "is_parquet",
    "parquet_name",
]

_PARQUET = "parquet"
_COMPRESSED = ("gz", "bz2", "xz", "zst")
# Of these a decoder would read a part (a zip's first file), and an export would not be one of them.
_NOT_OURS = {
    *("7z", "br", "deflate", "jar", "lz", "lz4", "lzma", "lzo", "rar", "snappy", "sz", "tar", "tbz", "tbz2", "tgz"),
    *("txz", "tzst", "z", "zip", "zlib", "zstd", "zz"),
}
_READ_BYTES = 1 << 16

Format = Literal["json", "csv", "tsv", "parquet"]
FORMATS: tuple[Format, ...] = get_args(Format)
_FORMATS: dict[str, Format] = {
    "json": "json",
    "jsonl": "json",
    "ndjson": "json",
    "csv": "csv",
    "tsv": "tsv",
    "parquet": "parquet",
}  # by extension


def _suffixes(url: str) -> tuple[str, str]:
    """`jsonl` and `gz` for http://host/in.jsonl.gz?signature=…: a query is not part of the name."""
    part = next((part for part in url.split("::") if "/" in part), url)  # simplecache::http://…
    if re.match(r"https?://", part, re.IGNORECASE):
        part = re.split(r"[?#]", part)[0]
    stem, dot, suffix = part.rpartition("/")[2].rpartition(".")
    if not dot or not stem:
        return "", ""
    if suffix.lower() not in _COMPRESSED:
        return suffix.lower(), ""
    return stem.rpartition(".")[2].lower() if "." in stem else "", suffix.lower()


def format_of(url: str, given: str | None = None) -> Format:
    """By the name, unless it is `given`. Requires: the name was checked."""
    return cast(Format, given) if given else _FORMATS.get(_suffixes(url)[0], "json")


def is_parquet(url: str, given: str | None = None) -> bool:
    return format_of(url, given) == "parquet"


def is_compressed(url: str) -> bool:
    """By its name, and so that `decompressed` reads it."""
    return _suffixes(url)[1] in _COMPRESSED


def parquet_name(stem: str) -> str:
    return f"{stem}.{_PARQUET}"


def check_format(url: str, given: str | None = None) -> None:
    """Raises InvalidRequest if the name ends in a format that is neither read nor written, unless one is `given`."""
    if not url:
        raise InvalidRequest("an empty URL was given; name a file, or - for standard input and output")
    suffix, compression = _suffixes(url)
    known = f"{', '.join(f'.{each}' for each in _COMPRESSED)} or .{_PARQUET}"
    if suffix in _NOT_OURS and not compression:
        raise InvalidRequest(f"{shown(url)}: .{suffix} is neither read nor written. Use plain lines of JSON, {known}")
    if compression and format_of(url, given) == "parquet":
        raise InvalidRequest(f"{shown(url)}: Parquet is compressed inside; leave out .{compression}")
    if given is None and suffix and suffix not in _FORMATS:
        raise InvalidRequest(
            f"{shown(url)}: .{suffix} is not a known format; use .{', .'.join(_FORMATS)}, or say which it is with "
            f"--format {'/'.join(FORMATS)}"
        )


def check_target_format(url: str, given: str | None) -> None:
    """As `check_format`. And what is written is what its name says: whoever reads it goes by that."""
    check_format(url, given)
    suffix, _ = _suffixes(url)
    if given is not None and _FORMATS.get(suffix, given) != given:
        raise InvalidRequest(
            f"{shown(url)} ends in .{suffix}, but --format says {given}: name it .{given}, or leave out --format"
        )


def decompressed(file: Any, url: str) -> Any:
    """The decompressed content of the whole file, which may be several compressed files joined together."""
    suffix = _suffixes(url)[1]
    if suffix not in _COMPRESSED:
        return file
    if getattr(file, "size", None) == 0:  # decompressors would take it for an empty content
        raise EOFError
    match suffix:
        case "gz":
            return gzip.GzipFile(fileobj=file, mode="rb")
        case "zst":
            return io.BufferedReader(pa.CompressedInputStream(file, "zstd"))
        case "bz2":
            return io.BufferedReader(_Members(file, bz2.BZ2Decompressor, b""), _READ_BYTES)
        case _:
            return io.BufferedReader(_Members(file, partial(lzma.LZMADecompressor, lzma.FORMAT_XZ), b"\0"), _READ_BYTES)


def compressed(file: Any, url: str) -> Any:
    match _suffixes(url)[1]:
        case "gz":
            return gzip.GzipFile(fileobj=file, mode="wb")
        case "zst":
            return pa.CompressedOutputStream(file, "zstd")
        case "bz2":
            return bz2.BZ2File(file, "w")
        case "xz":
            return lzma.LZMAFile(file, "w")
        case _:
            return file


class _Members(io.RawIOBase):
    """One compressed stream after the other. If a later stream is damaged, Python's own readers take it for trailing
    garbage, and skip it silently. There may be `padding` between streams."""

    def __init__(self, file: Any, new: Callable[[], Any], padding: bytes) -> None:
        self._file = file
        self._new = new
        self._padding = padding
        self._decoder: Any = None  # of the current stream
        self._rest = b""  # read, not decoded yet
        self._ended = 0  # streams

    def readable(self) -> bool:
        return True

    def readinto(self, buffer: Any, /) -> int:
        into = memoryview(buffer)
        while decoder := self._decoder or self._next():
            if not self._rest and decoder.needs_input:
                self._more()
            data = decoder.decompress(self._rest, len(into))
            self._rest, self._decoder = b"", decoder
            if decoder.eof:
                self._rest, self._decoder = decoder.unused_data, None
                self._ended += 1
            if data:
                into[: len(data)] = data
                return len(data)
        return 0

    def _next(self) -> Any:
        """A decoder for the next stream; None: there is none."""
        while self._ended:
            self._rest = self._rest.lstrip(self._padding) or self._file.read(_READ_BYTES)
            if not self._rest:
                return None
            if self._rest[:1] != self._padding:
                break
        return self._new()

    def _more(self) -> None:
        self._rest = self._file.read(_READ_BYTES)
        if not self._rest:
            raise EOFError
