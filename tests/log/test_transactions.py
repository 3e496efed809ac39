"""`txn`: what a partition remembers of an application, for how long, and what being forgotten means."""

import pytest

import lithify
from lithify.manifest.catalog import live_topic, partition_keys, topic_lineage
from lithify.manifest.homes import ONLY_HERE
from lithify.manifest.partition import PartitionFiles
from lithify.manifest.pins import Collect
from lithify.store.errors import NotFound, Unavailable
from tests.clock import HandClock

WEEK_MS = 7 * 86_400_000
RECORDS = [lithify.Record(b"k", b"v")]


def test_what_is_remembered_can_be_seen_and_forgotten() -> None:
    clock = HandClock(1_760_000_000_000)
    part = lithify.open("memory://transactions-seen", clock=clock).create_topic("t").partition(0)
    part.append(RECORDS, txn=("app", 3))
    (known,) = part.transactions()
    assert (known.application, known.version, known.base_offset, known.rows) == ("app", 3, 0, 1)
    assert (known.committed_at_ms, known.ended) == (clock.now_ms, False)
    part.end_transaction("app")
    assert part.transactions()[0].ended
    assert part.append(RECORDS, txn=("app", 3)) == range(1)  # known all the same
    part.forget_transaction("app")
    assert part.transactions() == ()
    assert part.append(RECORDS, txn=("app", 3)) == range(1, 2)  # a late repeat of one that was forgotten comes again
    with pytest.raises(NotFound, match="'nobody'"):
        part.forget_transaction("nobody")


def test_a_full_partition_takes_new_applications_again_after_a_week(monkeypatch: pytest.MonkeyPatch) -> None:
    """Two places instead of 1,024. Garbage collection has passed every commit so far, each day."""
    monkeypatch.setattr("lithify.manifest.transactions.TRANSACTIONS_MAX", 2)
    clock = HandClock(1_760_000_000_000)
    warehouse = lithify.open("memory://transactions-full", clock=clock)
    part = warehouse.create_topic("t").partition(0)
    files = PartitionFiles(partition_keys(warehouse.driver.run(live_topic(topic_lineage("t"), "t")))[0])
    for application in ("a", "b"):
        part.append(RECORDS, txn=(application, 1))
    for days in range(1, 8):
        clock.now_ms += 86_400_000
        part.append(RECORDS, txn=("b", 1 + days))
        collected = Collect(warehouse.driver.run(files.head()).id, frozenset(), always=True, homes=ONLY_HERE)
        warehouse.driver.run(files.manifest.commit(collected))
        with pytest.raises(Unavailable, match=r"remembers 2 .* 'lithify transaction forget t APPLICATION'"):
            part.append(RECORDS, txn=("c", 1))
    clock.now_ms += 1
    assert part.append(RECORDS, txn=("c", 1)) == range(9, 10)
    assert [known.application for known in part.transactions()] == ["b", "c"]
