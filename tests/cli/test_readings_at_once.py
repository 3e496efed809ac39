"""Two imports of one source, read in two ways, at once: not both append all records in silence; and imports from before
names told how rows are read (docs/rfcs/0011).

Tried, and caught: no second look; one that is taken before the first append; one at the partitions of the rows alone.
"""

import json
from collections.abc import Callable, Collection
from pathlib import Path
from typing import Any

import pytest

import lithify.cli.records.other_readings as other_readings
from lithify import open as open_warehouse
from lithify.cli.records.identity import identify
from lithify.cli.records.import_entries import Entries
from lithify.cli.records.imports import Import
from lithify.cli.records.readings import AS_RECORDS, Reading
from lithify.log.record import Record
from lithify.log.topic import Topic
from lithify.log.warehouse import Warehouse
from lithify.store.driver import Driver
from lithify.store.errors import InvalidRequest, LithifyError, Unavailable
from lithify.store.memory import MemoryStore
from lithify.store.metered import Metered
from lithify.store.port import Request
from tests.cli.conftest import Lithify
from tests.cli.test_imports import Faults, new_store, send, stored

SOURCE = "rows.csv-00000000-0123456789abcdef"
COUNT = 6
A, B = Reading("key=a"), Reading("key=b")


class Older:
    """A file, and an import of it that an older lithify left unfinished."""

    def __init__(self, lithify: Lithify, path: Path, partitions: int) -> None:
        self.lithify = lithify
        path.write_text("id,v\n1,a\n2,b\n3,c\n")
        self.source = ("append", "t", "--from", str(path))
        self.name = identify(str(path), {}).name
        lithify.ok("topic", "create", "t", "--partitions", str(partitions))

    def sent(self, count: int, partition: int | None = None, reading: Reading = AS_RECORDS) -> None:
        """The first rows, by their column id."""
        warehouse = open_warehouse(self.lithify.url)
        known = warehouse.topic("t", for_append=True)
        started = Import(known, self.name, partition, reading=reading, now_ms=warehouse.driver.now_ms)
        rows = [Record(str(n).encode(), b"v") for n in range(1, count + 1)]
        started.append(rows, 1, last=False)


class Interrupted(Faults):
    """Something else happens before its request number `at`."""

    def __init__(self, store: MemoryStore, at: int, meanwhile: Callable[[], None]) -> None:
        super().__init__(store, "interrupted by another", at)
        self._meanwhile = meanwhile

    def _fails(self, request: Request[Any]) -> Any:
        if self.requests == self.at:
            self._meanwhile()
        return self._answer(request)


def rows(reading: Reading) -> list[Record]:
    return [Record(f"{reading.text}{n}".encode(), str(n).encode()) for n in range(COUNT)]


def imported(driver: Driver, reading: Reading, size: int = 2, **more: Any) -> str:
    """Why it was refused; "" if it was not."""
    try:
        topic = Warehouse(driver).topic("t", for_append=True)
        started = Import(topic, SOURCE, None, reading=reading, now_ms=driver.now_ms, **more)
        send(started, size, rows(reading))
    except InvalidRequest as refused:
        return str(refused)
    return ""


def beside(store: MemoryStore, at: int, other: Reading, **more: Any) -> tuple[str, list[str]]:
    """Import with A, and another one whole before request number `at` of it: why each was refused."""
    theirs: list[str] = []
    driver = Interrupted(store, at, lambda: theirs.append(imported(Driver(Metered(store)), other, **more)))
    return imported(driver, A), theirs


@pytest.mark.slow
@pytest.mark.parametrize("partitions", [1, 4])
@pytest.mark.parametrize("other", [AS_RECORDS, B])
def test_wherever_another_import_comes_between_not_both_are_accepted(partitions: int, other: Reading) -> None:
    whole = Faults(new_store(partitions))
    assert imported(whole, A) == ""
    refused: set[str] = set()
    for at in range(1, whole.requests + 1):
        store = new_store(partitions)
        said, theirs = beside(store, at, other)
        assert theirs
        assert bool(said) != bool(theirs[0]), (at, said, theirs)
        refused.add(said)
        if "also being imported" in said:
            assert all(count <= 2 for count in stored(store).values())
            assert stored(store).total() <= COUNT + 2  # one part of a batch is there twice
            assert "this one, with --key-column a, began" in said
    kinds = [kind for kind in ("imported", "also being imported") if any(f" {kind} with" in each for each in refused)]
    assert kinds == ["imported", "also being imported"]


