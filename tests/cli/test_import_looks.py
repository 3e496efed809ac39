"""What an import looks at: of a partition it looks at the entry when the first of its rows comes, and at all of them
at once only when it begins, and where the topic has grown (docs/rfcs/0011)."""

from pathlib import Path

import pytest

from lithify.cli.records.imports import Import
from lithify.log.record import Record
from lithify.log.warehouse import Warehouse
from lithify.store.driver import Driver
from lithify.store.errors import Corrupt, LithifyError, NotFound
from lithify.store.memory import MemoryStore
from lithify.store.metered import Metered
from tests.cli.conftest import Lithify, lines
from tests.cli.test_imports import MADE, ROWS, Faults, begun, new_store, send, stored

MANY = 200
ONE = [Record(b"k", b"1")]


def damage(store: MemoryStore, number: int) -> None:
    """The head of this partition."""
    topic = Warehouse(Driver(Metered(store))).topic("t")
    keys = [each.key for each in store.list("t/").objects if f"/{number:05d}/manifest/" in each.key]
    assert topic.partitions > number
    store.delete([max(keys)])
    store.put(max(keys), b"no manifest")


@pytest.fixture(scope="module")
def wide() -> MemoryStore:
    return new_store(MANY)


def requests_of_an_append(store: MemoryStore) -> int:
    driver = Faults(store)
    Warehouse(driver).topic("t", for_append=True).append(ONE)
    return driver.requests


def one_row(store: MemoryStore, name: str, *, new: bool = False) -> int:
    """How many requests its import makes."""
    driver = Faults(store)
    started = Import(Warehouse(driver).topic("t", for_append=True), name, None, new=new)
    started.append(ONE, 1, last=True)
    started.end()
    return driver.requests


def test_one_row_of_a_new_source_costs_little_more_than_an_append(wide: MemoryStore) -> None:
    assert one_row(wide, f"new-{1:016x}", new=True) <= requests_of_an_append(wide) + 2


def test_one_that_begins_looks_at_each_partition_before_and_after_its_first_append_and_then_no_more(
    wide: MemoryStore,
) -> None:
    """Each look is two requests: another reading of the source may be known anywhere."""
    name = f"one-{1:016x}"
    assert one_row(wide, name) <= requests_of_an_append(wide) + 2 * 2 * MANY + 4
    assert one_row(wide, name) <= requests_of_an_append(wide) + 2


def test_where_the_topic_was_altered_and_has_not_grown_it_costs_a_few_more(wide: MemoryStore) -> None:
    topic = Warehouse(Driver(Metered(wide))).topic("t")
    for size in range(1, 6):
        topic.alter({"max.message.bytes": str(1_000 * size)})
    name = "after-0123456789abcdef"
    one_row(wide, name)
    assert one_row(wide, name) <= requests_of_an_append(wide) + 6


@pytest.mark.parametrize("new", [True, False])
def test_a_partition_that_is_damaged_counts_where_rows_go_there(new: bool) -> None:
    store = new_store(4)
    places = Import(Warehouse(Driver(Metered(store))).topic("t"), MADE, None)
    places.append(ROWS[:1], 1, last=False)
    (home,) = places.offsets
    elsewhere = (home + 1) % 4
    damage(store, elsewhere)
    started = Import(Warehouse(Driver(Metered(store))).topic("t"), "another-0123456789abcdef", None, new=new)
    started.append(ROWS[:1], 1, last=False)
    rows = [ROWS[0], *(Record(f"k{n}".encode(), str(n).encode()) for n in range(40))]
    with pytest.raises(Corrupt, match=f"t/.*/{elsewhere:05d}/manifest/"):
        send(started, 1, rows)


def test_the_command_appends_beside_a_damaged_partition(on_files: Lithify, folder: Path) -> None:
    on_files.ok("topic", "create", "users", "--partitions", "4")
    line = lines({"key": "a", "value": "1"})
    (home,) = on_files.json("append", "users", input=line)["partitions"]
    other = (int(home) + 1) % 4
    (head,) = sorted(folder.glob(f"users/*/{other:05d}/manifest/*.manifest"))
    head.chmod(0o644)
    head.write_bytes(b"no manifest")
    assert on_files.json("append", "users", input=line)["appended"] == 1
    (folder.parent / "in.jsonl").write_text(line)
    assert on_files.json("append", "users", "--from", str(folder.parent / "in.jsonl"))["appended"] == 1


