"""What a process keeps of topics and partitions: what a second question costs, and who may ask beside it."""

import sys
import threading
from collections.abc import Coroutine, Iterator
from contextlib import contextmanager
from typing import Any

import pytest

import lithify
from lithify.manifest.catalog import partition_keys
from lithify.manifest.keys import PartitionKeys
from lithify.manifest.known import KnownPartitions
from lithify.manifest.partition import PartitionFiles
from lithify.manifest.walk import partitions_found
from lithify.store.driver import Driver, new_id
from lithify.store.errors import NotFound
from lithify.store.metered import Metered
from lithify.store.opening import open_store
from lithify.store.own_lock import OwnLock
from lithify.store.port import Get, Request


@pytest.fixture
def warehouse() -> lithify.Warehouse:
    return lithify.Warehouse(Driver(Metered(open_store(f"memory://{new_id()}"))))


def head(files: PartitionFiles) -> Coroutine[Request[Any], Any, Any]:
    return files.head()


def spent(warehouse: lithify.Warehouse) -> int:
    counts = warehouse.store.requests()
    return sum(getattr(counts, name) for name in counts.__struct_fields__)


def commit_often(warehouse: lithify.Warehouse, times: int) -> None:
    part = warehouse.topic("users").partition(0)
    for n in range(times):
        part.append([lithify.Record(b"%d" % n, b"v")])


@pytest.mark.slow
def test_a_second_question_costs_what_looking_for_successors_costs(warehouse: lithify.Warehouse) -> None:
    warehouse.create_topic("users", probe=False)
    commit_often(warehouse, 300)
    admin = lithify.Admin(warehouse)
    admin.submit("users", 0)
    costs: list[int] = []
    for _ in range(3):
        before = spent(warehouse)
        admin.explain("users", 0)
        costs.append(spent(warehouse) - before)
    fresh = spent(warehouse)
    lithify.Admin(warehouse).explain("users", 0)
    fresh = spent(warehouse) - fresh
    # The next number of the topic, and of both chains, with the boundary after each.
    assert costs == [5, 5, 5]
    assert fresh > 20


def test_what_others_commit_is_seen(warehouse: lithify.Warehouse) -> None:
    topic = warehouse.create_topic("users", probe=False)
    known = KnownPartitions(warehouse.driver)
    (keys,) = partition_keys(known.topic("users"))
    first = known.run(keys, head).id
    commit_often(warehouse, 3)
    assert known.run(keys, head).id == first + 3
    topic.alter({"cleanup.policy": "compact"}, partitions=2)
    assert (known.topic("users").partitions, known.topic("users").config) == (2, {"cleanup.policy": "compact"})


def test_topics_that_are_gone_are_forgotten(warehouse: lithify.Warehouse) -> None:
    known = KnownPartitions(warehouse.driver)

    def ask() -> list[PartitionKeys]:
        found = [each.keys for each in partitions_found(known) if not isinstance(each, type(None))]
        for keys in found:
            known.run(keys, head)
        return found

    warehouse.create_topic("left", probe=False)
    for _ in range(2):
        warehouse.create_topic("users", 3, probe=False)
        assert len(ask()) == len(known) == 4
        assert len(ask()) == len(known) == 4
        warehouse.delete_topic("users")
        with pytest.raises(NotFound):
            known.topic("users")
        assert len(known) == 1
    warehouse.create_topic("users", 2, probe=False)
    ask()
    warehouse.delete_topic("users")
    warehouse.create_topic("users", 1, probe=False)
    assert known.topic("users").partitions == 1
    assert len(known) == 1, "of its former life nothing is left"
    known.keep(())
    assert len(known) == 0


def test_no_more_are_kept_than_allowed(warehouse: lithify.Warehouse) -> None:
    warehouse.create_topic("users", 5, probe=False)
    known = KnownPartitions(warehouse.driver, kept_max=3)
    first, *others = partition_keys(known.topic("users"))
    for keys in others:
        known.run(first, head)
        known.run(keys, head)
    assert len(known) == 3
    before = spent(warehouse)
    known.run(first, head)
    assert spent(warehouse) - before == 2, "the one that is used again and again stays"


