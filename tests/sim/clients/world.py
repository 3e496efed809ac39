"""The simulated world, with processes in it: each of their threads is an actor, and all of them crash together."""

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

from lithify.store.driver import Driver
from lithify.store.port import Request
from tests.sim.cast import Actor
from tests.sim.clients.fibres import Fibre, Wait, ask
from tests.sim.clients.remote import RangedStore, Remote
from tests.sim.world import World

__all__ = ["ClientWorld", "Process"]

LONG_MS = 365 * 86_400_000  # nobody waits for longer, but where nobody is left who would wake him


@dataclass(eq=False)
class Process:
    """What its code finds of this machine, in one of its lives."""

    world: "ClientWorld"
    actor: Actor
    driver: Driver
    threads: list[Actor] = field(default_factory=list)

    def monotonic_ms(self) -> int:
        return self.world.now_ms


@dataclass
class ClientWorld(World):
    def __post_init__(self) -> None:
        super().__post_init__()
        self.store = RangedStore(self)
        self.objects = self.store.objects
        self.engine = self
        self._process_of: dict[Actor, Process] = {}
        self._threads = 0
        self._running: Actor | None = None

    def process(self, name: str, main: Callable[[Process], None]) -> None:
        """It begins anew after each crash."""

        def live(actor: Actor) -> Any:
            driver: Any = Driver(Remote())
            driver.answer = ask
            process = Process(self, actor, driver)
            driver.monotonic_ms = process.monotonic_ms
            self._process_of[actor] = process
            return Fibre(lambda: main(process))

        self.start(name, live)

    def spawn(self, name: str, target: Callable[[], None]) -> Callable[[], bool]:
        """A thread of the process that runs; who knows its end."""
        assert self._running is not None
        process = self._process_of[self._running]
        self._threads += 1
        name = f"{process.actor.name} thread {self._threads}"
        self.start(name, lambda _: Fibre(target))  # type: ignore[arg-type]
        thread = next(actor for actor in self.actors if actor.name == name)
        thread.process = process.actor
        process.threads.append(thread)
        self._process_of[thread] = process
        return lambda: thread not in self.actors

    def _resume(self, actor: Actor) -> Request[Any] | None:
        self._running = actor
        actor.wake_ms = min(actor.wake_ms, self.now_ms)  # whoever is woken before its time is awake
        return super()._resume(actor)

    def _crash(self, actor: Actor) -> None:
        process = self._process_of[actor]
        for thread in process.threads:
            if thread in self.actors:
                self._leave_in_flight(thread)
                thread.close()
                self.actors.remove(thread)
        super()._crash(process.actor)

    def _befalls(self, actor: Actor, request: Request[Any], event: str) -> None:
        if event == "crash" or not isinstance(request, Wait):
            super()._befalls(actor, request, event)

    def answer(self, actor: Actor, request: Request[Any]) -> Any:
        assert isinstance(request, Wait), request
        actor.ready = request.ready
        actor.wake_ms = self.now_ms + (LONG_MS if request.ms is None else request.ms)
