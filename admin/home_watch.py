"""Whether the homes besides the warehouse answer, asked while a survey is made (docs/rfcs/0031)."""

import threading
from collections.abc import Collection, Mapping

import msgspec

from lithify.store.apart import Fault, attempt
from lithify.store.driver import monotonic_ms
from lithify.store.home_names import physical
from lithify.store.homes import Homes
from lithify.store.owners import unclaimed_text
from lithify.store.port import HERE

__all__ = ["HOMES_MAX", "HomeState", "HomeWatch"]

HOMES_MAX = 16  # that are asked
_WAIT_MS = 3_000


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
