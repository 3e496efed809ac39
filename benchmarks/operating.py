"""What a service over many partitions costs: `lithify compactor run --http` as a process of its own, while appends come
in, a dashboard looks every five seconds, and every fifteen the metrics are scraped.

python -m benchmarks.operating                     1,000 partitions, ten minutes
python -m benchmarks.operating --minutes 2 --partitions 100
"""

import argparse
import os
import random
import statistics
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Generator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import msgspec
import urllib3
from prometheus_client.parser import text_string_to_metric_families

import lithify

__all__ = ["Operated", "Stretch", "operated"]

_OF_A_TOPIC = 20  # partitions
_FIRST_APPENDS = 4  # to each partition, before the service starts
_ROWS, _VALUE = 200, b"v" * 100
_SCRAPE_S, _LOOK_S, _INTERVAL_MS = 15.0, 5.0, 10_000
_STRETCHES = 5
_TICKS_PER_SECOND = os.sysconf("SC_CLK_TCK")
_CONFIG = {"cleanup.policy": "compact", "max.compaction.lag.ms": "300000"}


class Stretch(msgspec.Struct, frozen=True):
    """A part of the time. Memory is resident, at its end."""

    minutes: float
    cpu_percent: float  # of one processor
    resident_mb: float
    requests_per_s: float
    dollars_per_day: float  # at this rate, if the folder were S3
    appends: int
    jobs: int


class Operated(msgspec.Struct, frozen=True):
    partitions: int
    stretches: list[Stretch]
    scrapes: int
    scrape_ms: float  # the median
    scrape_ms_most: float
    overviews: int
    overview_ms: float
    overview_ms_most: float
    append_ms: float
    left_overdue: int  # partitions, at the end
    l0_most: int  # of a partition, at the end


def operated(partitions: int, minutes: float, appends_per_s: float) -> Operated:
    with tempfile.TemporaryDirectory(prefix="lithify-operating-") as folder:
        warehouse = lithify.open(f"file://{folder}")
        topics = _fill(warehouse, partitions)
        stop, append_ms = threading.Event(), list[float]()
        appender = threading.Thread(target=_append, args=(topics, appends_per_s, stop, append_ms))
        with _service(f"file://{folder}") as (url, process):
            appender.start()
            try:
                return _watch(url, process.pid, partitions, minutes, append_ms)
            finally:
                stop.set()
                appender.join()


def _fill(warehouse: lithify.Warehouse, partitions: int) -> list[lithify.Topic]:
    topics = [
        warehouse.create_topic(
            f"topic-{first // _OF_A_TOPIC:02}", min(_OF_A_TOPIC, partitions - first), _CONFIG, probe=False
        )
        for first in range(0, partitions, _OF_A_TOPIC)
    ]

    def fill(topic: lithify.Topic) -> None:
        for number in range(topic.partitions):
            for _ in range(_FIRST_APPENDS):
                topic.partition(number).append(_records())

    with ThreadPoolExecutor(4) as pool:
        list(pool.map(fill, topics))
    return topics


def _records() -> list[lithify.Record]:
    return [lithify.Record(b"key-%05d" % random.randrange(20_000), _VALUE) for _ in range(_ROWS)]


def _append(topics: list[lithify.Topic], per_s: float, stop: threading.Event, append_ms: list[float]) -> None:
    while not stop.wait(random.expovariate(per_s)):
        topic = random.choice(topics)
        began = time.perf_counter()
        topic.partition(random.randrange(topic.partitions)).append(_records())
        append_ms.append(1000 * (time.perf_counter() - began))


@contextmanager
def _service(warehouse: str) -> Generator[tuple[str, subprocess.Popen[str]]]:
    command = [sys.executable, "-m", "lithify.cli", "--warehouse", warehouse, "--log-level", "warning"]
    command += ["compactor", "run", "--engine", "local", "--http", "127.0.0.1:0"]
    command += ["--interval-ms", str(_INTERVAL_MS)]
    process = subprocess.Popen(command, stdout=subprocess.PIPE, text=True)
    assert process.stdout is not None
    try:
        yield process.stdout.readline().strip(), process
    finally:
        process.terminate()
        process.wait()


