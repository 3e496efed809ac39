"""Sources of appended records: standard input, or any URL that fsspec can open; JSON lines, or Parquet."""

import bisect
import io
import os
import stat
import sys
from collections.abc import Callable, Generator, Iterator, Mapping
from contextlib import ExitStack, contextmanager
from typing import IO, Any, NamedTuple, TypeVar

import fsspec.core
import pyarrow as pa
import pyarrow.parquet as pq
from fsspec.implementations.local import LocalFileSystem

from lithify.cli.records.arrivals import arrives
from lithify.cli.records.explained import explained
from lithify.cli.records.formats import check_format, decompressed, format_of, is_compressed, is_parquet
from lithify.cli.records.pipes import waking
from lithify.cli.terminal import warn
from lithify.log.layout import content_bytes, is_bytes, is_pairs
from lithify.manifest.words import counted
from lithify.store.errors import InvalidRequest
from lithify.store.fsspec_opening import opening
from lithify.store.urls import shown

__all__ = [
    "BATCH_BYTES_MAX",
    "BYTE_ORDER_MARK",
    "FROM_THE_LOG",
    "Source",
    "cut_tables",
    "file_system",
    "is_pipe",
    "open_parquet",
    "open_source",
    "parquet_tables",
    "text_lines",
]

T = TypeVar("T")
Shape = Callable[[pa.RecordBatch, int], pa.RecordBatch]  # of rows, whose first one has this number

BATCH_BYTES_MAX = 32 << 20  # of one import batch: memory holds a few copies of it
_READ_ROWS = 128  # of Parquet at a time: few, since each may be as large as a record
_READ_BYTES = 1 << 20  # of lines at a time
_LINE_BYTES_MIN = 1 << 20  # that any record may need for spaces and headers without bytes
_ESCAPED = 8  # at most so many bytes of a line for one byte of a record: \\u0000 takes six
BYTE_ORDER_MARK = b"\xef\xbb\xbf"
_NOTHING = b"\n"  # instead of a line: no line has an end
FROM_THE_LOG = ("partition", "offset")  # columns of exports that the log assigns


def file_system(url: str, options: Mapping[str, Any]) -> tuple[Any, str]:
    remote = "://" in url and not url.startswith(("file:", "memory:"))
    settings = {"use_listings_cache": False, "skip_instance_cache": True} if remote else {}
    with opening(url, options):
        return fsspec.core.url_to_fs(url, **options, **settings)


class Source(NamedTuple):
    file: IO[bytes]
    name: str  # as shown in messages
    stored: IO[bytes] | None = None  # `file` before it is decompressed; None: it has no end that is known
    stored_bytes: int = 0  # of `stored`

    @property
    def read_bytes(self) -> int:
        """How many of `stored_bytes` were read so far."""
        return self.stored_bytes if self.stored is None or self.stored.closed else self.stored.tell()


def is_pipe(system: Any, path: str) -> bool:
    """Whether it is a pipe, a terminal or another device, which can be read only once. Raises OSError."""
    if not isinstance(system, LocalFileSystem):
        return False
    mode = os.stat(path).st_mode
    return not stat.S_ISREG(mode) and not stat.S_ISDIR(mode)


@contextmanager
def open_source(url: str, options: Mapping[str, Any], given: str | None = None) -> Generator[Source]:
    """`-` is standard input. `given`: the format, if not the name decides. URLs that end in .gz, .zst, .bz2 or .xz are
    decompressed. Errors while reading are explained by whoever reads the source; other errors while it is open are
    not."""
    if url == "-":
        if is_parquet(url, given):
            raise InvalidRequest("Parquet cannot be read from a pipe: write it to a file first")
        if format_of(url, given) != "json" and arrives(sys.stdin.buffer):
            with waking(sys.stdin.buffer) as file:
                yield Source(file, "standard input")
            return
        size = _regular_bytes(sys.stdin.buffer)
        yield Source(sys.stdin.buffer, "standard input", sys.stdin.buffer if size else None, size)
        return
    check_format(url, given)
    with ExitStack() as stack:
        with explained(shown(url)):
            system, path = file_system(url, options)
            piped = is_pipe(system, path)
            if piped and is_parquet(url, given):
                raise InvalidRequest(
                    f"{shown(url)} is a pipe, and Parquet cannot be read from one: write it to a file first"
                )
            _say_that_it_waits(path, shown(url), piped=piped)
            # fsspec would seek in a pipe.
            stored = stack.enter_context(io.FileIO(path) if piped else system.open(path, "rb"))
            if piped and (format_of(url, given) != "json" or is_compressed(url)):
                stored = stack.enter_context(waking(stored))
            file = stored if is_parquet(url, given) else stack.enter_context(decompressed(stored, url))
            size = 0 if piped else getattr(stored, "size", None) or 0
        yield Source(file, shown(url), stored if size else None, size)


def _say_that_it_waits(path: str, name: str, *, piped: bool) -> None:
    """A named pipe opens only once another program opens it for writing."""
    if piped and sys.stderr.isatty() and stat.S_ISFIFO(os.stat(path).st_mode):
        warn(f"waiting for a program that writes to {name}; Ctrl-C ends it")


def _regular_bytes(file: IO[bytes]) -> int:
    """The size of a file that a shell has opened as standard input; 0: it is none."""
    try:
        found = os.fstat(file.fileno())
    except OSError:
        return 0
    return found.st_size if stat.S_ISREG(found.st_mode) else 0


