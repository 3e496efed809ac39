"""A warehouse's settings, and topics that their first append creates."""

from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pytest

from lithify.log.record import Record
from lithify.log.topic import Topic
from lithify.log.warehouse import Warehouse, WarehouseInfo
from lithify.manifest.config import config_table
from lithify.manifest.keys import WAREHOUSE_CONFIG, is_topic_name
from lithify.store.driver import Driver
from lithify.store.errors import InvalidRequest, NotFound
from lithify.store.port import Create, Together
from tests.clock import HandClock

RECORDS = [Record(b"key-%d" % number, b"v") for number in range(20)]
AUTO = {"auto.create.topics.enable": True}


def test_settings_are_altered_and_described(any_warehouse: Warehouse) -> None:
    assert any_warehouse.describe() == WarehouseInfo(url=any_warehouse.url, settings={}, topics=())
    assert any_warehouse.alter({**AUTO, "num.partitions": 3}) == {
        "auto.create.topics.enable": "true",
        "num.partitions": "3",
    }
    any_warehouse.create_topic("t")
    any_warehouse.alter({"num.partitions": None, "default.retention.ms": -1})
    settings = {"auto.create.topics.enable": "true", "default.retention.ms": "-1"}
    assert any_warehouse.describe() == WarehouseInfo(url=any_warehouse.url, settings=settings, topics=("t",))


def test_they_are_no_topic_and_no_topic_can_be_there(warehouse: Warehouse) -> None:
    warehouse.alter(AUTO)
    assert warehouse.store.get(WAREHOUSE_CONFIG.key(1)) is not None
    assert not is_topic_name(WAREHOUSE_CONFIG.prefix.split("/")[0])
    assert warehouse.topics() == []


@pytest.mark.parametrize(
    ("settings", "told"),
    [
        ({"num.partitions": 0}, "num.partitions is '0'; it must be a whole number between 1 and 10000"),
        ({"num.partitions": "x"}, "a whole number"),
        ({"num.partitions": 10_001}, "between 1 and 10000"),
        ({"auto.create.topics.enable": "yes"}, "true or false"),
        ({"auto.create.topics.enabled": "true"}, "did you mean auto.create.topics.enable?"),
        ({"retention.ms": 5}, "for topics that a first append creates set default.retention.ms"),
        ({"log.retention.ms": 5}, "for topics that a first append creates set default.retention.ms"),
        ({"default.retention.mss": 5}, "did you mean retention.ms?"),
        ({"default.retention.mss": None}, "did you mean retention.ms?"),
        ({"default.retention.ms": -2}, "default.*: retention.ms is '-2'; it must be a whole number of at least -1"),
        ({"default.min.compaction.lag.ms": 6, "default.max.compaction.lag.ms": 5}, "lower it, or raise the other"),
        ({"x": 5}, "docs/configuration.md"),
        ({"num.partitions": [1]}, "not a list"),
    ],
)
def test_bad_settings_are_refused_and_nothing_is_written(
    warehouse: Warehouse, settings: dict[str, Any], told: str
) -> None:
    before = warehouse.store.requests()
    with pytest.raises(InvalidRequest) as refused:
        warehouse.alter(settings)
    assert told in str(refused.value)
    spent = warehouse.store.requests() - before
    assert (spent.puts, spent.creates) == (0, 0)


@pytest.mark.parametrize(("name", "default", "_meaning"), config_table())
def test_every_topic_configuration_can_be_a_default(
    warehouse: Warehouse, name: str, default: str, _meaning: str
) -> None:
    assert warehouse.alter({f"default.{name}": default}) == {f"default.{name}": default}


def send(topic: Topic) -> None:
    with topic.producer() as producer:
        for record in RECORDS:
            producer.append(record.key, record.value)


def append(topic: Topic) -> None:
    topic.append(RECORDS)


