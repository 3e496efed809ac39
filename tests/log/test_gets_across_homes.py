"""Gets of what is hot do not wait for a cold home, nor for threads that do."""

from collections.abc import Callable, Sequence
from typing import Any, TypeVar

import pytest
from msgspec.structs import replace

from lithify.admin.client import Admin
from lithify.compactor.compactor import Compactor
from lithify.log.partition import Partition
from lithify.log.record import Record
from lithify.log.warehouse import Warehouse
from lithify.manifest.edits import Next
from lithify.manifest.model import FORMAT_HOMES, Manifest
from lithify.store.cold import Cold
from lithify.store.driver import Driver
from lithify.store.errors import Unavailable
from lithify.store.homes import HERE, Homes
from lithify.store.memory import MemoryStore
from lithify.store.side_by_side import one_after_the_other
from lithify.store.wrapped import Wrapped
from tests.far import FarStore
from tests.log.compaction import files_of

T = TypeVar("T")


class Watched(FarStore):
    """Knows how many of its threads are at work."""

    at_work = 0

    def side_by_side(self, calls: Sequence[Callable[[], T]]) -> Sequence[T | Exception]:
        self.at_work += 1
        try:
            return one_after_the_other(calls)
        finally:
            self.at_work -= 1


class Away(Wrapped):
    def __init__(self, here: Watched) -> None:
        super().__init__(MemoryStore())
        self.here = here
        self.away = False
        self.reads = 0

    def read(self, key: str, start: int, length: int) -> bytes:
        self.reads += 1
        assert not self.here.at_work, "it is not read in threads of the warehouse's store"
        if self.away:
            raise Unavailable("no answer")
        return self.inner.read(key, start, length)


class Moved:
    """The segments of all runs are in another home."""

    repeatable = True
    frees = False

    def apply(self, head: Manifest | None, number: int, now_ms: int) -> Next[Manifest, None]:
        assert head is not None
        runs = tuple(
            replace(run, segments=tuple(replace(ref, home="s3://cold/p", added_at=number) for ref in run.segments))
            for run in head.runs
        )
        return Next(replace(head, format=FORMAT_HOMES, homes=("s3://cold/p",), runs=runs), None)


@pytest.fixture
def here() -> Watched:
    return Watched("gets")


@pytest.fixture
def cold(here: Watched) -> Away:
    return Away(here)


@pytest.fixture
def part(here: Watched, cold: Away) -> Partition:
    """`old` is cold, `both` is in both homes, `new` is hot."""
    warehouse = Warehouse(Driver(Homes({HERE: here, "s3://cold/p": Cold("s3://cold/p", cold)})))
    config: dict[str, Any] = {"cleanup.policy": "compact"}
    part = warehouse.create_topic("users", config=config, probe=False).partition(0)
    part.append([Record(b"both", b"0"), Record(b"old", b"0")])
    Admin(warehouse).submit("users", 0)
    Compactor(warehouse, engine="local").run_once()
    files = files_of(warehouse, "users")
    for found in here.list("").objects:
        if found.key.endswith(".parquet"):
            stored = here.get(found.key)
            assert stored is not None
            cold.put(found.key, stored.body)
    warehouse.driver.run(files.manifest.commit(Moved()))
    part.append([Record(b"both", b"1"), Record(b"new", b"1")])
    warehouse.driver.cache.clear()
    return warehouse.topic("users").partition(0)


def test_hot_and_cold(part: Partition, cold: Away) -> None:
    for _ in range(2):
        found = part.get_many([b"new", b"both", b"old", b"never"])
        assert [record and record.value for record in found] == [b"1", b"1", b"0", None]
    assert cold.reads


def test_what_is_hot_is_found_without_the_cold_home(part: Partition, cold: Away) -> None:
    cold.away = True
    for _ in range(2):
        found = part.get_many([b"new", b"both"])
        assert [record and record.value for record in found] == [b"1", b"1"]
        part.append([Record(b"more", b"2")])
    assert cold.reads == 0
    with pytest.raises(Unavailable, match="home s3://cold/p: no answer"):
        part.get(b"old")


def test_what_is_hot_takes_as_many_requests_as_without_a_cold_home(part: Partition, here: Watched, cold: Away) -> None:
    cold.away = True
    assert part.get(b"both") is not None
    together: list[int] = []
    ask = here.side_by_side
    here.side_by_side = lambda calls: together.append(len(calls)) or ask(calls)  # type: ignore[method-assign]
    assert part.get(b"both") is not None
    assert 2 in together, "the head is searched for beside the rows"


@pytest.mark.parametrize("of_a_snapshot", [False, True])
def test_partitions_with_cold_segments_beside_others(here: Watched, cold: Away, of_a_snapshot: bool) -> None:
    """All partitions are asked at once; what takes the cold home is read by the caller, afterwards."""
    warehouse = Warehouse(Driver(Homes({HERE: here, "s3://cold/p": Cold("s3://cold/p", cold)})))
    topic = warehouse.create_topic("many", 4, {"cleanup.policy": "compact"}, probe=False)
    keys = [b"%d" % n for n in range(40)]
    topic.append([Record(key, b"0") for key in keys])
    for number in (1, 3):
        Admin(warehouse).submit("many", number)
    Compactor(warehouse, engine="local").run_once()
    for found in here.list("").objects:
        if found.key.endswith(".parquet"):
            stored = here.get(found.key)
            assert stored is not None
            cold.put(found.key, stored.body)
    for number in (1, 3):
        warehouse.driver.run(files_of(warehouse, "many", number).manifest.commit(Moved()))
    topic.append([Record(key, b"1") for key in keys[::2]])
    warehouse.driver.cache.clear()
    opened = warehouse.topic("many")
    for _ in range(2):
        found = opened.snapshot().get_many(keys) if of_a_snapshot else opened.get_many(keys)
        assert [record and record.value for record in found] == [b"1", b"0"] * 20
    assert cold.reads
    cold.away = True
    warehouse.driver.cache.clear()
    assert all(opened.get_many(keys[::2]))
    with pytest.raises(Unavailable, match="home s3://cold/p: no answer"):
        opened.get_many(keys)
