"""Gets that may answer from a head of a moment ago: what they may miss, and what they never do (docs/rfcs/0025)."""

import threading
from typing import Any

import pytest

from lithify.log.partition import Partition
from lithify.log.record import Record
from lithify.log.warehouse import Warehouse
from lithify.store.driver import Driver
from lithify.store.errors import Corrupt, InvalidRequest, NotFound, SnapshotExpired
from lithify.store.memory import MemoryStore
from lithify.store.metered import Metered
from lithify.store.port import Now
from tests.clock import HandClock
from tests.log.compaction import collect, compact, files_of
from tests.log.producing import WAIT_MS

COMPACTED = {"cleanup.policy": "compact"}
A_SECOND = 1_000


@pytest.fixture
def part(warehouse: Warehouse) -> Partition:
    return warehouse.create_topic("t", config=COMPACTED).partition(0)


def other(warehouse: Warehouse) -> Partition:
    """A handle of its own."""
    return warehouse.topic("t").partition(0)


def forget(warehouse: Warehouse) -> None:
    """Nothing is warm."""
    warehouse.driver.cache.clear()


def value(part: Partition, key: bytes = b"k", staleness_ms: int = A_SECOND) -> bytes | None:
    found = part.get(key, max_staleness_ms=staleness_ms)
    return found and found.value


def test_a_warm_one_asks_nothing_until_the_head_is_too_old(
    warehouse: Warehouse, part: Partition, clock: HandClock
) -> None:
    part.append([Record(b"k", b"0")])
    assert value(part) == b"0"
    asked = warehouse.store.requests()
    clock.now_ms += A_SECOND - 1
    assert value(part) == b"0"
    assert part.get_many([b"k", b"none"], max_staleness_ms=A_SECOND)[1] is None
    assert warehouse.store.requests() == asked
    clock.now_ms += 1
    assert value(part) == b"0"
    assert (warehouse.store.requests() - asked).gets == 2


def test_it_misses_at_most_what_is_younger(warehouse: Warehouse, part: Partition, clock: HandClock) -> None:
    part.append([Record(b"k", b"0")])
    assert value(part) == b"0"
    clock.now_ms += A_SECOND - 1
    other(warehouse).append([Record(b"k", b"1")])
    assert value(part) == b"0"
    assert value(part, staleness_ms=0) == b"1"  # and everyone knows from then on
    other(warehouse).append([Record(b"k", b"2")])
    assert value(part) == b"1"
    clock.now_ms += A_SECOND
    assert value(part) == b"2"


def test_it_sees_what_its_own_handle_appended(part: Partition) -> None:
    for number in range(3):
        part.append([Record(b"k", b"%d" % number)])
        assert value(part) == b"%d" % number


def test_a_head_is_as_old_as_the_question(warehouse: Warehouse, part: Partition, clock: HandClock) -> None:
    """SUBTLE in recent.py: 1. A asks for the next manifest: there is none. 2. A sleeps; B appends. 3. A has its
    answer, and takes it for young."""
    part.append([Record(b"k", b"0")])
    answer, asked = warehouse.driver.answer, list[Any]()

    def slow(request: Any) -> Any:
        reply = answer(request)
        if not isinstance(request, Now):
            asked.append(request)
            clock.now_ms += A_SECOND  # it sleeps before each reply arrives
        return reply

    warehouse.driver.answer = slow
    assert value(part) == b"0"
    warehouse.driver.answer = answer
    other(warehouse).append([Record(b"k", b"1")])
    assert asked
    assert value(part) == b"1"


def test_a_clock_that_was_ahead_makes_nothing_young(warehouse: Warehouse, part: Partition, clock: HandClock) -> None:
    part.append([Record(b"k", b"0")])
    clock.now_ms += 3_600_000
    assert value(part) == b"0"
    clock.now_ms -= 3_600_000
    other(warehouse).append([Record(b"k", b"1")])
    assert value(part) == b"1"


def test_collected_beneath_it_asks_the_head(warehouse: Warehouse, part: Partition, clock: HandClock) -> None:
    part.append([Record(b"k", b"0"), Record(b"j", b"0")])
    hour = 3_600_000
    part.get(b"x", max_staleness_ms=hour)  # the head is known, its segments are not
    elsewhere_part = other(warehouse)
    elsewhere_part.append([Record(b"k", b"1")])
    compact(warehouse, "t")
    elsewhere_part.append([Record(b"j", b"2")])
    compact(warehouse, "t")
    collect(warehouse, "t")
    forget(warehouse)
    assert value(part, b"j", hour) == b"2"
    assert value(part, b"k", hour) == b"1"


def test_what_is_gone_and_should_not_be_is_damage(warehouse: Warehouse, part: Partition) -> None:
    part.append([Record(b"k", b"0")])
    part.get(b"x", max_staleness_ms=A_SECOND)
    head = warehouse.driver.run(files_of(warehouse, "t").head())
    warehouse.store.delete([files_of(warehouse, "t").keys.segment(head.l0[0].id)])
    for staleness_ms in (A_SECOND, 0):
        with pytest.raises(Corrupt, match="restore the object"):
            value(part, b"k", staleness_ms)


