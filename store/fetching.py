"""Requests that are under way while whoever wants them does something else (docs/rfcs/0028).

The threads belong to the process, and exist only while a request waits or runs: an idle process has none. Each home has
threads of its own, so that requests that wait for a slow one take none from the others. A waiting request is held
weakly, so one that nobody wants any more is never made. The threads are daemons: a stalled request does not keep a
process from ending.
"""

import os
import threading
import weakref
from collections import deque
from collections.abc import Callable, Iterable, Iterator
from typing import Any, Generic, TypeVar

__all__ = ["THREADS_MAX", "Fetch", "Landings", "begun", "soon"]

A = TypeVar("A")
T = TypeVar("T")
THREADS_MAX = 24  # of a process, for the warehouse; an S3 client keeps 64 connections
APART_THREADS_MAX = 12  # of a process, for each other home
_LOOK_S = 0.25  # a waiting reader checks this often whether it was cancelled
_PRUNED_FROM = 1_024


class Landings:
    """Where somebody waits for the next of several fetches to end. Belongs to one process."""

    def __init__(self) -> None:
        self.pid = os.getpid()
        self._lock = threading.RLock()  # for `with`: a condition's own is Python, and Ctrl-C within it leaks the lock
        self._changed = threading.Condition(self._lock)
        self._count = 0

    @property
    def count(self) -> int:
        """How many have ended."""
        return self._count

    def tell(self) -> None:
        with self._lock:
            self._count += 1
            self._changed.notify_all()

    def wait(self, seen: int) -> None:
        """Until more than `seen` have ended, or for a moment."""
        with self._lock:
            if self._count == seen:
                self._changed.wait(_LOOK_S)


class Fetch(Generic[T]):
    """A request that a thread of this process makes soon; or, if it is `at_hand`, whoever wants the answer. To drop it
    is to give it up; if it is under way, its answer is thrown away."""

    __slots__ = ("__weakref__", "_answer", "_error", "_landings", "_pool", "ended", "request", "taken")

    def __init__(self, request: Callable[[], T], landings: Landings, apart: str = "", *, at_hand: bool = False) -> None:
        """`apart`: as of the store that is asked. Requires: `request` does not hold this."""
        self.request = request
        self.taken = False  # by whoever makes the request
        self.ended = False
        self._landings = landings
        self._answer: Any = None
        self._error: BaseException | None = None
        self._pool = None if at_hand else _pool_of(apart)
        if self._pool is not None:
            self._pool.add(self)

    @property
    def at_hand(self) -> bool:
        return self._pool is None

    def land(self, answer: T | None, error: BaseException | None) -> None:
        self._answer, self._error, self.ended = answer, error, True

    def landed(self) -> None:
        self._landings.tell()

    def help(self) -> bool:
        """Make the request in this thread if no other will do so soon. Returns whether it has ended.

        SUBTLE! 1. Requests of another reader hang, in all threads. 2. This reader's store is well, but it would wait
        for them. Or: 1. A process forks while a thread makes the request. 2. In the child there is no such thread.
        Test: tests/store/test_fetching.py
        """
        pool = self._pool
        if not self.ended and (pool is None or self._landings.pid != os.getpid() or pool.take_over(self)):
            self.land(*_made(self.request))
        return self.ended

    def result(self) -> T:
        """Wait for its answer."""
        while not self.help():
            seen = self._landings.count
            if not self.ended:
                self._landings.wait(seen)
        return self.answer()

    def answer(self) -> T:
        """Requires: it has ended. Raises what the request raised. Nothing is kept here: ask once."""
        answer, error = self._answer, self._error
        self._answer = self._error = None
        try:
            if error is not None:
                raise error
            return answer
        finally:
            del error  # it holds this frame


def soon(request: Callable[[], T], *, far: bool, apart: str = "") -> Callable[[], T]:
    """How to have the answer of a request. It is under way at once, or (unless `far`) made when the answer is asked
    for."""
    return Fetch(request, Landings(), apart).result if far else request


