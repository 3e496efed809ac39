"""Whoever reads a task renews the pins of all partitions of its query (docs/rfcs/0021, history 9)."""

import dataclasses
import pickle
from collections.abc import Iterator, Sequence
from datetime import timedelta
from unittest.mock import Mock

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from lithify.log.planning import BESIDE_MAX, held_together
from lithify.log.read_task import read_task
from lithify.log.record import Record
from lithify.log.topic import Topic
from lithify.log.warehouse import Warehouse
from lithify.manifest.bounds import EVERYTHING
from lithify.manifest.keys import PartitionKeys
from lithify.segment.read_task import Hold, ReadTask
from lithify.store.errors import Unavailable
from tests.clock import HandClock
from tests.log.compaction import collect, compact

TTL_MS = 600_000
HELD_FOR = timedelta(milliseconds=TTL_MS)


def made(warehouse: Warehouse, partitions: int, appends: int = 6) -> Topic:
    topic = warehouse.create_topic("t", partitions=partitions, config={"cleanup.policy": "compact"})
    for number in range(partitions):
        for n in range(appends):
            topic.partition(number).append([Record(b"%d" % n, b"v")])
    return topic


def reading(task: ReadTask, warehouse: Warehouse, clock: HandClock) -> Iterator[pa.RecordBatch]:
    """As a worker does: from the task as it arrived alone."""
    return iter(read_task(pickle.loads(pickle.dumps(task)), warehouse.store, clock))


def later(warehouse: Warehouse, partitions: int) -> None:
    """All that is not pinned is collected."""
    for number in range(partitions):
        compact(warehouse, "t", number)
        warehouse.topic("t").partition(number).append([Record(b"0", b"later")])
        collect(warehouse, "t", number)


def left_ms(topic: Topic, clock: HandClock) -> list[int]:
    """For how long each partition's pin lasts."""
    parts = [topic.partition(number) for number in range(topic.partitions)]
    return [max((pin.expires_at_ms or 0) - clock() for pin in part.checkpoints("scan")) for part in parts]


@pytest.mark.slow
@pytest.mark.parametrize("step_ms", [TTL_MS // 5, TTL_MS // 20, TTL_MS // 60])
def test_a_query_that_reads_one_partition_for_long_keeps_the_others(
    warehouse: Warehouse, clock: HandClock, step_ms: int
) -> None:
    """One worker, whose consumer takes its time over each task. Before, the pins of partitions that it had not begun
    expired meanwhile."""
    partitions = 5
    topic = made(warehouse, partitions)
    tasks = topic.snapshot(HELD_FOR).plan(view="log", tasks=partitions * 4)
    first = [task for task in tasks if task.partition == 0]
    assert len(first) > 1
    since_ms, rows = clock(), 0
    while clock() < since_ms + 3 * TTL_MS:
        for task in first:
            for _ in reading(task, warehouse, clock):
                clock.now_ms += step_ms
        assert min(left_ms(topic, clock)) > 0
        later(warehouse, partitions)
    for task in tasks:
        rows += sum(batch.num_rows for batch in reading(task, warehouse, clock))
    assert rows == partitions * 6


def test_without_anyone_who_reads_all_pins_expire(warehouse: Warehouse, clock: HandClock) -> None:
    topic = made(warehouse, 2)
    topic.snapshot(HELD_FOR).plan(view="log")
    clock.now_ms += TTL_MS
    assert left_ms(topic, clock) == [0, 0]


def test_before_they_are_due_nobody_looks_and_of_many_readers_one_commits(
    warehouse: Warehouse, clock: HandClock
) -> None:
    partitions = 4
    topic = made(warehouse, partitions, appends=3)
    tasks = topic.snapshot(HELD_FOR).plan(view="log", tasks=partitions * 3)
    heads = [topic.partition(number).describe().manifest_id for number in range(partitions)]
    for task in tasks:
        list(reading(task, warehouse, clock))
    assert [topic.partition(number).describe().manifest_id for number in range(partitions)] == heads
    clock.now_ms += TTL_MS // 2
    for _ in range(3):
        for task in tasks:
            list(reading(task, warehouse, clock))
    assert [topic.partition(number).describe().manifest_id for number in range(partitions)] == [n + 1 for n in heads]


def test_a_partition_whose_pin_cannot_be_renewed_ends_no_read(warehouse: Warehouse, clock: HandClock) -> None:
    topic = made(warehouse, 2)
    snapshot = topic.snapshot(HELD_FOR)
    tasks = snapshot.plan(view="log")
    snapshot.partitions[1].release()
    clock.now_ms += TTL_MS // 2
    assert sum(batch.num_rows for task in tasks for batch in reading(task, warehouse, clock)) == 12
    assert topic.partition(1).checkpoints("scan") == ()


def test_a_pin_that_cannot_be_released_keeps_no_other(warehouse: Warehouse) -> None:
    snapshot = made(warehouse, 3).snapshot(HELD_FOR)
    failing = Mock(store=snapshot.partitions[0].store, release=Mock(side_effect=Unavailable("away")))
    broken = dataclasses.replace(snapshot, partitions=(failing, *snapshot.partitions[1:]))
    with pytest.raises(Unavailable, match="away"):
        broken.release()
    pinned = [bool(warehouse.topic("t").partition(number).checkpoints("scan")) for number in range(3)]
    assert pinned == [True, False, False]


def bare(partition: int, hold: Hold | None) -> ReadTask:
    keys = PartitionKeys("t", "0" * 16, partition)
    return ReadTask(
        keys=keys,
        manifest_id=1,
        view="log",
        columns=("key",),
        bounds=EVERYTHING,
        runs=(),
        l0=(),
        hold=hold,
        rows=0,
        bytes=0,
    )


def beside(tasks: Sequence[ReadTask]) -> list[set[int]]:
    return [{each.partition for each in task.beside} for task in tasks]


@given(counts=st.lists(st.integers(0, 3), min_size=1, max_size=5 * BESIDE_MAX))
def test_tasks_that_follow_each_other_carry_the_holds_of_all_partitions(counts: list[int]) -> None:
    tasks = held_together(
        [bare(number, Hold(f"pin-{number}", TTL_MS, number)) for number, of in enumerate(counts) for _ in range(of)]
    )
    there = {task.partition for task in tasks}
    step = -(-len(there) // BESIDE_MAX)
    for at, task in enumerate(tasks):
        assert task.partition not in beside([task])[0]
        assert len(task.beside) <= BESIDE_MAX
        following = tasks[at : at + step + 1]
        together = set().union(*beside(following)) | {each.partition for each in following}
        assert at + step >= len(tasks) or together == there
        assert all(each.hold.id == f"pin-{each.partition}" for each in task.beside)


def test_what_nothing_pins_is_not_carried() -> None:
    assert beside(held_together([bare(0, None), bare(1, None)])) == [set(), set()]
    assert beside(held_together([bare(0, Hold("a", 1, 1)), bare(1, None)])) == [set(), {0}]
