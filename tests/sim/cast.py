"""Who acts in a simulated world, who watches and who answers, and how hard life is there."""

import random
from collections.abc import Callable, Coroutine
from contextlib import AbstractContextManager
from dataclasses import dataclass
from typing import Any, NamedTuple, Protocol

from lithify.store.errors import Corrupt
from lithify.store.port import Request
from lithify.store.reply_clock import ReplyClock
from tests.steps import Stepped

__all__ = [
    "BESIDE",
    "STORES_DIFFER_MS",
    "WORKER",
    "Actor",
    "Answers",
    "Author",
    "Climate",
    "Damaged",
    "Denial",
    "Spell",
    "Violation",
    "Witness",
    "process_of",
]

WORKER = " task "  # in the name of every actor that does a task of a job
STORES_DIFFER_MS = 2_000  # the servers of one object store tell the time alike within this
Author = tuple[str, int]
"""Whose write it was: an actor, or one strand of it, in one of its lives."""
BESIDE = " beside"  # the strand of a service that relieves a partition beside its job


def process_of(author: Author) -> Author:
    """Strands of a process share what it has claimed."""
    return author[0].removesuffix(BESIDE), author[1]


class Violation(AssertionError):
    """Something happened that the protocol excludes."""


class Damaged(Corrupt):
    """A numbered file was damaged by the history itself, and found to be: until it is restored nothing can be done."""


@dataclass(slots=True, eq=False)
class Actor(Stepped):
    name: str
    live: Callable[["Actor"], Coroutine[Any, Any, None]]  # called anew after a crash: its memory begins empty
    number: int
    say: random.Random  # what it does
    luck: random.Random  # what happens to it
    slowness: int = 1
    life: int = 0
    late_reply: Callable[[], Any] | None = None  # made when it wakes up
    ready: Callable[[], bool] | None = None  # wakes it up before its time
    wake_ms: int = 0
    clock: ReplyClock | None = None  # in each of its lives
    slept_ms: int = 0  # while its monotonic clock stood still
    dated: int = 0  # replies that told it the time
    outlier_at: int = 0  # the one of these that was far off
    skew_ms: int = 0  # of its clock, where it goes by its own
    ids: int = 0
    requests: int = 0
    strand: str = ""  # of its process, where that has several
    process: "Actor | None" = None  # whose thread it is: what it writes, the process writes

    @property
    def author(self) -> Author:
        return (self.name + self.strand, self.life) if self.process is None else self.process.author


class Spell(NamedTuple):
    """A place besides the warehouse answers nobody, or refuses whoever asks, from a step until before another."""

    first: int
    end: int
    home: str
    refuses: bool = False


class Denial(NamedTuple):
    """The store refuses who asks, for a while: a credential has expired, or a permission is missing."""

    first: int  # step
    end: int
    whom: str  # actors whose names hold this; "": everybody
    writes: bool  # and nothing but writes

    def concerns(self, step: int, name: str, *, writes: bool) -> bool:
        return self.first <= step < self.end and self.whom in name and (writes or not self.writes)


@dataclass(frozen=True, slots=True)
class Climate:
    """How hard life is; shares are of requests."""

    fault_share: float = 0.0
    crash_share: float = 0.0
    sleep_share: float = 0.0
    stall_share: float = 0.0  # it stands still until what it has just learned is no longer so
    jump_share: float = 0.0
    stop_share: float = 0.0  # of a compactor's looks whether it shall stop
    tick_ms: int = 40  # a step takes less than this
    page_keys: int = 5
    listings: str = "now"  # what a glimpse shows: what is there "now", what was there once ("old"), or "none"
    coarse_times: bool = False  # modification times in whole seconds, as S3 tells them
    skew_ms: int = 0  # clocks differ from the store's by as much, either way; up to a few seconds those of its servers
    outlier_share: float = 0.0  # of replies whose Date is far from the truth; never two of an actor near each other
    blackouts: tuple[tuple[int, int], ...] = ()  # steps during which the store answers nobody
    full_spells: tuple[tuple[int, int], ...] = ()  # steps with no room but for what leads to deletions (RFC 0012)
    denials: tuple[Denial, ...] = ()
    throttled: tuple[tuple[int, int], ...] = ()  # steps during which segments are not answered for, all else is
    engine_outages: tuple[tuple[int, int], ...] = ()  # steps during which no engine takes a task, or has one
    locked_share: float = 0.0  # of deletions that the store refuses: all of the objects are locked
    homes: tuple[Spell, ...] = ()
    far_ms: int = 0  # what an answer from another place takes, at most
    engine_share: float = 0.0  # of a compactor's looks at its tasks that find the engine dead

    @property
    def own_clocks(self) -> bool:
        """Whether each process goes by its own, as with `lithify.open(clock=...)`: then it is told no other's times."""
        return self.skew_ms > STORES_DIFFER_MS


class Witness(Protocol):
    """Who sees every change of the store, at the moment it happens."""

    def as_of_now(self, author: Author) -> Callable[[], AbstractContextManager[None]]: ...

    def created(self, author: Author, key: str, body: bytes) -> None: ...
    def put(self, author: Author, key: str, body: bytes, home: str = "") -> None: ...
    def deleting(self, author: Author, key: str) -> None: ...
    def access_denied(self, author: Author) -> None: ...
    def death_of(self, key: str) -> Callable[[], bool]: ...


class Answers(Protocol):
    def answer(self, actor: Actor, request: Request[Any]) -> Any: ...
