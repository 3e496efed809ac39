"""R3 where a topic is altered while others work in it: no floor goes by bounds that hold no more."""

import itertools
from collections.abc import Callable, Coroutine, Sequence
from typing import Any

import pytest
from msgspec.structs import replace

from lithify.compactor.compactor import Compactor
from lithify.compactor.engine import Running
from lithify.compactor.engines.local import LocalEngine
from lithify.compactor.served import LOOK_FRESH_MS
from lithify.log.record import Record
from lithify.log.topic import Topic
from lithify.log.warehouse import Warehouse
from lithify.manifest.appends import Append
from lithify.manifest.catalog import alter_topic, create_topic, keep_bounds, partition_keys, topic_lineage
from lithify.manifest.codec import encode
from lithify.manifest.floor import SetBounds
from lithify.manifest.keys import PartitionKeys, TopicKeys
from lithify.manifest.lifetime import CreatePartition
from lithify.manifest.model import FORMAT, Manifest
from lithify.manifest.partition import PartitionFiles
from lithify.manifest.retention import KEEP_ALL, Retention, bounds_before, floor_at
from lithify.segment.task import MergeTask
from lithify.store.driver import Driver
from lithify.store.homes import Homes
from lithify.store.memory import MemoryStore
from lithify.store.port import Create, Outcome
from tests.clock import HandClock
from tests.interleave import World
from tests.protocol.scene import Held, creates_in, segment

CLEANED = {"cleanup.policy": "compact,delete", "min.cleanable.dirty.ratio": "0", "delete.retention.ms": "0"}


def opened() -> tuple[Warehouse, HandClock]:
    clock = HandClock()
    return Warehouse(Driver(MemoryStore(), clock)), clock


class Meanwhile:
    """The local engine; when the first tasks start, something happens."""

    name = "local"

    def __init__(self, happens: Callable[[], object]) -> None:
        self._engine = LocalEngine(1)
        self._happens: list[Callable[[], object]] = [happens]

    def start(self, homes: Homes, tasks: Sequence[MergeTask], label: str) -> Running:
        while self._happens:
            self._happens.pop()()
        return self._engine.start(homes, tasks, label)

    def close(self) -> None:
        self._engine.close()


def appended(topic: Topic, clock: HandClock, *values: int) -> None:
    for value in values:
        topic.partition(0).append([Record(b"%d" % value, b"x" * 100, clock.now_ms)])


@pytest.mark.parametrize(
    ("narrow", "wide"),
    [
        ({"retention.ms": 1_000}, {"retention.ms": -1}),
        ({"retention.records": 4}, {"retention.records": -1}),
        ({"retention.bytes": 6_000, "retention.ms": -1}, {"retention.bytes": -1}),
        ({"retention.ms": 1_000}, {"cleanup.policy": "compact"}),
    ],
    ids=",".join,
)
def test_a_job_stores_no_floor_by_bounds_that_were_widened_while_it_ran(
    narrow: dict[str, int], wide: dict[str, Any]
) -> None:
    warehouse, clock = opened()
    topic = warehouse.create_topic("t", config={**CLEANED, "retention.ms": -1, **narrow})
    appended(topic, clock, 0, 1, 2, 3)

    def widened() -> None:
        warehouse.topic("t").alter(wide)
        clock.now_ms += 5_000
        appended(topic, clock, 4, 5, 6, 7)

    compactor = Compactor(warehouse, Meanwhile(widened))
    report = compactor.run_once()
    compactor.close()
    assert [job.status for each in report.partitions for job in each.jobs][:1] == ["completed"]
    assert topic.partition(0).describe().log_start_offset == 0
    assert [record.offset for record in topic.partition(0).read()] == [*range(8)]


def test_neither_does_who_knows_the_configuration_of_some_seconds_ago(monkeypatch: pytest.MonkeyPatch) -> None:
    """An append that joins buckets stores the floor, and so does a checkpoint."""
    for name in ("time_index", "appends"):
        monkeypatch.setattr(f"lithify.manifest.{name}.TIME_INDEX_MAX", 2)
    warehouse, clock = opened()
    topic = warehouse.create_topic("t", config={"retention.ms": 1_000})
    elsewhere = warehouse.topic("t")
    appended(topic, clock, 0, 1)
    topic.alter({"retention.ms": -1})
    clock.now_ms += 5_000
    elsewhere.partition(0).snapshot("pin")
    appended(elsewhere, clock, 2, 3)
    assert [record.offset for record in topic.partition(0).read()] == [0, 1, 2, 3]
    assert len(list(topic.partition(0).pinned("pin").read())) == 2


