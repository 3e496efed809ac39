"""What nobody announced: partitions of a creator that lost the race for a name, or died; of a growth that a deletion
overtook. A sweep finds them, and nobody who is slow can announce them afterwards (P21, docs/rfcs/0005)."""

from collections.abc import Callable, Iterator
from typing import Any

import pytest

import lithify
from lithify.gc.collect import Pass
from lithify.gc.collector import GcReport
from lithify.gc.unannounced import Swept, sweep_unannounced
from lithify.log.append import append
from lithify.log.warehouse import Warehouse
from lithify.manifest.catalog import alter_topic, create_topic, live_topic, topic_lineage
from lithify.manifest.keys import PartitionKeys
from lithify.manifest.lifetime import CreatePartition
from lithify.manifest.model import FORMAT, Manifest
from lithify.manifest.partition import PartitionFiles
from lithify.store.driver import new_id
from lithify.store.errors import AlreadyExists, NotFound, Unavailable
from lithify.store.port import Create, Put
from tests.interleave import World
from tests.protocol.scene import Held, creates_in, segment
from tests.slow import Slow
from tests.unreadable import UNREADABLE, Rewrite, rewrite

GRACE_MS = 400_000
LOSER_PARTITIONS = 5


def announces(request: Any) -> bool:
    return isinstance(request, Create) and "/config/" in request.key


class Town:
    def __init__(self) -> None:
        self.now_ms = 1_700_000_000_000
        self.warehouse: Warehouse = lithify.open(f"memory://{new_id()}", clock=lambda: self.now_ms)
        self.collector = lithify.Collector(self.warehouse, grace_ms=GRACE_MS)

    def make(self, partitions: int = 1) -> lithify.Topic:
        topic = self.warehouse.create_topic("t", partitions, {"cleanup.policy": "compact"}, probe=False)
        topic.append([lithify.Record(key=b"k", value=b"v")])
        return topic

    def slow_creator(self, until: Callable[[Any], bool] = announces) -> Slow:
        return Slow(self.warehouse, create_topic(topic_lineage("t"), "t", LOSER_PARTITIONS, {}), until)

    def slow_growth(self, partitions: int) -> Slow:
        lineage = topic_lineage("t")
        topic = self.warehouse.driver.run(live_topic(lineage, "t"))
        return Slow(self.warehouse, alter_topic(lineage, topic, {}, partitions), announces)

    def partitions(self) -> set[tuple[str, int]]:
        """Topic id and number of each that has a manifest."""
        keys = [found.key.split("/") for found in self.objects("t/")]
        return {(parts[1], int(parts[2])) for parts in keys if len(parts) == 5 and parts[3] == "manifest"}

    def objects(self, prefix: str) -> Iterator[Any]:
        token: str | None = None
        while True:
            page = self.warehouse.store.list(prefix, token)
            yield from page.objects
            token = page.token
            if token is None:
                return

    def sweep(self, passes: int = 4, *, dry_run: bool = False) -> GcReport:
        for _ in range(passes):
            self.now_ms += 2 * GRACE_MS
            report = self.collector.run_once(sweep=True, dry_run=dry_run)
            assert [part.fault for part in report.partitions if part.fault] == []
        return report


class Sweep:
    """A sweep of what nobody announced, some requests at a time."""

    def __init__(self, town: Town, grace_ms: int) -> None:
        self._driver = town.warehouse.driver
        self._coroutine = sweep_unannounced("t", grace_ms)
        self._reply: Any = None
        self.done: list[Swept] | None = None

    def answer(self, requests: int) -> list[Swept] | None:
        """What it answers, if it comes to its end."""
        for _ in range(requests):
            if self.done is not None:
                return self.done
            try:
                self._reply = self._driver.answer(self._coroutine.send(self._reply))
            except StopIteration as stop:
                self.done = stop.value
        return self.done


@pytest.fixture
def town() -> Town:
    return Town()


def test_what_the_loser_of_a_race_for_a_name_made_is_swept_while_the_winners_topic_lives(town: Town) -> None:
    loser = town.slow_creator()
    winner = town.make()
    with pytest.raises(AlreadyExists):
        loser.end()
    assert len(town.partitions()) == 1 + LOSER_PARTITIONS
    town.sweep()
    assert {topic_id for topic_id, _ in town.partitions()} == {winner.describe().topic_id}
    assert winner.get(b"k") is not None


def test_what_a_creator_left_that_died_is_swept_and_the_name_is_free(town: Town) -> None:
    town.slow_creator()
    town.sweep()
    assert town.partitions() == set()
    assert town.warehouse.topics() == []
    town.make()
    assert town.warehouse.topics() == ["t"]


