"""A simulated object store and the actors around it, from a seed.

Actors are coroutines of production code. One step delivers the reply to an actor's last request, lets it run to its
next one, and does that to the store at once, so any order of store operations can come about. What goes wrong is drawn
from the actor's own dice: taking another actor, or one fault, out of a history leaves the rest as it was as far as can
be, which is what lets a failure be made small.
"""

import random
from bisect import bisect_right, insort
from collections import Counter
from collections.abc import Callable, Coroutine
from dataclasses import dataclass, field
from typing import Any

from lithify.compactor.engine import Reserve, SplitRanges, StopAsked, VerifyOutputs
from lithify.store.errors import Unavailable
from lithify.store.port import (
    Create,
    Delete,
    Folders,
    Get,
    Head,
    List,
    NewId,
    Now,
    Object,
    ObjectInfo,
    Outcome,
    Page,
    Pause,
    Put,
    Request,
)
from tests.sim.cast import Actor, Answers, Author, Climate, Violation, Witness
from tests.sim.schedule import Scheduler

__all__ = ["World"]

START_MS = 1_700_000_000_000
STALE_MS_MAX = 1_000  # how far a client's idea of the store's clock lies behind it, at most
JUMPS_MS = (1_000, 5_000, 31_000, 61_000, 600_000, 86_400_000)
RETRIED = frozenset((Get, Head, List, Folders))  # by the store itself: their failures are rarer
RETRIED_SHARE = 0.2
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
    objects: dict[str, tuple[bytes, int]] = field(default_factory=dict)
    actors: list[Actor] = field(default_factory=list)
    counts: Counter[str] = field(default_factory=Counter)
    faults: list[tuple[str, int]] = field(default_factory=list)  # where something went wrong
    turns: list[list[Any]] = field(default_factory=list)  # [actor, steps]: who had the word
    trace: list[str] | None = None
    witness: Witness = field(init=False)
    engine: Answers = field(init=False)

    def __post_init__(self) -> None:
        self._keys: list[str] = []  # sorted
        self._late: list[tuple[int, int, str, Callable[[], None]]] = []  # (step, order, what, act)
        self._numbers = 0
        self._nodes: dict[type, Callable[[Actor, Any, str | None], Any]] = {
            Create: self._create,
            Get: self._get,
            Head: self._head,
            Put: self._put,
            Delete: self._delete,
            List: self._list,
            Folders: self._folders,
            Pause: self._pause,
        }

    # --- actors

    def start(self, name: str, live: Callable[[Actor], Coroutine[Any, Any, None]]) -> None:
        self._numbers += 1
        if name in self.without:
            return
        say, luck = random.Random(f"{self.seed}/{name}/say"), random.Random(f"{self.seed}/{name}/luck")
        slowness = SLOWNESS if luck.random() < SLOW_SHARE else 1
        self.actors.append(Actor(name, live, self._numbers, say, luck, slowness, wake_ms=self.now_ms))
        self.scheduler.joined(name)

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
            if actor.coroutine is not None:
                actor.coroutine.close()
        self.actors.clear()
        self.rested = self.steps
        self.steps += 10_000
        self._arrivals()

    def step(self, actor: Actor) -> None:
        self.steps += 1
        if self._late:
            self._arrivals()
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
        self.now_ms += int(luck.random() * self.climate.tick_ms)
        # Commits are where standing still matters most: what was created may be dead before it is looked at.
        event = self._event(actor, luck.random(), actor.slowness * (5 if type(request) is Create else 1))
        fault = None
        if event == "fault" and (type(request) not in RETRIED or luck.random() < RETRIED_SHARE):
            fault = f"{luck.random():.3f}"
        elif self._dark():
            fault = "dark"
        actor.reply = actor.error = None
        try:
            actor.reply = self._do(actor, request, fault)
        except Violation:
            raise
        except Exception as error:  # noqa: BLE001 - thrown into the actor at its next step
            actor.error = error
        if self.trace is not None:
            self._tell(actor, request)
        if event == "crash":
            self._crash(actor)
        elif event == "sleep":
            self._note(actor, "sleep")
            steps = 5 * 60 ** luck.random()  # of the others, more or less
            actor.wake_ms = max(actor.wake_ms, self.now_ms + int(steps * self.climate.tick_ms / 2))
            actor.ready = None
        elif event == "jump":
            self._note(actor, "jump")
            self.now_ms += luck.choice(JUMPS_MS)

    def _resume(self, actor: Actor) -> Request[Any] | None:
        """The actor's next request to the store or the engine; None once it has ended."""
        if actor.coroutine is None:
            actor.coroutine = actor.live(actor)
        if actor.late_reply is not None:
            actor.reply, actor.late_reply = actor.late_reply(), None
        actor.ready = None
        reply, error = actor.reply, actor.error
        while True:
            try:
                request = actor.coroutine.send(reply) if error is None else actor.coroutine.throw(error)
            except StopIteration:
                return None
            except Violation:
                raise
            except Exception as found:
                raise Violation(f"{actor.name} died of {type(found).__name__}: {found}") from found
            error = None
            kind = type(request)
            if kind is Now:
                stale_ms = int(actor.luck.random() * STALE_MS_MAX)
                reply = actor.clock_ms = max(actor.clock_ms, self.now_ms - stale_ms)
            elif kind is NewId:
                actor.ids += 1
                reply = f"{actor.number:03x}{actor.ids:05x}" * 2
            elif kind is StopAsked:
                reply = actor.luck.random() < self.climate.stop_share
            elif kind is Reserve:
                reply = actor.luck.random() >= self.climate.stop_share
            else:
                return request

    def _event(self, actor: Actor, draw: float, stalls: int) -> str | None:
        climate = self.climate
        for share, name in (
            (climate.fault_share, "fault"),
            (climate.crash_share, "crash"),
            (climate.sleep_share * stalls, "sleep"),
            (climate.jump_share, "jump"),
        ):
            if draw < share:
                return None if (actor.name, actor.requests) in self.calm else name
            draw -= share
        return None

    def _dark(self) -> bool:
        dark = self.climate.blackouts
        return bool(dark) and any(first <= self.steps < end for first, end in dark)

    def _crash(self, actor: Actor) -> None:
        self._note(actor, "crash")
        assert actor.coroutine is not None
        actor.coroutine.close()
        actor.coroutine = actor.reply = actor.error = actor.late_reply = actor.ready = None
        actor.life += 1
        actor.wake_ms = self.now_ms + int(actor.luck.random() ** 2 * 40_000)

    def _note(self, actor: Actor, what: str) -> None:
        self.counts[what] += 1
        if what != "dark":
            self.faults.append((actor.name, actor.requests))
        if self.trace is not None:
            self.trace.append(f"{self.steps:5}  {actor.name:16} !! {what}")

    def _tell(self, actor: Actor, request: Request[Any]) -> None:
        about = getattr(request, "key", None) or getattr(request, "keys", None) or getattr(request, "prefix", "")
        about = about if isinstance(about, str) else " ".join(map(str, about)) if isinstance(about, tuple) else ""
        found = f"{actor.error!r}" if actor.error is not None else _brief(actor.reply)
        assert self.trace is not None
        line = f"{self.steps:5}  {actor.name:16} {type(request).__name__.lower()} {about[-80:]} -> {found}"
        self.trace.append(f"{line}  [{self.now_ms - START_MS} ms]")

    # --- the store

    def _do(self, actor: Actor, request: Request[Any], fault: str | None) -> Any:
        node = self._nodes.get(type(request))
        if node is not None:
            return node(actor, request, fault)
        if fault is not None and type(request) in (VerifyOutputs, SplitRanges):
            self._fail(actor, fault, type(request).__name__)
        return self.engine.answer(actor, request)

    def _fail(self, actor: Actor, fault: str, what: str, happened: str = "unavailable") -> None:
        self._note(actor, "dark" if fault == "dark" else f"{what.lower()}: {happened}")
        raise Unavailable(f"{what}: the store gave no answer")

    def _arrivals(self) -> None:
        while self._late and self._late[0][0] <= self.steps:
            _, _, what, act = self._late.pop(0)
            if self.trace is not None:
                self.trace.append(f"{self.steps:5}  {'':16} arrives late: {what}")
            act()

    def _arrives_later(self, actor: Actor, what: str, act: Callable[[], None]) -> None:
        after = int(3 * 200 ** actor.luck.random())
        insort(self._late, (self.steps + after, len(self._late) + self.steps * 100, what, act), key=lambda e: e[:2])

    def store(self, key: str, body: bytes) -> None:
        if key not in self.objects:
            insort(self._keys, key)
        self.objects[key] = (body, self.now_ms)

    def _store_if_absent(self, author: Author, key: str, body: bytes) -> Outcome:
        if key in self.objects:
            return Outcome.EXISTS
        self.store(key, body)
        self.witness.created(author, key, body)
        return Outcome.CREATED

    def _create(self, actor: Actor, request: Create, fault: str | None) -> Outcome:
        key, body, author = request.key, request.body, actor.author
        if fault == "dark":
            self._note(actor, "dark")
            return Outcome.UNKNOWN
        if fault is None:
            outcome = self._store_if_absent(author, key, body)
            self.counts[f"create: {'happened' if outcome is Outcome.CREATED else 'not happened'}, reported"] += 1
            return outcome
        draw = float(fault)
        conflict = " (409)" if draw * 10 % 1 < 0.3 else ""
        if draw < 0.4:
            outcome = self._store_if_absent(author, key, body)
            happened = "happened" if outcome is Outcome.CREATED else "not happened"
            self._note(actor, f"create: {happened}, not reported{conflict}")
        elif draw < 0.65:
            self._note(actor, f"create: not happened, not reported{conflict}")
        else:
            self._note(actor, f"create: lands later{conflict}")
            self._arrives_later(actor, f"create {key[-40:]}", lambda: self._arrive(author, key, body))
        return Outcome.UNKNOWN

    def _arrive(self, author: Author, key: str, body: bytes) -> None:
        self._store_if_absent(author, key, body)

    def _get(self, actor: Actor, request: Get, fault: str | None) -> Object | None:
        if fault is not None:
            self._fail(actor, fault, "Get")
        found = self.objects.get(request.key)
        return None if found is None else Object(found[0], self._told(found[1]))

    def _head(self, actor: Actor, request: Head, fault: str | None) -> ObjectInfo | None:
        if fault is not None:
            self._fail(actor, fault, "Head")
        return self._info(request.key) if request.key in self.objects else None

    def _info(self, key: str) -> ObjectInfo:
        body, at_ms = self.objects[key]
        return ObjectInfo(key, len(body), self._told(at_ms))

    def _told(self, at_ms: int) -> int:
        return at_ms // 1_000 * 1_000 if self.climate.coarse_times else at_ms

    def _put(self, actor: Actor, request: Put, fault: str | None) -> None:
        key, body, author = request.key, request.body, actor.author
        draw = 1.0 if fault in (None, "dark") else float(fault or 0)
        if fault is None or draw < 0.3:
            self._put_now(author, key, body)
        if fault is not None:
            if 0.3 <= draw < 0.6:
                self._arrives_later(actor, f"put {key[-40:]}", lambda: self._put_now(author, key, body))
            self._fail(
                actor, fault, "Put", "happened" if draw < 0.3 else "lands later" if draw < 0.6 else "not happened"
            )

    def _put_now(self, author: Author, key: str, body: bytes) -> None:
        self.store(key, body)
        self.witness.put(author, key, body)

    def _delete(self, actor: Actor, request: Delete, fault: str | None) -> None:
        keys, author = request.keys, actor.author
        if fault is None:
            return self._delete_now(author, keys)
        draw = 1.0 if fault == "dark" else float(fault)
        if draw < 0.3:
            self._delete_now(author, keys)
        elif draw < 0.5:
            self._delete_now(author, keys[: len(keys) // 2])
        elif draw < 0.7:
            self._arrives_later(actor, f"delete {len(keys)}", lambda: self._delete_now(author, keys))
        words = ((0.3, "happened"), (0.5, "happened in part"), (0.7, "lands later"), (2.0, "not happened"))
        return self._fail(actor, fault, "Delete", next(word for limit, word in words if draw < limit))

    def _delete_now(self, author: Author, keys: tuple[str, ...]) -> None:
        for key in keys:
            if key in self.objects:
                self.witness.deleting(author, key)
                del self.objects[key]
                del self._keys[bisect_right(self._keys, key) - 1]

    def _list(self, actor: Actor, request: List, fault: str | None) -> Page:
        if fault is not None:
            self._fail(actor, fault, "List")
        first = bisect_right(self._keys, request.token or request.prefix)
        keys = self._keys[first : first + self.climate.page_keys]
        page = [key for key in keys if key.startswith(request.prefix)]
        more = len(page) == len(keys) == self.climate.page_keys
        return Page(tuple(map(self._info, page)), page[-1] if more else None)

    def _folders(self, actor: Actor, request: Folders, fault: str | None) -> tuple[str, ...]:
        if fault is not None:
            self._fail(actor, fault, "Folders")
        rests = (key[len(request.prefix) :] for key in self._keys if key.startswith(request.prefix))
        return tuple(sorted({rest.partition("/")[0] for rest in rests if "/" in rest}))

    def _pause(self, actor: Actor, request: Pause, fault: str | None) -> None:
        actor.wake_ms = self.now_ms + int(request.ms * (0.5 + actor.luck.random() / 2))


def _brief(reply: Any) -> str:
    if isinstance(reply, Object):
        return f"{len(reply.body)} bytes"
    if isinstance(reply, Page):
        return f"{len(reply.objects)} keys{' …' if reply.token else ''}"
    return str(reply)[:100]
