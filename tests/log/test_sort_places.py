"""Reading many compacted partitions at once: some hold a sort open, the others wait for their turn, and it comes."""

from collections import defaultdict
from collections.abc import Iterator
from itertools import pairwise
from typing import Any

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from lithify.log import follow
from lithify.log.sort_places import SORTS_MAX
from lithify.log.topic import Topic
from lithify.log.topic_consumer import TopicConsumer
from lithify.log.warehouse import Warehouse
from lithify.segment import source
from lithify.store.errors import Fenced, LithifyError, Unavailable
from tests.clock import HandClock
from tests.log.compaction import collect, compact
from tests.log.conftest import TEN_SECONDS_MS
from tests.log.failing import FailingStore
from tests.log.test_consumer import stored
from tests.log.test_follow import COMPACTED, append, shown
from tests.log.test_topic_consumer import opened

pytestmark = pytest.mark.usefixtures("near_and_far")

STRETCH = 5


class Sorts:
    """Sorts that are open, and how many were made."""

    def __init__(self, patch: pytest.MonkeyPatch) -> None:
        self.open = self.most = self.made = 0
        sort = source.external_sort

        def counted(*args: Any, **settings: Any) -> Iterator[Any]:
            self.made += 1
            self.open += 1
            self.most = max(self.most, self.open)
            try:
                yield from sort(*args, **settings)
            finally:
                self.open -= 1

        patch.setattr(source, "external_sort", counted)
        patch.setattr(follow, "STRETCH_RECORDS", STRETCH)
        patch.setattr(follow, "LITTLE_BYTES_MAX", 0)  # what is little needs no place
        patch.setitem(source.Source.__init__.__kwdefaults__, "sort_bytes", 200)  # or it hands out all at once


@pytest.fixture
def sorts(monkeypatch: pytest.MonkeyPatch) -> Sorts:
    return Sorts(monkeypatch)


class Reader:
    """A caller of a topic's consumer, and what it was handed by partition."""

    def __init__(self, consumer: TopicConsumer) -> None:
        self.consumer = consumer
        self.offsets: dict[int, list[int]] = defaultdict(list)
        self.told: list[LithifyError] = []

    def poll(self, most: int = STRETCH) -> set[int]:
        """Of which partitions something came."""
        try:
            found = self.consumer.poll(0, max_records=most)
        except LithifyError as error:
            self.told.append(error)
            return set()
        for number, item in found:
            self.offsets[number] += shown([item])
        return {number for number, _ in found}


def warehouse_of(store: FailingStore | None = None) -> Warehouse:
    return opened(store or FailingStore(), HandClock())


def filled(warehouse: Warehouse, sizes: list[int]) -> Topic:
    """So many records in each partition, in a run that lies in the order of its keys."""
    topic = warehouse.create_topic("t", partitions=len(sizes), config=COMPACTED, probe=False)
    for number, size in enumerate(sizes):
        more(warehouse, topic, number, size)
    return topic


def more(warehouse: Warehouse, topic: Topic, number: int, size: int) -> None:
    """Compacted before anybody looks."""
    if size:
        part = topic.partition(number)
        first = part.snapshot().next_offset
        append(part, *(f"{-offset % 1_000:03d} {offset}" for offset in range(first, first + size)))
        compact(warehouse, "t", number)


@pytest.mark.slow
@example(sizes=[STRETCH] * SORTS_MAX, most=STRETCH, iterates=False)  # who waits is asked before those that end
@given(sizes=st.lists(st.integers(0, 40), min_size=1, max_size=12), most=st.integers(1, 60), iterates=st.booleans())
def test_each_record_comes_once_in_order_however_many_partitions_wait(
    sizes: list[int], most: int, iterates: bool
) -> None:
    """And what was sorted is not sorted again; and nothing is left where a poll says so."""
    with pytest.MonkeyPatch.context() as patch:
        sorts, warehouse = Sorts(patch), warehouse_of()
        topic = filled(warehouse, sizes)
        sorts.most = sorts.made = 0
        reader = Reader(topic.consumer("c"))
        if iterates:
            for number, item in reader.consumer:
                reader.offsets[number] += shown([item])
                if sum(map(len, reader.offsets.values())) == sum(sizes):
                    break
        else:
            while reader.poll(most):
                pass
        assert reader.offsets == {number: list(range(size)) for number, size in enumerate(sizes) if size}
        assert sorts.most <= SORTS_MAX
        assert sorts.made == sum(size > 0 for size in sizes)
        reader.consumer.close()
        assert [stored(topic.partition(number)) for number in range(len(sizes))] == sizes
        assert sorts.open == 0


@pytest.mark.slow
@pytest.mark.parametrize("most", [1, STRETCH, 500])
@pytest.mark.parametrize("hot", [1, SORTS_MAX - 1, SORTS_MAX, SORTS_MAX + 1])
def test_partitions_that_never_end_keep_no_other_back(sorts: Sorts, hot: int, most: int) -> None:
    """Each of them has more, compacted, whenever it was read."""
    warehouse = warehouse_of()
    sizes = [2 * STRETCH] * (hot + SORTS_MAX + 2)
    topic = filled(warehouse, sizes)
    reader = Reader(topic.consumer("c"))
    waits = [0] * len(sizes)
    for _ in range(40 if most > 1 else 180):
        came = reader.poll(most)
        assert came
        assert sorts.open <= SORTS_MAX
        for number in range(len(sizes)):
            unread = len(reader.offsets[number]) < topic.partition(number).snapshot().next_offset
            waits[number] = 0 if number in came or not unread else waits[number] + 1
            # One that holds a place hands out two stretches, or three; no place comes by another one twice before.
            assert waits[number] <= len(sizes) * 3 * STRETCH / min(most, STRETCH), f"partition {number} starves"
        for number in came & set(range(hot)):
            if len(reader.offsets[number]) == topic.partition(number).snapshot().next_offset:
                more(warehouse, topic, number, STRETCH + 1)
    for number in range(hot, len(sizes)):
        assert reader.offsets[number] == list(range(sizes[number]))
    for offsets in reader.offsets.values():
        assert all(before + 1 == after for before, after in pairwise(offsets))


