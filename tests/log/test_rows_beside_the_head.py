"""Gets, scans and reads of a far store read rows by the manifest that they know beside the search for the head: what
counts is the head (docs/rfcs/0030)."""

from collections.abc import Callable, Sequence
from typing import Any, TypeVar

import pytest

from lithify.log.partition import Partition
from lithify.log.record import Record
from lithify.log.warehouse import Warehouse
from lithify.segment import ahead
from lithify.store.driver import Driver
from lithify.store.errors import Corrupt, InvalidRequest, NotFound, SnapshotExpired, Unavailable
from lithify.store.side_by_side import one_after_the_other
from tests.clock import HandClock
from tests.far import FarStore
from tests.log.compaction import collect, compact

T = TypeVar("T")
Value = Callable[[Partition, bytes], bytes | None]
HEAD_FIRST, ROWS_FIRST = (0, 1), (1, 0)


class Scripted(FarStore):
    """Makes the next two calls in the order that a test wants, with something in between."""

    script: tuple[tuple[int, int], Callable[[], object]] | None = None
    together = 0  # how often calls were made side by side

    def side_by_side(self, calls: Sequence[Callable[[], T]]) -> Sequence[T | Exception]:
        self.together += len(calls) == 2
        if self.script is None or len(calls) != 2:
            return one_after_the_other(calls)
        ((first, second), between), self.script = self.script, None
        found = {first: one_after_the_other([calls[first]])[0]}
        between()
        found[second] = one_after_the_other([calls[second]])[0]
        return [found[0], found[1]]


@pytest.fixture
def store() -> Scripted:
    return Scripted("rows")


@pytest.fixture
def warehouse(store: Scripted, clock: HandClock) -> Warehouse:
    return Warehouse(Driver(store, clock))


def got(part: Partition, key: bytes) -> bytes | None:
    found = part.get(key)
    return found and found.value


def scanned(part: Partition, key: bytes) -> bytes | None:
    table = part.scan().read_all()
    return dict(zip(table["key"].to_pylist(), table["value"].to_pylist(), strict=True)).get(key)


def read(part: Partition, key: bytes) -> bytes | None:
    return {record.key: record.value for record in part.read()}.get(key)


def read_in_batches(part: Partition, key: bytes) -> bytes | None:
    table = part.read_batches().read_all()
    return dict(zip(table["key"].to_pylist(), table["value"].to_pylist(), strict=True)).get(key)


@pytest.fixture(params=[got, scanned, read, read_in_batches])
def value(request: pytest.FixtureRequest) -> Value:
    """How it is asked for; in a log the last record of a key counts."""
    return request.param


@pytest.fixture
def scans(warehouse: Warehouse) -> Partition:
    """A partition that was scanned before."""
    part = warehouse.create_topic("t", config={"cleanup.policy": "compact"}, probe=False).partition(0)
    part.append([Record(b"k", b"0"), Record(b"j", b"0")])
    assert scanned(part, b"k") == b"0"
    return part


@pytest.fixture
def part(warehouse: Warehouse, scans: Partition, value: Value) -> Partition:
    assert value(scans, b"k") == b"0"
    warehouse.driver.cache.clear()
    return scans


def other(warehouse: Warehouse) -> Partition:
    return warehouse.topic("t").partition(0)


def replaced(warehouse: Warehouse) -> None:
    """What the partition named is gone from the store."""
    for number in (1, 2):
        other(warehouse).append([Record(b"k", b"%d" % number)])
        compact(warehouse, "t")
    collect(warehouse, "t")
    warehouse.driver.cache.clear()


def test_an_append_between_rows_and_head_is_seen(
    store: Scripted, warehouse: Warehouse, part: Partition, value: Value
) -> None:
    """SUBTLE in point_reads.py: 1. Rows are read by manifest 7. 2. Somebody appends, and is acknowledged. 3. The search
    finds 8."""
    store.script = ROWS_FIRST, lambda: other(warehouse).append([Record(b"k", b"1")])
    assert value(part, b"k") == b"1"
    assert store.script is None


def test_rows_that_are_read_after_the_head_was_found_are_those_of_the_head(
    store: Scripted, warehouse: Warehouse, part: Partition, value: Value
) -> None:
    store.script = HEAD_FIRST, lambda: other(warehouse).append([Record(b"k", b"1")])
    assert value(part, b"k") == b"0"  # it was the head during the call
    assert value(part, b"k") == b"1"


