"""Who acts in a simulated world, who watches and who answers, and how hard life is there."""

import random
from collections.abc import Callable, Coroutine
from dataclasses import dataclass
from typing import Any, Protocol

from lithify.store.port import Request

__all__ = ["Actor", "Answers", "Author", "Climate", "Violation", "Witness"]

Author = tuple[str, int]
"""Whose write it was: an actor, in one of its lives."""


class Violation(AssertionError):
    """Something happened that the protocol excludes."""


@dataclass(slots=True)
class Actor:
    name: str
    live: Callable[["Actor"], Coroutine[Any, Any, None]]  # called anew after a crash: its memory begins empty
    number: int
    say: random.Random  # what it does
    luck: random.Random  # what happens to it
    slowness: int = 1
    life: int = 0
    coroutine: Coroutine[Any, Any, None] | None = None
    reply: Any = None
    error: Exception | None = None
    late_reply: Callable[[], Any] | None = None  # made when it wakes up
    ready: Callable[[], bool] | None = None  # wakes it up before its time
    wake_ms: int = 0
    clock_ms: int = 0
    ids: int = 0
    requests: int = 0

    @property
    def author(self) -> Author:
        return self.name, self.life


@dataclass(frozen=True, slots=True)
class Climate:
    """How hard life is; shares are of requests."""

    fault_share: float = 0.0
    crash_share: float = 0.0
    sleep_share: float = 0.0
    jump_share: float = 0.0
    stop_share: float = 0.0  # of a compactor's looks whether it shall stop
    tick_ms: int = 40  # a step takes less than this
    page_keys: int = 5
    coarse_times: bool = False  # modification times in whole seconds, as S3 tells them
    blackouts: tuple[tuple[int, int], ...] = ()  # steps during which the store answers nobody


class Witness(Protocol):
    """Who sees every change of the store, at the moment it happens."""

    def created(self, author: Author, key: str, body: bytes) -> None: ...
    def put(self, author: Author, key: str, body: bytes) -> None: ...
    def deleting(self, author: Author, key: str) -> None: ...


class Answers(Protocol):
    def answer(self, actor: Actor, request: Request[Any]) -> Any: ...
