"""Where records come from and go to: standard input and output, or any URL of fsspec's; JSON lines, or Parquet."""

import lzma
import re
import sys
import zlib
from collections.abc import Generator, Iterator, Mapping
from contextlib import ExitStack, contextmanager
from typing import IO, Any, NamedTuple, TypeVar

import fsspec
import fsspec.compression
import fsspec.core
import pyarrow as pa
import pyarrow.parquet as pq
import xxhash
from botocore.exceptions import BotoCoreError, ClientError

from lithify.admin.lines import record_lines
from lithify.segment.schema import RECORDS
from lithify.store.driver import new_id
from lithify.store.errors import AccessDenied, InvalidRequest, LithifyError, NotFound, Unavailable
from lithify.store.s3_errors import explain
from lithify.store.urls import shown

__all__ = [
    "Sink",
    "Source",
    "is_parquet",
    "open_sink",
    "open_source",
    "parquet_tables",
    "source_id",
    "text_lines",
]

T = TypeVar("T")

# What decompressors raise; EOFError is gzip's, bz2's and lzma's about a file that ends too early.
_CUT_SHORT = (EOFError, zlib.error, lzma.LZMAError)
_MARKS = ("ETag", "etag", "VersionId", "mtime", "LastModified", "last_modified", "updated", "created")  # of contents
_HEAD_BYTES = 1 << 16
_NAME_CHARACTERS_MAX = 100
_FROM_THE_LOG = ("partition", "offset")  # what exports hold and the log assigns
_PARTITION = pa.field("partition", pa.int32())


def is_parquet(url: str) -> bool:
    return url.rpartition(".")[2].lower() == "parquet"


@contextmanager
def _explained(name: str) -> Generator[None]:
    try:
        yield
    except LithifyError:
        raise
    except FileNotFoundError as error:
        raise NotFound(f"{name} does not exist; check the URL") from error
    except PermissionError as error:
        raise AccessDenied(f"{name}: permission denied; check the credentials") from error
    except (BotoCoreError, ClientError) as error:
        raise explain(error, name) from error
    except IsADirectoryError as error:
        raise InvalidRequest(f"{name} is a folder; name a file in it") from error
    except BrokenPipeError:
        raise
    except pa.ArrowInvalid:
        # Not chained: Arrow's message may quote a value.
        raise InvalidRequest(f"{name} is not a Parquet file, or a damaged one") from None
    except _CUT_SHORT as error:
        raise InvalidRequest(f"{name} is damaged, or cut short ({type(error).__name__}); fetch it again") from None
    except OSError as error:
        if error.errno is None:  # no call of the system's: a codec, or Arrow, about the bytes it was given
            raise InvalidRequest(f"{name} is damaged, or cut short ({type(error).__name__}); fetch it again") from None
        raise Unavailable(f"{name}: {error.strerror or type(error).__name__}; try again") from error


def _file_system(url: str, options: Mapping[str, Any]) -> tuple[Any, str]:
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
        with _explained(shown(url)):
            system, path = _file_system(url, options)
            file = stack.enter_context(system.open(path, "rb"))
            compression = None if is_parquet(url) else fsspec.core.get_compression(path, "infer")
            if compression is not None:
                file = stack.enter_context(fsspec.compression.compr[compression](file, mode="r"))
        yield Source(file, shown(url))


def source_id(url: str, options: Mapping[str, Any]) -> str:
    """A name for what lies there now: other contents have another one. Standard input has a new one each time."""
    if url == "-":
        return f"stdin-{new_id()}"
    with _explained(shown(url)):
        system, path = _file_system(url, options)
        found = system.info(path)
        mark = next((str(found[name]) for name in _MARKS if found.get(name)), "")
        if not mark:
            with system.open(path, "rb") as file:
                mark = xxhash.xxh3_64_hexdigest(file.read(_HEAD_BYTES))
    last = re.split(r"[?#]", path)[0].rstrip("/").rpartition("/")[2]
    name = re.sub(r"[^A-Za-z0-9._-]", "_", last)[-_NAME_CHARACTERS_MAX:]
    return f"{name}-{xxhash.xxh3_64_hexdigest(repr((path, found.get('size'), mark)).encode())}"


def _read(items: Iterator[T], name: str) -> Iterator[T]:
    """The same, and what their reading raises explained. What is done with them raises elsewhere."""
    with _explained(name):
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
    """Tables of at most `rows_max` rows after the first `skip`."""
    with _explained(source.name):
        file = pq.ParquetFile(source.file)
    columns = [name for name in file.schema_arrow.names if name not in _FROM_THE_LOG]
    at = 0
    for batch in _read(file.iter_batches(batch_size=rows_max, columns=columns), source.name):
        passed = max(0, min(skip - at, batch.num_rows))
        at += batch.num_rows
        if passed < batch.num_rows:
            table = pa.Table.from_batches([batch.slice(passed)])
            yield Rows(table, at - table.num_rows + 1, at == file.metadata.num_rows)


class Sink:
    """Takes record batches; `rows` counts them."""

    def __init__(self, file: IO[bytes], *, parquet: bool) -> None:
        self.rows = 0
        self._file = file
        self._writer: pq.ParquetWriter | None = None
        if parquet:
            self._writer = pq.ParquetWriter(file, RECORDS.append(_PARTITION), compression="zstd")

    def write(self, batch: pa.RecordBatch, partition: int) -> None:
        """`batch` has schema RECORDS."""
        self.rows += batch.num_rows
        if self._writer is None:
            self._file.write(b"".join(record_lines(batch, partition)))
            return
        numbers = pa.repeat(pa.scalar(partition, pa.int32()), batch.num_rows)
        columns: list[Any] = [*batch.columns, numbers]
        self._writer.write_batch(pa.RecordBatch.from_arrays(columns, schema=RECORDS.append(_PARTITION)))

    def finish(self) -> None:
        if self._writer is not None:
            self._writer.close()


@contextmanager
def open_sink(url: str, options: Mapping[str, Any]) -> Generator[Sink]:
    """`-` is standard output. Elsewhere the object appears when it is complete, and not at all after an error."""
    if url == "-":
        yield Sink(sys.stdout.buffer, parquet=False)
        return
    with _explained(shown(url)):
        system, path = _file_system(url, options)
        stored = system.open(path, "wb", autocommit=False)
        try:
            compression = None if is_parquet(url) else fsspec.core.get_compression(path, "infer")
            file = stored if compression is None else fsspec.compression.compr[compression](stored, mode="w")
            sink = Sink(file, parquet=is_parquet(url))
            yield sink
            sink.finish()
            if file is not stored:
                file.close()
            if not stored.closed:
                stored.close()
        except BaseException:
            stored.discard()
            raise
        stored.commit()
