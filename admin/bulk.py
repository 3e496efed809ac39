"""Where appended records come from: standard input, or any URL of fsspec's; JSON lines, or Parquet."""

import bisect
import errno
import io
import lzma
import struct
import sys
import zipfile
import zlib
from collections.abc import Generator, Iterator, Mapping
from contextlib import ExitStack, contextmanager
from typing import IO, Any, NamedTuple, TypeVar

import fsspec
import fsspec.compression
import fsspec.core
import pyarrow as pa
import pyarrow.parquet as pq
from botocore.exceptions import BotoCoreError, ClientError

from lithify.segment.layout import content_bytes, is_bytes, is_pairs
from lithify.store.errors import AccessDenied, InvalidRequest, LithifyError, NotFound, Unavailable
from lithify.store.s3_errors import explain
from lithify.store.urls import shown

__all__ = [
    "BATCH_BYTES_MAX",
    "Source",
    "explained",
    "file_system",
    "is_parquet",
    "open_source",
    "parquet_tables",
    "text_lines",
]

T = TypeVar("T")

# What decoders raise about the bytes they are given; EOFError is gzip's, bz2's and lzma's about a file that ends too
# early. click would take it for Ctrl-D, and say "interrupted".
_OF_DECODERS = (
    *(EOFError, zlib.error, lzma.LZMAError, zipfile.BadZipFile, pa.ArrowException, struct.error),
    *(ValueError, LookupError, ArithmeticError, NotImplementedError, RuntimeError),
)
_NOT_A_PATH = {errno.ENAMETOOLONG, errno.ELOOP, errno.ENOTDIR, errno.EROFS, errno.EINVAL}
BATCH_BYTES_MAX = 32 << 20  # of one batch of an import: it is in memory a few times over
_READ_ROWS = 128  # of Parquet at a time: few, as each may be as large as a record
_FROM_THE_LOG = ("partition", "offset")  # what exports hold and the log assigns


def is_parquet(url: str) -> bool:
    return url.rpartition(".")[2].lower() == "parquet"


@contextmanager
def explained(name: str) -> Generator[None]:
    """What goes wrong within is said by `name`, as an error of ours. Requires: nothing of ours runs within."""
    try:
        yield
    except LithifyError:
        raise
    except OSError as error:
        raise _of_the_system(error, name) from error
    except (BotoCoreError, ClientError) as error:
        raise explain(error, name) from error
    except pa.ArrowInvalid:
        # Not chained, nor are others of decoders: their messages may quote a value.
        raise InvalidRequest(f"{name} is not a Parquet file, or a damaged one") from None
    except _OF_DECODERS as error:
        raise _damaged(error, name) from None
    except Exception as error:  # every filesystem has its own (of aiohttp, of a cloud's client)
        raise Unavailable(f"{name} could not be reached ({type(error).__name__}); try again") from error


def _damaged(error: Exception, name: str) -> InvalidRequest:
    return InvalidRequest(f"{name} is damaged, or cut short ({type(error).__name__}); fetch it again")


def _of_the_system(error: OSError, name: str) -> LithifyError:
    match error:
        case FileNotFoundError():
            return NotFound(f"{name} does not exist; check the URL")
        case PermissionError():
            return AccessDenied(f"{name}: permission denied; check the permissions, or the credentials")
        case IsADirectoryError():
            return InvalidRequest(f"{name} is a folder; name a file in it")
        case TimeoutError() | ConnectionError():  # raised by clients, too, and then without a number
            return Unavailable(f"{name}: the connection was lost ({type(error).__name__}); try again")
        case _ if error.errno is None:  # no call of the system's: a codec, or Arrow, about the bytes it was given
            return _damaged(error, name)
        case _ if error.errno in _NOT_A_PATH:
            return InvalidRequest(f"{name}: {error.strerror}; check the URL")
        case _:
            return Unavailable(f"{name}: {error.strerror or type(error).__name__}; try again")


def file_system(url: str, options: Mapping[str, Any]) -> tuple[Any, str]:
    remote = "://" in url and not url.startswith(("file:", "memory:"))
    settings = {"use_listings_cache": False, "skip_instance_cache": True} if remote else {}
    try:
        return fsspec.core.url_to_fs(url, **options, **settings)
    except (ImportError, TypeError, ValueError) as error:
        # Not chained: such messages quote the options they dislike.
        raise InvalidRequest(f"{shown(url)} cannot be opened ({type(error).__name__}); check the URL") from None


