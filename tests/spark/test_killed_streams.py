"""A stream from topic to topic whose JVM is killed with SIGKILL, again and again, at every point of a batch, across
appends, compaction, collection, retention and growth at both ends: every record that retention left is there exactly
once (RFC 0022)."""

import subprocess
import sys
from collections import Counter
from pathlib import Path

import pytest

import lithify
from lithify.log.topic import Topic
from tests.log.compaction import collect, compact
from tests.processes import running
from tests.spark.mortal import POINTS

# Eleven Sparks, one after the other: on a machine that does other things, too, they take a quarter of an hour.
pytestmark = [pytest.mark.soak, pytest.mark.long, pytest.mark.timeout(1_800)]

KEPT = {"cleanup.policy": "compact,delete", "min.compaction.lag.ms": "0"}
UNBOUNDED = {"retention.ms": "-1", "retention.bytes": "-1"}


def append(topic: Topic, start: int, count: int, timestamp_ms: int) -> None:
    topic.append([lithify.Record(b"%05d" % n, b"v", timestamp_ms) for n in range(start, start + count)])


def run(url: str, places: Path, point: str) -> int:
    command = [sys.executable, "-m", "tests.spark.mortal", url, str(places), point]
    with running(command, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE) as process:
        said = process.communicate(timeout=300)[1].decode(errors="replace")
    assert process.returncode != 0 or point == "never", f"the point {point!r} was never met"
    assert process.returncode == 0 or point != "never", said[-4_000:]
    return process.returncode


class Retention:
    """What is removed from the source between two deaths, in three ways by turns: all records that came to the target
    must have come once, and all that did not were removed before they were read."""

    def __init__(self, source: Topic, target: Topic) -> None:
        self._source = source
        self._target = target
        self.arrived = Counter[bytes]()
        self.lost = set[bytes]()

    def harvest(self) -> None:
        """Note what has arrived in the target, and remove it there: what a batch appended before stays known."""
        for number in range(self._target.partitions_now()):
            part = self._target.partition(number)
            self.arrived.update(row.key or b"" for row in part.read(part.snapshot().log_start_offset))
            part.delete_records(-1)

    def strike(self, turn: int) -> None:
        self.harvest()
        parts = [self._source.partition(number) for number in range(self._source.partitions_now())]
        kept = [{row.key or b"": row.offset for row in part.read(part.snapshot().log_start_offset)} for part in parts]
        match turn % 3:
            case 0:
                logs = {part.number: part.snapshot() for part in parts}
                third = {number: (2 * log.log_start_offset + log.next_offset) // 3 for number, log in logs.items()}
                self._source.delete_records(third)
            case 1:
                self._source.alter({"retention.bytes": "1"})
            case _:
                self._source.alter({"retention.ms": "60000"})
        floors = [part.snapshot().log_start_offset for part in parts]
        for offsets, floor in zip(kept, floors, strict=True):
            self.lost.update(key for key, offset in offsets.items() if offset < floor and key not in self.arrived)
        self._source.alter(UNBOUNDED)
        assert [part.snapshot().log_start_offset for part in parts] == floors


def test_every_record_is_written_once_however_often_it_is_killed(
    url: str, warehouse: lithify.Warehouse, tmp_path: Path
) -> None:
    source = warehouse.create_topic("source", partitions=2, config=KEPT | UNBOUNDED)
    target = warehouse.create_topic("t", partitions=2, config=KEPT | UNBOUNDED)
    places, appended, retention = tmp_path / "checkpoint", 0, Retention(source, target)
    an_hour_ago = warehouse.driver.now_ms() - 3_600_000
    for turn, point in enumerate([*POINTS, *POINTS]):
        append(source, appended, 60, an_hour_ago)
        appended += 60
        run(url, places, point)
        if turn == 3:
            source.alter(partitions=3)
        if turn == 5:
            target.alter(partitions=4)
        for name in ("source", "t"):
            compact(warehouse, name, turn % 2)
            collect(warehouse, name, turn % 2)
        if turn in (1, 4, 6, 8):
            retention.strike(turn)
    run(url, places, "never")
    retention.harvest()
    offsets = sum(target.partition(number).describe().next_offset for number in range(4))
    assert set(retention.arrived.values()) == {1}
    assert retention.arrived.keys() | retention.lost == {b"%05d" % n for n in range(appended)}
    assert retention.arrived.keys().isdisjoint(retention.lost)
    assert len(retention.arrived) == offsets  # compaction would hide a record that was written twice
    assert retention.lost
    assert len(retention.arrived) > appended // 10
