"""Producers: batching, order, fencing, repeats, backpressure, and errors that are not lost."""

import contextlib
import threading
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pytest

from lithify.log.batches import Delivery
from lithify.log.delivering import deliver
from lithify.log.partition import Partition
from lithify.log.record import Record
from lithify.log.warehouse import Warehouse
from lithify.segment.partitioner import partition_for_key
from lithify.store.driver import Driver
from lithify.store.errors import Fenced, InvalidRequest, LithifyError, Unavailable
from lithify.testing.faults import Fault
from tests.clock import HandClock
from tests.log.conftest import Make
from tests.log.producing import WAIT_MS, Gated, values

pytestmark = pytest.mark.usefixtures("no_waiting")

LINGER = {"linger.ms": 10**9}  # only full batches, and flushes
KEYS = [b"%d" % number for number in range(20)]


@pytest.mark.parametrize("producer_id", [None, "me"])
def test_records_arrive_in_order_in_their_partitions(any_warehouse: Warehouse, producer_id: str | None) -> None:
    topic = any_warehouse.create_topic("t", partitions=3, config={"cleanup.policy": "compact"})
    keys = [b"k%d" % (number % 17) for number in range(300)]
    with topic.producer(producer_id, config={"batch.records": 20}) as producer:
        deliveries = [producer.append(key, b"%d" % number) for number, key in enumerate(keys)]
        producer.flush()
        assert all(delivery.done() for delivery in deliveries)
    for number in range(3):
        mine = [at for at, key in enumerate(keys) if partition_for_key(key, 3) == number]
        assert values(topic, number) == [b"%d" % at for at in mine]
        assert [(deliveries[at].partition, deliveries[at].offset()) for at in mine] == [
            (number, offset) for offset in range(len(mine))
        ]
        assert len(topic.partition(number).describe().l0) < len(mine) / 2


def test_what_a_record_carries_arrives(warehouse: Warehouse, clock: HandClock) -> None:
    topic = warehouse.create_topic("t")
    with topic.producer() as producer:
        producer.append(b"k", b"v", timestamp_ms=5, headers=(("h", b"1"),))
        producer.append(None, None)
    assert list(topic.partition(0).read()) == [
        Record(b"k", b"v", 5, (("h", b"1"),), 0),
        Record(None, None, clock.now_ms, (), 1),
    ]


def test_headers_that_the_caller_goes_on_using_are_sent_as_they_were(warehouse: Warehouse) -> None:
    """Tried on log/producer.py, and caught: the list is kept as it was given."""
    topic = warehouse.create_topic("t")
    headers: list[tuple[str, bytes]] = []
    with topic.producer(config=LINGER) as producer:
        for number in range(3):
            headers[:] = [("h", b"%d" % number), ("of", b"the caller")][: number + 1]
            producer.append(b"k", b"v", headers=headers)
        headers.clear()
    assert [record.headers for record in topic.partition(0).read()] == [
        (("h", b"0"),),
        (("h", b"1"), ("of", b"the caller")),
        (("h", b"2"), ("of", b"the caller")),
    ]


def test_a_batch_is_sent_when_it_has_lingered(warehouse: Warehouse, producer_of: Make) -> None:
    topic = warehouse.create_topic("t")
    hand = HandClock()
    producer = producer_of(warehouse, clock=hand, linger_ms=1000)
    first = producer.append(None, b"1")
    hand.now_ms += 999
    producer.append(None, b"2")
    assert topic.partition(0).describe().next_offset == 0
    hand.now_ms += 1
    third = producer.append(None, b"3")
    assert (first.offset(WAIT_MS), third.offset(WAIT_MS)) == (0, 2)
    assert len(topic.partition(0).describe().l0) == 1


def test_lingering_ends_by_itself(warehouse: Warehouse) -> None:
    producer = warehouse.create_topic("t").producer(config={"linger.ms": 1})
    assert producer.append(None, b"1").offset(WAIT_MS) == 0
    producer.close()


@pytest.mark.parametrize("config", [{"batch_records": 2}, {"batch_size": 600}])
def test_a_full_batch_is_sent_at_once(warehouse: Warehouse, producer_of: Make, config: dict[str, int]) -> None:
    topic = warehouse.create_topic("t")
    producer = producer_of(warehouse, **config)
    deliveries = [producer.append(None, b"x" * 50) for _ in range(5)]
    assert deliveries[3].offset(WAIT_MS) == 3
    assert not deliveries[4].done()
    producer.close()
    assert [segment.rows for segment in topic.partition(0).describe().l0][-1] == 1
    assert deliveries[4].offset() == 4


