"""A stream from topic to topic whose JVM is killed with SIGKILL, again and again, at every point of a batch, across
appends, compaction, collection and growth at both ends: every record is there exactly once (RFC 0022)."""

import subprocess
import sys
from pathlib import Path

import pytest

import lithify
from lithify.log.topic import Topic
from tests.log.compaction import collect, compact
from tests.processes import running
from tests.spark.mortal import POINTS

pytestmark = [pytest.mark.soak, pytest.mark.xdist_group("spark")]

KEPT = {"cleanup.policy": "compact", "min.compaction.lag.ms": "0"}


def append(topic: Topic, start: int, count: int) -> None:
    topic.append([lithify.Record(b"%05d" % n, b"v") for n in range(start, start + count)])


def run(url: str, places: Path, point: str) -> int:
    command = [sys.executable, "-m", "tests.spark.mortal", url, str(places), point]
    with running(command, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE) as process:
        said = process.communicate(timeout=300)[1].decode(errors="replace")
    assert process.returncode != 0 or point == "never", f"the point {point!r} was never met"
    assert process.returncode == 0 or point != "never", said[-4_000:]
    return process.returncode


def test_every_record_is_written_once_however_often_it_is_killed(
    url: str, warehouse: lithify.Warehouse, tmp_path: Path
) -> None:
    source = warehouse.create_topic("source", partitions=2, config=KEPT)
    target = warehouse.create_topic("t", partitions=2, config=KEPT)
    places, appended = tmp_path / "checkpoint", 0
    for turn, point in enumerate([*POINTS, *POINTS]):
        append(source, appended, 90)
        appended += 90
        run(url, places, point)
        if turn == 3:
            source.alter(partitions=3)
        if turn == 5:
            target.alter(partitions=4)
        for name in ("source", "t"):
            compact(warehouse, name, turn % 2)
            collect(warehouse, name, turn % 2)
    run(url, places, "never")
    parts = [target.partition(number) for number in range(4)]
    offsets = sum(part.describe().next_offset for part in parts)
    found = sorted(row.key or b"" for part in parts for row in part.read())
    assert found == [b"%05d" % n for n in range(appended)]
    assert offsets == appended  # compaction would hide a record that was written twice
