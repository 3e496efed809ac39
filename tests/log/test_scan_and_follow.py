"""A state made anew by a scan, and what comes after it; of a named consumer, what is committed of it, and when."""

from collections.abc import Callable
from typing import Any

import pyarrow as pa
import pytest

from lithify.log.consumer import Consumer
from lithify.log.partition import Partition
from lithify.log.record import Record
from lithify.log.warehouse import Warehouse
from lithify.store.driver import Driver
from lithify.store.errors import InvalidRequest
from tests.clock import HandClock
from tests.log.compaction import compact
from tests.log.failing import FailingStore
from tests.log.test_consumer import commits, stored
from tests.log.test_follow import COMPACTED, EXPIRING, append, expire, shown
from tests.log.test_missed_deletions import clean
from tests.log.waiting import Script


@pytest.fixture
def part(warehouse: Warehouse) -> Partition:
    made = warehouse.create_topic("t", config=COMPACTED).partition(0)
    append(made, "a", "b", "c", "d")
    return made


def test_a_scan_makes_a_state_whole_once_it_was_read(warehouse: Warehouse, part: Partition) -> None:
    with part.consumer("c") as consumer:
        consumer.poll(max_records=2)
    clean(warehouse, 4)
    with pytest.raises(ZeroDivisionError):
        rebuild_and_fail(part)
    (known,) = part.consumers()
    assert (known.offset, known.missed_to) == (2, 4)  # who comes next has no state for anything later
    rebuilt = part.scan_and_follow("c")
    append(part, "e")
    assert rebuilt.consumer is not None
    with rebuilt.consumer as consumer:
        assert rebuilt.state.read_all().num_rows == 4
        assert shown([next(rebuilt.changes)]) == [4]
        assert consumer is rebuilt.changes
        consumer.commit()
        before = commits(warehouse)
        consumer.commit()  # nothing moved since, and the state is said to be whole once
        assert commits(warehouse) == before
    (known,) = part.consumers()
    assert (known.offset, known.missed_to, known.alarm) == (5, 0, None)


@pytest.mark.parametrize("batches", [0, 1])
def test_what_was_not_scanned_to_its_end_is_no_state(part: Partition, clock: HandClock, batches: int) -> None:
    """A scan that fails, and a close that was not told of it: nothing is committed, by hand, in time, or at the end."""
    with part.consumer("c") as consumer:
        consumer.poll(max_records=1)
    rebuilt = part.scan_and_follow("c")
    consumer = rebuilt.consumer
    assert consumer is not None
    append(part, "e")
    for _ in range(batches):
        rebuilt.state.read_next_batch()  # it has one, and whether another comes was not asked
    clock.now_ms += 5_000
    assert shown(consumer.poll()) == [4]
    clock.now_ms += 5_000
    assert consumer.poll() == []
    with pytest.raises(InvalidRequest, match="to its end"):
        consumer.commit()
    consumer.close()
    assert stored(part) == 1
    with pytest.raises(ZeroDivisionError):
        rebuild_and_fail(part, and_poll=True)
    assert stored(part) == 1


def in_batches(state: pa.RecordBatchReader) -> object:
    for _ in state:
        pass
    return None


READ: dict[str, Callable[[pa.RecordBatchReader], object]] = {
    "for": in_batches,
    "list": list,
    "read_all": lambda state: state.read_all(),
    "to_pylist": lambda state: state.read_all().to_pylist(),
    "a table by others": pa.table,
    "one batch": lambda state: state.read_next_batch(),
    "not at all": lambda _: None,
}
Leave = Callable[[Consumer], object]
LEAVE: dict[str, Leave] = {
    "close": Consumer.close,
    "closed twice": lambda consumer: (consumer.close(), consumer.close()),
    "error": lambda consumer: consumer.__exit__(ZeroDivisionError, ZeroDivisionError(), None),
    "error, then close": lambda consumer: (LEAVE["error"](consumer), consumer.close()),
    "gone": lambda _: None,
}


@pytest.mark.slow
@pytest.mark.parametrize("leave", LEAVE)
@pytest.mark.parametrize("first", [False, True], ids=["state first", "a change first"])
@pytest.mark.parametrize("read", READ)
def test_however_a_state_is_read_nothing_is_committed_before_the_caller_came_back(
    part: Partition, clock: HandClock, read: str, first: bool, leave: str
) -> None:
    """Loading what it took of the state fails: who comes next has no state, and must not begin behind it."""
    rebuilt = part.scan_and_follow("c")
    consumer = rebuilt.consumer
    assert consumer is not None
    if first:
        append(part, "e")
        assert shown(consumer.poll()) == [4]
    clock.now_ms += 5_000
    READ[read](rebuilt.state)
    LEAVE[leave](consumer)
    assert stored(part) == 0
    assert len(part.consumer("c").poll()) == 4 + first


