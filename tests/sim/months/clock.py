"""Simulated time: processes whose threads are fibres, and one loop that wakes whoever's time has come.

A request of a thread takes its latency; a thread that nobody could overtake meanwhile goes on at once, without a
switch. Nothing sleeps, and everything comes from a seed.
"""

import heapq
import itertools
import random
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, field
from functools import partial
from typing import Any

import msgspec

from lithify.store.driver import Driver
from lithify.store.port import NewId, Now, Pause, Request, Together
from lithify.store.side_by_side import one_after_the_other
from tests.sim.cast import Violation
from tests.sim.clients.fibres import Fibre, Wait, ask
from tests.sim.clients.remote import Remote

__all__ = ["DAY_MS", "HOUR_MS", "MINUTE_MS", "START_MS", "Clock", "Process", "Spend"]

START_MS = 1_700_000_000_000
MINUTE_MS = 60_000
HOUR_MS = 60 * MINUTE_MS
DAY_MS = 24 * HOUR_MS


class Spend(Request[None], msgspec.Struct, frozen=True):
    """Work that takes so long, in the process itself."""

    ms: int


class Answers:
    """Who answers requests for objects: how long one takes, and what comes of it."""

    def latency_ms(self, request: Request[Any]) -> int:
        raise NotImplementedError

    def answer(self, process: "Process", request: Request[Any]) -> Any:
        raise NotImplementedError


class Thread(Fibre):
    """Of a process."""

    def __init__(self, process: "Process", body: Callable[[], None]) -> None:
        super().__init__(body)
        self.process = process

    def asks(self, request: Request[Any]) -> Any:
        if self.crashed:
            return super().asks(request)
        known, reply = self.process.clock.at_once(self.process, request)
        return reply if known else super().asks(request)


@dataclass(eq=False)
class Process:
    """It ends when its first thread does; killed, all of its threads end at once, whatever they hold."""

    name: str
    clock: "Clock"
    role: str
    ended: Callable[[BaseException | None], None] = lambda _: None
    threads: list[Thread] = field(default_factory=list)
    alive: bool = True

    @property
    def driver(self) -> Driver:
        remote: Any = Remote()
        remote.side_by_side = one_after_the_other
        driver: Any = Driver(remote)
        driver.answer = ask
        driver.monotonic_ms = lambda: self.clock.now_ms
        return driver

    def spawn(self, body: Callable[[], None]) -> None:
        clock = self.clock

        def begin() -> None:
            if self.alive:
                thread = Thread(self, body)
                self.threads.append(thread)
                clock.resume(thread, None, None)

        clock.after(0, begin)

    def kill(self) -> None:
        self.alive = False
        for thread in self.threads:
            thread.close()
        self.threads.clear()
        self.clock.forget_the_dead()
        self.ended(None)


