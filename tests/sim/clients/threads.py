"""What `threading` and `concurrent.futures` give the product, for fibres: whoever waits lets the others go on.

They stand in the product's modules while a history is played (`in_place`), so that its locks, senders and pools are the
simulator's, and any order of them can come about. Threads change at requests and at waits alone: a lock that is missing
around plain statements is not noticed here.
"""

from collections.abc import Callable, Generator, Iterable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from functools import partial
from types import SimpleNamespace
from typing import Any, TypeVar
from unittest.mock import patch

from lithify.store.port import NewId
from lithify.store.side_by_side import one_after_the_other
from tests.sim.clients.fibres import Wait, ask, crashed

__all__ = ["in_place"]

T = TypeVar("T")
Spawn = Callable[[str, Callable[[], None]], Callable[[], bool]]
"""Begins a thread of the process that runs; answers with who knows its end."""

_spawn: list[Spawn] = []  # of the history that is played


class Lock:
    def __init__(self) -> None:
        self._held = False

    def acquire(self, blocking: bool = True, timeout: float = -1) -> bool:
        while self._held and blocking:
            ask(Wait(lambda: not self._held, None if timeout < 0 else int(timeout * 1000)))
            if timeout >= 0:
                break
        if self._held:
            return False
        self._held = True
        return True

    def release(self) -> None:
        if not self._held and not crashed():
            raise RuntimeError("release unlocked lock")
        self._held = False

    def locked(self) -> bool:
        return self._held

    def __enter__(self) -> bool:
        return self.acquire()

    def __exit__(self, *_: object) -> None:
        self.release()


class Condition:
    def __init__(self, lock: Lock | None = None) -> None:
        self._lock = Lock() if lock is None else lock
        self._told = 0

    def __enter__(self) -> bool:
        return self._lock.__enter__()

    def __exit__(self, *_: object) -> None:
        self._lock.release()

    def wait(self, timeout: float | None = None) -> bool:
        self._is_held()
        before = self._told
        self._lock.release()
        ask(Wait(lambda: self._told > before, None if timeout is None else min(int(timeout * 1000), 1 << 40)))
        self._lock.__enter__()
        return self._told > before

    def wait_for(self, predicate: Callable[[], bool], timeout: float | None = None) -> bool:
        if timeout is None:
            while not predicate():
                self.wait()
        elif not predicate():
            while self.wait(timeout) and not predicate():  # each wake-up may begin its time anew: longer, never shorter
                pass
        return predicate()

    def notify_all(self) -> None:
        self._is_held()
        self._told += 1

    def _is_held(self) -> None:
        if not self._lock.locked() and not crashed():
            raise RuntimeError("cannot wait on, or notify, a condition whose lock is not held")


class Thread:
    def __init__(self, target: Callable[[], None], name: str = "", daemon: bool = False) -> None:
        self._target, self._name = target, name
        self._ended: Callable[[], bool] = lambda: False

    def start(self) -> None:
        self._ended = _spawn[-1](self._name, self._target)

    def join(self) -> None:
        while not self._ended():
            ask(Wait(self._ended, None))


class Future:
    def __init__(self) -> None:
        self._result: list[Any] = []

    def __class_getitem__(cls, _: Any) -> type["Future"]:
        return cls

    def done(self) -> bool:
        return bool(self._result)

    def set_result(self, result: Any) -> None:
        assert not self._result, "a future is settled once"
        self._result.append(result)

    def result(self, timeout: float | None = None) -> Any:
        if not self._result:
            ask(Wait(self.done, None if timeout is None else int(timeout * 1000)))
        if not self._result:
            raise TimeoutError
        return self._result[0]


def wait(futures: Iterable[Future]) -> None:
    for future in futures:
        while not future.done():
            ask(Wait(future.done, None))


class Pool:
    """Each piece of work in a thread of its own."""

    def __init__(self, _: int) -> None:
        """As many as are asked for."""

    def __enter__(self) -> "Pool":
        return self

    def __exit__(self, *_: object) -> None:
        """Whoever maps has waited."""

    def map(self, work: Callable[[Any], Any], items: Iterable[Any]) -> Iterator[Any]:
        for outcome in side_by_side([partial(work, item) for item in items]):
            if isinstance(outcome, Exception):
                raise outcome
            yield outcome


def side_by_side(calls: Sequence[Callable[[], T]]) -> list[T | Exception]:
    """What each returns or raises; each in a thread of its own, unless it is alone."""
    if len(calls) < 2:
        return one_after_the_other(calls)
    outcomes: list[list[T | Exception]] = [[] for _ in calls]
    threads = [Thread(partial(_kept, call, outcome), "pool") for call, outcome in zip(calls, outcomes, strict=True)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    return [outcome for (outcome,) in outcomes]


def _kept(call: Callable[[], T], outcome: list[T | Exception]) -> None:
    outcome += one_after_the_other([call])


def _one_by_one(do: Callable[[Any], Any], things: Iterable[Any], _: int = 1) -> list[Any]:
    return [do(thing) for thing in things]


def _new_id() -> str:
    return ask(NewId())


@contextmanager
def in_place(spawn: Spawn) -> Generator[None]:
    threading = SimpleNamespace(Condition=Condition, Lock=Lock, RLock=Lock, Thread=Thread)
    stands_in = {
        "lithify.log.producer.threading": threading,
        "lithify.log.producer_stamps.ThreadPoolExecutor": Pool,
        "lithify.log.producer.wait": wait,
        "lithify.gc.collector.many": _one_by_one,
        "lithify.log.commit_queue.threading": threading,
        "lithify.log.latest.threading": threading,
        "lithify.log.batches.Future": Future,
        "lithify.store.own_lock.threading": threading,
        "lithify.segment.outputs.new_id": _new_id,
        # What a merge costs is written down: figures of other lengths would make it another history.
        "lithify.segment.execute._cpu_ms": lambda: 0,
        "lithify.segment.execute._peak_memory_bytes": lambda: 0,
    }
    with ExitStack() as stack:
        for place, what in stands_in.items():
            stack.enter_context(patch(place, what))
        _spawn.append(spawn)
        stack.callback(_spawn.pop)
        yield
