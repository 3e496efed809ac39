"""Requests made together, as the simulated worlds play them: each at a step of its own, in any order, with its own
faults; those of a dead process may still arrive (docs/rfcs/0023)."""

import random
from contextlib import nullcontext
from types import SimpleNamespace
from typing import Any

import pytest

from lithify.store.driver import drive
from lithify.store.errors import Unavailable
from lithify.store.port import Create, Get, Object, Outcome, Put, Together, together
from tests.interleave import World as Interleaved
from tests.sim.cast import Climate
from tests.sim.clients.world import ClientWorld, Process
from tests.sim.schedule import Uniform
from tests.sim.world import World

SEEDS = range(60)


async def look(found: list[tuple[bool, bool]]) -> None:
    first, second = await together((Get("a"), Get("b")))
    found.append((first is not None, second is not None))


async def write() -> None:
    await Put("a", b"1")
    await Put("b", b"1")


def witness() -> Any:
    def nothing(*_: Any) -> None:
        """Is not interested."""

    def as_of_now(_: Any) -> Any:
        return nullcontext

    return SimpleNamespace(created=nothing, put=nothing, as_of_now=as_of_now, death_of=lambda _: lambda: False)


def simulated(seed: int, **climate: Any) -> World:
    world = World(str(seed), Climate(**climate), Uniform(random.Random(seed)))
    world.witness = witness()
    return world


def test_another_actor_comes_between_them_in_any_order() -> None:
    """The writer stores a before b; who looks at both together may find either alone."""
    everything = {(False, False), (True, False), (False, True), (True, True)}
    for play in (_interleaved, _simulated, _of_clients):
        assert {play(seed) for seed in SEEDS} == everything, play


def _interleaved(seed: int) -> tuple[bool, bool]:
    world, found = Interleaved(seed), list[tuple[bool, bool]]()
    world.start("reader", look(found))
    world.start("writer", write())
    world.run()
    return found[0]


def _simulated(seed: int) -> tuple[bool, bool]:
    world, found = simulated(seed), list[tuple[bool, bool]]()
    world.start("reader", lambda _: look(found))
    world.start("writer", lambda _: write())
    world.run(100)
    return found[0]


def _of_clients(seed: int) -> tuple[bool, bool]:
    world, found = ClientWorld(str(seed), Climate(), Uniform(random.Random(seed))), list[tuple[bool, bool]]()
    world.witness = witness()

    def reads(process: Process) -> None:
        process.driver.run(look(found))

    def writes(process: Process) -> None:
        process.driver.run(write())

    world.process("reader", reads)
    world.process("writer", writes)
    world.run(100)
    return found[0]


def test_one_fails_and_the_other_is_answered() -> None:
    outcomes = set[tuple[bool, bool]]()

    async def both() -> None:
        replies = await Together((Get("a"), Get("b")))
        outcomes.add((isinstance(replies[0], Unavailable), isinstance(replies[1], Unavailable)))

    for seed in range(200):
        world = simulated(seed, fault_share=0.9)
        world.start("reader", lambda _: both())
        world.run(3)
    assert outcomes == {(True, False), (False, True), (False, False), (True, True)}


def test_together_raises_the_first_failure_once_all_have_ended() -> None:
    answered = list[Any]()

    def answer(request: Any) -> Any:
        answered.append(request)
        return (None, Unavailable("first"), Unavailable("second"))

    with pytest.raises(Unavailable, match="first"):
        drive(together((Get("a"), Get("b"), Get("c"))), answer)
    assert answered == [Together((Get("a"), Get("b"), Get("c")))]


def test_what_a_dead_process_had_in_flight_may_arrive() -> None:
    """Of two creates, the first was applied when the process died: the second arrives, or it does not."""
    left = set[int]()

    async def both() -> None:
        await Together((Create("a", b"1"), Create("b", b"1")))

    for seed in SEEDS:
        world = simulated(seed)
        world.start("writer", lambda _: both())
        world.run(1)
        assert len(world.objects) == 1
        world.end_all()
        left.add(len(world.objects))
    assert left == {1, 2}


def test_replies_come_in_the_order_of_the_requests() -> None:
    async def both() -> tuple[Any, ...]:
        return await Together((Create("a", b"1"), Get("a"), Create("a", b"2"), Get("b")))

    created, found, exists, absent = Interleaved(0).alone(both())
    assert (created, exists, absent) == (Outcome.CREATED, Outcome.EXISTS, None)
    assert isinstance(found, Object)


def test_one_request_alone_is_no_flight() -> None:
    asked = list[Any]()

    async def one() -> tuple[Any, ...]:
        return await together((Get("a"),))

    assert drive(one(), asked.append) == (None,)
    assert asked == [Get("a")]