class Clock:
    def __init__(self, seed: str) -> None:
        self.now_ms = START_MS
        self.until_ms = START_MS  # of the stretch that is played
        self.dice = random.Random(f"{seed}/clock")
        self.counts: Counter[str] = Counter()
        self.violation: str | None = None
        self.store: Answers = Answers()
        self.running: Thread | None = None
        self._heap: list[tuple[int, int, Callable[[], None]]] = []
        self._order = itertools.count()
        self._waiting: dict[int, tuple[Thread, Wait]] = {}
        self._ids = 0
        self._due_ms = 0
        self.processes: list[Process] = []

    # --- what happens when

    def after(self, ms: int, do: Callable[[], None]) -> None:
        heapq.heappush(self._heap, (self.now_ms + ms, next(self._order), do))

    def every(self, ms: int, do: Callable[[], None]) -> None:
        def again() -> None:
            do()
            self.after(ms, again)

        self.after(ms, again)

    def process(self, name: str, role: str, main: Callable[[Process], None]) -> Process:
        """Its first thread begins now."""
        process = Process(name, self, role)
        self.processes = [each for each in self.processes if each.alive]
        self.processes.append(process)

        def body() -> None:
            error: BaseException | None = None
            try:
                main(process)
            except Exception as raised:  # noqa: BLE001 - told to whoever supervises it
                error = raised
            if process.alive:
                process.alive = False
                process.ended(error)

        process.spawn(body)
        return process

    def fail(self, what: str) -> None:
        """Told at once by the loop: what is raised in a thread of the product, the product may catch."""
        self.violation = self.violation or f"{self.span()}: {what}"

    def span(self) -> str:
        gone = self.now_ms - START_MS
        return f"day {gone // DAY_MS} {gone % DAY_MS // HOUR_MS:02}:{gone % HOUR_MS // MINUTE_MS:02}"

    def run(self, until_ms: int) -> None:
        self.until_ms = until_ms
        while True:
            if self.violation is not None:
                raise Violation(self.violation)
            self._wake()
            if not self._heap or self._heap[0][0] > until_ms:
                self.now_ms = until_ms
                return
            due_ms, _, do = heapq.heappop(self._heap)
            self.now_ms = max(self.now_ms, due_ms)
            do()

    def _wake(self) -> None:
        """Those who wait for something that is so by now, or by what one of these does."""
        while ready := [number for number, (_, wait) in self._waiting.items() if wait.ready()]:
            for number in ready:
                thread, _ = self._waiting.pop(number, (None, None))
                if thread is not None:
                    self.resume(thread, None, None)

    # --- threads

    def resume(self, thread: Thread, reply: Any, error: Exception | None) -> None:
        if thread.crashed:
            return
        self.running = thread
        try:
            request = thread.send(reply) if error is None else thread.throw(error)
        except StopIteration:
            if thread in thread.process.threads:
                thread.process.threads.remove(thread)
            return
        finally:
            self.running = None
        self._issue(thread, request)

    def at_once(self, process: Process, request: Request[Any]) -> tuple[bool, Any]:
        """(True, the reply) where nothing else happens before it comes. Raises what the store raises."""
        kind = type(request)
        if kind is Now:
            return True, self.now_ms
        if kind is NewId:
            self._ids += 1
            return True, f"{self.dice.getrandbits(32):08x}{self._ids:08x}"
        if isinstance(request, Wait):
            return request.ready(), None
        due_ms = self.now_ms + self._takes_ms(request)
        if due_ms > self.until_ms or (self._heap and self._heap[0][0] <= due_ms):
            return self._later(due_ms)
        if any(wait.ready() for _, wait in self._waiting.values()):
            return self._later(due_ms)
        self.now_ms = due_ms
        return True, self._answer(process, request)

    def _later(self, due_ms: int) -> tuple[bool, Any]:
        self._due_ms = due_ms
        return False, None

    def _issue(self, thread: Thread, request: Request[Any]) -> None:
        if isinstance(request, Wait):
            self._wait(thread, request)
            return

        def arrives() -> None:
            if thread.crashed:
                return
            try:
                reply = self._answer(thread.process, request)
            except Exception as error:  # noqa: BLE001 - thrown into the thread
                self.resume(thread, None, error)
            else:
                self.resume(thread, reply, None)

        heapq.heappush(self._heap, (self._due_ms, next(self._order), arrives))

    def _wait(self, thread: Thread, request: Wait) -> None:
        number = next(self._order)
        self._waiting[number] = thread, request

        def over() -> None:
            if self._waiting.pop(number, None) is not None:
                self.resume(thread, None, None)

        if request.ms is not None:
            self.after(request.ms, over)

    def _takes_ms(self, request: Request[Any]) -> int:
        if isinstance(request, Pause):
            return int(request.ms * (0.5 + self.dice.random() / 2))
        if isinstance(request, Spend):
            return request.ms
        if isinstance(request, Together):
            return max(map(self.store.latency_ms, request.requests))
        return self.store.latency_ms(request)

    def _answer(self, process: Process, request: Request[Any]) -> Any:
        if isinstance(request, Pause | Spend):
            return None
        if isinstance(request, Together):  # all in the moment when the last one is answered
            return tuple(one_after_the_other([partial(self._answer, process, each) for each in request.requests]))
        return self.store.answer(process, request)

    def forget_the_dead(self) -> None:
        """Waits of threads that were killed."""
        self._waiting = {number: each for number, each in self._waiting.items() if not each[0].crashed}

    def end(self) -> None:
        """Of all processes."""
        for process in self.processes:
            process.ended = lambda _: None
            process.kill()
