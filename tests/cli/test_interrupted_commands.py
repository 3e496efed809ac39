"""What a command leaves when it is interrupted, and what it says of it."""

import signal
from collections.abc import Callable
from typing import Any

import pytest

from lithify.compactor.compactor import Compactor
from lithify.log.record import Record
from lithify.log.warehouse import Warehouse
from lithify.store import opening
from lithify.store.driver import Driver, new_id
from lithify.store.memory import MemoryStore
from lithify.store.port import Outcome
from tests.cli.conftest import Lithify


class Interrupted(MemoryStore):
    """Ctrl-C comes with the create of a key that `at` says."""

    at: Callable[[str], bool] = staticmethod(lambda _: False)

    def create(self, key: str, body: bytes, frees: bool = False) -> Outcome:
        if self.at(key):
            raise KeyboardInterrupt
        return super().create(key, body, frees)


@pytest.fixture
def store(monkeypatch: pytest.MonkeyPatch) -> Interrupted:
    name = new_id()
    store = Interrupted(name)
    monkeypatch.setitem(opening._memory, name, store)  # pyright: ignore[reportPrivateUsage]
    topic = Warehouse(Driver(store)).create_topic("t", 3, {"cleanup.policy": "compact"}, probe=False)
    topic.append([Record(b"%d" % n, b"v") for n in range(30)])
    return store


@pytest.mark.parametrize(
    ("words", "saying"),
    [
        ("checkpoint create t now", "some partitions may have it ('lithify checkpoint list t')"),
        ("compaction submit t --full", "'lithify compaction list t --active' shows it"),
    ],
)
def test_what_may_have_been_done_in_some_partitions_is_said(store: Interrupted, words: str, saying: str) -> None:
    store.at = lambda key: "/00002/" in key
    told = Lithify(store.url)(*words.split())
    assert told.exit_code == 130
    assert saying in told.stderr


@pytest.mark.parametrize("at", range(1, 8))
def test_doctor_leaves_nothing_of_its_probe(store: Interrupted, at: int) -> None:
    created = list[str]()

    def count(key: str) -> bool:
        created.append(key)
        return len(created) == at

    before = store.list("").objects
    store.at = count
    assert Lithify(store.url)("doctor").exit_code == 130
    assert len(created) >= at
    assert store.list("").objects == before


@pytest.mark.parametrize("told", [False, True])
def test_a_compactor_that_is_told_to_stop_says_that_it_is_not_done(
    store: Interrupted, monkeypatch: pytest.MonkeyPatch, told: bool
) -> None:
    run = Compactor.run_once

    def once(compactor: Compactor, *given: Any) -> Any:
        if told:
            signal.raise_signal(signal.SIGTERM)
        return run(compactor, *given)

    monkeypatch.setattr(Compactor, "run_once", once)
    assert Lithify(store.url)("compactor", "run", "--once", "--engine", "local").exit_code == int(told)