def test_readers_everywhere_go_by_the_bounds_at_once() -> None:
    warehouse, clock = opened()
    topic = warehouse.create_topic("t", config={"retention.ms": 1_000})
    elsewhere = warehouse.topic("t")
    appended(topic, clock, 0)
    topic.alter({"retention.ms": -1})
    clock.now_ms += 5_000
    assert len(list(elsewhere.partition(0).read())) == 1
    topic.alter({"retention.ms": 1_000})
    assert list(elsewhere.partition(0).read()) == []


def test_each_step_goes_by_the_configuration_of_its_own_time() -> None:
    """One partition's job may take hours; what was altered meanwhile holds for the others of that pass. Within a second
    of their look they may begin by what it read."""
    warehouse, clock = opened()
    for name in ("a", "b"):
        appended(warehouse.create_topic(name, config=CLEANED), clock, 0, 0, 0)

    def altered() -> None:
        for name in ("a", "b"):
            warehouse.topic(name).alter({"min.compaction.lag.ms": 86_400_000})
        clock.now_ms += LOOK_FRESH_MS

    compactor = Compactor(warehouse, Meanwhile(altered), concurrency=1)
    report = compactor.run_once()
    compactor.close()
    assert sorted(len(each.jobs) for each in report.partitions) == [0, 1]


def altering(world: World, changes: dict[str, str | None]) -> Coroutine[Any, Any, Any]:
    lineage = topic_lineage("t")
    topic = world.alone(lineage.refresh()).value
    return alter_topic(lineage, topic, changes, None)


def bounds(world: World) -> list[tuple[Retention | None, int]]:
    topic = world.alone(topic_lineage("t").refresh()).value
    heads = [world.alone(PartitionFiles(keys).head()) for keys in partition_keys(topic)]
    return [(head.retention, head.config_at) for head in heads]


def test_an_alter_that_was_interrupted_is_finished_by_the_next_pass_of_a_compactor() -> None:
    world = World(0)
    topic = world.alone(create_topic(topic_lineage("t"), "t", 2, {"retention.records": "5", "retention.ms": "-1"}))
    held = Held(world, altering(world, {"retention.records": "7"}))
    second = partition_keys(topic)[1].manifest.key(2)
    held.until(lambda request: second in [each.key for each in creates_in(request)])
    held.answers(lambda each: Outcome.UNKNOWN if getattr(each, "key", "") == second else None)  # and it dies
    assert bounds(world) == [(Retention(records=7), 2), (Retention(records=5), 0)]
    altered = world.alone(topic_lineage("t").refresh()).value
    for keys in partition_keys(topic):
        files = PartitionFiles(keys)
        before = world.alone(files.head()).id
        world.alone(keep_bounds(files, altered))
        assert world.alone(PartitionFiles(keys).head()).id == before + (keys.partition == 1), "once"
    assert bounds(world) == [(Retention(records=7), 2)] * 2


def test_an_alter_that_comes_late_undoes_no_later_one() -> None:
    world = World(0)
    topic = world.alone(create_topic(topic_lineage("t"), "t", 1, {"retention.ms": "-1"}))
    held = Held(world, altering(world, {"retention.records": "7"}))
    held.until(lambda request: isinstance(request, Create) and request.key == TopicKeys("t").config.key(2))
    held.go()
    world.alone(altering(world, {"retention.records": "9"}))
    held.end()
    assert bounds(world) == [(Retention(records=9), 3)]
    files = PartitionFiles(partition_keys(topic)[0])
    world.alone(files.head())
    world.alone(keep_bounds(files, topic))  # by who read the configuration long ago
    assert bounds(world) == [(Retention(records=9), 3)]


def test_a_topic_made_again_does_not_touch_the_partitions_of_the_former() -> None:
    world = World(0)
    topic = world.alone(create_topic(topic_lineage("t"), "t", 1, {"retention.ms": "-1"}))
    files = PartitionFiles(partition_keys(topic)[0])
    world.alone(files.head())
    world.alone(keep_bounds(files, replace(topic, id=9, topic_id="f" * 16, config={"retention.records": "1"})))
    assert bounds(world) == [(KEEP_ALL, 0)]


