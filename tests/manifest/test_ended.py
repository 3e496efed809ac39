"""A topic that is over costs nothing: neither a pass of who knows, nor more than one look of who begins; and one of the
same name is seen at once (P21, docs/rfcs/0005)."""

import random
from collections.abc import Iterator
from contextlib import contextmanager
from unittest.mock import patch

import msgspec
import pytest

import lithify
from lithify.gc.lives import Lives
from lithify.log.warehouse import Warehouse
from lithify.manifest.catalog import alter_topic, create_topic, delete_topic, live_topic, partition_keys, topic_lineage
from lithify.manifest.ended import Known, Marks, say_again, say_over
from lithify.manifest.keys import EndKeys, TopicKeys
from lithify.manifest.model import TopicFile
from lithify.store.driver import new_id
from lithify.store.errors import AlreadyExists, NotFound, Unavailable
from lithify.store.metered import Metered
from lithify.store.port import Create, Put
from lithify.store.request_counts import RequestCounts
from tests.interleave import World
from tests.log.compaction import files_of
from tests.protocol.scene import Held
from tests.unreadable import UNREADABLE, Rewrite, damaged, rewrite

GRACE_MS = 60_000
PARTITIONS = 3


class Town:
    """A warehouse with one live topic, and as many deleted ones as a test wants."""

    def __init__(self) -> None:
        self.now_ms = 1_700_000_000_000
        self.warehouse: Warehouse = lithify.open(f"memory://{new_id()}", clock=lambda: self.now_ms)
        self.make("live")

    def make(self, name: str) -> None:
        topic = self.warehouse.create_topic(name, PARTITIONS, {"cleanup.policy": "compact"}, probe=False)
        topic.partition(0).append([lithify.Record(key=b"k", value=b"v")])

    def collector(self) -> lithify.Collector:
        return lithify.Collector(self.warehouse, grace_ms=GRACE_MS, rest_ms=0)

    def compactor(self) -> lithify.Compactor:
        return lithify.Compactor(self.warehouse, engine="local", rest_ms=0)

    def collect(self, collector: lithify.Collector, passes: int = 4) -> None:
        for _ in range(passes):
            self.now_ms += 2 * GRACE_MS
            assert [part.fault for part in collector.run_once().partitions if part.fault] == []

    def over(self) -> set[str]:
        return {name for name, marks in self.warehouse.driver.run(Known().topics())[0].items() if marks.at_rest} | set(
            self.warehouse.driver.run(Known().topics())[1]
        )

    def cost(self, work: "lithify.Collector | lithify.Compactor") -> RequestCounts:
        store = self.warehouse.store
        assert isinstance(store, Metered)
        self.now_ms += 1_000
        before = store.requests()
        work.run_once()
        return store.requests() - before


@pytest.fixture
def town() -> Town:
    return Town()


def asked(cost: RequestCounts) -> tuple[int, int]:
    assert (cost.creates, cost.puts, cost.deletes) == (0, 0, 0), "who has nothing to do writes nothing"
    return cost.gets + cost.heads + cost.reads, cost.lists


def test_an_idle_pass_costs_the_same_however_many_topics_were_deleted(town: Town) -> None:
    warm = town.compactor(), town.collector()
    costs: dict[int, list[tuple[int, int]]] = {}
    cold: dict[int, list[int]] = {}
    for deleted in (0, 20, 40):
        for number in range(deleted - 20, deleted):
            if number >= 0:
                town.make(f"gone{number}")
                town.warehouse.delete_topic(f"gone{number}")
        for work in warm:
            town.collect(work) if isinstance(work, lithify.Collector) else work.run_once()
        for work in warm:
            town.cost(work)
        costs[deleted] = [asked(town.cost(work)) for work in warm]
        cold[deleted] = [asked(town.cost(work))[0] for work in (town.compactor(), town.collector())]
    requests = {deleted: [gets for gets, _ in each] for deleted, each in costs.items()}
    lists = {deleted: [lists for _, lists in each] for deleted, each in costs.items()}
    assert requests[0] == requests[20] == requests[40]
    assert lists == {0: [1, 1], 20: [2, 2], 40: [2, 2]}, "one more, once there is a topic that is over"
    for deleted in (20, 40):
        assert [more - none for more, none in zip(cold[deleted], cold[0], strict=True)] == [deleted, deleted]