def _watch(url: str, pid: int, partitions: int, minutes: float, append_ms: list[float]) -> Operated:
    pool = urllib3.PoolManager()
    scrape_ms, look_ms = list[float](), list[float]()

    def get(path: str, took_ms: list[float]) -> bytes:
        began = time.perf_counter()
        reply = pool.request("GET", url + path, timeout=120)
        took_ms.append(1000 * (time.perf_counter() - began))
        assert reply.status == 200, reply.status
        return reply.data

    stretches = list[Stretch]()
    ended, before = time.monotonic(), _counts(get("/metrics", []), pid, len(append_ms))
    for _ in range(_STRETCHES):
        began, ended = ended, ended + 60 * minutes / _STRETCHES
        scraped = looked = began
        while (now := time.monotonic()) < ended:
            if now >= looked:
                get("/v1/overview", look_ms)
                looked += _LOOK_S
            if now >= scraped:
                get("/metrics", scrape_ms)
                scraped += _SCRAPE_S
            time.sleep(max(0.0, min(looked, scraped, ended) - time.monotonic()))
        after = _counts(get("/metrics", scrape_ms), pid, len(append_ms))
        stretches.append(_stretch(before, after))
        before = after
    found: Any = msgspec.json.decode(get("/v1/overview", look_ms))
    return Operated(
        partitions=partitions,
        stretches=stretches,
        scrapes=len(scrape_ms),
        scrape_ms=statistics.median(scrape_ms),
        scrape_ms_most=max(scrape_ms),
        overviews=len(look_ms),
        overview_ms=statistics.median(look_ms),
        overview_ms_most=max(look_ms),
        append_ms=statistics.median(append_ms),
        left_overdue=sum(each["overdue"] is not None for each in found["partitions"]),
        l0_most=max(each["l0_segments"] for each in found["partitions"]),
    )


def _counts(metrics: bytes, pid: int, appends: int) -> dict[str, float]:
    sums: dict[str, float] = {}
    for family in text_string_to_metric_families(metrics.decode()):
        for sample in family.samples:
            sums[sample.name] = sums.get(sample.name, 0) + sample.value
    fields = Path(f"/proc/{pid}/stat").read_text().rsplit(") ", 1)[1].split()
    pages = int(Path(f"/proc/{pid}/statm").read_text().split()[1])
    return {
        "at_s": time.monotonic(),
        "cpu_s": sum(map(int, fields[11:15])) / _TICKS_PER_SECOND,
        "resident_mb": pages * os.sysconf("SC_PAGE_SIZE") / 1e6,
        "requests": sums["lithify_requests_total"],
        "dollars": sums["lithify_request_dollars_total"],
        "appends": appends,
        "jobs": sums.get("lithify_compactions_total", 0),
    }


def _stretch(before: dict[str, float], after: dict[str, float]) -> Stretch:
    grew = {name: after[name] - before[name] for name in after}
    return Stretch(
        minutes=grew["at_s"] / 60,
        cpu_percent=100 * grew["cpu_s"] / grew["at_s"],
        resident_mb=after["resident_mb"],
        requests_per_s=grew["requests"] / grew["at_s"],
        dollars_per_day=grew["dollars"] / grew["at_s"] * 86_400,
        appends=int(grew["appends"]),
        jobs=int(grew["jobs"]),
    )


if __name__ == "__main__":
    parser = argparse.ArgumentParser("python -m benchmarks.operating")
    parser.add_argument("--partitions", type=int, default=1_000)
    parser.add_argument("--minutes", type=float, default=10)
    parser.add_argument("--appends-per-s", type=float, default=5)
    given = parser.parse_args()
    report = operated(given.partitions, given.minutes, given.appends_per_s)
    print(msgspec.json.format(msgspec.json.encode(report)).decode())
