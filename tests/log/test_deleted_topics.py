"""Every use of a topic that was deleted answers NotFound: also a handle's that saw it alive a moment ago, and also once
a collection took what the handle would build upon."""

from collections.abc import Callable

import pytest

from lithify.gc.collector import Collector
from lithify.log.partition import Partition
from lithify.log.record import Record
from lithify.log.warehouse import Warehouse
from lithify.store.errors import NotFound

RECORDS = [Record(b"k", b"v")]

USES: dict[str, Callable[[Partition], object]] = {
    "append": lambda part: part.append(RECORDS),
    "append nothing": lambda part: part.append([]),
    "append a transaction": lambda part: part.append(RECORDS, txn=("application", 1)),
    "repeat a transaction": lambda part: part.append(RECORDS, txn=("application", 0)),
    "transactions": Partition.transactions,
    "forget a transaction": lambda part: part.forget_transaction("application"),
    "open a producer": lambda part: part.open_producer("id"),
    "read": lambda part: list(part.read()),
    "follow": lambda part: list(part.read(follow=True)),
    "read batches": Partition.read_batches,
    "scan": Partition.scan,
    "scan and follow": Partition.scan_and_follow,
    "scan and follow by name": lambda part: part.scan_and_follow("consumer"),
    "get": lambda part: part.get(b"k"),
    "consumer": lambda part: part.consumer("consumer"),
    "another consumer": lambda part: part.consumer("another"),
    "consumers": Partition.consumers,
    "reset a consumer": lambda part: part.reset_consumer("consumer", 0),
    "delete a consumer": lambda part: part.delete_consumer("consumer"),
    "snapshot": Partition.snapshot,
    "pin": lambda part: part.snapshot("another"),
    "the same pin": lambda part: part.snapshot("pin"),
    "pinned": lambda part: part.pinned("pin"),
    "checkpoints": Partition.checkpoints,
    "refresh a checkpoint": lambda part: part.refresh_checkpoint("pin"),
    "delete a checkpoint": lambda part: part.delete_checkpoint("pin"),
    "delete records": lambda part: part.delete_records(1),
    "delete all records": lambda part: part.delete_records(-1),
    "describe": Partition.describe,
}


def made(warehouse: Warehouse) -> Partition:
    part = warehouse.create_topic("t").partition(0)
    for version in range(3):
        part.append(RECORDS, txn=("application", version))
    part.snapshot("pin")
    with part.consumer("consumer"):
        pass
    for _ in range(3):
        part.append(RECORDS)
    return part


def end(warehouse: Warehouse, *, collected: bool) -> None:
    warehouse.delete_topic("t")
    if collected:
        for _ in range(3):
            Collector(warehouse, grace_ms=0).run_once(sweep=True)


@pytest.mark.parametrize("collected", [False, True])
@pytest.mark.parametrize("use", USES.values(), ids=USES)
def test_a_partition_of_a_deleted_topic_is_not_found(
    warehouse: Warehouse, use: Callable[[Partition], object], collected: bool
) -> None:
    part = made(warehouse)
    end(warehouse, collected=collected)
    with pytest.raises(NotFound, match="was deleted"):
        use(part)


@pytest.mark.slow
@pytest.mark.parametrize("collected", [False, True])
def test_readers_and_writers_under_way_are_told(warehouse: Warehouse, collected: bool) -> None:
    part = made(warehouse)
    topic = warehouse.topic("t")
    consumer, commits, follower = part.consumer("consumer"), topic.consumer("commits"), part.follower()
    producer = topic.producer("id")
    for reader in (consumer, commits):
        assert len(reader.poll()) == 6
    assert follower.take() is not None
    end(warehouse, collected=collected)
    uses = (
        lambda: [consumer.poll() for _ in range(2)],  # every second look sees that numbers were collected
        commits.commit,
        lambda: [follower.take() for _ in range(2)],
        lambda: producer.append(b"k", b"v").offset(),
    )
    for use in uses:
        with pytest.raises(NotFound, match="was deleted"):
            use()
    with pytest.raises(NotFound, match="was deleted"):
        producer.close()