def test_a_topic_made_again_is_seen_by_the_next_pass_of_who_knew_it_was_over(town: Town) -> None:
    compactor, collector = town.compactor(), town.collector()
    for life in range(3):
        town.make("again")
        assert "again" in {part.topic for part in compactor.run_once().partitions}, life
        assert "again" in {part.topic for part in collector.run_once().partitions}, life
        town.warehouse.delete_topic("again")
        town.collect(collector)
        assert town.over() == {"again"}
        assert {part.topic for part in collector.run_once().partitions} == {"live"}
        assert {part.topic for part in compactor.run_once().partitions} == {"live"}


@contextmanager
def older_lithify() -> Iterator[None]:
    async def says_nothing(*_: object) -> None:
        return None

    with patch("lithify.manifest.catalog.say_again", says_nothing):
        yield


def test_one_that_an_older_lithify_makes_without_a_word_is_found_by_who_begins_and_told_to_the_others(
    town: Town,
) -> None:
    compactor, collector = town.compactor(), town.collector()
    town.make("again")
    town.warehouse.delete_topic("again")
    town.collect(collector)
    assert {part.topic for part in compactor.run_once().partitions} == {"live"}
    with older_lithify():
        town.make("again")
    assert {part.topic for part in collector.run_once(dry_run=True).partitions} == {"live"}
    assert "again" in {part.topic for part in town.collector().run_once(dry_run=True).partitions}
    assert {part.topic for part in compactor.run_once().partitions} == {"live"}, "a dry run tells nobody"
    assert "again" in {part.topic for part in collector.run_once(sweep=True).partitions}
    assert "again" in {part.topic for part in compactor.run_once().partitions}


def test_an_orphan_that_comes_when_a_topic_is_over_is_swept(town: Town) -> None:
    town.make("gone")
    keys = files_of(town.warehouse, "gone").keys
    town.warehouse.delete_topic("gone")
    collector = town.collector()
    town.collect(collector)
    key = keys.segment("000000000001-0123456789abcdef")
    town.warehouse.store.put(key, b"a late upload")
    town.collect(collector)
    assert town.warehouse.store.head(key) is not None
    for _ in range(4):
        town.now_ms += 2 * GRACE_MS
        collector.run_once(sweep=True)
    assert town.warehouse.store.head(key) is None
    before = town.warehouse.store.list(keys.root, None)
    collector.run_once(sweep=True)
    assert town.warehouse.store.list(keys.root, None) == before, "a sweep of an empty topic writes nothing"


def test_earlier_lives_of_a_live_topic_cost_nothing_either(town: Town) -> None:
    collector, alone = town.collector(), asked(town.cost(town.collector()))[0]
    for _ in range(5):
        town.make("again")
        town.warehouse.delete_topic("again")
        town.collect(collector)
    town.make("again")
    town.collect(collector)
    assert asked(town.cost(collector))[0] <= 2 * alone
    assert asked(town.cost(town.collector()))[0] <= 2 * alone + 16, "who begins does not read them again"


def test_what_is_not_empty_yet_is_not_over(town: Town) -> None:
    town.make("gone")
    town.warehouse.topic("gone").partition(1).snapshot(pin="kept")
    town.warehouse.delete_topic("gone")
    collector = town.collector()
    town.collect(collector, passes=1)
    assert town.over() == set()
    town.collect(collector)
    assert town.over() == {"gone"}


@pytest.mark.slow
def test_a_cold_collector_halves_its_way_through_1500_versions(town: Town) -> None:
    topic = town.warehouse.topic("live")
    for number in range(1_500):
        topic.alter({"retention.ms": str(number)})
    town.collect(town.collector())
    assert asked(town.cost(town.collector()))[0] < 150, "and not 1,500"


# --- lives


