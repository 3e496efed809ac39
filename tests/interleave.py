"""Protocol coroutines interleaved over one simulated store, from a seed: each request is one step, and any of them may
lose its reply, fail, land late, or be the last thing its actor does."""

import random
from collections.abc import Callable, Coroutine, Mapping
from dataclasses import dataclass, field
from functools import partial
from typing import Any

from lithify.store.errors import AccessDenied, Unavailable
from lithify.store.port import (
    HERE,
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
    Outcome,
    OwnHome,
    Page,
    Pause,
    Put,
    Request,
    Together,
)
from lithify.store.side_by_side import one_after_the_other
from tests.steps import Stepped, folders, listed

PAGE_KEYS = 7
DENIED_AFTER_DOUBLED = 0.3  # of reads that would tell whose it is
REFUSED_AGAIN = 0.3  # of creates that are sent twice: the second is refused


@dataclass(eq=False)
class Actor(Stepped):
    name: str
    result: Any = None
    failed: Exception | None = None
    running: bool = True
    asleep: int = 0  # steps of the world it sits out


@dataclass
class World:
    """`answers` takes requests that are none of the store's (an engine's), and returns their reply."""

    seed: int
    fault_share: float = 0.0
    sleep_share: float = 0.0  # how often an actor is put to sleep, to wake up in a world that went on
    answers: Callable[[Request[Any]], Any] | None = None
    objects: dict[str, tuple[bytes, int]] = field(default_factory=dict)
    # Of other homes, by home and key.
    elsewhere: dict[str, dict[str, tuple[bytes, int]]] = field(default_factory=dict)
    locked: set[str] = field(default_factory=set)  # keys of objects that cannot be deleted
    actors: list[Actor] = field(default_factory=list)
    now_ms: int = 1_000_000
    page_keys: int = PAGE_KEYS
    near: bool = False  # it answers at once, and lists nothing that is only a hint
    counts: dict[str, int] = field(default_factory=dict)
    _late: list[tuple[str, bytes]] = field(default_factory=list)
    _doubled: set[str] = field(default_factory=set)  # keys whose create was sent twice, of which nobody has read since
    _ids: int = 0

    def __post_init__(self) -> None:
        self.random = random.Random(self.seed)

    def start(self, name: str, coroutine: Coroutine[Any, Any, Any]) -> Actor:
        actor = Actor(name, coroutine=coroutine)
        self.actors.append(actor)
        return actor

    def run(self, steps_max: int = 200_000) -> None:
        for _ in range(steps_max):
            live = [actor for actor in self.actors if actor.running]
            if not live:
                return
            awake = [actor for actor in live if not actor.asleep] or live
            for actor in live:
                actor.asleep = max(0, actor.asleep - 1)
            actor = self.random.choice(awake)
            if self.random.random() < self.sleep_share:
                actor.asleep = self.random.randrange(100, 1_500)
            self.step(actor)
        raise AssertionError(f"seed {self.seed}: actors did not end: {[a.name for a in self.actors if a.running]}")

    def alone(self, coroutine: Coroutine[Any, Any, Any]) -> Any:
        """Run one coroutine to its end without faults or rivals."""
        share, self.fault_share = self.fault_share, 0.0
        actor = Actor("alone", coroutine=coroutine)
        while actor.running:
            self.step(actor)
        self.fault_share = share
        if actor.failed is not None:
            raise actor.failed
        return actor.result

    def step(self, actor: Actor) -> None:
        if self._late and self.random.random() < 0.05:
            key, body = self._late.pop(self.random.randrange(len(self._late)))
            self._store_if_absent(key, body)
        try:
            request = None if actor.flight is not None else actor.go_on()
        except StopIteration as stop:
            actor.result, actor.running = stop.value, False
            return
        except Exception as error:  # noqa: BLE001 - kept, for the test to judge
            actor.failed, actor.running = error, False
            return
        request = actor.to_apply(request, self.random.random)
        try:
            actor.applied(self._answer(request), None)
        except Exception as error:  # noqa: BLE001 - thrown into the actor at its next step
            actor.applied(None, error)

    def crash(self, actor: Actor) -> None:
        actor.running = False
        actor.close()

    def _count(self, what: str) -> None:
        self.counts[what] = self.counts.get(what, 0) + 1

    def _store_if_absent(self, key: str, body: bytes) -> Outcome:
        if key in self.objects:
            return Outcome.EXISTS
        self.objects[key] = (body, self.now_ms)
        return Outcome.CREATED

    def _create(self, key: str, body: bytes) -> Outcome:
        fault = self.random.random()
        if fault >= self.fault_share:
            return self._store_if_absent(key, body)
        kind = self.random.choice(["lost reply", "never arrived", "arrives late", "sent twice"])
        self._count(kind)
        if kind == "sent twice":  # by a proxy, say, that lost the first reply: this is the answer to the second
            self._store_if_absent(key, body)
            self._doubled.add(key)
            if self.random.random() < REFUSED_AGAIN:
                self._count("refused again")
                raise AccessDenied("the second Create was refused")
            return Outcome.EXISTS
        if kind == "lost reply":
            self._store_if_absent(key, body)
        elif kind == "arrives late":
            self._late.append((key, body))
        return Outcome.UNKNOWN

    def _of(self, home: str) -> dict[str, tuple[bytes, int]]:
        return self.objects if home == HERE else self.elsewhere.setdefault(home, {})

    def _page(self, objects: Mapping[str, tuple[bytes, int]], prefix: str, token: str | None) -> Page:
        keys, more = listed(sorted(objects), prefix, token, self.page_keys)
        return Page(tuple(ObjectInfo(k, len(objects[k][0]), objects[k][1]) for k in keys), more)

    def _answer(self, request: Request[Any]) -> Any:  # noqa: C901 - one flat table
        if isinstance(request, Together):  # by hand: one after the other
            return tuple(one_after_the_other([partial(self._answer, each) for each in request.requests]))
        self.now_ms += self.random.randrange(50)
        idempotent = isinstance(request, Get | Head | Put | List | Delete | Folders)
        if idempotent and self.random.random() < self.fault_share / 10:
            self._count("unavailable")
            raise Unavailable(f"{type(request).__name__} failed")
        if isinstance(request, Get) and request.key in self._doubled:
            self._doubled.remove(request.key)
            if self.random.random() < DENIED_AFTER_DOUBLED:
                self._count("denied")
                raise AccessDenied("Get was refused this once")
        match request:
            case Create(key, body):
                return self._create(key, body)
            case Get(key):
                found = self.objects.get(key)
                return None if found is None else Object(*found, str(hash(found[0])))
            case Put(key, body):
                self.objects[key] = (body, self.now_ms)
            case Head(key):
                found = self.objects.get(key)
                return None if found is None else ObjectInfo(key, len(found[0]), found[1], str(hash(found[0])))
            case Glimpse() if self.near:
                return UNKNOWN_PAGE
            case Glimpse(prefix):
                return self._page(self.objects, prefix, None)
            case List(prefix, token, home):
                return self._page(self._of(home), prefix, token)
            case Folders(prefix):
                return folders(sorted(self.objects), prefix)
            case OwnHome():
                return None
            case Delete(keys, home):
                for key in keys:
                    if key not in self.locked:
                        self._of(home).pop(key, None)
                return dict.fromkeys(self.locked & set(keys), "it is locked")
            case Now():
                return self.now_ms
            case NewId():
                self._ids += 1
                return f"{self._ids:08x}{self._ids:08x}"
            case Pause(ms):
                self.now_ms += ms
            case _:
                assert self.answers is not None, type(request).__name__
                return self.answers(request)
        return None