def ask(consumer: Consumer) -> object:
    return consumer.poll()


def ask_and_fail(consumer: Consumer) -> object:
    consumer.poll()
    return LEAVE["error"](consumer)


@pytest.mark.parametrize("back", [ask, Consumer.commit, ask_and_fail, lambda found: found.__exit__(None, None, None)])
@pytest.mark.parametrize("read", ["for", "list", "read_all", "to_pylist"])
def test_who_came_back_after_the_state_commits_it(part: Partition, read: str, back: Leave) -> None:
    rebuilt = part.scan_and_follow("c")
    assert rebuilt.consumer is not None
    READ[read](rebuilt.state)
    back(rebuilt.consumer)
    rebuilt.consumer.close()
    assert stored(part) == 4


def rebuild_and_fail(part: Partition, *, and_poll: bool = False, reset: Any = "earliest") -> None:
    consumer = part.scan_and_follow("c", auto_offset_reset=reset).consumer
    assert consumer is not None
    with consumer:
        if and_poll:
            consumer.poll()
        raise ZeroDivisionError


@pytest.mark.parametrize("reset", ["earliest", "latest", "error"])
def test_a_new_store_that_fails_over_its_scan_leaves_the_beginning(part: Partition, reset: Any) -> None:
    """Whoever comes next with its name has no state, and reads all. Tried on log/opening.py, and caught: the name
    begins by `auto_offset_reset`; it begins behind the scan."""
    with pytest.raises(ZeroDivisionError):
        rebuild_and_fail(part, reset=reset)
    assert stored(part) == 0
    assert shown(part.consumer("c", auto_offset_reset=reset).poll()) == [0, 1, 2, 3]


def test_a_state_store_misses_nothing_and_sees_nothing_twice(any_warehouse: Warehouse) -> None:
    part = any_warehouse.create_topic("t", config=COMPACTED).partition(0)
    append(part, "b", "a", "b")
    part.append([Record(b"c", b"c"), Record(b"c", None)])
    script = Script(any_warehouse, lambda: append(part, "d"), lambda: compact(any_warehouse, "t"))
    rebuilt = part.scan_and_follow(stop=script.stop)
    append(part, "a")  # after the call, before either half was looked at
    state = rebuilt.state.read_all().to_pylist()
    assert [(row["key"], row["offset"]) for row in state] == [(b"a", 1), (b"b", 2)]
    assert rebuilt.next_offset == 5
    assert shown(rebuilt.changes) == [5, 6]


@pytest.mark.parametrize("request_number", range(-1, 12))
@pytest.mark.parametrize("there", [0, 1, 2])
def test_what_retention_takes_while_the_state_is_read_is_a_gap(
    clock: HandClock, there: int, request_number: int
) -> None:
    """Whenever that is: after the call (-1), or at one of its requests; also where the state was empty. Tried on
    log/scan_and_follow.py, and caught: offset 0 is taken for a beginning, and not for where the state ends."""
    store = FailingStore()
    warehouse = Warehouse(Driver(store, clock))
    config = {**EXPIRING, "cleanup.policy": "compact,delete"}
    part = warehouse.create_topic("t", config=config, probe=False).partition(0)
    elsewhere = Warehouse(Driver(store, clock)).topic("t").partition(0)
    if there:
        append(part, *"ab"[:there])
    asked = 0

    def comes_and_goes() -> None:
        store.before = lambda _request, _key: None
        append(elsewhere, "c")
        expire(clock)
        append(elsewhere, "d")

    def before(_request: str, _key: str) -> None:
        nonlocal asked
        asked += 1
        if asked == request_number + 1:
            comes_and_goes()

    store.before = before
    script = Script(warehouse)
    rebuilt = part.scan_and_follow(stop=script.stop)
    if request_number < 0:
        comes_and_goes()
    found = shown(rebuilt.changes)
    store.before = lambda _request, _key: None
    spans = [each if isinstance(each, tuple) else (each, each + 1) for each in found]
    assert [start for start, _ in spans] == [rebuilt.next_offset, *(end for _, end in spans)][: len(spans)]
    assert max([rebuilt.next_offset, *(end for _, end in spans)]) == part.describe().next_offset
    if request_number < 0:
        assert found == [(there, there + 1), there + 1]
