"""Parts of a batch that threads append, and Ctrl-C: what was said of how far it came is true (docs/rfcs/0030)."""

import threading
from collections.abc import Iterator
from typing import Any

import pytest

from lithify.cli.records import at_once, imports
from lithify.cli.records.imports import Import
from lithify.log.beside import Beside
from lithify.log.warehouse import Warehouse
from lithify.store import side_by_side
from lithify.store.driver import Driver
from lithify.store.port import Outcome
from tests.cli.test_imports import MADE, ROWS, check_what_it_said, stored
from tests.far import Meeting

WAITS_S = 60


class Held(Meeting):
    """While it `holds`, a thread's append is stored when it may `go`; the caller's own waits until one is held."""

    def __init__(self) -> None:
        super().__init__()
        self.holds = False
        self.began, self.go, self.ended = threading.Event(), threading.Event(), threading.Event()
        self._caller = threading.current_thread()

    def create(self, key: str, body: bytes, frees: bool = False) -> Outcome:
        if not self.holds or "/manifest/" not in key:
            return super().create(key, body, frees)
        if threading.current_thread() is self._caller:
            assert self.began.wait(WAITS_S)
            return super().create(key, body, frees)
        self.began.set()
        assert self.go.wait(WAITS_S)
        try:
            return super().create(key, body, frees)
        finally:
            self.ended.set()


@pytest.fixture
def store() -> Iterator[Held]:
    store = Held()
    Warehouse(Driver(store)).create_topic("t", 5, {"cleanup.policy": ""}, probe=False)
    yield store
    store.go.set()
    store.pool.close()


@pytest.fixture
def started(store: Held) -> Import:
    driver = Driver(store)
    started = Import(Warehouse(driver).topic("t", for_append=True), MADE, None, driver=driver)
    started.append(ROWS[:1], 1, last=False)
    return started


def interrupted(store: Held, started: Import, patch: pytest.MonkeyPatch) -> list[str]:
    """Appends the other rows; the wait for threads is interrupted as soon as one of them is held. Returns what the user
    is told; once anything is told, that append goes on."""
    told: list[str] = []

    def append_at_once(*given: Any) -> None:
        store.holds = True
        at_once.append_at_once(*given)

    def interrupt(_: object) -> None:
        assert store.began.wait(WAITS_S)
        raise KeyboardInterrupt

    def warn(text: str) -> None:
        told.append(text)
        store.go.set()

    patch.setattr(imports, "append_at_once", append_at_once)
    patch.setattr(side_by_side._Batch, "wait", interrupt)  # pyright: ignore[reportPrivateUsage]
    patch.setattr(at_once, "warn", warn)
    with pytest.raises(KeyboardInterrupt):
        started.append(ROWS[1:], 2, last=True)
    return told


def test_ctrl_c_waits_for_the_appends_that_have_begun(
    store: Held, started: Import, monkeypatch: pytest.MonkeyPatch
) -> None:
    with monkeypatch.context() as patch:
        told = interrupted(store, started, patch)
    assert told == ["waiting for the appends that are under way"]
    assert started.how_far().unknown == 0
    check_what_it_said(store, started)
    assert 1 < stored(store).total() < len(ROWS)


def test_after_a_second_one_all_that_has_begun_is_said_to_be_in_possibly(
    store: Held, started: Import, monkeypatch: pytest.MonkeyPatch
) -> None:
    def settle(_: Beside) -> None:
        raise KeyboardInterrupt

    with monkeypatch.context() as patch:
        patch.setattr(Beside, "settle", settle)
        interrupted(store, started, patch)
    said = started.how_far()
    assert store.ended.wait(WAITS_S)
    assert said.unknown > 0
    assert said.appended <= stored(store).total() <= said.appended + said.unknown