def begun(begin: Callable[[A], T], items: Iterable[A], count: int) -> Iterator[tuple[A, T]]:
    """Each item with what `begin` made of it. `begin` runs `count` items ahead."""
    waiting: deque[tuple[A, T]] = deque()
    for item in items:
        waiting.append((item, begin(item)))
        if len(waiting) > count:
            yield waiting.popleft()
    while waiting:
        yield waiting.popleft()


def _made(request: Callable[[], Any]) -> tuple[Any, BaseException | None]:
    """The answer, or the error, which is raised where the answer is wanted."""
    try:
        return request(), None
    except BaseException as error:  # noqa: BLE001
        # Without this frame, which holds it.
        return None, error.with_traceback(error.__traceback__ and error.__traceback__.tb_next)


class _Pool:
    def __init__(self, threads_max: int) -> None:
        self.lock = threading.Lock()
        self._threads_max = threads_max
        self._waiting: deque[weakref.ref[Fetch[Any]]] = deque()
        self._threads = 0
        self._pruned_from = _PRUNED_FROM

    def add(self, fetch: Fetch[Any]) -> None:
        with self.lock:
            self._waiting.append(weakref.ref(fetch))
            if len(self._waiting) > self._pruned_from:
                self._waiting = deque(each for each in self._waiting if each() is not None)
                self._pruned_from = max(_PRUNED_FROM, 2 * len(self._waiting))
            if self._threads == self._threads_max:
                return
            self._threads += 1
        try:
            threading.Thread(target=self._work, name="lithify-fetch", daemon=True).start()
        except RuntimeError:  # the system has no more threads: the others make the request, or whoever wants the answer
            with self.lock:
                self._threads -= 1

    def take_over(self, fetch: Fetch[Any]) -> bool:
        """Whether the caller shall make this request, since no thread is free for it."""
        with self.lock:
            if fetch.taken or 0 < self._threads < self._threads_max:
                return False
            fetch.taken = True
            return True

    def _next(self) -> "weakref.ref[Fetch[Any]] | None":
        """None: the thread shall end."""
        with self.lock:
            while self._waiting:
                waiting = self._waiting.popleft()
                fetch = waiting()
                if fetch is not None and not fetch.taken:
                    fetch.taken = True
                    return waiting
            self._threads -= 1
            return None

    def _work(self) -> None:
        while (waiting := self._next()) is not None:
            _make_for(waiting)

    def forked(self) -> None:
        """In the child: the threads are the parent's, and so is what waits for them."""
        self._waiting = deque()
        self._threads = 0
        self.lock.release()


def _make_for(waiting: "weakref.ref[Fetch[Any]]") -> None:
    """SUBTLE! While the request runs, nothing here holds the fetch: whoever drops it must not wait for it to be freed.
    Test: tests/store/test_fetching.py"""
    fetch = waiting()
    if fetch is None:
        return
    request = fetch.request
    del fetch
    made = _made(request)
    fetch = waiting()
    if fetch is not None:
        fetch.land(*made)
        fetch.landed()
    del made, fetch  # the frames of an error keep this one


_pools: dict[str, _Pool] = {"": _Pool(THREADS_MAX)}  # by what they are apart for
_pools_lock = threading.Lock()


def _pool_of(apart: str) -> _Pool:
    found = _pools.get(apart)
    if found is None:
        with _pools_lock:
            found = _pools.setdefault(apart, _Pool(APART_THREADS_MAX))
    return found


def _before_fork() -> None:
    _pools_lock.acquire()
    for pool in _pools.values():
        pool.lock.acquire()


def _after_in_parent() -> None:
    for pool in _pools.values():
        pool.lock.release()
    _pools_lock.release()


def _after_in_child() -> None:
    for pool in _pools.values():
        pool.forked()
    _pools_lock.release()


os.register_at_fork(before=_before_fork, after_in_parent=_after_in_parent, after_in_child=_after_in_child)