def test_looking_anew_meets_a_file_that_was_damaged_since(warehouse: lithify.Warehouse) -> None:
    warehouse.create_topic("users", probe=False)
    known = KnownPartitions(warehouse.driver)
    (keys,) = partition_keys(known.topic("users"))
    newest = known.run(keys, head)
    warehouse.store.put(keys.manifest.key(newest.id), b"{")
    assert known.run(keys, head) == newest
    with pytest.raises(lithify.Corrupt):
        known.run(keys, head, anew=True)


@pytest.fixture
def _restless() -> Iterator[None]:
    """Threads take turns as often as Python can."""
    before = sys.getswitchinterval()
    sys.setswitchinterval(1e-6)
    yield
    sys.setswitchinterval(before)


@pytest.mark.usefixtures("_restless")
def test_one_coroutine_at_a_time_uses_the_files_of_a_partition(warehouse: lithify.Warehouse) -> None:
    warehouse.create_topic("users", 2, probe=False)
    known = KnownPartitions(warehouse.driver)
    all_keys = partition_keys(known.topic("users"))
    inside = dict.fromkeys(all_keys, 0)
    met: list[int] = []

    async def enter(files: PartitionFiles) -> None:
        inside[files.keys] += 1
        for _ in range(5):
            await Get(files.keys.manifest.key(1))
            met.append(inside[files.keys])
        inside[files.keys] -= 1

    def ask() -> None:
        for n in range(50):
            known.run(all_keys[n % 2], enter)

    threads = [threading.Thread(target=ask) for _ in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert set(met) == {1}
    assert len(met) == 8 * 50 * 5


@pytest.mark.usefixtures("_restless")
def test_many_threads_ask_one_admin(warehouse: lithify.Warehouse) -> None:
    warehouse.create_topic("users", probe=False)
    admin = lithify.Admin(warehouse)
    seen: list[list[int]] = []
    failed: list[Exception] = []

    def ask() -> None:
        mine: list[int] = []
        seen.append(mine)
        try:
            for _ in range(20):
                admin.submit("users", 0)
                mine.append(len(admin.compactions("users")))
        except lithify.LithifyError as error:
            failed.append(error)

    threads = [threading.Thread(target=ask) for _ in range(3)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert failed == []
    assert all(mine == sorted(mine) for mine in seen), "nobody sees the past again"
    assert max(map(max, seen)) == 60


class Pausing(OwnLock):
    """Who has had its turn waits for `go` before it continues, if it is `who`."""

    def __init__(self) -> None:
        super().__init__()
        self.who: threading.Thread | None = None
        self.left, self.go = threading.Event(), threading.Event()

    @contextmanager
    def mine(self) -> Iterator[None]:  # type: ignore[override]
        with super().mine():
            yield
        if threading.current_thread() is self.who:
            self.left.set()
            assert self.go.wait(60)


def test_a_late_look_at_a_former_life_of_a_topic_forgets_nothing_of_the_next(warehouse: lithify.Warehouse) -> None:
    """1. A reads life 1. 2. The topic is made anew; B reads life 2 and its partition. 3. A goes on with what it read:
    it took life 2 for gone."""
    warehouse.create_topic("users", probe=False)
    known = KnownPartitions(warehouse.driver)
    known.topic("users")
    turns = known._topics["users"].lock = Pausing()
    a = turns.who = threading.Thread(target=known.topic, args=("users",))
    a.start()
    assert turns.left.wait(60)
    warehouse.delete_topic("users")
    warehouse.create_topic("users", probe=False)
    commit_often(warehouse, 40)
    (keys,) = partition_keys(known.topic("users"))
    known.run(keys, head)
    turns.go.set()
    a.join(60)
    assert len(known) == 1
    before = spent(warehouse)
    known.run(keys, head)
    assert spent(warehouse) - before <= 2, "its files are still known"