def played(dice: random.Random) -> tuple[World, dict[str, int]]:
    """Random lives of one name; answers with the last number of partitions of each, oldest first."""
    world, truth = World(0), dict[str, int]()
    for _ in range(dice.randrange(1, 6)):
        lineage = topic_lineage("t")
        topic: TopicFile = world.alone(create_topic(lineage, "t", 1, {}))
        for _ in range(dice.choice((0, 1, 2, 9))):
            grown = topic.partitions + dice.randrange(2)
            topic = world.alone(alter_topic(lineage, topic, {}, grown))
        truth[topic.topic_id] = topic.partitions
        world.alone(delete_topic(lineage, topic))
    if dice.random() < 0.5:
        topic = world.alone(create_topic(topic_lineage("t"), "t", 2, {}))
        truth[topic.topic_id] = 2
    return world, truth


@pytest.mark.parametrize("seed", range(60))
def test_every_life_is_found_at_its_last_version_without_reading_all(seed: int) -> None:
    dice = random.Random(seed)
    world, truth = played(dice)
    found: list[TopicFile] = world.alone(Lives("t", 0).refresh())
    assert {topic.topic_id: topic.partitions for topic in found} == truth
    assert all(topic.deleted for topic in found[:-1])
    ends = [topic.id for topic in found]
    assert ends == sorted(ends)
    for over in ends[:-1]:
        later = world.alone(Lives("t", over).refresh())
        assert [topic.id for topic in later] == [end for end in ends if end > over]


@pytest.mark.parametrize("seed", range(40))
def test_older_versions_that_cannot_be_read_hide_no_life_that_the_others_show(seed: int) -> None:
    dice = random.Random(seed)
    world, truth = played(dice)
    keys = sorted(key for key in world.objects if key.startswith(TopicKeys("t").config.prefix))
    before: list[TopicFile] = world.alone(Lives("t", 0).refresh())
    bad = set(dice.sample(keys[:-1], dice.randrange(1, len(keys))))
    shown = {msgspec.json.decode(world.objects[key][0])["topic_id"] for key in keys if key not in bad}
    whole = {key: world.objects[key] for key in bad}
    for key in bad:
        world.objects[key] = (dice.choice(UNREADABLE)(world.objects[key][0]), 0)
    lives = Lives("t", 0)
    found: list[TopicFile] = world.alone(lives.refresh())
    assert found[-1] == before[-1]
    if len(shown) > 1 or lives.damage is not None:
        assert {topic.topic_id for topic in found} == shown
    assert all(topic.partitions <= truth[topic.topic_id] for topic in found)
    if lives.damage is not None:
        world.alone(lives.say_what_is_over(Marks()))
        assert over(world) == [], "what cannot be read is not known to be over"
    world.objects |= whole
    assert world.alone(lives.refresh()) == before
    assert lives.damage is None


def test_the_version_up_to_which_all_is_over_is_that_of_the_last_finished_life_in_a_row() -> None:
    world = World(0)
    for _ in range(3):
        topic = world.alone(create_topic(topic_lineage("t"), "t", 1, {}))
        world.alone(delete_topic(topic_lineage("t"), topic))
    lives = Lives("t", 0)
    first, second, third = [partition_keys(topic)[0] for topic in world.alone(lives.refresh())]
    for keys, over in ((second, 0), (first, 4), (third, 6)):
        lives.finished(keys)
        world.alone(lives.say_what_is_over(Marks(over=0, again=4)))
        awake, resting = world.alone(Known().topics())
        assert (awake.get("t", Marks(over)).over, resting) == (over, ["t"] if over == 6 else [])


# --- races


def over(world: World) -> list[str]:
    return world.alone(Known().topics())[1]


def deleted_topic() -> World:
    world = World(0)
    topic = world.alone(create_topic(topic_lineage("t"), "t", 1, {}))
    world.alone(delete_topic(topic_lineage("t"), topic))
    return world


def announces(request: object) -> bool:
    return isinstance(request, Create) and request.key.startswith(TopicKeys("t").config.prefix)