@pytest.mark.parametrize("before", ["nothing", "a deleted topic", "a topic that is over"])
def test_a_slow_creator_announces_nothing_that_was_swept(town: Town, before: str) -> None:
    """It made its partitions, stood still for longer than the grace period, and goes on."""
    if before != "nothing":
        town.make()
        town.warehouse.delete_topic("t")
        if before == "a topic that is over":
            town.sweep()
    slow = town.slow_creator()
    if before == "a topic that is over":
        town.slow_creator(lambda request: isinstance(request, Put))  # this one died before it said a word
    town.sweep()
    assert len(town.partitions()) <= 1, "but for the end of the deleted topic's chain"
    with pytest.raises(Unavailable, match="try again"):
        slow.end()
    with pytest.raises(NotFound):
        town.warehouse.topic("t")
    assert town.make(2).get(b"k") is not None
    town.warehouse.delete_topic("t")
    town.sweep()
    assert town.sweep().partitions == (), "all of it is over, and costs a pass nothing"


def test_a_creator_at_work_is_left_alone(town: Town) -> None:
    slow = town.slow_creator()
    town.now_ms += GRACE_MS - 1
    report = town.collector.run_once(sweep=True)
    assert len(town.partitions()) == LOSER_PARTITIONS
    (kept,) = {garbage.reason for part in report.partitions for garbage in part.kept}
    assert "no version of the topic names" in kept
    topic = slow.end()
    assert topic.topic_id in {part.topic_id for part in town.collector.run_once(sweep=True).partitions}
    assert len(town.partitions()) == LOSER_PARTITIONS


def test_of_a_creator_at_work_no_partition_is_old_enough(town: Town, monkeypatch: pytest.MonkeyPatch) -> None:
    """It takes longer than the grace period to make them all."""
    monkeypatch.setattr("lithify.manifest.each.AT_ONCE", 2)
    slow = town.slow_creator(lambda request: any("/00003/" in each.key for each in creates_in(request)))
    town.now_ms += 2 * GRACE_MS
    slow.until(announces)
    town.collector.run_once(sweep=True)
    assert len(town.partitions()) == LOSER_PARTITIONS
    assert slow.end().partitions == LOSER_PARTITIONS


@pytest.mark.parametrize("stops", range(30))
def test_a_topic_that_is_made_while_a_sweep_runs_is_not_taken_for_one_that_nobody_announced(
    town: Town, stops: int
) -> None:
    """Wherever the sweep stands while that happens. Were the versions read before the folders, it would be."""
    town.make()
    sweep = Sweep(town, grace_ms=0)
    sweep.answer(stops)
    town.warehouse.delete_topic("t")
    topic = town.make(2)
    assert sweep.answer(1_000) == []
    assert topic.get(b"k") is not None
    assert all(topic.partition(number).describe() for number in range(2))


def test_partitions_of_a_growth_that_a_deletion_overtook_are_swept(town: Town) -> None:
    topic_id = town.make(2).describe().topic_id
    growth = town.slow_growth(6)
    town.warehouse.delete_topic("t")
    with pytest.raises(NotFound, match="deleted in the meantime"):
        growth.end()
    assert len(town.partitions()) == 6
    town.sweep()
    assert town.partitions() == {(topic_id, 0), (topic_id, 1)}


def test_partitions_of_a_growth_that_was_interrupted_wait_for_the_next_one(town: Town) -> None:
    """Whoever grows the topic next takes them, so none may be sealed or gone then, however slow the first was."""
    topic = town.make(2)
    slow = town.slow_growth(4)
    report = town.sweep()
    assert len(town.partitions()) == 4
    kept = {part.partition: part.kept[0].reason for part in report.partitions if part.partition >= 2}
    assert [*kept] == [2, 3]
    assert all("growth" in reason for reason in kept.values())
    slow.end()
    for number in range(4):
        town.warehouse.topic("t").partition(number).append([lithify.Record(key=b"k", value=b"v")])
    assert town.warehouse.topic("t").describe().topic_id == topic.describe().topic_id


def test_a_dry_sweep_says_what_would_go_and_fences_nobody(town: Town) -> None:
    slow = town.slow_creator()
    before = [found.key for found in town.objects("")]
    report = town.sweep(1, dry_run=True)
    assert len(report.deleted) == LOSER_PARTITIONS
    assert {part.partition for part in report.partitions} == set(range(LOSER_PARTITIONS))
    assert [found.key for found in town.objects("")] == before
    assert slow.end().partitions == LOSER_PARTITIONS


