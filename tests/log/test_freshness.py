"""How soon a handle obeys what another one altered, and what it costs to know."""

from collections.abc import Callable

import pytest

from lithify.log.record import Record
from lithify.log.topic import Topic
from lithify.log.warehouse import Warehouse
from lithify.manifest.catalog import live_topic
from lithify.manifest.commit import Lineage
from lithify.manifest.model import TopicFile
from lithify.store.errors import InvalidRequest, NotFound
from tests.clock import HandClock
from tests.log.conftest import TEN_SECONDS_MS

KEYLESS = [Record(None, b"v")]


def append_to_the_topic(topic: Topic) -> None:
    topic.append(KEYLESS)


def append_to_the_partition(topic: Topic) -> None:
    topic.partition(0).append(KEYLESS)


APPENDS = [append_to_the_topic, append_to_the_partition]


@pytest.mark.parametrize("append", APPENDS)
def test_appends_obey_within_ten_seconds(
    any_warehouse: Warehouse, clock: HandClock, append: Callable[[Topic], None]
) -> None:
    topic, elsewhere = any_warehouse.create_topic("t"), any_warehouse.topic("t")
    topic.alter({"cleanup.policy": "compact"})
    append(elsewhere)
    clock.now_ms += TEN_SECONDS_MS - 1
    append(elsewhere)
    clock.now_ms += 1
    with pytest.raises(InvalidRequest, match="has no key"):
        append(elsewhere)
    with pytest.raises(InvalidRequest, match="has no key"):
        append(topic)


def test_a_producer_obeys_within_ten_seconds(warehouse: Warehouse, clock: HandClock) -> None:
    topic = warehouse.create_topic("t")
    warehouse.driver.monotonic_ms = own_clock = HandClock()
    with warehouse.topic("t").producer() as producer:
        topic.alter({"cleanup.policy": "compact"})
        producer.append(None, b"v")
        clock.now_ms += TEN_SECONDS_MS
        own_clock.now_ms += 1  # it looks once a millisecond
        with pytest.raises(InvalidRequest, match="has no key"):
            producer.append(None, b"v")
        producer.append(b"k", b"v")  # what was taken before does not fail the producer
    assert topic.partition(0).describe().next_offset == 2


def test_readers_obey_within_ten_seconds(warehouse: Warehouse, clock: HandClock) -> None:
    """Retention is logical: what the altered configuration excludes is out of sight for every handle."""
    topic = warehouse.create_topic("t", config={"retention.ms": -1})
    elsewhere = warehouse.topic("t")
    part = elsewhere.partition(0)
    part.append([Record(b"old", b"v", clock.now_ms - 60_000), Record(b"older", b"v", clock.now_ms - 60_001)])
    part.append([Record(b"new", b"v", clock.now_ms)])
    topic.alter({"retention.ms": 30_000})
    assert [record.key for record in topic.partition(0).read()] == [b"new"]
    clock.now_ms += TEN_SECONDS_MS
    assert elsewhere.get(b"old") is None
    assert [record.key for record in part.read()] == [b"new"]
    assert elsewhere.scan().read_all().num_rows == 1


def test_new_partitions_are_seen_within_ten_seconds(warehouse: Warehouse, clock: HandClock) -> None:
    topic, elsewhere = warehouse.create_topic("t"), warehouse.topic("t")
    topic.alter(partitions=8)
    topic.append([Record(b"key-%d" % number, b"v") for number in range(100)])
    assert elsewhere.scan().read_all().num_rows < 100
    clock.now_ms += TEN_SECONDS_MS
    assert elsewhere.scan().read_all().num_rows == 100
    assert all(elsewhere.get(b"key-%d" % number) is not None for number in range(100))


@pytest.mark.parametrize("place", ["lithify.log.warehouse", "lithify.log.topic"], ids=["opening", "reading again"])
def test_the_age_of_what_was_read_counts_from_when_it_was_asked_for(
    warehouse: Warehouse, clock: HandClock, monkeypatch: pytest.MonkeyPatch, place: str
) -> None:
    """Whoever sleeps over the reply has read what was so before his sleep."""
    topic = warehouse.create_topic("t")
    elsewhere = warehouse.topic("t")
    asleep: list[int] = []

    async def sleeps_over_the_reply(lineage: Lineage[TopicFile], name: str) -> TopicFile:
        found = await live_topic(lineage, name)
        if not asleep:
            asleep.append(clock.now_ms)
            topic.alter(partitions=3)
            clock.now_ms += TEN_SECONDS_MS
        return found

    monkeypatch.setattr(f"{place}.live_topic", sleeps_over_the_reply)
    if "warehouse" in place:
        elsewhere = warehouse.topic("t")
    else:
        clock.now_ms += TEN_SECONDS_MS
        elsewhere.append(KEYLESS)
    assert asleep
    assert elsewhere.partitions_now() == 3


def test_a_deleted_topic_is_noticed(warehouse: Warehouse, clock: HandClock) -> None:
    warehouse.create_topic("t")
    gone, replaced = warehouse.topic("t"), warehouse.topic("t")
    warehouse.delete_topic("t")
    clock.now_ms += TEN_SECONDS_MS
    for _ in range(2):
        with pytest.raises(NotFound, match="does not exist here any more"):
            gone.partition(0).append(KEYLESS)
    warehouse.create_topic("t")
    with pytest.raises(NotFound, match="another one has its name"):
        replaced.append(KEYLESS)


def test_knowing_costs_one_get_each_ten_seconds(warehouse: Warehouse, clock: HandClock) -> None:
    part = warehouse.create_topic("t").partition(0)
    part.append(KEYLESS)
    costs: list[tuple[int, int, int]] = []
    for passing_ms in (0, TEN_SECONDS_MS - 1, 1, 0):
        clock.now_ms += passing_ms
        before = warehouse.store.requests()
        part.append(KEYLESS)
        spent = warehouse.store.requests() - before
        costs.append((spent.puts + spent.creates, spent.gets, spent.heads + spent.lists))
    assert costs == [(2, 1, 0), (2, 1, 0), (2, 2, 0), (2, 1, 0)]


def test_a_clock_that_goes_back_makes_nothing_fresh(warehouse: Warehouse, clock: HandClock) -> None:
    topic, elsewhere = warehouse.create_topic("t"), warehouse.topic("t")
    topic.alter({"cleanup.policy": "compact"})
    clock.now_ms -= 1
    with pytest.raises(InvalidRequest, match="has no key"):
        elsewhere.append(KEYLESS)