@pytest.mark.parametrize("order", [HEAD_FIRST, ROWS_FIRST])
def test_what_was_collected_meanwhile_is_looked_for_again(
    store: Scripted, warehouse: Warehouse, part: Partition, value: Value, order: tuple[int, int]
) -> None:
    store.script = order, lambda: replaced(warehouse)
    assert value(part, b"k") == b"2"
    assert value(part, b"j") == b"0"


def test_a_known_manifest_of_which_everything_is_gone_is_no_damage(
    warehouse: Warehouse, part: Partition, value: Value, store: Scripted
) -> None:
    replaced(warehouse)
    before = store.together
    assert value(part, b"k") == b"2"
    assert store.together > before


def test_a_reply_that_is_damaged_once_changes_nothing(
    store: Scripted, part: Partition, value: Value, monkeypatch: pytest.MonkeyPatch
) -> None:
    read, damaged = store.read, list[str]()

    def once(key: str, start: int, length: int) -> bytes:
        found = read(key, start, length)
        if damaged:
            return found
        damaged.append(key)
        return bytes(len(found))

    monkeypatch.setattr(store, "read", once)
    assert value(part, b"k") == b"0"
    assert damaged


def test_an_object_that_is_really_missing_is_damage(store: Scripted, part: Partition, value: Value) -> None:
    store.delete([each.key for each in store.list("").objects if each.key.endswith(".parquet")])
    with pytest.raises(Corrupt, match="restore the object"):
        value(part, b"k")


def test_a_head_that_cannot_be_asked_for_is_no_answer(
    store: Scripted, part: Partition, value: Value, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Although the rows were read."""

    get = store.get

    def away(key: str) -> Any:
        if key.endswith(".manifest"):
            raise Unavailable("away")
        return get(key)

    monkeypatch.setattr(store, "get", away)
    with pytest.raises(Unavailable):
        value(part, b"k")


def test_a_deleted_topic_is_gone(store: Scripted, warehouse: Warehouse, part: Partition, value: Value) -> None:
    store.script = ROWS_FIRST, lambda: warehouse.delete_topic("t")
    with pytest.raises(NotFound):
        value(part, b"k")


def test_a_store_that_is_near_is_asked_in_turn(
    part: Partition, value: Value, store: Scripted, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(Scripted, "far", False)
    before = store.together
    assert value(part, b"k") == b"0"
    assert store.together == before


def test_a_wrong_guess_is_not_made_again_before_the_head_rests(
    store: Scripted, warehouse: Warehouse, scans: Partition
) -> None:
    """Where others append all the time, a scan does not read everything twice."""

    def guessed() -> bool:
        before = store.together
        assert scanned(scans, b"k") is not None
        return store.together > before

    assert guessed()
    other(warehouse).append([Record(b"k", b"1")])
    assert guessed()  # in vain
    other(warehouse).append([Record(b"k", b"2")])
    assert not guessed()
    assert not guessed()  # but the head was known
    assert guessed()
    scans.append([Record(b"k", b"3")])
    assert guessed()  # what this handle appends is known


def test_what_is_taken_first_comes_first_and_once(scans: Partition) -> None:
    scans.append([Record(b"%d" % number, b"v") for number in range(10)])
    for _ in range(2):
        assert [record.offset for record in scans.read()] == list(range(12))
        assert scans.scan().read_all().num_rows == 12
        assert scans.scan(columns=["offset"], low=b"3", high=b"5").read_all().column_names == ["offset"]
        assert scans.scan(low=b"x").read_all().num_rows == 0


def test_columns_that_do_not_exist_are_refused_as_ever(scans: Partition) -> None:
    with pytest.raises(InvalidRequest, match="columns must be"):
        scans.scan(columns=["colour"])


def test_what_is_missing_later_is_explained(
    store: Scripted, warehouse: Warehouse, scans: Partition, monkeypatch: pytest.MonkeyPatch
) -> None:
    """After the first batch, when the head has long been found."""
    monkeypatch.setattr(ahead, "AHEAD_BYTES_MAX", 0)  # no more than is needed now
    for number in range(4):
        scans.append([Record(b"l", b"%d" % number)])
    rows = scans.read_batches()
    replaced(warehouse)
    rows.read_next_batch()
    with pytest.raises(SnapshotExpired, match="open a new snapshot"):
        rows.read_all()
