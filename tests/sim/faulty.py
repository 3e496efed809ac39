"""The simulated object store: create-if-absent, whole objects, paged listings, and all that goes wrong between it and
those who use it. What goes wrong is drawn by `World`; here it happens."""

from bisect import bisect_right, insort
from collections.abc import Callable
from contextlib import suppress
from typing import TYPE_CHECKING, Any, NoReturn

from lithify.manifest.homes import HERE
from lithify.store.errors import AccessDenied, InvalidRequest, Unavailable
from lithify.store.port import (
    UNKNOWN_PAGE,
    Create,
    Delete,
    Folders,
    Get,
    Glimpse,
    Head,
    List,
    Object,
    ObjectInfo,
    Outcome,
    OwnHome,
    Page,
    Put,
    Request,
)
from tests.sim.cast import WORKER, Actor, Author, Violation
from tests.sim.places import CLASS, GetFrom, PutTo, place
from tests.steps import folders, listed

if TYPE_CHECKING:
    from tests.sim.world import World

__all__ = ["FaultyStore"]


WRITES = frozenset((Create, Put, PutTo, Delete))
LANDS_LATER: dict[type, str] = {Create: "0.9", Put: "0.5", PutTo: "0.5", Delete: "0.6"}
SENT_TWICE, DENIED_THEN = "0123", "01"  # the last digit of a create's fault
REFUSED_AGAIN = "012"  # the digit before it
REFUSED_IN_PART = 0.85  # of faults of a deletion, those from here on: some of the objects are locked