def test_retention_by_time_hides_what_expired_under_a_known_head(warehouse: Warehouse, clock: HandClock) -> None:
    config = {"cleanup.policy": "compact,delete", "retention.ms": 10_000}
    part = warehouse.create_topic("r", config=config).partition(0)
    part.append([Record(b"k", b"0", timestamp_ms=clock.now_ms)])
    clock.now_ms += 9_000
    assert value(part, staleness_ms=60_000) == b"0"
    clock.now_ms += 1_001
    assert value(part, staleness_ms=60_000) is None
    assert part.get_many([b"k"], max_staleness_ms=60_000) == [None]


def test_a_deleted_topic_is_seen_once_the_head_is_too_old(
    warehouse: Warehouse, part: Partition, clock: HandClock
) -> None:
    part.append([Record(b"k", b"0")])
    assert value(part) == b"0"
    warehouse.delete_topic("t")
    assert value(part) == b"0"
    clock.now_ms += A_SECOND
    with pytest.raises(NotFound):
        value(part)


@pytest.mark.parametrize("given", [-1, 1.5, None, True, "1", 3_600_001])
def test_other_stalenesses_are_refused(part: Partition, given: Any) -> None:
    with pytest.raises(InvalidRequest, match="max_staleness_ms"):
        part.get(b"k", max_staleness_ms=given)


def test_many_keys_come_back_in_their_order_from_one_manifest(any_warehouse: Warehouse) -> None:
    topic = any_warehouse.create_topic("t", partitions=3, config=COMPACTED)
    topic.append([Record(b"%d" % number, b"v%d" % number, headers=(("h", b"x"),)) for number in range(40)])
    topic.append([Record(b"7", None), Record(b"8", b"new")])
    keys = [b"8", b"7", b"none", b"8", b"", *(b"%d" % number for number in range(9, 40))]
    found = topic.get_many(keys)
    assert [record and record.value for record in found[:5]] == [b"new", None, None, b"new", None]
    assert [record and (record.key, record.value) for record in found[5:]] == [(k, b"v" + k) for k in keys[5:]]
    assert found[5] is not None
    assert found[5].headers == (("h", b"x"),)
    assert topic.snapshot().get_many(keys) == found
    assert topic.get_many([]) == topic.partition(0).get_many([]) == []


@pytest.mark.parametrize("keys", ["ab", b"ab", [None], ["\ud800"], 5])
def test_what_is_no_list_of_keys_is_refused(part: Partition, keys: Any) -> None:
    for target in (part, part.snapshot()):
        with pytest.raises(InvalidRequest, match="key"):
            target.get_many(keys)


def test_a_pinned_snapshot_answers_after_a_collection(warehouse: Warehouse, part: Partition) -> None:
    part.append([Record(b"k", b"0"), Record(b"j", b"1")])
    pinned = part.snapshot(pin="p")
    part.append([Record(b"k", b"1")])
    compact(warehouse, "t")
    collect(warehouse, "t")
    records = pinned.get_many([b"j", b"k", b"j"])
    assert [record and record.value for record in records] == [b"1", b"0", b"1"]
    assert records[0] == records[2]
    forget(warehouse)
    assert [record and record.value for record in pinned.get_many([b"j", b"k"])] == [b"1", b"0"]


def test_handles_share_what_they_read(warehouse: Warehouse, part: Partition) -> None:
    part.append([Record(b"k", b"0")])
    part.get(b"k")
    asked = warehouse.store.requests().reads
    assert value(other(warehouse)) == b"0"
    assert warehouse.store.requests().reads == asked


def test_expired_snapshots_still_say_so() -> None:
    clock = HandClock()
    warehouse = Warehouse(Driver(Metered(MemoryStore()), clock))
    part = warehouse.create_topic("t", config=COMPACTED).partition(0)
    part.append([Record(b"k", b"0")])
    snapshot = part.snapshot()
    part.append([Record(b"k", b"1")])
    compact(warehouse, "t")
    part.append([Record(b"k", b"2")])
    collect(warehouse, "t")
    with pytest.raises(SnapshotExpired):
        snapshot.get(b"k")


def test_what_is_known_waits_for_nobody_who_asks_the_store(warehouse: Warehouse, part: Partition) -> None:
    """1. The store answers nobody. 2. One thread of this handle waits for it. 3. Others need nothing of it."""
    part.append([Record(b"k", b"0")])
    assert value(part) == b"0"
    asked, go = threading.Event(), threading.Event()
    driver: Any = vars(part)["_driver"]
    plain = driver.answer

    def answer(request: Any) -> Any:
        if isinstance(request, Now):
            return plain(request)
        asked.set()
        assert go.wait(2 * WAIT_MS / 1000)
        return plain(request)

    driver.answer = answer
    waits = threading.Thread(target=part.describe)
    waits.start()
    assert asked.wait(WAIT_MS / 1000)
    found: list[bytes | None] = []
    reader = threading.Thread(target=lambda: found.append(value(part)))
    reader.start()
    reader.join(WAIT_MS / 1000)
    told = list(found)
    go.set()
    waits.join()
    reader.join()
    assert told == [b"0"]
