"""Named consumers of whole topics: each partition in turn, each with a position of its own."""

from itertools import pairwise
from typing import Any

import pytest

from lithify.log.warehouse import Warehouse
from lithify.store.errors import Fenced, InvalidRequest, NotFound
from tests.log.test_consumer import stored
from tests.log.test_follow import append, shown
from tests.log.waiting import Script


def test_a_topic_is_read_in_turn_and_each_partition_has_its_position(warehouse: Warehouse) -> None:
    topic = warehouse.create_topic("t", partitions=3)
    for number in range(3):
        append(topic.partition(number), *(f"{number}{row}" for row in range(4)))
    with topic.consumer("c") as consumer:
        items = [(number, *shown([item])) for number, item in consumer.poll(max_records=6)]
        items += [(number, *shown([item])) for number, item in consumer.poll()]
        assert sorted(items) == [(number, row) for number in range(3) for row in range(4)]
        assert consumer.positions == {0: 4, 1: 4, 2: 4}
    assert [stored(topic.partition(number)) for number in range(3)] == [4, 4, 4]
    append(topic.partition(1), "more")
    with topic.consumer("c", [1]) as alone:
        assert [(number, *shown([item])) for number, item in alone.poll()] == [(1, 4)]


def test_iterating_over_a_topic_leaves_what_was_not_handed_out(warehouse: Warehouse) -> None:
    topic = warehouse.create_topic("t", partitions=2)
    for number in range(2):
        append(topic.partition(number), *(f"{number}{row}" for row in range(3)))
    script = Script(warehouse, lambda: append(topic.partition(1), "more"))
    seen: list[tuple[int, Any]] = []
    with topic.consumer("c", stop=script.stop) as consumer:
        for number, item in consumer:
            seen += [(number, *shown([item]))]
            if len(seen) == 4:
                break
    assert sum(stored(topic.partition(number)) for number in range(2)) == 4
    with topic.consumer("c", stop=script.stop) as consumer:
        seen += [(number, *shown([item])) for number, item in consumer]
    assert sorted(seen) == [(0, 0), (0, 1), (0, 2), (1, 0), (1, 1), (1, 2), (1, 3)]
    for number in range(2):
        mine = [offset for at, offset in seen if at == number]
        assert all(before < after for before, after in pairwise(mine))
    assert topic.partition(1).describe().consumers[0].lag == 0


def test_of_a_topic_one_lost_partition_does_not_keep_the_others_from_committing(warehouse: Warehouse) -> None:
    topic = warehouse.create_topic("t", partitions=2)
    for number in range(2):
        append(topic.partition(number), "a")
    consumer = topic.consumer("c")
    assert len(consumer.poll()) == 2
    topic.partition(1).consumer("c")
    with pytest.raises(Fenced):
        consumer.close()
    assert [stored(topic.partition(number)) for number in range(2)] == [1, 0]


def test_consumers_of_a_topic_read_something(warehouse: Warehouse) -> None:
    topic = warehouse.create_topic("t")
    with pytest.raises(InvalidRequest):
        topic.consumer("c", [])
    with pytest.raises(NotFound):
        topic.consumer("c", [1])
    with pytest.raises(InvalidRequest):
        topic.consumer("c").poll(-1)
