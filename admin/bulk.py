"""Where records come from and go to: standard input and output, or any URL of fsspec's; JSON lines, or Parquet."""

import re
import sys
from collections.abc import Generator, Iterator, Mapping
from contextlib import contextmanager
from typing import IO, Any

import fsspec
import fsspec.compression
import fsspec.core
import pyarrow as pa
import pyarrow.parquet as pq
from botocore.exceptions import BotoCoreError, ClientError

from lithify.admin.lines import record_lines
from lithify.segment.schema import RECORDS
from lithify.store.errors import InvalidRequest, LithifyError, NotFound, Unavailable
from lithify.store.s3_errors import explain

__all__ = ["Sink", "is_parquet", "open_sink", "open_source", "parquet_tables", "shown", "text_lines"]

_FROM_THE_LOG = ("partition", "offset")  # what exports hold and the log assigns
_PARTITION = pa.field("partition", pa.int32())


def is_parquet(url: str) -> bool:
    return url.rpartition(".")[2].lower() == "parquet"


def shown(url: str) -> str:
    """The URL without what may be a password."""
    return re.sub(r"//[^/@]*@", "//…@", url.partition("?")[0])


@contextmanager
def _explained(url: str) -> Generator[None]:
    try:
        yield
    except LithifyError:
        raise
    except FileNotFoundError as error:
        raise NotFound(f"{shown(url)} does not exist; check the URL") from error
    except PermissionError as error:
        raise InvalidRequest(f"{shown(url)}: permission denied; check the credentials") from error
    except (BotoCoreError, ClientError) as error:
        raise explain(error, shown(url)) from error
    except IsADirectoryError as error:
        raise InvalidRequest(f"{shown(url)} is a folder; name a file in it") from error
    except BrokenPipeError:
        raise
    except pa.ArrowInvalid:
        # Not chained: Arrow's message may quote a value.
        raise InvalidRequest(f"{shown(url)} is no Parquet file, or a damaged one") from None
    except OSError as error:
        raise Unavailable(f"{shown(url)}: {error.strerror or type(error).__name__}; try again") from error


def _file_system(url: str, options: Mapping[str, Any]) -> tuple[Any, str]:
    remote = "://" in url and not url.startswith(("file:", "memory:"))
    settings = {"use_listings_cache": False, "skip_instance_cache": True} if remote else {}
    try:
        return fsspec.core.url_to_fs(url, **options, **settings)
    except (ImportError, TypeError, ValueError) as error:
        # Not chained: such messages quote the options they dislike.
        raise InvalidRequest(f"{shown(url)} cannot be opened ({type(error).__name__}); check the URL") from None


@contextmanager
def open_source(url: str, options: Mapping[str, Any]) -> Generator[IO[bytes]]:
    """`-` is standard input. What ends in .gz, .zst, .bz2 or .xz is decompressed."""
    if url == "-":
        yield sys.stdin.buffer
        return
    with _explained(url):
        system, path = _file_system(url, options)
        compression = None if is_parquet(url) else fsspec.core.get_compression(path, "infer")
        with system.open(path, "rb") as stored:
            if compression is None:
                yield stored
                return
            with fsspec.compression.compr[compression](stored, mode="r") as plain:
                yield plain


def text_lines(source: IO[bytes]) -> Iterator[tuple[int, bytes]]:
    """Lines that are not blank, with their numbers from 1."""
    for number, line in enumerate(source, start=1):
        if not line.isspace():
            yield number, line


def parquet_tables(source: IO[bytes], rows_max: int, skip: int) -> Iterator[tuple[int, pa.Table]]:
    """Tables of at most `rows_max` rows after the first `skip`, with the number of each one's first row from 1."""
    file = pq.ParquetFile(source)
    columns = [name for name in file.schema_arrow.names if name not in _FROM_THE_LOG]
    at = 0
    for batch in file.iter_batches(batch_size=rows_max, columns=columns):
        passed = max(0, min(skip - at, batch.num_rows))
        at += passed
        if passed < batch.num_rows:
            yield at + 1, pa.Table.from_batches([batch.slice(passed)])
            at += batch.num_rows - passed


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
    with _explained(url):
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