def grown(store: MemoryStore, *counts: int) -> None:
    for count in counts:
        Warehouse(Driver(Metered(store))).topic("t").alter(partitions=count)


def test_it_goes_on_as_it_began_also_where_its_entry_gave_way_in_some_partitions() -> None:
    for left in range(2):
        store = new_store(2)
        started = begun(Driver(Metered(store)))
        started.append(ROWS[:4], 1, last=False)
        assert set(started.offsets) == {0, 1}
        grown(store, 5, 7)
        Warehouse(Driver(Metered(store))).topic("t").partition(1 - left).forget_transaction(started.application)
        again = begun(Driver(Metered(store)))
        assert again.began_over == 2
        send(again, 3)
        assert all(count == 1 for row, count in stored(store).items() if row > 4)


def test_where_a_partition_of_before_cannot_be_read_one_that_knows_the_import_is_enough() -> None:
    store = new_store(2)
    started = begun(Driver(Metered(store)))
    started.append(ROWS[:4], 1, last=False)
    grown(store, 5)
    damage(store, 1)
    assert begun(Driver(Metered(store))).began_over == 2
    with pytest.raises(Corrupt) as told:
        begun(Driver(Metered(store)), "another-0123456789abcdef")
    assert told.value.__notes__ == [
        "topic t has grown to 5 partitions, and without partition 1 lithify cannot tell how many partitions this "
        "import began with, so nothing was appended. Retry later, or import into one partition with --partition"
    ]
    new = Import(Warehouse(Driver(Metered(store))).topic("t"), "new-0123456789abcdef", None, new=True)
    new.append(ONE, 1, last=True)
    assert begun(Driver(Metered(store)), "another-0123456789abcdef", partition=0).began_over is None


def test_of_a_partition_that_came_later_nothing_is_asked() -> None:
    store = new_store(2)
    grown(store, 5)
    damage(store, 4)
    assert begun(Driver(Metered(store))).began_over is None


def test_how_to_go_on_is_told_by_a_number_only_where_every_partition_was_looked_at() -> None:
    """One that is ahead may be among those that no row has come for yet."""
    store = new_store(8)
    ahead = begun(Driver(Metered(store)), "mine")
    ahead.append(ROWS, 1, last=False)
    started = begun(Driver(Metered(store)), "mine")
    started.append(ROWS[:1], 1, last=False)
    assert started.how_far().skip is None
    single = begun(Driver(Metered(store)), "another", partition=3)
    single.append(ROWS[:1], 1, last=False)
    assert single.how_far().skip == 1
    new = Import(Warehouse(Driver(Metered(store))).topic("t"), "stdin-0123456789abcdef", None, new=True)
    new.append(ROWS[:1], 1, last=False)
    assert new.how_far().skip == 1


def test_a_name_that_was_taken_for_new_and_is_not_costs_a_second_look() -> None:
    store = new_store(2)
    send(begun(Driver(Metered(store))), 4)
    again = Import(Warehouse(Driver(Metered(store))).topic("t"), MADE, None, new=True)
    send(again, 3)
    assert (again.appended, again.already_there) == (0, 10)


def test_a_partition_that_is_not_there_is_refused_before_the_source_is_read() -> None:
    with pytest.raises(NotFound, match="has no partition 7; it has partitions 0, 1"):
        begun(Driver(Metered(new_store(2))), partition=7)


def test_a_topic_that_was_deleted_and_made_again_has_not_grown() -> None:
    store = new_store(2)
    warehouse = Warehouse(Driver(Metered(store)))
    grown(store, 3, 4)
    assert warehouse.topic("t").former_partitions() == (3, 2)
    warehouse.delete_topic("t")
    topic = warehouse.create_topic("t", 3, {"cleanup.policy": ""}, probe=False)
    assert topic.former_partitions() == ()
    topic.alter({"max.message.bytes": "1000"})
    assert topic.former_partitions() == ()
    grown(store, 6)
    assert warehouse.topic("t").former_partitions() == (3,)
    with pytest.raises(LithifyError):
        warehouse.topic("t").partition(6)