class FaultyStore:
    """Requests by `answer`; a fault is "dark" (nobody is answered) or a number in [0, 1), which says what fails."""

    def __init__(self, world: "World") -> None:
        self.objects: dict[str, tuple[bytes, int]] = {}  # key -> body, when it was stored
        self.places: dict[str, str] = {}  # key -> where it is, if not in the warehouse
        self.owned: set[tuple[str, str]] = set()  # (place, topic's folder)
        self.of_others: set[str] = set()  # places that are another warehouse's
        self._world = world
        self._keys: dict[str, list[str]] = {HERE: []}  # sorted, by place
        self._doubled: set[tuple[str, str]] = set()  # (actor, key): who may not read that the next time
        self._late: list[tuple[int, int, str, Callable[[], None]]] = []  # (step, order, what, act)
        self._shown: dict[str, list[Page]] = {}  # the first page of a chain, as it was at various times
        self._nodes: dict[type, Callable[[Actor, Any, str | None], Any]] = {
            Create: self._create,
            Get: self._get,
            Head: self._head,
            GetFrom: self._get,
            Put: self._put,
            PutTo: self._put,
            OwnHome: self._own,
            Delete: self._delete,
            List: self._list,
            Folders: self._folders,
        }

    def knows(self, request: Request[Any]) -> bool:
        return type(request) in self._nodes or isinstance(request, Glimpse)

    def answer(self, actor: Actor, request: Request[Any], fault: str | None) -> Any:
        if isinstance(request, Glimpse):
            return self._glimpse(actor, request, fault)
        self.let_in(actor, type(request).__name__, writes=type(request) in WRITES)
        home = place(getattr(request, "home", HERE))
        if home:
            self.of_another_place(actor, home)
        return self._nodes[type(request)](actor, request, fault)

    def writes(self, request: Request[Any]) -> bool:
        return type(request) in WRITES

    def arrives_after_all(self, actor: Actor, request: Request[Any]) -> None:
        """A write that its process had begun when it died."""
        with suppress(AccessDenied, Unavailable):
            self.answer(actor, request, LANDS_LATER[type(request)])

    def let_in(self, actor: Actor, what: str, *, writes: bool = False) -> None:
        """Raises AccessDenied, and nothing happens."""
        if self._world.climate.denials and self._world.denied(actor, writes=writes):
            self._world.counts["fault access denied"] += 1
            if self._world.trace is not None:
                self._world.trace.append(f"{self._world.steps:5}  {actor.name:16} !! {what}: access denied")
            self._world.witness.access_denied(actor.author)
            raise AccessDenied(f"{what}: the store refuses who asks")

    def of_another_place(self, actor: Actor, home: str) -> None:
        """Raises AccessDenied, Unavailable."""
        self._world.counts["asked another place"] += 1
        actor.wake_ms = self._world.now_ms + int(actor.luck.random() * self._world.climate.far_ms)
        for spell in self._world.climate.homes:
            if spell.home == home and spell.first <= self._world.steps < spell.end:
                self._world.counts[f"fault another place {'refuses' if spell.refuses else 'is away'}"] += 1
                if self._world.trace is not None:
                    self._world.trace.append(f"{self._world.steps:5}  {actor.name:16} !! {home} is away")
                if spell.refuses:
                    self._world.witness.access_denied(actor.author)
                    raise AccessDenied(f"{home} refuses who asks")
                raise Unavailable(f"{home} gave no answer")

    def _own(self, actor: Actor, request: OwnHome, fault: str | None) -> None:
        if place(request.home) == HERE:
            return
        if fault is not None:
            self.fail(actor, fault, "OwnHome")
        if request.home in self.of_others:
            self._world.counts["another warehouse's home"] += 1
            raise InvalidRequest(f"{request.home} is another warehouse's")
        self.owned.add((request.home, request.key.rpartition("/")[0]))

    def _must_own(self, actor: Actor, home: str, key: str) -> None:
        if home and not any(home == mine and key.startswith(folder) for mine, folder in self.owned):
            raise Violation(f"{actor.name} writes to {home}, and did not ask whose it is: {key} (RFC 0031)")

    def there(self, home: str, key: str) -> bool:
        return key in self.objects and self.places.get(key, HERE) == home

    def fail(self, actor: Actor, fault: str, what: str, happened: str = "unavailable") -> NoReturn:
        self._world.note(actor, "dark" if fault == "dark" else f"{what.lower()}: {happened}")
        raise Unavailable(f"{what}: the store gave no answer")

    def arrivals(self) -> None:
        while self._late and self._late[0][0] <= self._world.steps:
            _, _, what, act = self._late.pop(0)
            if self._world.trace is not None:
                self._world.trace.append(f"{self._world.steps:5}  {'':16} arrives late: {what}")
            act()

    def _arrives_later(self, actor: Actor, what: str, act: Callable[[], None]) -> None:
        after = int(3 * 200 ** actor.luck.random())
        step = self._world.steps
        insort(self._late, (step + after, len(self._late) + step * 100, what, act), key=lambda late: late[:2])

    def store(self, key: str, body: bytes, home: str = HERE) -> None:
        if key not in self.objects:
            insort(self._keys.setdefault(home, []), key)
            if home:
                self.places[key] = home
        elif self.places.get(key, HERE) != home:
            raise Violation(f"{key} is written to {home or 'the warehouse'}, and is elsewhere already (P21)")
        self.objects[key] = (body, self._world.now_ms)

    def lose(self, key: str) -> None:
        """It is gone, whoever asked for that."""
        del self.objects[key]
        keys = self._keys[self.places.pop(key, HERE)]
        del keys[bisect_right(keys, key) - 1]

    def _store_if_absent(self, author: Author, key: str, body: bytes) -> Outcome:
        if key in self.objects:
            return Outcome.EXISTS
        self.store(key, body)
        self._world.witness.created(author, key, body)
        return Outcome.CREATED

    def _create(self, actor: Actor, request: Create, fault: str | None) -> Outcome:
        key, body, author = request.key, request.body, actor.author
        if fault == "dark":
            self._world.note(actor, "dark")
            return Outcome.UNKNOWN
        if not request.frees:
            self._ask_for_room(actor, f"create {key}")
        if fault is None:
            outcome = self._store_if_absent(author, key, body)
            self._world.counts[f"create: {'happened' if outcome is Outcome.CREATED else 'not happened'}, reported"] += 1
            return outcome
        draw = float(fault)
        conflict = " (409)" if draw * 10 % 1 < 0.3 else ""
        if draw < 0.4 and fault[-1] in SENT_TWICE:
            refused = fault[-2] in REFUSED_AGAIN
            return self._create_twice(actor, key, body, refused=refused, denied=fault[-1] in DENIED_THEN)
        if draw < 0.4:
            outcome = self._store_if_absent(author, key, body)
            happened = "happened" if outcome is Outcome.CREATED else "not happened"
            self._world.note(actor, f"create: {happened}, not reported{conflict}")
        elif draw < 0.65:
            self._world.note(actor, f"create: not happened, not reported{conflict}")
        else:
            self._world.note(actor, f"create: lands later{conflict}")
            self._arrives_later(actor, f"create {key[-40:]}", self._landing(author, key, body))
        return Outcome.UNKNOWN

    def _create_twice(self, actor: Actor, key: str, body: bytes, *, refused: bool, denied: bool) -> Outcome:
        """Something on the way, to which the first reply was lost, sends it again: the answer is that to the second."""
        outcome = self._store_if_absent(actor.author, key, body)
        happened = "happened" if outcome is Outcome.CREATED else "not happened"
        self._world.note(
            actor, f"create: {happened}, sent twice{', and refused' * refused}{', and access denied' * denied}"
        )
        if denied:
            self._doubled.add((actor.name, key))
        if refused and outcome is Outcome.CREATED:
            self._world.witness.access_denied(actor.author)
            raise AccessDenied("Create: the store refuses the second request")
        return Outcome.EXISTS

    def _ask_for_room(self, actor: Actor, what: str) -> None:
        """Certainly not stored, where the store is full. Collection must never have to ask: all it writes leads to
        deletions, but for the mark of a topic that is over, which only saves requests."""
        if not self._world.full():
            return
        if actor.name.startswith("collector") and "@ended/" not in what:
            raise Violation(f"{actor.name} wants room of a full store")
        self._world.counts["fault full"] += 1
        if self._world.trace is not None:
            self._world.trace.append(f"{self._world.steps:5}  {actor.name:16} !! {what}: the store is full")
        raise Unavailable(f"{what}: the store is full")

    def _landing(self, author: Author, key: str, body: bytes) -> Callable[[], None]:
        """It is judged by the step that asked for it: its author may have begun another one when it lands."""
        asked = self._world.witness.as_of_now(author)

        def land() -> None:
            with asked():
                self._store_if_absent(author, key, body)

        return land

    def _get(self, actor: Actor, request: Get | GetFrom, fault: str | None) -> Object | None:
        home = request.home if isinstance(request, GetFrom) else HERE
        found = self.objects[request.key] if self.there(home, request.key) else None
        if (actor.name, request.key) in self._doubled:
            self._doubled.remove((actor.name, request.key))
            self._world.witness.access_denied(actor.author)
            raise AccessDenied("Get: the store refuses who asks, this once")
        if fault is not None and found is not None and WORKER in actor.name and fault != "dark" and float(fault) < 0.5:
            self._world.note(actor, "get: damaged on its way")
            return Object(found[0][:-1], self._told(found[1]), str(hash(found[0])))
        if fault is not None:
            self.fail(actor, fault, "Get")
        return None if found is None else Object(found[0], self._told(found[1]), str(hash(found[0])))

    def _head(self, actor: Actor, request: Head, fault: str | None) -> ObjectInfo | None:
        if fault is not None:
            self.fail(actor, fault, "Head")
        return self._info(request.key) if self.there(HERE, request.key) else None

    def _info(self, key: str) -> ObjectInfo:
        body, at_ms = self.objects[key]
        return ObjectInfo(key, len(body), self._told(at_ms), str(hash(body)))

    def _told(self, at_ms: int) -> int | None:
        if self._world.climate.own_clocks:
            return None
        return at_ms // 1_000 * 1_000 if self._world.climate.coarse_times else at_ms

    def _put(self, actor: Actor, request: Put | PutTo, fault: str | None) -> None:
        key, body, author = request.key, request.body, actor.author
        home = request.home if isinstance(request, PutTo) else HERE
        self._must_own(actor, home, key)
        draw = 1.0 if fault in (None, "dark") else float(fault or 0)
        if fault != "dark" and not home:
            self._ask_for_room(actor, f"put {key}")
        if fault is None or draw < 0.3:
            self._put_now(author, key, body, home)
        if fault is not None:
            if 0.3 <= draw < 0.6:
                self._arrives_later(actor, f"put {key[-40:]}", lambda: self._put_now(author, key, body, home))
            self.fail(
                actor, fault, "Put", "happened" if draw < 0.3 else "lands later" if draw < 0.6 else "not happened"
            )

    def _put_now(self, author: Author, key: str, body: bytes, home: str) -> None:
        self.store(key, body, home)
        self._world.witness.put(author, key, body, home)

    def _delete(self, actor: Actor, request: Delete, fault: str | None) -> dict[str, str]:
        keys, author, home = request.keys, actor.author, place(request.home)
        for key in keys:
            self._must_own(actor, home, key)
        if fault is None and self._locked(actor):
            self._world.note(actor, "delete: refused")
            return dict.fromkeys(keys, "it is locked")
        if fault is None:
            self._delete_now(author, keys, home)
            return {}
        draw = 1.0 if fault == "dark" else float(fault)
        if draw >= REFUSED_IN_PART and fault != "dark":
            refused = keys[: max(len(keys) // 2, 1)]
            self._delete_now(author, keys[len(refused) :], home)
            self._world.note(actor, "delete: refused in part")
            return dict.fromkeys(refused, "it is locked")
        if draw < 0.3:
            self._delete_now(author, keys, home)
        elif draw < 0.5:
            self._delete_now(author, keys[: len(keys) // 2], home)
        elif draw < 0.7:
            self._arrives_later(actor, f"delete {len(keys)}", lambda: self._delete_now(author, keys, home))
        words = ((0.3, "happened"), (0.5, "happened in part"), (0.7, "lands later"), (2.0, "not happened"))
        return self.fail(actor, fault, "Delete", next(word for limit, word in words if draw < limit))

    def _locked(self, actor: Actor) -> bool:
        share = self._world.climate.locked_share
        return share > 0 and actor.luck.random() < share

    def _delete_now(self, author: Author, keys: tuple[str, ...], home: str) -> None:
        for key in keys:
            if self.there(home, key):
                self._world.witness.deleting(author, key)
                self.lose(key)

    def _list(self, actor: Actor, request: List, fault: str | None) -> Page:
        if fault is not None:
            self.fail(actor, fault, "List")
        if request.home == CLASS:
            raise Violation(f"{actor.name} lists {CLASS}, and it is the warehouse's own place (RFC 0031)")
        return self._page(request.home, request.prefix, request.token)

    def _page(self, home: str, prefix: str, token: str | None) -> Page:
        keys, more = listed(self._keys.get(home, []), prefix, token, self._world.climate.page_keys)
        return Page(tuple(map(self._info, keys)), more)

    def _glimpse(self, actor: Actor, request: Glimpse, fault: str | None) -> Page:
        """It may show anything that was true once, or nothing (RFC 0034)."""
        shown = self._page(HERE, request.prefix, None)
        listings, earlier = self._world.climate.listings, self._shown.setdefault(request.prefix, [])
        self._world.counts[f"listings: {listings}"] += 1
        if fault is not None or listings == "none":
            return UNKNOWN_PAGE
        if shown not in earlier:
            earlier.append(shown)
        return actor.luck.choice(earlier) if listings == "old" else shown

    def _folders(self, actor: Actor, request: Folders, fault: str | None) -> tuple[str, ...]:
        if fault is not None:
            self.fail(actor, fault, "Folders")
        return folders(self._keys[HERE], request.prefix)
