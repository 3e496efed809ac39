"""The service: the compactor, and a collector that runs on an interval, until it is told to leave."""

import logging
import os
import signal
import socket
import threading
from collections.abc import Callable, Generator, Sequence
from contextlib import closing, contextmanager
from types import FrameType
from typing import Protocol

import structlog

from lithify.admin.interruption import not_ignored
from lithify.compactor.compactor import Compactor
from lithify.gc.collector import Collector
from lithify.store.apart import Fault
from lithify.store.driver import monotonic_ms
from lithify.store.errors import Fenced

__all__ = ["Collecting", "Compacting", "Part", "leave_on_signals", "run_together"]

_LEAVE = (signal.SIGTERM, signal.SIGINT, signal.SIGHUP)

log = structlog.wrap_logger(logging.getLogger("lithify.service"))


class Compacting:
    """Compacts until it is told to leave."""

    def __init__(
        self, compactor: Compactor, interval_ms: int, initial_delay_ms: int = 0, take_over: bool = False
    ) -> None:
        self._compactor = compactor
        self._interval_ms = interval_ms  # the pause after an unexpected error
        self._initial_delay_ms = initial_delay_ms
        self._take_over = take_over
        self._stopped = threading.Event()

    def run(self) -> None:
        """Returns after `stop`, and closes the compactor, so that its partitions need not wait for other parts. Raises
        Fenced if others took over everything that it owned, EpochRegression if the store went back in time."""
        with closing(self._compactor):
            self._stopped.wait(self._initial_delay_ms / 1000)
            while not self._stopped.is_set():
                with _logged("compaction failed"):
                    take_over, self._take_over = self._take_over, False  # only the first time
                    self._compactor.run(take_over)
                self._stopped.wait(self._interval_ms / 1000)

    def stop(self) -> None:
        """Record what has finished, and leave. Safe in a signal handler."""
        self._stopped.set()
        self._compactor.stop()


class Collecting:
    """Collects garbage, pauses for `interval_ms`, and so on; every `sweep_interval_ms` a collection also sweeps."""

    def __init__(self, collector: Collector, interval_ms: int, sweep_interval_ms: int) -> None:
        self._collector = collector
        self._interval_ms = interval_ms
        self._sweep_interval_ms = sweep_interval_ms
        self._stopped = threading.Event()

    def run(self) -> None:
        """Returns after `stop`, once the running collection has ended."""
        # The second collection sweeps, so that a service that restarts often does not list everything each time.
        sweep_at_ms = monotonic_ms() + min(self._interval_ms, self._sweep_interval_ms)
        while not self._stopped.is_set():
            sweep = monotonic_ms() >= sweep_at_ms
            with _logged("collection failed"):
                self._collector.run_once(sweep=sweep)
            if sweep:
                sweep_at_ms = monotonic_ms() + self._sweep_interval_ms
            self._stopped.wait(self._interval_ms / 1000)

    def stop(self) -> None:
        self._stopped.set()


@contextmanager
def _logged(what: str) -> Generator[None]:
    """Log the failure of a pass; it must not end the service."""
    try:
        yield
    except Fenced:
        raise
    except Exception as error:  # noqa: BLE001 - a fault in one pass must not leave every topic without compaction
        fault = Fault.of(error)
        log.error(what, kind=fault.kind, error=fault.text)


class Part(Protocol):
    """What a service does in a thread of its own, until it is told to leave."""

    def run(self) -> None: ...
    def stop(self) -> None: ...


def run_together(parts: Sequence[Part]) -> None:
    """Run each part in its own thread until all have ended. An exception in one stops the others, and is raised."""
    raised: list[Exception] = []

    def run(part: Part) -> None:
        try:
            part.run()
        except Exception as error:  # noqa: BLE001 - raised again below, in the thread that asked
            raised.append(error)
            for other in parts:
                other.stop()

    threads = [threading.Thread(target=run, args=(part,), name=f"lithify-{type(part).__name__}") for part in parts]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    if raised:
        raise raised[0]


@contextmanager
def leave_on_signals(stop: Callable[[], None]) -> Generator[None]:
    """Within the block each SIGTERM, SIGINT or SIGHUP calls `stop`, in a thread of its own. A second SIGTERM or SIGINT
    ends the process at once. SIGHUP never does: it comes beside them, when a session ends. After a block that was told
    to leave it stays ignored, for it may come while the process is ending.

    The signals are read from where the interpreter's C handler writes them. A Python handler runs only when the main
    thread executes bytecode: if the signal arrived just before that thread blocked, the handler never ran.
    """
    told, tell = socket.socketpair()
    tell.setblocking(False)
    leaving = False

    def listen() -> None:
        nonlocal leaving
        asked = False
        while numbers := told.recv(64):
            for number in numbers:
                if number not in _LEAVE:
                    continue
                if number != signal.SIGHUP:
                    if asked:
                        os._exit(128 + number)
                    asked = True
                leaving = True
                stop()

    listener = threading.Thread(target=listen, name="lithify-signals", daemon=True)
    listener.start()
    woken = signal.set_wakeup_fd(tell.fileno(), warn_on_full_buffer=False)
    before = {number: signal.signal(number, _heard) for number in not_ignored(_LEAVE)}
    try:
        yield
    finally:
        for number, handler in before.items():
            signal.signal(number, signal.SIG_IGN if leaving and number == signal.SIGHUP else handler)
        signal.set_wakeup_fd(woken)
        tell.close()
        listener.join()
        told.close()


def _heard(_number: int, _frame: FrameType | None) -> None:
    """Keeps the signal from ending the process; the listener reacts to it."""