def _read(items: Iterator[T], name: str) -> Iterator[T]:
    """The same items; errors while reading them are explained. What the caller does with them raises elsewhere."""
    with explained(name):
        yield from items


def text_lines(
    source: Source, record_bytes_max: int, pieces: Callable[[Any, int], Iterator[bytes]] | None = None
) -> Iterator[tuple[int, bytes]]:
    """Lines that are not blank, with their numbers from 1. `pieces` reads them where they arrive one after the other;
    for an empty piece of it, there is an empty line. Raises InvalidRequest at a line too long for any record,
    without reading it to its end."""
    longest = _LINE_BYTES_MIN + _ESCAPED * record_bytes_max
    read = _read((pieces or _pieces)(source.file, _READ_BYTES), source.name)
    number = 0
    for line in _lines(read, longest):
        if line == _NOTHING:
            yield number, b""
            continue
        number += 1
        if line is None or len(line) > longest:
            raise InvalidRequest(
                f"line {number} is longer than {longest} bytes, the most that a record of max.message.bytes "
                f"({record_bytes_max}) can need"
            )
        text = line.removeprefix(BYTE_ORDER_MARK) if number == 1 else line
        if text and not text.isspace():
            yield number, text


def _pieces(file: Any, size: int) -> Iterator[bytes]:
    """Pieces as they come: from a pipe, what has arrived."""
    read = getattr(file, "read1", file.read)
    while piece := read(size):
        yield piece


def _lines(pieces: Iterator[bytes], longest: int) -> Iterator[bytes | None]:
    """Lines without their ends; None: a line is longer than `longest`; _NOTHING: no piece has come."""
    held: list[bytes] = []
    size = 0
    for piece in pieces:
        if not piece:
            yield _NOTHING
            continue
        first, *more = piece.split(b"\n")
        held.append(first)
        size += len(first)
        if more:
            yield b"".join(held)
            yield from more[:-1]
            held, size = [more[-1]], len(more[-1])
        if size > longest:
            yield None
            return
    yield b"".join(held)


class Rows(NamedTuple):
    table: pa.Table
    first: int  # its first row in the file, counted from 1
    last: bool  # the file ends with it


def open_parquet(source: Source) -> pq.ParquetFile:
    with explained(source.name):
        return pq.ParquetFile(source.file, page_checksum_verification=True)


def parquet_tables(
    file: pq.ParquetFile, source: str, rows_max: int, skip: int, shape: Shape | None = None
) -> Iterator[Rows]:
    """Tables of at most `rows_max` rows and BATCH_BYTES_MAX bytes, after the first `skip` rows. `source`: its name.
    `shape` makes records of the rows of another table."""
    with explained(source):
        names = file.schema_arrow.names
        columns = names if shape else [name for name in names if name not in FROM_THE_LOG]
        count = file.metadata.num_rows
        batches = file.iter_batches(batch_size=min(rows_max, _READ_ROWS), columns=columns)
    at = skip
    for table in cut_tables(_read(batches, source), rows_max, skip, shape):
        yield Rows(table, at + 1, at + table.num_rows == count)
        at += table.num_rows
    if at < count or at > max(skip, count):
        raise InvalidRequest(
            f"{source} is damaged: its footer says {counted(count, 'row')}, but it has {at}; fetch it again"
        )


def cut_tables(
    batches: Iterator[pa.RecordBatch], rows_max: int, skip: int, shape: Shape | None = None
) -> Iterator[pa.Table]:
    """As `parquet_tables`, of any batches."""
    return _cut(_shaped(_after(skip, batches), skip + 1, shape), rows_max)


def _shaped(batches: Iterator[pa.RecordBatch], first: int, shape: Shape | None) -> Iterator[pa.RecordBatch]:
    for batch in batches:
        yield batch if shape is None or not batch.num_rows else shape(batch, first)
        first += batch.num_rows


def _after(skip: int, batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    for batch in batches:
        passed = min(skip, batch.num_rows)
        skip -= passed
        if passed < batch.num_rows:
            yield batch.slice(passed)


def _cut(batches: Iterator[pa.RecordBatch], rows_max: int) -> Iterator[pa.Table]:
    """The cuts depend only on the rows, counted from the first one."""
    held: list[pa.RecordBatch] = []
    rows = size = 0
    for batch in batches:
        done = 0
        while done < batch.num_rows:
            rest = batch.slice(done)
            fitting = _fitting(rest, rows_max - rows, BATCH_BYTES_MAX - size)
            if fitting or not held:  # a larger row goes alone
                held.append(rest.slice(0, max(fitting, 1)))
                done += held[-1].num_rows
                rows, size = rows + held[-1].num_rows, size + _content(held[-1])
            if rows == rows_max or not fitting:
                yield pa.Table.from_batches(held)
                held, rows, size = [], 0, 0
    if held:
        yield pa.Table.from_batches(held)


def _fitting(batch: pa.RecordBatch, rows: int, size: int) -> int:
    """How many of the first rows fit: at most `rows`, and at most `size` bytes."""
    most = min(rows, batch.num_rows)
    if _content(batch.slice(0, most)) <= size:
        return most
    return bisect.bisect_right(range(1, most + 1), size, key=lambda count: _content(batch.slice(0, count)))


def _content(batch: pa.RecordBatch) -> int:
    """Bytes of keys, values and headers. A column of another type is refused when it is appended."""
    return sum(content_bytes(each) for each in batch.columns if is_bytes(each.type) or is_pairs(each.type))
