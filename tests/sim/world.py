"""A simulated object store and the actors around it, from a seed.

Actors are coroutines of production code. One step delivers the reply to an actor's last request, lets it run to its
next one, and does that to the store at once, so any order of store operations can come about. What goes wrong is drawn
from the actor's own dice: taking another actor, or one fault, out of a history leaves the rest as it was as far as can
be, which is what lets a failure be made small.
"""

import random
from collections import Counter
from collections.abc import Callable, Coroutine
from dataclasses import dataclass, field
from typing import Any

from lithify.compactor.engine import Reserve, StopAsked, VerifyOutputs, WeighSegment
from lithify.manifest.homes import where
from lithify.store.errors import Corrupt
from lithify.store.port import (
    Create,
    Folders,
    Get,
    Head,
    List,
    NewId,
    Now,
    Object,
    OwnHome,
    Page,
    Pause,
    Request,
)
from lithify.store.reply_clock import REPLIES_KEPT, ReplyClock
from tests.sim.cast import WORKER, Actor, Answers, Author, Climate, Violation, Witness
from tests.sim.faulty import FaultyStore
from tests.sim.places import GetFrom, place
from tests.sim.schedule import Scheduler

__all__ = ["World"]

START_MS = 1_700_000_000_000
STALE_MS_MAX = 1_000  # how far a client's idea of the store's clock lies behind it, at most
JUMPS_MS = (1_000, 5_000, 31_000, 61_000, 600_000, 86_400_000)
RETRIED = frozenset((Get, GetFrom, Head, List, Folders, OwnHome))  # by the store itself: their failures are rarer
RETRIED_SHARE = 0.2
SEGMENTS = "/segments/"
STALLS_MS_MAX = 60_000
OUTLIERS_APART = REPLIES_KEPT  # replies of one actor
LAPTOP_SHARE = 0.1  # of sleeps in which the monotonic clock stands still
STANDS_STILL = 4  # times as often after a create: what it made may be dead before it looks
ARRIVES_SHARE = 0.5  # of what a process had in flight when it died
SLOWNESS = 6  # how much more often a slow actor stands still
SLOW_SHARE = 0.2


