"""What the product finds in place of threads, pools, clocks and Parquet while months are played.

Everything else is its own: Compactor, Scheduler, Turns, Service, ServedPartition, Coordinator, Collector, appends,
alters, pins. Threads change at requests and waits alone, as in the simulation of clients.
"""

import queue
from collections import deque
from collections.abc import Callable, Generator
from contextlib import ExitStack, contextmanager
from types import SimpleNamespace
from typing import Any
from unittest.mock import patch

from greenlet import getcurrent

from lithify.compactor.engine import WeighSegment
from lithify.segment.ranges import Weight
from lithify.segment.segments import Segments
from lithify.store.homes import Homes
from tests.sim.clients.fibres import Wait, ask
from tests.sim.clients.threads import Lock
from tests.sim.months.clock import Clock
from tests.sim.months.engine import steps_of_a_look, weights_of

__all__ = ["in_place"]


class Mailbox:
    def __init__(self) -> None:
        self._items: deque[Any] = deque()

    def put(self, item: Any) -> None:
        self._items.append(item)

    def get(self, timeout: float | None = None) -> Any:
        if not self._items:
            ask(Wait(lambda: bool(self._items), None if timeout is None else int(timeout * 1000) + 1))
        return self.get_nowait()

    def get_nowait(self) -> Any:
        if not self._items:
            raise queue.Empty
        return self._items.popleft()


class Pool:
    """Each piece of work in a thread of its own of the process that hands it in."""

    def __init__(self, workers: int, thread_name_prefix: str = "") -> None:
        self._under_way = 0

    def __enter__(self) -> "Pool":
        return self

    def __exit__(self, *_: object) -> None:
        if self._under_way:
            ask(Wait(lambda: not self._under_way, None))

    def submit(self, work: Callable[[], None]) -> None:
        current: Any = getcurrent()

        def run() -> None:
            work()
            self._under_way -= 1

        self._under_way += 1
        current.fibre.process.spawn(run)


class Weighing:
    """From what is stored in place of Parquet, one segment after the other."""

    def __init__(self, homes: Homes) -> None:
        self._homes = homes

    def weigh(self, request: WeighSegment) -> tuple[Weight, ...]:
        return tuple(weights_of((*Segments(request.keys, self._homes).find(request.segment), request.segment)))


@contextmanager
def in_place(clock: Clock) -> Generator[None]:
    stands_in = {
        "lithify.compactor.scheduler.ThreadPoolExecutor": Pool,
        "lithify.store.many.ThreadPoolExecutor": Pool,
        "lithify.compactor.scheduler.queue": SimpleNamespace(SimpleQueue=Mailbox, Empty=queue.Empty),
        "lithify.compactor.scheduler.monotonic_ms": lambda: clock.now_ms,
        "lithify.compactor.served.threading": SimpleNamespace(Lock=Lock),
        "lithify.segment.segments.verify_steps": steps_of_a_look,
        "lithify.segment.segments.SegmentReader": lambda store, key, ref, **_: (store, key, ref),
        "lithify.compactor.answers.Weighing": Weighing,
    }
    with ExitStack() as stack:
        for place, what in stands_in.items():
            stack.enter_context(patch(place, what))
        yield
