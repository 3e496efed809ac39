"""Whether the homes besides the warehouse answer, asked while a survey is made (docs/rfcs/0031)."""

import threading
from collections.abc import Collection, Mapping

import msgspec

from lithify.manifest.ages import young
from lithify.store.apart import Fault, attempt
from lithify.store.driver import Clock, monotonic_ms
from lithify.store.home_names import physical
from lithify.store.homes import Homes
from lithify.store.own_lock import OwnLock
from lithify.store.owners import unclaimed_text
from lithify.store.port import HERE

__all__ = ["HOMES_MAX", "HomeState", "HomeWatch", "RecentHomes"]

HOMES_MAX = 16  # that are asked
_WAIT_MS = 3_000
_RECENT_MS = 10_000


class HomeState(msgspec.Struct, frozen=True, kw_only=True):
    home: str
    away: str  # why nothing can be read or written there now; "": it answers


class HomeWatch:
    """Asks each home one HEAD for the file that says whose it is, in a thread of its own: a home that hangs holds up
    that thread alone, and the survey for a few seconds. Thread-safe, if one asks at a time."""

    def __init__(self, homes: Homes, wait_ms: int = _WAIT_MS) -> None:
        self._homes = homes
        self._wait_ms = wait_ms
        self._asked: dict[str, threading.Thread] = {}
        self._found: dict[str, str | None] = {}  # None: it answers, and has no such file

    def look(self, owners: Mapping[str, str], unused: Collection[str] = ()) -> tuple[HomeState, ...]:
        """`owners`: for each home the key of such a file. Another storage class of the warehouse's own bucket is not
        asked: it is there if the warehouse is. `unused`: the homes in which nothing is yet, so that nobody has claimed
        them."""
        asked = sorted(home for home in owners if physical(home) != HERE)[:HOMES_MAX]
        for home in asked:
            before = self._asked.get(home)
            if before is None or not before.is_alive():
                name = "lithify-home"
                thread = threading.Thread(target=self._ask, args=(home, owners[home]), name=name, daemon=True)
                self._asked[home] = thread
                thread.start()
        until_ms = monotonic_ms() + self._wait_ms
        for home in asked:
            self._asked[home].join(max(0, until_ms - monotonic_ms()) / 1000)
        return tuple(HomeState(home=home, away=self._away(home, owners[home], home in unused)) for home in asked)

    def _away(self, home: str, owner: str, unused: bool) -> str:
        if self._asked[home].is_alive():
            return f"no answer within {self._wait_ms // 1000} s"
        found = self._found[home]
        return ("" if unused else unclaimed_text(owner)) if found is None else found

    def _ask(self, home: str, owner: str) -> None:
        outcome = attempt(lambda: self._homes.store(home).hasty().head(owner))
        if isinstance(outcome, Fault):
            self._found[home] = outcome.text
        else:
            self._found[home] = "" if outcome else None


class RecentHomes:
    """Asks each home once, however many partitions are looked at within a few seconds. Thread-safe."""

    def __init__(self, homes: Homes, clock: Clock = monotonic_ms) -> None:
        self._watch = HomeWatch(homes)
        self._clock = clock
        self._lock = OwnLock()
        self._found: dict[tuple[str, str], tuple[int, HomeState]] = {}  # by home and key: when it was asked, and what

    def look(self, owners: Mapping[str, str]) -> tuple[HomeState, ...]:
        """As `HomeWatch.look`."""
        with self._lock.mine():
            now_ms = self._clock()
            self._found = {key: each for key, each in self._found.items() if young(each[0], now_ms, _RECENT_MS)}
            missing = {home: owner for home, owner in owners.items() if self._known(home, owner) is None}
            for state in self._watch.look(missing):
                self._found[state.home, missing[state.home]] = self._clock(), state
            known = (self._known(home, owner) for home, owner in sorted(owners.items()))
            return tuple(state for state in known if state is not None)

    def _known(self, home: str, owner: str) -> HomeState | None:
        """What was found a moment ago. If the home did not answer, that holds for every topic in it."""
        found = self._found.get((home, owner))
        if found is not None:
            return found[1]
        others = ((key, state) for (name, key), (_, state) in self._found.items() if name == home)
        return next((state for key, state in others if state.away and state.away != unclaimed_text(key)), None)
