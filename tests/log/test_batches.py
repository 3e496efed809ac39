"""Batches on their own: which are added to, which go first, and how many of a partition are under way at a time."""

from collections import defaultdict
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from lithify.log.batches import RECORD_OVERHEAD_BYTES, Batch, Batches
from lithify.log.producer_config import ProducerConfig
from lithify.log.record import Record

PARTITIONS = 2
CONFIGS = st.builds(
    ProducerConfig,
    linger_ms=st.sampled_from([0, 50, 50, 10**9]),
    batch_records=st.integers(1, 3),
    batch_size=st.sampled_from([300, 2_000, 8 << 20]),
)
ADDING = st.tuples(st.just("add"), st.integers(0, PARTITIONS - 1), st.integers(0, 900))
TAKING = st.tuples(st.just("take"), st.sampled_from([None, None, 1, 0, -1]), st.none())
SETTLING = st.tuples(st.just("settle"), st.integers(0, PARTITIONS - 1), st.none())
HURRYING = st.tuples(st.just("hurry"), st.none(), st.none())
STEPS = st.lists(ADDING | ADDING | ADDING | TAKING | TAKING | SETTLING | HURRYING, min_size=10, max_size=50)


class SomeBatches:
    """The oracle holds each partition's records in the order they came, each with the time at which it is due."""

    def __init__(self, config: ProducerConfig) -> None:
        self.config = config
        self.batches = Batches(config)
        self.now_ms = 1_000
        self.waiting: dict[int, list[tuple[bytes, int, int]]] = defaultdict(list)  # value, size, due at
        self.under_way: dict[int, Batch] = {}
        self.bytes = 0
        self.added = 0

    def _gathered(self, partition: int) -> list[list[tuple[bytes, int, int]]]:
        """What waits, cut into batches: one is full with so many records, or with the one that reaches so many bytes.
        What waits begins anew once a batch was taken."""
        found: list[list[tuple[bytes, int, int]]] = []
        for item in self.waiting[partition]:
            if not found or self._full(found[-1]):
                found.append([])
            found[-1].append(item)
        return found

    def _full(self, items: list[tuple[bytes, int, int]]) -> bool:
        return len(items) >= self.config.batch_records or sum(size for _, size, _ in items) >= self.config.batch_size

    def _due_at_ms(self, items: list[tuple[bytes, int, int]]) -> int:
        """When its first record has lingered, or its last one made it full, or somebody was in a hurry."""
        return min(due_at_ms for _, _, due_at_ms in items)

    def add(self, partition: int, size: int) -> None:
        value = b"%d" % self.added
        self.added += 1
        batch, index = self.batches.add(partition, Record(None, value), size + RECORD_OVERHEAD_BYTES, self.now_ms)
        assert batch.records[index].value == value
        self.bytes += size + RECORD_OVERHEAD_BYTES
        self.waiting[partition].append((value, size + RECORD_OVERHEAD_BYTES, self.now_ms + self.config.linger_ms))
        mine = self._gathered(partition)[-1]
        if self._full(mine):
            self.waiting[partition][-1] = (*self.waiting[partition][-1][:2], self.now_ms)

    def hurry(self) -> None:
        self.batches.hurry(self.now_ms)
        for items in self.waiting.values():
            items[:] = [(value, size, min(due_at_ms, self.now_ms)) for value, size, due_at_ms in items]

    def _free(self) -> dict[int, list[tuple[bytes, int, int]]]:
        """The first batch of each partition of which none is under way."""
        return {
            number: self._gathered(number)[0]
            for number in range(PARTITIONS)
            if self.waiting[number] and number not in self.under_way
        }

    def take(self, left_ms: int | None) -> None:
        """Now, or when the next one is due, nearly or just so."""
        waiting = [self._due_at_ms(items) for items in self._free().values()]
        if left_ms is not None and waiting:
            self.now_ms = max(self.now_ms, min(waiting) - left_ms)
        due = {number: items for number, items in self._free().items() if self._due_at_ms(items) <= self.now_ms}
        batch = self.batches.take(self.now_ms)
        if not due:
            assert batch is None, "it is not due, or another one of its partition is under way"
            return
        assert batch is not None, "one is due"
        assert batch.partition in due, "it is not due, or another one of its partition is under way"
        mine = due[batch.partition]
        assert batch.due_at_ms == self._due_at_ms(mine), "its time is counted from then"
        assert self._due_at_ms(mine) == min(map(self._due_at_ms, due.values())), "another one has been due for longer"
        assert [record.value for record in batch.records] == [value for value, _, _ in mine]
        del self.waiting[batch.partition][: len(mine)]
        self.under_way[batch.partition] = batch

    def settle(self, which: int) -> None:
        """Twice is once."""
        if not self.under_way:
            return
        batch = list(self.under_way.values())[which % len(self.under_way)]
        self.bytes -= batch.bytes
        del self.under_way[batch.partition]
        self.batches.settled(batch)
        self.batches.settled(batch)
        assert batch.records == []

    def give_up(self) -> None:
        found = list(self.batches.unsent())
        self.bytes -= sum(size for items in self.waiting.values() for _, size, _ in items)
        assert len(found) == sum(len(self._gathered(number)) for number in range(PARTITIONS))
        self.waiting.clear()

    def nothing_is_lost_and_memory_is_what_is_not_settled(self) -> None:
        assert self.batches.bytes == self.bytes
        assert len(self.batches) == len(self.batches.all())
        held = sorted(record.value or b"" for batch in self.batches.all() for record in batch.records)
        under_way = [record.value or b"" for batch in self.under_way.values() for record in batch.records]
        assert held == sorted([*under_way, *(value for items in self.waiting.values() for value, _, _ in items)])

    def it_says_when_the_next_one_is_due(self) -> None:
        due = [self._due_at_ms(items) for items in self._free().values()]
        assert self.batches.due_in_ms(self.now_ms) == (max(0, min(due) - self.now_ms) if due else None)


@pytest.mark.slow
@given(CONFIGS, STEPS)
@settings(max_examples=4 * settings.default.max_examples, deadline=None)
def test_batches_go_in_order_and_when_they_are_due(config: ProducerConfig, steps: list[tuple[str, Any, Any]]) -> None:
    """Tried on log/batches.py, and caught: a full batch that is added to, or that lingers; the batch that is due last
    first; two batches of a partition at once; one that is sent before it is due; a batch that is added to while it is
    sent; a flush that hurries nothing; one that makes a batch less due; the bytes of a batch that was sent, or never
    will be, still counted; a wait for what has to wait for another.
    """
    some = SomeBatches(config)
    for step in steps:
        match step:
            case "add", partition, size:
                some.add(partition, size)
            case "take", left_ms, _:
                some.take(left_ms)
            case "settle", which, _:
                some.settle(which)
            case _:
                some.hurry()
        some.nothing_is_lost_and_memory_is_what_is_not_settled()
        some.it_says_when_the_next_one_is_due()
    some.give_up()
    some.nothing_is_lost_and_memory_is_what_is_not_settled()