def test_folders_and_files_of_others_stay_and_fence_nobody(town: Town) -> None:
    others = (
        "t/0123456789abcdef/00000/manifest/notes.txt",
        "t/0123456789abcdef/0/manifest/00000000000000000001.manifest",
        "t/0123456789ABCDEF/00000/manifest/00000000000000000001.manifest",
        "t/exports/00000/segments/000000000001-0123456789abcdef.parquet",
        "u/readme",
    )
    for key in others:
        town.warehouse.store.put(key, b"mine")
    slow = town.slow_creator()
    slow.end()
    town.sweep()
    assert {found.key for found in town.objects("")} >= {*others}
    assert town.warehouse.topics() == ["t"]


@pytest.mark.parametrize("alive", [True, False])
def test_one_that_was_written_to_is_sealed_and_the_end_of_its_chain_stays(town: Town, alive: bool) -> None:
    """Copied there by hand, say: nobody who has a handle of it may be acknowledged what is collected then."""
    drive = town.warehouse.driver.run
    files = PartitionFiles(PartitionKeys("t", "00000000000000aa", 0))
    first = Manifest(format=FORMAT, topic="t", topic_id=files.keys.topic_id, partition=0)
    drive(files.manifest.commit(CreatePartition(first)))
    assert drive(append(files, b"x", segment(""), l0_segments_max=10)) == range(1)
    if alive:
        town.make()
    town.sweep()
    left = [found.key for found in town.objects(files.keys.root)]
    assert [key for key in left if "/segments/" in key] == []
    assert drive(PartitionFiles(files.keys).head()).sealed
    with pytest.raises(NotFound):
        drive(append(files, b"x", segment(""), l0_segments_max=10))
    town.sweep()
    assert [found.key for found in town.objects(files.keys.root)] == left, "an empty one costs a sweep no commit"


@pytest.mark.parametrize("change", UNREADABLE)
def test_what_cannot_be_read_stays_and_is_named_and_keeps_nothing_else(change: Rewrite, town: Town) -> None:
    town.slow_creator()
    town.make()
    keys = [found.key for found in town.objects("t/") if found.key.endswith("1.manifest")]
    loser = next(key for key in keys if "/00003/" in key)
    rewrite(town.warehouse.store, loser, change)
    town.now_ms += 2 * GRACE_MS
    report = town.collector.run_once(sweep=True)
    assert [loser in part.fault.message for part in report.partitions if part.fault] == [True]
    assert {number for topic_id, number in town.partitions() if topic_id in loser} == {3}


@pytest.mark.parametrize("change", UNREADABLE)
def test_what_cannot_be_read_is_as_old_as_it_is_and_costs_no_version(change: Rewrite, town: Town) -> None:
    """A creator of a later release has made its partitions, and not announced them yet."""
    creator = town.slow_creator()
    store = town.warehouse.store
    whole = {each.key: rewrite(store, each.key, change) for each in list(town.objects("t/"))}
    for wait_ms in (5, 2 * GRACE_MS, 2 * GRACE_MS):
        town.now_ms += wait_ms
        report = town.collector.run_once(sweep=True)
        assert {part.fault is not None for part in report.partitions} == {True}
        assert town.warehouse.driver.run(topic_lineage("t").refresh()).number == 0
    for key, body in whole.items():
        store.put(key, body)
    assert creator.end().topic == "t"


@pytest.mark.parametrize(("age_ms", "announced"), [(0, True), (2 * GRACE_MS, False)])
@pytest.mark.parametrize("change", UNREADABLE)
def test_the_store_tells_how_old_is_what_cannot_be_read(change: Rewrite, age_ms: int, announced: bool) -> None:
    """A creator is slow between two of its partitions, the last of which is of a later release."""
    world = World(0)
    creator = Held(world, create_topic(topic_lineage("t"), "t", 3, {}))
    creator.until(announces)
    last = max(world.objects)
    body, _ = world.objects[last]
    world.now_ms += 2 * GRACE_MS
    world.objects[last] = (change(body), world.now_ms - age_ms)
    world.alone(sweep_unannounced("t", GRACE_MS))
    assert (world.alone(topic_lineage("t").refresh()).number == 0) == announced


def test_where_nothing_is_told_of_a_pass_nothing_was_done() -> None:
    """What a sweep does not come to is told by these figures."""
    done = Swept(PartitionKeys("t", "0123456789abcdef", 0)).done
    assert done == Pass(deleted=(), refused=(), kept=(), boundary=0, waiting=0, checkpoints_expired=0, finished=False)