@pytest.mark.parametrize("meanwhile", [{"new_source": True}, {}])
def test_one_that_is_to_stay_beside_the_other_is_met_as_well(meanwhile: dict[str, bool]) -> None:
    """--new-source looks for nothing; the import that began beside it does."""
    store = new_store(4)
    whole = Faults(new_store(4))
    imported(whole, A)
    at = next(at for at, create in whole.creates if "/manifest/" in create.key)
    said, theirs = beside(store, at, B, **meanwhile)
    assert theirs == [""]
    assert said.startswith("t/")
    assert "this source is also being imported with --key-column b" in said
    assert imported(Driver(Metered(store)), B) == ""
    assert imported(Driver(Metered(store)), A) == ""  # whoever goes on with it all the same gets each row once
    assert stored(store) == dict.fromkeys(range(COUNT), 2)


@pytest.fixture(params=[1, 4])
def older(request: pytest.FixtureRequest, lithify: Lithify, tmp_path: Path) -> Older:
    return Older(lithify, tmp_path / "rows.csv", request.param)


@pytest.mark.parametrize("partition", [None, 0])
def test_an_import_from_before_readings_is_continued_by_its_name(older: Older, partition: int | None) -> None:
    older.sent(2, partition)
    place = () if partition is None else ("--partition", str(partition))
    named = (*older.source, *place, "--source-id", older.name)
    assert f"--source-id {older.name} continues it" in older.lithify.refused(
        *older.source, *place, "--key-column", "id", code=2, saying="without --key-column and the like before"
    )
    first = older.lithify(*named, "--key-column", "id", "--json")
    assert first.exit_code == 0, first.stderr
    assert f"the entries of {older.name} do not say how its rows were read" in first.stderr
    assert "is read with --key-column id" in first.stderr
    assert json.loads(first.stdout)["appended"] == 1
    keys = sorted(record["key"] for record in older.lithify.records("read", "t"))
    assert keys == ["1", "2", "3"]
    # It has ended, and how its rows were read is no longer anybody's choice.
    older.lithify.refused(*named, "--key-column", "v", code=2, saying="and is in the log")


def test_one_that_began_with_a_reading_is_not_continued_with_another_by_its_name(older: Older) -> None:
    older.sent(2, reading=Reading("key=id"))
    named = (*older.source, "--source-id", older.name)
    older.lithify.refused(*named, "--key-column", "v", code=2, saying="imported with --key-column id before")
    assert older.lithify.json(*named, "--key-column", "id")["appended"] == 1


def test_a_name_from_a_person_tells_no_more_than_before(older: Older) -> None:
    """Such imports never end, so an entry without a reading may be of records that were all read as they are."""
    older.name = "mine"
    older.sent(2)
    named = (*older.source, "--source-id", older.name, "--key-column", "id")
    older.lithify.refused(*named, code=2, saying="imported without --key-column and the like before")


def test_where_the_partition_that_may_know_it_is_away_it_is_not_begun_anew(monkeypatch: pytest.MonkeyPatch) -> None:
    store = new_store(2)
    Import(Warehouse(Driver(Metered(store))).topic("t"), SOURCE, None).append([Record(b"k2", b"1")], 1, last=False)
    topic = Warehouse(Driver(Metered(store))).topic("t")
    (known,) = (number for number in range(2) if topic.partition(number).transactions())
    real = other_readings.look_at

    def look_at(topic: Topic, numbers: Collection[int]) -> dict[int, Entries | LithifyError]:
        return real(topic, numbers) | {known: Unavailable("slow down")}

    monkeypatch.setattr(other_readings, "look_at", look_at)
    with pytest.raises(Unavailable, match="slow down"):
        Import(topic, SOURCE, None, reading=A, given=True)
    monkeypatch.undo()
    assert Import(topic, SOURCE, None, reading=A, given=True).began_without_reading