class Source(NamedTuple):
    file: IO[bytes]
    name: str  # as it may be shown


@contextmanager
def open_source(url: str, options: Mapping[str, Any]) -> Generator[Source]:
    """`-` is standard input. What ends in .gz, .zst, .bz2 or .xz is decompressed. What its reading raises is explained
    by `text_lines` and `parquet_tables`; what else goes wrong while it is open is none of its."""
    if url == "-":
        yield Source(sys.stdin.buffer, "standard input")
        return
    with ExitStack() as stack:
        with explained(shown(url)):
            system, path = file_system(url, options)
            file = stack.enter_context(system.open(path, "rb"))
            if not is_parquet(url):
                file = stack.enter_context(_decompressed(file, path))
        yield Source(file, shown(url))


def _decompressed(file: Any, path: str) -> Any:
    zstd = path.lower().endswith(".zst")
    compression = fsspec.core.get_compression(path, "infer")
    if not zstd and compression is None:
        return file
    if getattr(file, "size", None) == 0:  # decompressors take it for nothing that was compressed
        raise EOFError
    if zstd:
        return io.BufferedReader(pa.CompressedInputStream(file, "zstd"))
    return fsspec.compression.compr[compression](file, mode="r")


def _read(items: Iterator[T], name: str) -> Iterator[T]:
    """The same, and what their reading raises explained. What is done with them raises elsewhere."""
    with explained(name):
        yield from items


def text_lines(source: Source) -> Iterator[tuple[int, bytes]]:
    """Lines that are not blank, with their numbers from 1."""
    for number, line in enumerate(_read(iter(source.file), source.name), start=1):
        if not line.isspace():
            yield number, line


class Rows(NamedTuple):
    table: pa.Table
    first: int  # row of the file it begins with, from 1
    last: bool  # nothing comes after it


def parquet_tables(source: Source, rows_max: int, skip: int) -> Iterator[Rows]:
    """Tables of at most `rows_max` rows and BATCH_BYTES_MAX bytes after the first `skip` rows."""
    with explained(source.name):
        file = pq.ParquetFile(source.file, page_checksum_verification=True)
        columns = [name for name in file.schema_arrow.names if name not in _FROM_THE_LOG]
        count = file.metadata.num_rows
        batches = file.iter_batches(batch_size=min(rows_max, _READ_ROWS), columns=columns)
    at = skip
    for table in _cut(_after(skip, _read(batches, source.name)), rows_max):
        yield Rows(table, at + 1, at + table.num_rows == count)
        at += table.num_rows
    if at < count or at > max(skip, count):
        raise InvalidRequest(f"{source.name} is damaged: it has {at} rows, and says {count}; fetch it again")


def _after(skip: int, batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    for batch in batches:
        passed = min(skip, batch.num_rows)
        skip -= passed
        yield batch.slice(passed)


def _cut(batches: Iterator[pa.RecordBatch], rows_max: int) -> Iterator[pa.Table]:
    """Where the cuts are depends on the rows from the first one on, and on nothing else."""
    held: list[pa.RecordBatch] = []
    rows = size = 0
    for batch in batches:
        done = 0
        while done < batch.num_rows:
            rest = batch.slice(done)
            fitting = _fitting(rest, rows_max - rows, BATCH_BYTES_MAX - size)
            if fitting or not held:  # a row that is larger goes alone
                held.append(rest.slice(0, max(fitting, 1)))
                done += held[-1].num_rows
                rows, size = rows + held[-1].num_rows, size + _content(held[-1])
            if rows == rows_max or not fitting:
                yield pa.Table.from_batches(held)
                held, rows, size = [], 0, 0
    if held:
        yield pa.Table.from_batches(held)


def _fitting(batch: pa.RecordBatch, rows: int, size: int) -> int:
    """How many of the first rows are at most `rows`, and at most of `size` bytes."""
    most = min(rows, batch.num_rows)
    if _content(batch.slice(0, most)) <= size:
        return most
    return bisect.bisect_right(range(1, most + 1), size, key=lambda count: _content(batch.slice(0, count)))


def _content(batch: pa.RecordBatch) -> int:
    """Bytes of keys, values and headers. A column of another type is refused by whoever appends it."""
    return sum(content_bytes(each) for each in batch.columns if is_bytes(each.type) or is_pairs(each.type))