def test_a_partition_that_an_earlier_version_made_goes_by_the_configuration_until_bounds_are_written_down() -> None:
    warehouse, clock = opened()
    topic = warehouse.create_topic("t", config={"retention.ms": 1_000})
    topic_file = warehouse.driver.run(topic_lineage("t").refresh()).value
    assert topic_file is not None
    keys = replace(topic_file, partitions=2)
    first = Manifest(format=FORMAT, topic="t", topic_id=topic_file.topic_id, partition=1)
    warehouse.driver.run(PartitionFiles(partition_keys(keys)[1]).manifest.commit(CreatePartition(first)))
    topic.alter(partitions=2)
    part = topic.partition(1)
    files = PartitionFiles(partition_keys(keys)[1])
    assert warehouse.driver.run(files.head()).retention == Retention(ms=1_000), "its number was free"
    part.append([Record(b"k", b"v", clock.now_ms)])
    head = replace(warehouse.driver.run(files.head()), retention=None, config_at=0)
    assert floor_at(head, clock.now_ms + 5_000) == 0
    assert part._bounded(head).retention == Retention(ms=1_000)
    verdict = SetBounds(KEEP_ALL, 4, Retention(ms=1_000)).apply(head, head.id + 1, clock.now_ms + 5_000)
    assert getattr(verdict, "value").log_start_offset == 1  # noqa: B009 - one of three verdicts


def of_an_earlier_release() -> tuple[World, list[PartitionKeys]]:
    """Two partitions of four records each, a second apart, whose manifests hold no bounds: the topic keeps 1.5 s."""
    world = World(0)
    topic = world.alone(create_topic(topic_lineage("t"), "t", 2, {"retention.ms": "1500"}))
    start_ms = world.now_ms
    for keys in partition_keys(topic):
        files = PartitionFiles(keys)
        for number in range(4):
            ref = segment(f"{number + 1:012d}-{number:016x}", max_timestamp_ms=start_ms + number * 1_000)
            world.alone(files.manifest.commit(Append(ref, 100)))
        key, head = keys.manifest.key(5), world.alone(files.head())
        world.objects[key] = (encode(replace(head, log_start_offset=0, retention=None, config_at=0)), start_ms)
    world.now_ms = start_ms + 3_500
    return world, partition_keys(topic)


def starts(world: World, all_keys: list[PartitionKeys]) -> list[int]:
    """Where the log starts for readers."""
    topic = world.alone(topic_lineage("t").refresh()).value
    kept = bounds_before(topic)
    heads = [world.alone(PartitionFiles(keys).head()) for keys in all_keys]
    return [floor_at(replace(head, retention=head.retention or kept), world.now_ms) for head in heads]


def test_the_first_alter_after_an_upgrade_brings_nothing_back_wherever_it_ends_and_whoever_comes_between() -> None:
    """It stops before each of its requests in turn, a compactor's pass comes by, and it goes on, or does not."""
    for goes_on in (True, False):
        for requests in itertools.count():
            world, all_keys = of_an_earlier_release()
            before = min(starts(world, all_keys))
            assert before > 0
            held = Held(world, altering(world, {"retention.ms": "-1"}))
            for _ in range(requests):
                if held.request is not None:
                    held.go()
            assert min(starts(world, all_keys)) >= before, f"after {requests} requests"
            topic, ended = world.alone(topic_lineage("t").refresh()).value, held.request is None
            for keys in all_keys:
                files = PartitionFiles(keys)
                world.alone(files.head())
                world.alone(keep_bounds(files, topic))
            if goes_on:
                held.end()
            assert min(starts(world, all_keys)) >= before, f"a pass after {requests} requests"
            if ended:
                assert bounds(world) == [(KEEP_ALL, 2)] * 2
                break


KEEPING = (
    {"cleanup.policy": "delete", "retention.ms": "-1"},
    {"min.compaction.lag.ms": str(30 * 86_400_000)},
)


@pytest.mark.parametrize("altered", KEEPING)
def test_a_job_under_way_drops_nothing_that_the_topic_is_altered_to_keep(altered: dict[str, str]) -> None:
    """Altered after its tasks began, so only the look before the commit can tell. No failure is counted."""
    warehouse, clock = opened()
    topic = warehouse.create_topic("t", config={"cleanup.policy": "compact"}, probe=False)
    topic.partition(0).append([Record(b"k", b"%d" % n, clock.now_ms) for n in range(2)])
    topic.partition(0).append([Record(b"k", b"%d" % n, clock.now_ms) for n in range(2, 4)])
    compactor = Compactor(warehouse, engine=Meanwhile(lambda: topic.alter(altered)))
    (job,) = compactor.run_once().partitions[0].jobs
    assert (job.status, job.error and job.error.category) == ("cancelled", "altered")
    assert job.ended_by == "alteration"
    assert len(list(topic.partition(0).read())) == 4
    state = warehouse.driver.run(PartitionFiles(partition_keys(topic._topic)[0]).compactor_state())
    assert state is not None
    assert state.failures == ()
