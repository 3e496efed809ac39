"""Targets of exported records: standard output, or a file or object that appears only when it is complete."""

import io
import os
import stat
import sys
from collections.abc import Generator, Mapping
from contextlib import contextmanager, nullcontext, suppress
from pathlib import Path
from typing import IO, Any, Protocol

import pyarrow as pa
import pyarrow.parquet as pq
from fsspec.implementations.local import LocalFileSystem

from lithify.cli.records.bulk import file_system
from lithify.cli.records.explained import explained_target
from lithify.cli.records.formats import Format, check_target_format, compressed, format_of, is_parquet
from lithify.cli.records.lines import record_lines
from lithify.segment.schema import RECORDS
from lithify.store.disk import Disk, sync_folder
from lithify.store.driver import new_id
from lithify.store.errors import InvalidRequest, LithifyError, NotFound
from lithify.store.file_errors import READ_ONLY
from lithify.store.file_output import FileOutput, forget
from lithify.store.opening import open_store
from lithify.store.s3_errors import error_code
from lithify.store.urls import shown

__all__ = ["Sink", "open_sink"]

_PARTITION = pa.field("partition", pa.int32())


class _Target(Protocol):
    """`open` raises what can be known before anything is written. Only `close` gives the object its name; in any case
    `abort` then removes everything else."""

    def open(self) -> None: ...
    def write(self, data: Any, /) -> int: ...
    def close(self) -> None: ...
    def abort(self) -> None: ...


class _LocalFile:
    """Written beside `path`, so that it can be renamed, not copied. A link stays, and its target is replaced."""

    def __init__(self, disk: Disk, path: str) -> None:
        self._disk = disk
        self._path = Path(os.path.realpath(path))
        self._temporary = self._path.parent / f".lithify-export-{new_id()}"
        self._output: FileOutput | None = None

    def open(self) -> None:
        before = self._mode_before()
        try:
            self._output = FileOutput(
                *(self._disk, self._temporary, self._path), require=lambda: None, publish=self._publish
            )
        except (FileNotFoundError, NotADirectoryError) as error:
            raise NotFound(f"{self._path.parent} does not exist: create the folder, or name another") from error
        if before is not None and before != stat.S_IMODE(self._disk.stat(self._temporary).st_mode):
            self._disk.set_mode(self._temporary, before)  # who could not read the former file cannot read this one

    def _mode_before(self) -> int | None:
        try:
            mode = self._disk.stat(self._path).st_mode
        except FileNotFoundError:
            return None
        if stat.S_ISDIR(mode):
            raise IsADirectoryError
        if not stat.S_ISREG(mode):
            raise InvalidRequest(f"{self._path} is not a regular file: use --to - and redirect standard output to it")
        return stat.S_IMODE(mode)

    def write(self, data: Any, /) -> int:
        assert self._output is not None
        return self._output.write(data)

    def close(self) -> None:
        assert self._output is not None
        self._output.close()

    def abort(self) -> None:
        if self._output is not None:
            self._output.abort()
        forget(self._disk, self._temporary)

    def _publish(self, temporary: Path, final: Path) -> None:
        self._disk.rename(temporary, final)
        try:
            sync_folder(self._disk, final.parent)
        except OSError as error:
            if error.errno not in READ_ONLY:  # not ours to flush
                raise


class _StoredObject:
    """An object in S3, uploaded by lithify's own store: whole or nothing."""

    def __init__(self, url: str, options: Mapping[str, Any]) -> None:
        root, _, self._key = url.rpartition("/")
        if root.endswith(":/") or not self._key:
            raise InvalidRequest(f"{shown(url)} names no object: give s3://bucket/name")
        self._store = open_store(root, options)
        self._output = self._store.output(self._key)

    def open(self) -> None:
        """A refusal to read says nothing about writing."""
        try:
            self._store.head(self._key)
        except LithifyError as error:
            if error.__cause__ is None or error_code(error.__cause__) != "AccessDenied":
                raise

    def write(self, data: Any, /) -> int:
        return self._output.write(data)

    def close(self) -> None:
        self._output.close()

    def abort(self) -> None:
        self._output.abort()
        self._store.close()