@pytest.mark.slow
@pytest.mark.parametrize("compacted", [False, True])
def test_who_was_at_its_end_does_not_wait_for_those_that_catch_up(sorts: Sorts, compacted: bool) -> None:
    """Whether or not what came meanwhile was compacted before it is read."""
    warehouse = warehouse_of()
    topic = filled(warehouse, [2] + [60] * (SORTS_MAX + 2))
    reader = Reader(topic.consumer("c"))
    while len(reader.offsets[0]) < 2 or len(reader.offsets) < SORTS_MAX:
        reader.poll()
    for _ in range(3):
        before = len(reader.offsets[0])
        append(topic.partition(0), *(f"new {before + row}" for row in range(STRETCH - 1)))
        if compacted:
            compact(warehouse, "t", 0)
        for _ in range(topic.partitions):
            reader.poll(1_000)
        assert len(reader.offsets[0]) == before + STRETCH - 1
        assert sorts.open >= SORTS_MAX - 1, "the others are still at it"
    assert sorts.most <= SORTS_MAX


@pytest.mark.slow
@pytest.mark.parametrize("broken", range(SORTS_MAX + 3))
@pytest.mark.parametrize("holds", [False, True], ids=["waiting", "holding"])
@pytest.mark.parametrize("how", ["unreadable", "replaced"])
def test_who_fails_holds_no_place_and_keeps_none_free(sorts: Sorts, how: str, holds: bool, broken: int) -> None:
    """So many are `broken` before they have a place, or as soon as they have one. Whoever goes on after the error has
    all that the others hold."""
    clock, store = HandClock(), FailingStore()
    warehouse = opened(store, clock)
    topic = filled(warehouse, [1] * (SORTS_MAX + 4))
    reader = Reader(topic.consumer("c"))
    while reader.poll():
        pass
    for number in range(len(reader.offsets)):
        more(warehouse, topic, number, 3 * STRETCH)
    while holds and sorts.open < SORTS_MAX:
        assert reader.poll()

    def fails(request: str, key: str) -> None:
        if request == "read" and any(f"/{number:05d}/segments/" in key for number in range(broken)):
            raise Unavailable("told by the test")

    if how == "unreadable":
        store.before = fails
    else:
        for number in range(broken):
            topic.partition(number).consumer("c")
        clock.now_ms += 5_000  # so that each look commits, and is refused
    for _ in range(80):
        reader.poll()
        assert sorts.open <= SORTS_MAX
    whole = list(range(1 + 3 * STRETCH))
    assert all(reader.offsets[number] == whole for number in range(broken, len(reader.offsets)))
    assert {type(error) for error in reader.told} <= {Unavailable, Fenced}
    if how == "unreadable":
        store.before = lambda _request, _key: None
        while reader.poll():
            pass
        assert all(offsets == whole for offsets in reader.offsets.values())


def test_what_was_dealt_with_is_committed_while_its_partition_waits(sorts: Sorts) -> None:
    clock = HandClock()
    topic = filled(opened(FailingStore(), clock), [2 * STRETCH] + [60] * (SORTS_MAX + 2))
    reader = Reader(topic.consumer("c"))
    reader.poll()
    reader.consumer._consumers[0].let_go()  # as after an error
    while sorts.open < SORTS_MAX - 1:
        reader.poll()
    clock.now_ms += 5_000
    reader.poll(1_000)
    assert len(reader.offsets[0]) == STRETCH, "it was to wait"
    assert stored(topic.partition(0)) == STRETCH
    while reader.poll():
        pass
    assert reader.offsets[0] == list(range(2 * STRETCH))


def test_who_waits_goes_on_where_its_snapshot_is_gone(sorts: Sorts) -> None:
    warehouse = warehouse_of()
    topic = filled(warehouse, [3 * STRETCH] * (SORTS_MAX + 3))
    reader = Reader(topic.consumer("c"))
    reader.poll()
    for number in range(topic.partitions):
        more(warehouse, topic, number, 1)
        collect(warehouse, "t", number)
    while reader.poll() or reader.poll():  # every second look sees a collection
        pass
    whole = list(range(3 * STRETCH + 1))
    assert reader.offsets == dict.fromkeys(range(SORTS_MAX + 3), whole)
    assert sorts.most <= SORTS_MAX


def test_partitions_that_were_added_take_turns_with_the_others(sorts: Sorts) -> None:
    clock = HandClock()
    warehouse = opened(FailingStore(), clock)
    topic = filled(warehouse, [3 * STRETCH] * SORTS_MAX)
    reader = Reader(topic.consumer("c"))
    reader.poll()
    topic.alter(partitions=3 * SORTS_MAX)
    for number in range(SORTS_MAX, topic.partitions):
        more(warehouse, topic, number, 3 * STRETCH)
    clock.now_ms += TEN_SECONDS_MS
    sorts.most = 0
    while reader.poll():
        pass
    assert reader.offsets == {number: list(range(3 * STRETCH)) for number in range(topic.partitions)}
    assert sorts.most == SORTS_MAX - 1
