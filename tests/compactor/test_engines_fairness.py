"""Attempts share an engine task by task: the one task of a small job does not wait for all of a large one."""

import threading
from collections import defaultdict
from collections.abc import Callable
from types import SimpleNamespace
from typing import Any, cast

import pytest

from lithify.compactor.engines.local import LocalEngine
from lithify.compactor.engines.underway import Threads, Underway
from lithify.manifest.categories import Category
from lithify.segment.execute import TaskCancelled
from lithify.segment.task import MergeTask, TaskFailure, TaskResult
from lithify.store.errors import InvalidRequest, Unavailable
from lithify.store.homes import only_here
from lithify.store.opening import open_store


class Told:
    """Tasks are names; each runs when the test says so, and notes that it began."""

    def __init__(self, width: int) -> None:
        self.threads = Threads(width, "told")
        self.began: list[str] = []
        self._go, self._begun = threading.Semaphore(0), threading.Semaphore(0)
        self._alone: dict[str, threading.Semaphore] = defaultdict(lambda: threading.Semaphore(0))  # of short ones
        self._lock = threading.Lock()

    def start(self, *names: str, short: bool = False) -> Underway:
        tasks = tuple(SimpleNamespace(name=name, short=short) for name in names)
        return Underway(self.threads, cast("tuple[MergeTask, ...]", tasks), self._run)

    def _run(self, task: Any, cancelled: Callable[[], bool]) -> TaskResult | TaskFailure:
        with self._lock:
            self.began.append(task.name)
        self._begun.release()
        assert self._leave(task.name, short=task.short).acquire(timeout=60)
        if cancelled():
            raise TaskCancelled(task.name)
        return TaskFailure(0, Category.ENGINE, task.name)

    def _leave(self, name: str, *, short: bool) -> threading.Semaphore:
        with self._lock:
            return self._alone[name] if short else self._go

    def go(self, tasks: int) -> None:
        self._go.release(tasks)

    def await_begun(self, tasks: int) -> None:
        for _ in range(tasks):
            assert self._begun.acquire(timeout=60)

    def go_on(self, short: str) -> None:
        self._leave(short, short=True).release()


@pytest.mark.parametrize("width", [1, 3])
def test_two_attempts_take_turns(width: int) -> None:
    engine = Told(width)
    large = engine.start(*(f"large {number}" for number in range(40)))
    small = engine.start("small 0", "small 1")
    engine.go(42)
    assert small.ended(60_000)
    assert large.ended(60_000)
    assert sorted(engine.began) == sorted([*(f"large {n}" for n in range(40)), "small 0", "small 1"])
    assert max(engine.began.index(name) for name in ("small 0", "small 1")) <= 2 * width + 2
    assert len(large.results(0)) == 40
    assert [each.reason for each in small.results(0) if isinstance(each, TaskFailure)] == ["small 0", "small 1"]


@pytest.mark.parametrize("width", [1, 3])
def test_a_short_job_does_not_wait_for_a_long_task(width: int) -> None:
    """A task may take many minutes, and all threads have such ones."""
    engine = Told(width)
    large = engine.start(*(f"large {number}" for number in range(2 * width)))
    engine.await_begun(width)
    shorts = [engine.start(f"short {name} 0", f"short {name} 1", short=True) for name in "ab"]
    for began in ("short a 0", "short b 0", "short a 1", "short b 1"):  # they take turns, too
        engine.go_on(began)
    assert all(short.ended(60_000) for short in shorts)
    assert large.results(0) == []
    assert sorted(engine.began)[:width] == sorted(f"large {number}" for number in range(width))
    engine.go(2 * width)
    large.stop()


def test_a_stop_begins_nothing_more_and_waits_for_what_runs() -> None:
    engine = Told(2)
    large = engine.start(*(f"{number}" for number in range(40)))
    large.withdraw()
    assert not large.ended(0) or len(engine.began) == 0
    engine.go(40)
    large.stop()
    assert large.ended(0)
    assert len(engine.began) <= 2
    assert large.results(0) == []


def test_where_the_pool_takes_no_more_tasks_the_attempt_ends_and_says_so() -> None:
    """As at the end of the interpreter: a compactor that went on waiting for them, with its signs of life, would never
    end, and no other could take over."""
    engine = Told(1)
    large = engine.start("0", "1", "2")
    engine.threads.shutdown(wait=False)
    engine.go(3)
    assert large.ended(60_000)
    assert [each.reason for each in large.results(60_000) if isinstance(each, TaskFailure)] == ["0"]
    with pytest.raises(Unavailable, match="2 tasks"):
        large.results(0)
    large.stop()


def test_an_attempt_without_tasks_has_ended() -> None:
    nothing = Told(1).start()
    assert nothing.ended(0)
    assert nothing.results(60_000) == []


@pytest.mark.parametrize("close", [False, True])
def test_turns_that_begin_at_once_do_not_disturb_each_other(monkeypatch: pytest.MonkeyPatch, *, close: bool) -> None:
    """Each partition has its turn in a thread of its own. While one looks whether an attempt hangs others begin; what
    waits for its end is left to wait. `close`: the engine is closed in that moment, too."""
    store, engine, looking = open_store("memory://turns"), LocalEngine(1), threading.current_thread()
    begun = [engine.start(only_here(store), (), "first"), engine.start(only_here(store), (), "second")]
    met: list[Exception] = []

    def beside() -> None:
        try:
            begun.append(engine.start(only_here(store), (), "beside"))
        except (InvalidRequest, RuntimeError) as error:
            met.append(error)

    threads: list[threading.Thread] = []

    def asked(_: Underway) -> bool:
        if threading.current_thread() is looking:
            threads.append(threading.Thread(target=beside))
            threads[-1].start()
            threads[-1].join(0.1)
        return False

    monkeypatch.setattr(Underway, "hangs", property(asked, lambda *_: None), raising=False)
    if close:
        engine.close()
    else:
        begun.append(engine.start(only_here(store), (), "third"))
    for thread in threads:
        thread.join(60)
    assert threads
    if close:
        assert {type(error) for error in met} == {InvalidRequest}
        assert len(begun) == 2
    else:
        assert met == []
        assert len(begun) == 3 + len(threads)
