"""Producers that are killed and started again under their id: what the log holds of theirs is told at the opening."""

import re
import textwrap
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

import lithify
from lithify.log.latest import Latest
from lithify.log.producer import Producer
from lithify.log.producer_config import parse_producer_config
from lithify.log.warehouse import Warehouse
from lithify.segment.partitioner import partition_for_key
from lithify.store.driver import Driver
from lithify.store.errors import InvalidRequest, LithifyError
from lithify.store.memory import MemoryStore
from lithify.store.metered import Metered
from lithify.store.port import Outcome
from lithify.testing.faults import Fault, FaultyStore
from tests.clock import HandClock
from tests.log.producing import values

PARTITIONS = 2
SOURCE = [(b"k%d" % (number % 5), b"%d" % number) for number in range(24)]
FAULTS = [*[Fault.NONE] * 6, Fault.LOST_REPLY, Fault.LOST_REQUEST, Fault.LATE, Fault.REFUSED]


@pytest.mark.slow
def test_who_starts_again_is_told_what_is_there(any_warehouse: Warehouse) -> None:
    topic = any_warehouse.create_topic("t", partitions=PARTITIONS)
    with topic.producer() as anonymous:
        assert anonymous.sequences == ()
    with topic.producer("me") as first:
        assert first.sequences == (0, 0)
        for key, value in SOURCE[:10]:
            first.append(key, value)
        first.flush()
        there = first.sequences
    assert there == tuple(len(values(topic, number)) for number in range(PARTITIONS))
    with any_warehouse.topic("t").producer("another") as other:
        assert other.sequences == (0, 0)
    with any_warehouse.topic("t").producer("me") as second:
        assert second.sequences == there
        second.append(*SOURCE[10])
    assert sum(any_warehouse.topic("t").producer("me").sequences) == 11


class _Killed(BaseException):
    pass


class _Mortal(FaultyStore):
    """After so many creates the process is gone: before the last one, or after it."""

    def __init__(self, warehouse: Warehouse, plan: Sequence[Fault], creates: int, *, after: bool) -> None:
        super().__init__(warehouse.store, plan)
        self.left, self.after = creates, after

    def create(self, key: str, body: bytes, frees: bool = False) -> Outcome:
        self.left -= 1
        if self.left > 0:
            return super().create(key, body, frees)
        if self.left == 0 and self.after:
            super().create(key, body, frees)
        raise _Killed


LIVES = st.lists(
    st.tuples(
        st.lists(st.sampled_from(FAULTS), max_size=20),
        st.integers(1, 25),
        st.booleans(),
        st.sampled_from([1, 3, 10_000]),
        st.integers(0, 3),
    ),
    max_size=5,
)


@pytest.mark.slow
@given(LIVES)
def test_a_source_that_is_handed_over_again_is_there_once_and_in_order(
    lives: list[tuple[list[Fault], int, bool, int, int]],
) -> None:
    """Tried on manifest/producers.py, and caught: a sequence from 0 in the answer of an opening; on log/producer.py:
    one that stays as it was opened, and one that counts batches."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("lithify.store.driver.pause", lambda ms: None)
        whole = Warehouse(Driver(Metered(MemoryStore()), HandClock()))
        topic = whole.create_topic("t", partitions=PARTITIONS)
        stores: list[_Mortal] = []
        for plan, creates, after, records, arrive in [*lives, ([], 10**9, False, 3, 0)]:
            store = _Mortal(whole, plan, creates, after=after)
            stores.append(store)
            try:
                live(Warehouse(Driver(store, HandClock())), records)
            except (_Killed, LithifyError):
                assert len(stores) <= len(lives), "the last one meets no fault"
            for earlier in stores[: len(stores) - arrive]:
                earlier.deliver()
        for store in stores:
            store.deliver()
        for number in range(PARTITIONS):
            expected = [value for key, value in SOURCE if partition_for_key(key, PARTITIONS) == number]
            assert values(topic, number) == expected


def live(warehouse: Warehouse, records: int) -> None:
    """One process: opens the id, leaves out what is there, and hands over the rest."""
    topic = warehouse.topic("t")
    config = parse_producer_config({"linger.ms": 0, "batch.records": records, "delivery.timeout.ms": 0})
    latest = Latest("t", lambda: topic.parsed_config, lambda: True, lambda: None)
    partitions = [topic.partition(number) for number in range(PARTITIONS)]
    producer = Producer(warehouse.driver, "t", partitions, latest, config, "me", HandClock())
    left_out = list(producer.sequences)
    try:
        for key, value in SOURCE:
            number = partition_for_key(key, PARTITIONS)
            left_out[number] -= 1
            if left_out[number] < 0:
                producer.append(key, value)
    finally:
        producer.close()


def test_the_page_can_be_followed(warehouse: Warehouse) -> None:
    """By its own lines: a first run that is cut off anywhere, then the whole source again."""
    page = (Path(__file__).parents[2] / "docs" / "from-kafka.md").read_text(encoding="utf-8")
    (section,) = re.findall(r"^### Over a restart\n(.*?)^- ", page, re.MULTILINE | re.DOTALL)
    program = textwrap.dedent("\n".join(line for line in section.splitlines() if line.startswith("    ")))
    topic = warehouse.create_topic("t", partitions=PARTITIONS)
    for end in (0, 5, 17, len(SOURCE), len(SOURCE)):
        exec(program, {"lithify": lithify, "topic": topic, "source": SOURCE[:end]})
    for number in range(PARTITIONS):
        expected = [value for key, value in SOURCE if lithify.partition_for_key(key, PARTITIONS) == number]
        assert values(topic, number) == expected


@pytest.mark.parametrize("arguments", [("k", 2), (b"k", 0), (b"k", True), (None, 2), (b"k", 1.0)])
def test_where_a_key_goes_is_asked_by_bytes_and_a_count(arguments: tuple[Any, Any]) -> None:
    with pytest.raises(InvalidRequest, match="give a key as bytes"):
        lithify.partition_for_key(*arguments)
