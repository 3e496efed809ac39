"""An export to a folder: a Parquet file for each task of a plan, written by Spark's workers or by this process.

`_SUCCESS` is written last, as Spark does: a folder without it is not complete.
"""

import functools
from collections.abc import Generator, Mapping
from contextlib import contextmanager, suppress
from datetime import timedelta
from typing import Any

import msgspec
import pyarrow as pa
from fsspec.implementations.local import LocalFileSystem

from lithify.cli.records.bulk import file_system
from lithify.cli.records.explained import explained_target
from lithify.cli.records.formats import parquet_name
from lithify.cli.records.parts import Where, check_travels, in_parts, travelling, where_to_work
from lithify.cli.records.sinks import open_sink
from lithify.log.read_task import read_task
from lithify.log.snapshot import Snapshot
from lithify.log.topic import Topic
from lithify.log.topic_snapshot import TopicSnapshot
from lithify.segment.read_task import ReadTask, homes_needed
from lithify.store.errors import InvalidRequest, LithifyError
from lithify.store.homes import Homes
from lithify.store.opening_homes import opened_spec
from lithify.store.port import StoreSpec
from lithify.store.urls import shown

__all__ = ["export_folder"]

HELD_FOR = timedelta(hours=1)  # each task that is read renews it
_DONE = "_SUCCESS"


def export_folder(
    topic: Topic,
    homes: Homes,
    target: str,
    options: Mapping[str, Any],
    where: Where,
    *,
    latest: bool,
    partition: int | None = None,
    checkpoint: str | None = None,
) -> int:
    """Write the topic, or one partition of it, to the folder `target`, which ends in "/" and must be empty; returns the
    number of records. Pins what it reads. Raises as exports to files do, and InvalidRequest if the folder has files."""
    _check_empty(target, options)
    with _held(topic, partition, checkpoint) as found:
        tasks = found.plan(view="latest" if latest else "log")
        where = where_to_work(where, sum(task.bytes for task in tasks))
        if where.engine == "spark":
            spec = homes.spec(homes_needed(tasks))
            check_travels(spec)
            part = functools.partial(_on_worker, tasks, spec, target, travelling(target, options))
        else:
            part = functools.partial(_written, tasks, homes, target, dict(options))
        rows = sum(msgspec.json.decode(reply, type=int) for reply in in_parts(part, len(tasks), where))
    with open_sink(target + _DONE, options):
        pass
    return rows


@contextmanager
def _held(topic: Topic, partition: int | None, checkpoint: str | None) -> Generator[Snapshot | TopicSnapshot]:
    """What is exported; pinned within the block, if no checkpoint does that."""
    place = topic if partition is None else topic.partition(partition)
    if checkpoint is not None:
        yield place.pinned(checkpoint)
        return
    found = place.snapshot(ttl=HELD_FOR)
    try:
        yield found
    finally:
        with suppress(LithifyError):  # it expires
            found.release()


def _check_empty(target: str, options: Mapping[str, Any]) -> None:
    with explained_target(shown(target)):
        system, path = file_system(target, options)
        there = bool(system.exists(path) and system.find(path))
        if not there and isinstance(system, LocalFileSystem):
            system.makedirs(path, exist_ok=True)  # elsewhere folders are names, and s3fs would make the bucket
    if there:
        raise InvalidRequest(f"{shown(target)} has files in it: name a new folder, or remove what is there")


def _on_worker(tasks: list[ReadTask], spec: StoreSpec, target: str, options: dict[str, Any], number: int) -> bytes:
    return _written(tasks, opened_spec(spec), target, options, number)


def _written(tasks: list[ReadTask], homes: Homes, target: str, options: dict[str, Any], number: int) -> bytes:
    """One file. Written twice it is the same, and each time it appears whole."""
    task, rows = tasks[number], 0
    reader = read_task(task, homes)
    first = next(_batches(reader), None)
    if first is not None:
        with open_sink(parquet_name(f"{target}part-{number:05}"), options) as sink:
            sink.write(first, task.partition)
            for batch in _batches(reader):
                sink.write(batch, task.partition)
            rows = sink.rows
    return msgspec.json.encode(rows)


def _batches(reader: pa.RecordBatchReader) -> Any:
    return (batch for batch in reader if batch.num_rows)
