"""How old a reply is, without asking for the time before the question."""

import inspect

import pytest

from lithify.store.driver import Driver
from lithify.store.errors import Unavailable
from lithify.store.memory import MemoryStore
from lithify.store.port import Get


class Clocks:
    store_ms = 1_000_000
    monotonic_ms = 5_000
    machine_ms = 900_000

    def pass_by(self, ms: int, *, asleep: bool = False) -> None:
        self.store_ms += ms
        self.machine_ms += ms
        self.monotonic_ms += 0 if asleep else ms


class Unknowing(MemoryStore):
    @property
    def knows_time(self) -> bool:
        return False


def dated(clocks: Clocks, *, asleep: bool) -> int:
    driver = Driver(Unknowing(clock=lambda: clocks.store_ms))
    driver.monotonic_ms, driver.machine_ms = lambda: clocks.monotonic_ms, lambda: clocks.machine_ms

    async def ask() -> None:
        await Get("a")
        clocks.pass_by(7_000, asleep=asleep)

    _, asked_ms = driver.dated(ask())
    return asked_ms


def test_it_is_dated_by_when_it_was_asked_for() -> None:
    assert dated(Clocks(), asleep=False) == 1_000_000


def test_a_machine_that_slept_before_the_reply_does_not_make_it_younger() -> None:
    assert dated(Clocks(), asleep=True) == 1_000_000


def test_a_clock_that_is_set_back_meanwhile_does_not_make_it_younger() -> None:
    clocks = Clocks()
    clocks.pass_by = lambda ms, asleep: (Clocks.pass_by(clocks, ms), setattr(clocks, "machine_ms", 0))  # type: ignore[method-assign, assignment]
    assert dated(clocks, asleep=False) == 1_000_000


def test_what_never_began_since_the_clock_failed_is_closed() -> None:
    def clock() -> int:
        raise Unavailable("no clock")

    async def ask() -> None:
        await Get("a")

    asking = ask()
    with pytest.raises(Unavailable):
        Driver(MemoryStore(), clock).dated(asking)
    assert inspect.getcoroutinestate(asking) == inspect.CORO_CLOSED