def test_it_is_said_before_the_announcement_that_another_may_come() -> None:
    """A collector that says 'over' at any moment of a creation hides nothing."""
    world = deleted_topic()
    world.alone(say_over("t", 2))
    assert over(world) == ["t"]
    held = Held(world, create_topic(topic_lineage("t"), "t", 1, {}))
    held.until(announces)
    assert over(world) == [], "from before the announcement on everybody looks"
    world.alone(say_over("t", 2))
    held.end()
    world.alone(say_over("t", 2))
    assert over(world) == []


def test_said_and_then_not_done_hides_nothing_and_the_next_end_is_an_end() -> None:
    world = deleted_topic()
    held = Held(world, create_topic(topic_lineage("t"), "t", 1, {}))
    held.until(announces)  # and its process dies
    world.alone(say_over("t", 2))
    assert over(world) == []
    topic = world.alone(create_topic(topic_lineage("t"), "t", 1, {}))
    world.alone(delete_topic(topic_lineage("t"), topic))
    world.alone(say_over("t", 4))
    assert over(world) == ["t"]


def test_a_creator_that_slept_through_another_life_does_not_announce_behind_it() -> None:
    """Nobody was told that a version may come after that life's end."""
    world = deleted_topic()
    held = Held(world, create_topic(topic_lineage("t"), "t", 1, {}))
    held.until(lambda request: isinstance(request, Put))
    held.go()
    topic = world.alone(create_topic(topic_lineage("t"), "t", 1, {}))
    world.alone(delete_topic(topic_lineage("t"), topic))
    world.alone(say_over("t", 4))
    with pytest.raises(Unavailable, match="created and deleted in the meantime"):
        held.end()
    assert over(world) == ["t"]
    with pytest.raises(NotFound):
        world.alone(live_topic(topic_lineage("t"), "t"))


def test_of_two_creators_one_wins_and_the_other_is_told() -> None:
    world = deleted_topic()
    slow = Held(world, create_topic(topic_lineage("t"), "t", 1, {}))
    slow.until(announces)
    world.alone(create_topic(topic_lineage("t"), "t", 1, {}))
    with pytest.raises(AlreadyExists):
        slow.end()


def test_other_objects_in_the_folder_are_none_of_ours() -> None:
    world = deleted_topic()
    world.alone(say_over("t", 2))
    world.alone(say_again("u", 7))
    for key in ("@ended/t/notes.txt", "@ended/README", "@ended/t/1x.over", "@ended/t/00000000000000000009.other"):
        world.objects[key] = (b"", 0)
    assert over(world) == ["t"]
    assert EndKeys.parse(EndKeys("t").over(3)) == ("t", 3, "over")


@pytest.mark.parametrize("change", UNREADABLE)
def test_an_older_version_that_cannot_be_read_is_named_and_stops_no_collection_and_hides_no_later_life(
    change: Rewrite, town: Town
) -> None:
    town.make("again")
    town.warehouse.topic("again").alter({"retention.ms": "5"})
    key = TopicKeys("again").config.key(2)
    town.warehouse.delete_topic("again")
    town.make("again")
    body = rewrite(town.warehouse.store, key, change)
    kind = "Corrupt" if change is damaged else "InvalidRequest"
    collector, collected = town.collector(), set[tuple[str, int | None]]()
    for sweep in (False, True, False, False):
        town.now_ms += 2 * GRACE_MS
        report = collector.run_once(sweep=sweep)
        assert [(part.topic, part.partition, part.fault.kind) for part in report.partitions if part.fault] == [
            ("again", None, kind)
        ]
        collected |= {(part.topic_id, part.partition) for part in report.partitions if part.topic == "again"}
    assert len(collected) == 1 + 2 * PARTITIONS, "the life before, the life now, and the damage"
    keys = [found.key for found in town.warehouse.store.list("again/", None).objects]
    assert len([key for key in keys if "/segments/" in key]) == 1, "the record of the life before is gone"
    assert town.over() == set()
    town.warehouse.store.put(key, body)
    town.collect(collector)