@dataclass
class World:
    seed: str
    climate: Climate
    scheduler: Scheduler
    calm: frozenset[tuple[str, int]] = frozenset()  # (actor, its n-th request): there nothing goes wrong
    without: frozenset[str] = frozenset()  # actors that take no part
    now_ms: int = START_MS
    steps: int = 0
    rested: int = 0  # the step at which everybody was gone
    actors: list[Actor] = field(default_factory=list)
    counts: Counter[str] = field(default_factory=Counter)
    faults: list[tuple[str, int]] = field(default_factory=list)  # where something went wrong
    turns: list[list[Any]] = field(default_factory=list)  # [actor, steps]: who had the word
    trace: list[str] | None = None
    when_recorded: Callable[[], None] | None = None  # a `.compactor` file has recorded outputs
    told_to_stop: set[Author] = field(default_factory=set)  # in the step that they are in
    told_over_a_look: set[Author] = field(default_factory=set)  # of these, those who looked at a segment then
    merging: set[Author] = field(default_factory=set)  # whose tasks have begun in it, and nothing was looked at since
    failed_attempts_max: int = 1_000  # of a job: RFC 0003
    witness: Witness = field(init=False)
    engine: Answers = field(init=False)
    store: FaultyStore = field(init=False)
    objects: dict[str, tuple[bytes, int]] = field(init=False)  # the store's

    def __post_init__(self) -> None:
        self._stalled: dict[tuple[bool, bool], Actor] = {}  # by what they learned
        self._numbers = 0
        self.store = FaultyStore(self)
        self.objects = self.store.objects

    # --- actors

    def start(self, name: str, live: Callable[[Actor], Coroutine[Any, Any, None]]) -> None:
        self._numbers += 1
        if name in self.without:
            return
        say, luck = random.Random(f"{self.seed}/{name}/say"), random.Random(f"{self.seed}/{name}/luck")
        slowness = SLOWNESS if luck.random() < SLOW_SHARE else 1
        self.counts[f"actor {'worker' if WORKER in name else name.rstrip('0123456789 ')}"] += 1
        actor = Actor(name, live, self._numbers, say, luck, slowness, wake_ms=self.now_ms)
        actor.skew_ms = self._skew(actor)
        self.actors.append(actor)
        self.scheduler.joined(name)

    def _skew(self, actor: Actor) -> int:
        most = self.climate.skew_ms
        return int((2 * actor.luck.random() - 1) * most) if most else 0

    def run(self, steps_max: int) -> None:
        """Until all actors have ended, or for so many steps."""
        end = self.steps + steps_max
        while self.steps < end and self.actors:
            now_ms = self.now_ms
            awake = [a for a in self.actors if a.wake_ms <= now_ms or (a.ready is not None and a.ready())]
            if not awake and not self.scheduler.scripted:
                self.now_ms = min(a.wake_ms for a in self.actors)
                continue
            actor = self.scheduler.choose(self.actors if self.scheduler.scripted else awake, self.steps)
            if actor is None:
                return
            if actor.ready is None or not actor.ready():
                self.now_ms = max(self.now_ms, actor.wake_ms)
            self.step(actor)

    def end_all(self) -> None:
        """Everybody dies at once, and what is on its way arrives."""
        for actor in self.actors:
            self._leave_in_flight(actor)
            actor.close()
        self.actors.clear()
        self.rested = self.rested or self.steps
        self.steps += 10_000
        self.store.arrivals()

    def step(self, actor: Actor) -> None:
        self.steps += 1
        if self._stalled and actor in self._stalled.values():
            self._stalled = {what: other for what, other in self._stalled.items() if other is not actor}
        self.store.arrivals()
        if self.turns and self.turns[-1][0] == actor.name:
            self.turns[-1][1] += 1
        else:
            self.turns.append([actor.name, 1])
        request = self._resume(actor)
        if request is None:
            self.actors.remove(actor)
            return
        actor.requests += 1
        luck = actor.luck
        if not self.climate.own_clocks:
            self._dated(actor)
        self.now_ms += int(luck.random() * self.climate.tick_ms)
        event = self._event(actor, luck.random(), creates=type(request) is Create)
        fault = None
        if event == "fault" and (type(request) not in RETRIED or luck.random() < RETRIED_SHARE):
            fault = f"{luck.random():.3f}"
        elif self._dark(request):
            fault = "dark"
        reply = failure = None
        try:
            reply = self._do(actor, request, fault)
        except Violation:
            raise
        except Exception as error:  # noqa: BLE001 - thrown into the actor at its next step
            failure = error
        if self.trace is not None:
            self._tell(actor, request, reply, failure)
        actor.applied(reply, failure)
        if event is not None:
            self._befalls(actor, request, event)

    def _befalls(self, actor: Actor, request: Request[Any], event: str) -> None:
        luck = actor.luck
        if event == "crash":
            self._crash(actor)
        elif event == "sleep":
            self.note(actor, "sleep")
            steps = 5 * 60 ** luck.random()  # of the others, more or less
            actor.wake_ms = max(actor.wake_ms, self.now_ms + int(steps * self.climate.tick_ms / 2))
            actor.ready = None
            if luck.random() < LAPTOP_SHARE:
                actor.slept_ms += actor.wake_ms - self.now_ms
        elif event == "stall":
            self._stall(actor, request)
        elif event == "jump" and self.climate.skew_ms and luck.random() < 0.5:
            self.note(actor, "jump of one clock")
            actor.skew_ms = self._skew(actor)
        elif event == "jump":
            self.note(actor, "jump")
            self.now_ms += luck.choice(JUMPS_MS)

    def _resume(self, actor: Actor) -> Request[Any] | None:
        """The actor's next request to the store or the engine; None once it has ended."""
        if actor.coroutine is None:
            actor.coroutine = actor.live(actor)
        if actor.late_reply is not None:
            actor.reply, actor.late_reply = actor.late_reply(), None
        actor.ready, actor.wake_ms = None, min(actor.wake_ms, self.now_ms)  # who was woken early is awake
        if actor.flight is not None:
            return actor.to_apply(None, actor.luck.random)
        while True:
            try:
                request = actor.go_on()
            except StopIteration:
                return None
            except Violation:
                raise
            except Exception as found:
                raise Violation(f"{actor.name} died of {type(found).__name__}: {found}") from found
            kind = type(request)
            if kind is Now:
                actor.reply = self._clock(actor)
            elif kind is NewId:
                actor.ids += 1
                actor.reply = f"{actor.number:03x}{actor.ids:05x}" * 2
            elif kind is StopAsked:
                actor.reply = self._is_told_to_stop(actor)
            elif kind is Reserve:
                actor.reply = actor.luck.random() >= self.climate.stop_share
            else:
                return actor.to_apply(request, actor.luck.random)

    def _is_told_to_stop(self, actor: Actor) -> bool:
        """While its tasks run it may be told so at any time; else, over a look (tests/sim/wishes.py)."""
        if actor.author in self.merging and actor.luck.random() < self.climate.stop_share:
            self.told_to_stop.add(actor.author)
        return actor.author in self.told_to_stop

    def _clock(self, actor: Actor) -> int:
        """A process's own clock, or what the Dates of its replies come to: each reading errs in its own way."""
        if self.climate.own_clocks:
            return self.now_ms + actor.skew_ms - int(actor.luck.random() * STALE_MS_MAX)
        clock = actor.clock or self._dated(actor)
        while not clock.sure:  # as the store does it: it asks only then, and once more
            self._dated(actor)
        told_ms = clock.now()
        assert told_ms is not None
        return told_ms

    def _dated(self, actor: Actor) -> ReplyClock:
        """A reply arrives, dated by one of the store's servers."""
        if actor.clock is None:
            actor.clock = ReplyClock(lambda: self.now_ms - actor.slept_ms, lambda: self.now_ms)
            actor.outlier_at = -OUTLIERS_APART
        luck, actor.dated = actor.luck, actor.dated + 1
        off_ms = self.climate.skew_ms * (1 if luck.random() < 0.5 else -1)
        if actor.dated - actor.outlier_at >= OUTLIERS_APART and luck.random() < self.climate.outlier_share:
            actor.outlier_at = actor.dated
            off_ms = luck.choice((-1, 1)) * luck.choice((30_000, 3_600_000, 10**10))
            self.note(actor, "date far off")
        actor.clock.saw((self.now_ms + off_ms) // 1_000 * 1_000)
        return actor.clock

    def _event(self, actor: Actor, draw: float, *, creates: bool) -> str | None:
        climate, often = self.climate, STANDS_STILL if creates else 1
        lasting = climate.sleep_share * actor.slowness + climate.stall_share
        if draw >= climate.fault_share + climate.crash_share + climate.jump_share + often * lasting:
            return None  # nearly always
        for share, name in (
            (climate.fault_share, "fault"),
            (climate.crash_share, "crash"),
            (climate.sleep_share * often * actor.slowness, "sleep"),
            (climate.stall_share * often, "stall"),
            (climate.jump_share, "jump"),
        ):
            if draw < share:
                return None if (actor.name, actor.requests) in self.calm else name
            draw -= share
        return None

    def _dark(self, request: Request[Any]) -> bool:
        """A store throttles by prefix: while it answers nobody about segments, commits may go on."""
        blackouts, throttled = self.climate.blackouts, self.climate.throttled
        if blackouts and _within(blackouts, self.steps):
            return True
        if not throttled or not _within(throttled, self.steps):
            return False
        return type(request) in (VerifyOutputs, WeighSegment) or SEGMENTS in getattr(request, "key", "")

    def denied(self, actor: Actor, *, writes: bool) -> bool:
        denials = self.climate.denials
        return bool(denials) and any(each.concerns(self.steps, actor.name, writes=writes) for each in denials)

    def full(self) -> bool:
        return _within(self.climate.full_spells, self.steps)

    def _stall(self, actor: Actor, request: Request[Any]) -> None:
        """The actor goes on soon after what it has learned is no longer so, or after a while. One that has created
        something, one that has found something and one that has not: it is the others who make it so."""
        key, creates = getattr(request, "key", None), type(request) is Create
        there, since = key in self.objects, 0
        if not isinstance(key, str) or (creates, there) in self._stalled:
            return
        self._stalled[creates, there] = actor
        self.note(actor, "stall")
        after = int(300 ** actor.luck.random())
        dead = self.witness.death_of(key) if creates or actor.luck.random() < 0.5 else lambda: False

        def overtaken() -> bool:
            nonlocal since
            if not since and ((key in self.objects) != there or dead()):
                since = self.steps
            return since > 0 and self.steps >= since + after

        actor.wake_ms = self.now_ms + (STALLS_MS_MAX if creates else STALLS_MS_MAX // 10)
        actor.ready = overtaken

    def _crash(self, actor: Actor) -> None:
        self.note(actor, "crash")
        assert actor.coroutine is not None
        self._leave_in_flight(actor)
        actor.close()
        actor.coroutine = actor.reply = actor.error = actor.late_reply = actor.ready = None
        actor.life += 1
        actor.clock = None
        actor.wake_ms = self.now_ms + int(actor.luck.random() ** 2 * 40_000)

    def _leave_in_flight(self, actor: Actor) -> None:
        """Of the writes that its process had begun when it died, some arrive."""
        for request in actor.flight.left if actor.flight is not None else ():
            if self.store.writes(request) and actor.luck.random() < ARRIVES_SHARE:
                self.store.arrives_after_all(actor, request)

    def held(self, *rules: str) -> None:
        """What these rules demand was looked at, and was so."""
        for rule in rules:
            self.counts[f"rule {rule}"] += 1

    def note(self, actor: Actor, what: str) -> None:
        self.counts[f"fault {what}"] += 1
        if what != "dark":
            self.faults.append((actor.name, actor.requests))
        if self.trace is not None:
            self.trace.append(f"{self.steps:5}  {actor.name:16} !! {what}")

    def _tell(self, actor: Actor, request: Request[Any], reply: Any, failure: Exception | None) -> None:
        about = getattr(request, "key", None) or getattr(request, "keys", None) or getattr(request, "prefix", "")
        about = about if isinstance(about, str) else " ".join(map(str, about)) if isinstance(about, tuple) else ""
        found = _brief(reply) if failure is None else f"{failure!r}"
        assert self.trace is not None
        line = f"{self.steps:5}  {actor.name:16} {type(request).__name__.lower()} {about[-80:]} -> {found}"
        self.trace.append(f"{line}  [{self.now_ms - START_MS} ms]")

    def _do(self, actor: Actor, request: Request[Any], fault: str | None) -> Any:
        if self.store.knows(request):
            return self.store.answer(actor, request, fault)
        if isinstance(request, Pause):
            actor.wake_ms = self.now_ms + int(request.ms * (0.5 + actor.luck.random() / 2))
            return None
        if isinstance(request, VerifyOutputs | WeighSegment):
            self.store.let_in(actor, type(request).__name__)
            looked_at = request.segments if isinstance(request, VerifyOutputs) else (request.segment,)
            for home in dict.fromkeys(map(place, looked_at)):
                if home:
                    self.store.of_another_place(actor, home)
        if isinstance(request, WeighSegment) and fault not in (None, "dark") and float(fault or 0) < 0.5:
            self.note(actor, "weighsegment: damaged on its way")
            self.engine.answer(actor, request)
            raise Corrupt(f"{where(request.keys, request.segment).key} is read damaged")
        if fault is not None and type(request) in (VerifyOutputs, WeighSegment):
            self.store.fail(actor, fault, type(request).__name__)
        return self.engine.answer(actor, request)


def _within(spells: tuple[tuple[int, int], ...], step: int) -> bool:
    return any(first <= step < end for first, end in spells)


def _brief(reply: Any) -> str:
    if isinstance(reply, Object):
        return f"{len(reply.body)} bytes"
    if isinstance(reply, Page):
        return f"{len(reply.objects)} keys{' …' if reply.token else ''}"
    return str(reply)[:100]