@pytest.mark.slow
@pytest.mark.parametrize("use", [append, send])
def test_the_first_append_creates_its_topic_where_the_warehouse_says_so(
    any_warehouse: Warehouse, use: Callable[[Topic], None]
) -> None:
    any_warehouse.alter({**AUTO, "num.partitions": 3, "default.cleanup.policy": "compact"})
    use(any_warehouse.topic("new", for_append=True))
    made = any_warehouse.topic("new")
    assert (made.partitions, made.config) == (3, {"cleanup.policy": "compact"})
    assert made.scan().read_all().num_rows == len(RECORDS)
    use(any_warehouse.topic("new", for_append=True))
    assert sum(part.next_offset for part in made.describe().partitions) == 2 * len(RECORDS)


def test_its_configuration_is_its_own_from_then_on(warehouse: Warehouse) -> None:
    warehouse.alter({**AUTO, "default.retention.ms": 5})
    warehouse.topic("new", for_append=True)
    warehouse.create_topic("made")
    warehouse.alter({"default.retention.ms": 6})
    assert warehouse.topic("new", for_append=True).config == {"retention.ms": "5"}
    assert warehouse.topic("made").config == {}


@pytest.mark.parametrize("settings", [{}, {"num.partitions": 3}, {"auto.create.topics.enable": False}])
def test_without_leave_the_remedy_is_told(warehouse: Warehouse, settings: dict[str, Any]) -> None:
    if settings:
        warehouse.alter(settings)
    with pytest.raises(NotFound, match=r"topic new does not exist.* auto\.create\.topics\.enable=true"):
        warehouse.topic("new", for_append=True)
    assert warehouse.topics() == []


def test_reading_never_creates(warehouse: Warehouse) -> None:
    warehouse.alter(AUTO)
    for use in (warehouse.topic, warehouse.delete_topic):
        with pytest.raises(NotFound, match="topic new does not exist"):
            use("new")
    assert warehouse.topics() == []
    with pytest.raises(InvalidRequest, match="is not allowed"):
        warehouse.topic("@warehouse", for_append=True)


def test_a_deleted_topic_is_created_anew_by_the_next_first_append(warehouse: Warehouse) -> None:
    warehouse.alter(AUTO)
    old = warehouse.topic("t", for_append=True)
    old.append(RECORDS)
    warehouse.delete_topic("t")
    with pytest.raises(NotFound, match="open it again"):
        old.append(RECORDS)
    assert warehouse.topic("t", for_append=True).describe().partitions[0].next_offset == 0


@pytest.mark.parametrize("turn", range(3))
def test_two_first_appends_make_one_topic_and_lose_nothing(warehouse: Warehouse, clock: HandClock, turn: int) -> None:
    """A rival's first append comes just before one of the three creates (two partitions, the topic) of the other's."""
    warehouse.alter({**AUTO, "num.partitions": 2})
    warehouse.create_topic("other")
    racing = Warehouse(Driver(warehouse.store, clock))
    answer = racing.driver.answer
    creates = 0

    def answer_after_the_rival(request: Any) -> Any:
        nonlocal creates
        if isinstance(request, Together):  # one after the other, so that the rival can come between two of them
            return tuple(answer_after_the_rival(each) for each in request.requests)
        if isinstance(request, Create):
            creates += 1
            if creates == turn + 1:
                warehouse.topic("t", for_append=True).append(RECORDS)
        return answer(request)

    racing.driver.answer = answer_after_the_rival
    mine = racing.topic("t", for_append=True)
    assert creates > turn
    mine.append(RECORDS)
    told = warehouse.topic("t").describe()
    assert mine.describe() == told
    assert sum(part.next_offset for part in told.partitions) == 2 * len(RECORDS)
    assert warehouse.topics() == ["other", "t"]


@pytest.mark.slow
def test_many_first_appends_at_once_lose_nothing(any_warehouse: Warehouse, clock: HandClock) -> None:
    any_warehouse.alter(AUTO)
    any_warehouse.create_topic("other")

    def first_append(_: int) -> None:
        Warehouse(Driver(any_warehouse.store, clock)).topic("t", for_append=True).append(RECORDS)

    with ThreadPoolExecutor(8) as pool:
        list(pool.map(first_append, range(8)))
    records = any_warehouse.topic("t").partition(0).read()
    assert [record.offset for record in records] == list(range(8 * len(RECORDS)))
