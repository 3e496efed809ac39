"""The blocking driver: runs a protocol coroutine against a real store.

The only file of the package that reads a clock, waits, or makes random numbers.
"""

import random
import time
import uuid
from collections.abc import Callable, Coroutine, Iterable, Sequence
from contextlib import closing
from functools import partial
from typing import Any, TypeVar

from msgspec.structs import replace

from lithify.store.cache import Cache
from lithify.store.errors import Unavailable
from lithify.store.homes import Homes, only_here
from lithify.store.port import (
    UNKNOWN_PAGE,
    Create,
    Delete,
    Folders,
    Get,
    Glimpse,
    Head,
    List,
    NewId,
    Now,
    Object,
    ObjectInfo,
    OwnHome,
    Page,
    Pause,
    Put,
    Request,
    Store,
    Together,
)
from lithify.store.side_by_side import results

__all__ = ["Answer", "Clock", "Driver", "drive", "machine_ms", "monotonic_ms", "new_id", "pause", "store_answers"]

A = TypeVar("A")
T = TypeVar("T")
_PAUSE_MS_MAX = 1 << 40  # some 34 years; systems refuse to sleep for centuries
Clock = Callable[[], int]  # -> milliseconds since 1970
Answer = Callable[[Request[Any]], Any]


def drive(coroutine: Coroutine[Request[Any], Any, T], answer: Answer) -> T:
    """Run `coroutine` to its end and answer each request that it awaits. An exception from `answer` is raised in it."""
    try:
        request = coroutine.send(None)
        while True:
            try:
                reply = answer(request)
            except Exception as error:  # noqa: BLE001 - passed on, not swallowed: the coroutine decides
                request = coroutine.throw(error)
            else:
                request = coroutine.send(reply)
    except StopIteration as stop:
        return stop.value


def store_answers(homes: Homes, clock: Clock | None = None) -> Answer:  # noqa: C901 - one flat table
    """Answer requests from the stores of `homes`. With an injected clock, `Now` is that clock and modification times
    are withheld, because times of two clocks must not be compared."""
    store = homes.here

    def answer(request: Request[Any]) -> Any:  # noqa: C901
        match request:
            case Create(key, body, frees):
                return store.create(key, body, frees)
            case Get(key):
                return _unclocked(store.get(key))
            case Put(key, body):
                return store.put(key, body)
            case Head(key):
                return _unclocked(store.head(key))
            case Glimpse(prefix):
                return store.glimpse(prefix) if store.glimpses else UNKNOWN_PAGE
            case List(prefix, token, home):
                page = homes.store(home).list(prefix, token)
                return page if clock is None else Page(tuple(map(_unclocked, page.objects)), page.token)
            case Folders(prefix):
                return tuple(store.folders(prefix))
            case Delete(keys, home):
                return homes.store(home).delete(keys)
            case OwnHome(home, key, claims, renews):
                return homes.own(home, key, claims=claims, renews=renews)
            case Together(requests):
                return tuple(store.side_by_side([partial(answer, each) for each in requests]))
            case Now():
                return store.now() if clock is None else clock()
            case NewId():
                return new_id()
            case Pause(ms):
                return pause(ms)
            case _:
                raise TypeError(f"no handler for requests of type {type(request).__name__}")

    def _unclocked(found: Any) -> Any:
        if clock is None or not isinstance(found, Object | ObjectInfo):
            return found
        return replace(found, modified_ms=None)

    return answer


class Driver:
    """Runs protocol coroutines for one process.

    `homes`: where segments live; a store alone is a warehouse whose segments all live in it."""

    def __init__(self, homes: Store | Homes, clock: Clock | None = None) -> None:
        self.homes = homes if isinstance(homes, Homes) else only_here(homes)
        self.store = self.homes.here
        self.cache = Cache()
        self.answer = store_answers(self.homes, clock)
        self._clock = clock
        self.monotonic_ms: Clock = monotonic_ms  # for spans inside this process
        self.machine_ms: Clock = machine_ms

    def run(self, coroutine: Coroutine[Request[Any], Any, T]) -> T:
        return drive(coroutine, self.answer)

    def hasty(self) -> "Driver":
        """For what need not succeed: with the store's short deadlines, and where a coroutine would pause to ask again,
        Unavailable is raised in it. It knows the warehouse alone, no other homes."""
        brief = Driver(self.store.hasty(), self._clock)
        patient = brief.answer

        def answer(request: Request[Any]) -> Any:
            if isinstance(request, Pause) and not request.gives_way:
                raise Unavailable("the store gave no answer that says what happened, and is not asked again")
            return patient(request)

        brief.answer = answer
        return brief

    def dated(self, coroutine: Coroutine[Request[Any], Any, T]) -> tuple[T, int]:
        """Its result, and the store's time when it began (or some time before). A store that would have to be asked for
        the time is asked afterwards, when its replies have told it: that saves a round trip.

        SUBTLE! 1. It asks. 2. The machine sleeps, and the monotonic clock with it. 3. The reply comes: by the
        monotonic clock it would be as young as if it had just been asked for. The machine's own clock has gone on.
        Test: tests/store/test_driver.py
        """
        if self._clock is not None or self.store.knows_time:
            with closing(coroutine):  # if the clock fails it never begins, and Python would warn of that on stderr
                asked_ms = self.now_ms()
                return self.run(coroutine), asked_ms
        began_ms, machine_ms = self.monotonic_ms(), self.machine_ms()
        result = self.run(coroutine)
        return result, self.now_ms() - max(self.monotonic_ms() - began_ms, self.machine_ms() - machine_ms)

    def each(self, work: Callable[[A], T], items: Iterable[A]) -> Sequence[T | Exception]:
        """What `work` returns or raises for each item: side by side if the store answers after a while. Requires:
        `work` is thread-safe."""
        return self.store.side_by_side([partial(work, item) for item in items])

    def all_of(self, work: Callable[[A], T], items: Iterable[A]) -> list[T]:
        """As `each`: makes all calls, and then raises the failure of the first item that failed."""
        return results(self.each(work, items))

    def now_ms(self) -> int:
        return self.answer(Now())


def new_id() -> str:
    """16 hexadecimal digits, 64 random bits."""
    return uuid.uuid4().hex[:16]


def pause(ms: int) -> None:
    """Sleep between half of `ms` and all of it, so that rivals get out of step."""
    time.sleep(min(ms, _PAUSE_MS_MAX) * random.uniform(0.5, 1.0) / 1000)


def monotonic_ms() -> int:
    """A clock for spans within this process only (leases, linger); never compared with a store's."""
    return int(time.monotonic() * 1000)


def machine_ms() -> int:
    """This machine's clock, in milliseconds since 1970. Compared with a store's only to report the difference."""
    return int(time.time() * 1000)