def test_one_batch_of_a_partition_is_under_way_at_a_time(
    warehouse: Warehouse, producer_of: Make, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The other sender takes another partition's, though that one came later. Tried on log/batches.py, and caught: a
    partition that is never busy."""
    gate, changed, begun = threading.Event(), threading.Condition(), list[int]()

    def held(driver: Driver, partition: Partition, *rest: Any, **named: Any) -> range:
        with changed:
            begun.append(partition.number)
            changed.notify_all()
        assert gate.wait(WAIT_MS / 1000)
        return deliver(driver, partition, *rest, **named)

    monkeypatch.setattr("lithify.log.producer.deliver", held)
    topic = warehouse.create_topic("t", partitions=2)
    one, other = (next(key for key in KEYS if partition_for_key(key, 2) == number) for number in range(2))
    producer = producer_of(warehouse, batch_records=1)
    for number in range(3):
        producer.append(one, b"%d" % number)
    producer.append(other, b"v")
    with changed:
        assert changed.wait_for(lambda: len(begun) == 2, WAIT_MS / 1000)
    under_way = set(begun)
    gate.set()
    producer.close()
    assert under_way == {0, 1}
    assert values(topic) == [b"0", b"1", b"2"]


def test_keyless_batches_take_turns(warehouse: Warehouse, producer_of: Make) -> None:
    topic = warehouse.create_topic("t", partitions=3)
    producer = producer_of(warehouse, batch_records=4)
    places = [producer.append(None, b"").partition for _ in range(24)]
    producer.close()
    batches = [places[start : start + 4] for start in range(0, 24, 4)]
    assert all(len(set(batch)) == 1 for batch in batches)
    assert [topic.partition(number).describe().next_offset for number in range(3)] == [8, 8, 8]


@pytest.mark.parametrize("plan", [[], [*[Fault.NONE] * 5, *[Fault.REFUSED] * 1000]], ids=["all", "not all"])
def test_deliveries_of_a_partition_are_done_in_order(
    warehouse: Warehouse, producer_of: Make, plan: Sequence[Fault]
) -> None:
    """Whoever sees one acknowledged knows the same of those before it in its partition."""
    warehouse.create_topic("t", partitions=2)
    store = Gated(warehouse, plan)
    producer = producer_of(Warehouse(Driver(store, HandClock())), batch_records=1, delivery_timeout_ms=0)
    deliveries = [producer.append(key, b"") for key in KEYS]
    seen: list[tuple[int, list[bool]]] = []
    for number, delivery in enumerate(deliveries):
        before = [earlier for earlier in deliveries[:number] if earlier.partition == delivery.partition]

        def done(outcome: Any, number: int = number, before: list[Delivery] = before) -> None:
            if isinstance(outcome.result(), range):
                seen.append((number, [isinstance(each._batch.outcome.result(0), range) for each in before]))

        delivery._batch.outcome.add_done_callback(done)
    store.gate.set()
    with contextlib.suppress(Unavailable):
        producer.close()
    assert len(seen) == (5 if plan else len(KEYS))
    assert all(all(before) for _, before in seen)


def test_threads_share_a_producer(warehouse: Warehouse) -> None:
    """Each one's records are there once, and in its order."""
    topic = warehouse.create_topic("t", partitions=2)
    deliveries: dict[bytes, Delivery] = {}
    with topic.producer(config={"batch.records": 7, "buffer.memory": 5_000}) as producer:

        def send(thread: int) -> None:
            for number in range(60):
                value = b"%d %d" % (thread, number)
                deliveries[value] = producer.append(KEYS[number % 4], value)

        with ThreadPoolExecutor(4) as pool:
            list(pool.map(send, range(4)))
    logs = [values(topic, number) for number in range(2)]
    assert {value: (at.partition, at.offset()) for value, at in deliveries.items()} == {
        value: (number, offset) for number, log in enumerate(logs) for offset, value in enumerate(log)
    }
    for log in logs:
        for thread in range(4):
            mine = [int(value.split()[1]) for value in log if value is not None and value.startswith(b"%d " % thread)]
            assert mine == sorted(mine)


@pytest.mark.slow
def test_the_same_id_opened_again_fences_the_first_everywhere(any_warehouse: Warehouse) -> None:
    topic = any_warehouse.create_topic("t", partitions=2)
    first = topic.producer("me", config=LINGER)
    first.append(b"k", b"1")
    first.flush()
    with any_warehouse.topic("t").producer("me") as second:
        delivery = first.append(b"k", b"zombie")
        with pytest.raises(Fenced, match="was opened again"):
            first.flush()
        with pytest.raises(Fenced):
            delivery.offset()
        with pytest.raises(Fenced):
            first.append(b"another", b"zombie")
        with pytest.raises(Fenced):
            first.close()
        first.close()
        second.append(b"k", b"2")
    assert [row["value"] for row in topic.scan().read_all().to_pylist()] == [b"2"]
    assert sum(part.next_offset for part in topic.describe().partitions) == 2


def test_a_full_buffer_makes_append_wait_and_then_refuse(warehouse: Warehouse, producer_of: Make) -> None:
    topic = warehouse.create_topic("t")
    store = Gated(warehouse)
    gated = Warehouse(Driver(store, HandClock()))
    producer = producer_of(gated, buffer_memory=1000, batch_records=1, max_block_ms=0)
    for number in range(3):
        producer.append(None, b"%d" % number)
    with pytest.raises(Unavailable, match=r"buffer\.memory is full"):
        producer.append(None, b"refused")
    store.gate.set()
    producer.flush()
    assert producer.append(None, b"x" * 5000).partition == 0  # larger than the buffer: it goes alone
    producer.close()
    assert values(topic) == [b"0", b"1", b"2", b"x" * 5000]


def test_waiting_for_room_sends_what_lingers(warehouse: Warehouse, producer_of: Make) -> None:
    topic = warehouse.create_topic("t")
    producer = producer_of(warehouse, buffer_memory=1000, linger_ms=10**9)
    for number in range(20):
        producer.append(None, b"%d" % number)
    producer.close()
    assert values(topic) == [b"%d" % number for number in range(20)]


def test_after_a_failure_nothing_is_accepted_and_nothing_is_lost_in_silence(
    warehouse: Warehouse, producer_of: Make
) -> None:
    topic = warehouse.create_topic("t", partitions=2)
    producer = producer_of(warehouse, linger_ms=10**9)
    by_partition: dict[int, bytes] = {}
    for number in range(10):
        by_partition.setdefault(partition_for_key(b"%d" % number, 2), b"%d" % number)
    deliveries = [producer.append(key, b"v") for key in by_partition.values()]
    warehouse.delete_topic("t")
    with pytest.raises(LithifyError, match="was deleted"):
        producer.flush()
    for delivery in deliveries:
        with pytest.raises(LithifyError, match="was deleted"):
            delivery.offset(WAIT_MS)
    with pytest.raises(LithifyError, match="was deleted"):
        producer.append(b"k", b"v")
    with pytest.raises(LithifyError, match="was deleted"):
        producer.close()
    assert topic.name == "t"


def test_an_error_in_the_block_is_not_hidden_by_a_failure_to_deliver(warehouse: Warehouse) -> None:
    topic = warehouse.create_topic("t")

    def use() -> None:
        with topic.producer(config=LINGER) as producer:
            producer.append(b"k", b"v")
            warehouse.delete_topic("t")
            raise ValueError("the user's")

    with pytest.raises(ValueError, match="the user's") as raised:
        use()
    assert "and the producer failed: topic t was deleted" in raised.value.__notes__[0]


def test_bad_records_are_refused_at_once_and_cost_nothing(warehouse: Warehouse) -> None:
    topic = warehouse.create_topic("t", config={"cleanup.policy": "compact", "max.message.bytes": 10})
    with topic.producer() as producer:
        producer.append(b"k", b"v")
        for arguments, told in (
            ((None, b"v"), "has no key"),
            (("k", b"v"), "key of type str"),
            ((b"k", b"x" * 10), "11 bytes, more than max.message.bytes"),
            ((b"k", b"v", "now"), "timestamp_ms"),
        ):
            with pytest.raises(InvalidRequest, match=told):
                producer.append(*arguments)  # pyright: ignore
    assert values(topic) == [b"v"]
    with pytest.raises(InvalidRequest, match="the producer is closed"):
        producer.append(b"k", b"v")


@pytest.mark.parametrize(
    ("config", "told"),
    [
        ({"ackss": 1}, "unknown producer configuration 'ackss'; known are linger.ms, batch.records"),
        ({"acks": "all"}, "acks is not a producer configuration of lithify; nothing to set: an append that returns is"),
        (
            {"enable.idempotence": "true"},
            "enable.idempotence is not a producer configuration of lithify; give .* an id",
        ),
        ({"linger.ms": "soon"}, "linger.ms must be a whole number"),
        ({"linger.ms": -1}, "linger.ms must be a whole number between 0 and"),
        ({"batch.size": 0}, "batch.size must be a whole number between 1 and 469762048"),
    ],
)
def test_configurations_are_checked(warehouse: Warehouse, config: dict[str, Any], told: str) -> None:
    with pytest.raises(InvalidRequest, match=told):
        warehouse.create_topic("t").producer(config=config)


@pytest.mark.parametrize("producer_id", ["", "x" * 250, 7])
def test_ids_are_texts(warehouse: Warehouse, producer_id: Any) -> None:
    with pytest.raises(InvalidRequest, match="a producer's id"):
        warehouse.create_topic("t").producer(producer_id)


def test_a_delivery_can_be_asked_for_a_while(warehouse: Warehouse, producer_of: Make) -> None:
    """Before, whoever asked too early was told Unavailable, and had the record twice by appending it again."""
    topic = warehouse.create_topic("t")
    producer = producer_of(warehouse, linger_ms=10**9)
    delivery = producer.append(None, b"1")
    with pytest.raises(TimeoutError, match="still on its way after 0 ms") as told:
        delivery.offset(0)
    assert not isinstance(told.value, LithifyError)  # by each of which it would be known not to be there
    assert not delivery.done()
    producer.flush()
    assert (delivery.done(), delivery.offset(0), values(topic)) == (True, 0, [b"1"])