class _Elsewhere:
    """A file of another fsspec filesystem. Not all of them support `autocommit=False`: written beside, then moved."""

    def __init__(self, system: Any, path: str) -> None:
        self._system = system
        self._path = path
        self._temporary = f"{path.rpartition('/')[0]}/.lithify-export-{new_id()}"
        self._file: Any = None

    def open(self) -> None:
        self._file = self._system.open(self._temporary, "wb")

    def write(self, data: Any, /) -> int:
        return self._file.write(data)

    def close(self) -> None:
        self._file.close()
        self._system.mv(self._temporary, self._path)
        self._file = None

    def abort(self) -> None:
        if self._file is None:
            return
        for step in (self._file.close, lambda: self._system.rm_file(self._temporary)):
            with suppress(Exception):  # every filesystem has its own errors, and the first one counts
                step()


class _Pipe(io.RawIOBase):
    """What encoders write to. A forgotten encoder ends by itself and writes its last bytes, which must not become an
    object."""

    def __init__(self, target: _Target) -> None:
        self._target = target
        self.broken = False

    def writable(self) -> bool:
        return True

    def write(self, data: Any, /) -> int:
        return memoryview(data).nbytes if self.broken else self._target.write(data)


class Sink:
    """Takes record batches; `rows` counts them. `name`: the target's name in errors of writing; None: they are raised
    unchanged."""

    def __init__(self, file: IO[bytes], name: str | None, kind: Format = "json") -> None:
        self.rows = 0
        self._file = file
        self._name = name
        self._csv: Any = None
        self._writer: pq.ParquetWriter | None = None
        if kind == "parquet":
            self._writer = pq.ParquetWriter(
                file, RECORDS.append(_PARTITION), compression="zstd", write_page_checksum=True
            )
        elif kind != "json":
            from lithify.cli.records.csv_rows import open_csv

            self._csv = open_csv(file, kind)

    def write(self, batch: pa.RecordBatch, partition: int) -> None:
        """Write `batch`, with schema RECORDS."""
        self.rows += batch.num_rows
        if self._csv is not None:
            self._write_csv(batch, partition)
            return
        with explained_target(self._name) if self._name else nullcontext():
            if self._writer is None:
                self._file.write(b"".join(record_lines(batch, partition)))
                return
            numbers = pa.repeat(pa.scalar(partition, pa.int32()), batch.num_rows)
            columns: list[Any] = [*batch.columns, numbers]
            self._writer.write_batch(pa.RecordBatch.from_arrays(columns, schema=RECORDS.append(_PARTITION)))

    def _write_csv(self, batch: pa.RecordBatch, partition: int) -> None:
        from lithify.cli.records.csv_rows import written_columns

        rows = written_columns(batch, partition)
        with explained_target(self._name) if self._name else nullcontext():
            self._csv.write_batch(rows)

    def finish(self) -> None:
        for writer in (self._writer, self._csv):
            if writer is not None:
                writer.close()


@contextmanager
def open_sink(url: str, options: Mapping[str, Any], given: str | None = None) -> Generator[Sink]:
    """`-` is standard output. `given`: the format, if not the name decides. Elsewhere the object appears when it is
    complete; if anything fails before, the old object stays. A target that cannot be written raises at once."""
    if url == "-":
        if is_parquet(url, given):
            raise InvalidRequest("Parquet is not written to standard output; name a file")
        sink = Sink(sys.stdout.buffer, None, format_of(url, given))  # a reader that goes away is not an error here
        yield sink
        sink.finish()
        return
    name = shown(url)
    check_target_format(url, given)
    with explained_target(name):
        target = _target(url, options)
    pipe = _Pipe(target)
    try:
        with explained_target(name):
            target.open()
            file: Any = pipe if is_parquet(url, given) else compressed(pipe, url)
            sink = Sink(file, name, format_of(url, given))
        yield sink
        with explained_target(name):
            sink.finish()
            if file is not pipe:
                file.close()
            target.close()
    finally:
        pipe.broken = True
        target.abort()


def _target(url: str, options: Mapping[str, Any]) -> _Target:
    if url.partition("://")[0].lower() in ("s3", "s3a"):
        return _StoredObject(url, options)
    if url.endswith("/"):
        raise InvalidRequest(f"{shown(url)} is a folder; name a file in it")
    system, path = file_system(url, options)
    return _LocalFile(Disk(), path) if isinstance(system, LocalFileSystem) else _Elsewhere(system, path)
