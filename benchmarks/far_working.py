"""Rows of `far` that write: one append, many at a time, compactions."""

import multiprocessing
import threading
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import msgspec

import lithify
from benchmarks.far_rows import FarRow
from benchmarks.far_site import CONFIG, Place, Site, timed
from benchmarks.generate import tables

__all__ = ["append", "appends", "compact", "large", "spark"]

_RECORDS = 100
_THREADS = (1, 8, 32, 64)
_PROCESSES = 8
_APPENDING_S = 4.0
_LARGER = 5
_CONFIG = {"cleanup.policy": "compact"}


def _records() -> list[lithify.Record]:
    return [lithify.Record(b"key-%05d" % number, b"v" * 100) for number in range(_RECORDS)]


def _topic(place: Place, url: str) -> lithify.Topic:
    return place.open(url).create_topic("own", 1, _CONFIG, probe=False)


def append(site: Site) -> Iterator[FarRow]:
    """Warm: the handle has appended before."""
    partitions = {place.name: _topic(place, site.fresh_url()).partition(0) for place in site.places}
    records = _records()
    found = site.alternately(31, lambda place: timed(lambda: partitions[place.name].append(records)), warm=3)
    yield FarRow.of("append", "append of 100 records", "ms", found)


def appends(site: Site) -> Iterator[FarRow]:
    """How many of 100 records a second, through one handle by some threads, and by processes to one partition."""
    for threads in _THREADS:
        what = f"appends a second, {threads} {'threads' if threads > 1 else 'thread'}"
        yield _per_s(site, what, lambda place, threads=threads: _by_threads(site, place, threads))
    yield _per_s(
        site, f"appends a second, {_PROCESSES} processes on one partition", lambda place: _by_processes(site, place)
    )


def _per_s(site: Site, what: str, run: Callable[[Place], float]) -> FarRow:
    return FarRow.of("appends", what, "/s", site.alternately(2, run, warm=0))


def _appending_s(site: Site) -> float:
    return 0.5 if site.quick else _APPENDING_S


def _by_threads(site: Site, place: Place, threads: int) -> float:
    partition = _topic(place, site.fresh_url()).partition(0)
    partition.append(_records())
    ready = threading.Barrier(threads)
    with ThreadPoolExecutor(threads) as pool:
        counting = [pool.submit(_append_for, partition, _appending_s(site), ready) for _ in range(threads)]
        return sum(each.result() for each in counting)


def _append_for(partition: lithify.Partition, seconds: float, ready: Any) -> float:
    """How many a second. What was begun in time is waited for."""
    records, done = _records(), 0
    ready.wait()
    began = time.perf_counter()
    while time.perf_counter() - began < seconds:
        partition.append(records)
        done += 1
    return done / (time.perf_counter() - began)


def _by_processes(site: Site, place: Place) -> float:
    url = site.fresh_url()
    _topic(place, url)
    context = multiprocessing.get_context("spawn")
    with context.Manager() as manager:
        ready, answers = manager.Barrier(_PROCESSES), manager.Queue()
        given = (url, place.endpoint.options, _appending_s(site), ready, answers)
        processes = [context.Process(target=_process, args=given) for _ in range(_PROCESSES)]
        for process in processes:
            process.start()
        for process in processes:
            process.join()
        assert not any(process.exitcode for process in processes), "a process that appends has failed"
        return sum(answers.get() for _ in range(_PROCESSES))


def _process(url: str, options: dict[str, Any], seconds: float, ready: Any, answers: Any) -> None:
    partition = lithify.open(url, storage_options=options).topic("own").partition(0)
    partition.append(_records())
    answers.put(_append_for(partition, seconds, ready))


def compact(site: Site) -> Iterator[FarRow]:
    yield _compacted(site, "compact", "compaction, local engine", "local")


def spark(site: Site) -> Iterator[FarRow]:
    """The session is warm."""
    engine = lithify.SparkEngine("local[2]")
    try:
        yield _compacted(site, "spark", "compaction, Spark", engine)
    finally:
        engine.close()


def large(site: Site) -> Iterator[FarRow]:
    """What of a compaction's distance is its round trips, which do not grow with the data."""
    url = site.fresh_url()
    partition = site.near.open(url).create_topic("large", 1, CONFIG, probe=False).partition(0)
    for table in tables(msgspec.structs.replace(site.shape, rows=_LARGER * site.shape.rows)):
        partition.append(table)
    what = f"compaction of {_LARGER} times as much, local engine"
    yield _compacted(site, "large", what, "local", partition=("large", url), times=3)


def _compacted(
    site: Site, row: str, what: str, engine: Any, *, partition: tuple[str, str] | None = None, times: int = 5
) -> FarRow:
    """A clean of 8 L0 segments, after which the partition (topic, URL) is what it was before."""
    topic, url = partition or ("l0", site.data)
    prefix = f"{url.rpartition('/')[2]}/{topic}/"
    there = site.objects(prefix)

    def run(place: Place) -> float:
        warehouse = place.open(url)
        warehouse.topic(topic).partition(0).describe()  # the head is known, the clients are connected
        only = _Only(warehouse)
        took = timed(lambda: lithify.Compactor(only, engine).run_once())
        new = [key for key in site.objects(prefix) if key not in there]
        assert any(key.endswith(".parquet") for key in new), "nothing was compacted"
        site.delete(new)
        return took

    return FarRow.of(row, what, "s", site.alternately(times, run))


class _Only:
    """As much of a warehouse as a compactor needs."""

    def __init__(self, warehouse: lithify.Warehouse) -> None:
        self.driver = warehouse.driver
