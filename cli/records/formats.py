"""The format of a file of records, by its name: Parquet, or lines of JSON, possibly compressed."""

import bz2
import gzip
import io
import lzma
import re
from collections.abc import Callable
from functools import partial
from typing import Any

import pyarrow as pa

from lithify.store.errors import InvalidRequest
from lithify.store.urls import shown

__all__ = ["check_format", "compressed", "decompressed", "is_parquet", "parquet_name"]

_PARQUET = "parquet"
_COMPRESSED = ("gz", "bz2", "xz", "zst")
# Of these a decoder would read a part (a zip's first file), and an export would not be one of them.
_NOT_OURS = {
    *("7z", "br", "deflate", "jar", "lz", "lz4", "lzma", "lzo", "rar", "snappy", "sz", "tar", "tbz", "tbz2", "tgz"),
    *("txz", "tzst", "z", "zip", "zlib", "zstd", "zz"),
}
_READ_BYTES = 1 << 16


def _suffix(url: str) -> str:
    """`gz` for http://host/in.jsonl.gz?signature=…: a query is not part of the name."""
    part = next((part for part in url.split("::") if "/" in part), url)  # simplecache::http://…
    if re.match(r"https?://", part, re.IGNORECASE):
        part = re.split(r"[?#]", part)[0]
    _, dot, suffix = part.rpartition("/")[2].rpartition(".")
    return suffix.lower() if dot else ""


def is_parquet(url: str) -> bool:
    return _suffix(url) == _PARQUET


def parquet_name(stem: str) -> str:
    return f"{stem}.{_PARQUET}"


def check_format(url: str) -> None:
    """Raises InvalidRequest if the name ends in a format that is neither read nor written."""
    if not url:
        raise InvalidRequest("an empty URL was given; name a file, or - for standard input and output")
    suffix = _suffix(url)
    if suffix in _NOT_OURS:
        known = f"{', '.join(f'.{each}' for each in _COMPRESSED)} or .{_PARQUET}"
        raise InvalidRequest(f"{shown(url)}: .{suffix} is neither read nor written. Use plain lines of JSON, {known}")


def decompressed(file: Any, url: str) -> Any:
    """The decompressed content of the whole file, which may be several compressed files joined together."""
    suffix = _suffix(url)
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
    match _suffix(url):
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
