"""A source that dies, stalls or lies in any fetch ends in one clear error. No thread, byte or file is left behind."""

import gc
import threading
import weakref
from collections.abc import Callable, Iterator
from typing import Any

import pytest

from lithify.segment import ahead, read
from lithify.segment.execute import TaskCancelled, execute
from lithify.store.errors import Corrupt, LithifyError, NotFound, Unavailable
from lithify.store.homes import only_here
from tests.far import FarStore, fetching_threads
from tests.segment.test_ahead import append, appends, log, rows, scan
from tests.segment.test_execute import task


class Body(bytearray):
    """What a read answered: can be referred to weakly."""


class Faulty(FarStore):
    """Read number `at` ends as `fault` says; without one, all is well."""

    def __init__(self, fault: Callable[[bytes], bytes] | None = None, at: int = 0) -> None:
        super().__init__()
        self.fault, self.at = fault, at
        self.reads = 0
        self.bodies: list[weakref.ref[Body]] = []
        self._counting = threading.Lock()

    def read(self, key: str, start: int, length: int) -> Any:
        with self._counting:
            number, self.reads = self.reads, self.reads + 1
        body = super().read(key, start, length)
        made = Body(self.fault(body) if self.fault is not None and number == self.at else body)
        self.bodies.append(weakref.ref(made))
        return made

    def nothing_is_left(self) -> None:
        for thread in fetching_threads():
            thread.join(20)
        assert not fetching_threads()
        assert not [body for each in self.bodies if (body := each()) is not None]


def died(_: bytes) -> bytes:
    raise Unavailable("s3://bucket/key: no answer; try again")


def gone(_: bytes) -> bytes:
    raise NotFound("s3://bucket/key does not exist", "key")


def lied(body: bytes) -> bytes:
    return body[: len(body) // 2] + body[len(body) // 2 :].translate(bytes(byte ^ 1 for byte in range(256)))


def merge(store: FarStore, refs: Any) -> Any:
    result = execute(task([[ref] for ref in refs]), only_here(store))
    return iter([type("Rows", (), {"num_rows": result.counts.rows_out})])


def failed_at(reading: Any, store: FarStore, refs: Any, error: type[LithifyError]) -> str:
    """The segment that the error names."""
    try:
        rows(reading(store, refs))
    except error as raised:
        return getattr(raised, "segment", "")
    raise AssertionError("it did not fail")


READINGS: list[Callable[[FarStore, Any], Iterator[Any]]] = [scan, log, merge]


@pytest.fixture(autouse=True)
def small_fetches(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    monkeypatch.setattr(read, "WHOLE_BYTES_MAX", 3_000)
    monkeypatch.setattr(read, "FAR_FETCH_BYTES_MAX", 300_000)
    monkeypatch.setattr(ahead, "_PIECE_BYTES", 200_000)
    gc.collect()
    gc.disable()  # what is left behind must not be found by it
    yield
    gc.enable()


def filled(store: FarStore) -> list[Any]:
    """Three small segments, fetched whole, and two of several row groups."""
    return [*appends(store, 3, 20), append(store, 100_000, 70_000), append(store, 200_000, 70_000)]


@pytest.mark.slow
@pytest.mark.parametrize("reading", READINGS)
@pytest.mark.parametrize(("fault", "error"), [(died, Unavailable), (gone, NotFound), (lied, Corrupt)])
def test_any_fetch_may_fail(fault: Any, error: type[LithifyError], reading: Any) -> None:
    store = Faulty()
    refs = filled(store)
    expected = rows(reading(store, refs))
    assert expected > 100_000
    fetches = store.reads
    store.nothing_is_left()
    assert fetches >= 8
    for at in range(fetches):
        store.fault, store.at, store.reads = fault, at, 0
        segment = failed_at(reading, store, refs, error)
        assert error is Unavailable or segment
        store.nothing_is_left()


@pytest.mark.slow
@pytest.mark.parametrize("reading", [scan, log])
def test_whoever_stops_leaves_nothing_behind(reading: Any) -> None:
    store = Faulty()
    refs = filled(store)
    for taken in (0, 1, 2):
        batches = reading(store, refs)
        for _ in range(taken):
            next(batches)
        del batches
        store.nothing_is_left()


class Stalling(Faulty):
    """Reads of a row group of segment `stuck` hang until `go`."""

    def __init__(self) -> None:
        super().__init__()
        self.stuck = ""
        self.hangs, self.go = threading.Event(), threading.Event()

    def read(self, key: str, start: int, length: int) -> Any:
        if self.stuck and self.stuck in key:
            self.hangs.set()
            assert self.go.wait(60)
        return super().read(key, start, length)


def test_a_stalled_fetch_keeps_nobody_who_stops() -> None:
    store = Stalling()
    refs = filled(store)
    store.stuck = refs[-1].id
    batches = log(store, refs)
    assert next(batches).num_rows == 20  # others do not wait for it
    assert store.hangs.wait(60)
    del batches
    assert fetching_threads()  # its request cannot be taken back
    store.go.set()
    store.nothing_is_left()


def test_a_task_is_cancelled_while_a_source_stalls() -> None:
    store = Stalling()
    refs = filled(store)
    store.stuck = refs[0].id
    with pytest.raises(TaskCancelled):
        execute(task([[ref] for ref in refs]), only_here(store), store.hangs.is_set)
    store.go.set()
    store.nothing_is_left()
