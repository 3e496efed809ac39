"""The store's clock, followed through the Date of its replies; no request is made for it."""

import threading
from bisect import bisect_right
from collections import deque
from collections.abc import Callable
from datetime import UTC
from email.utils import parsedate_to_datetime
from typing import NamedTuple

from lithify.store.driver import machine_ms, monotonic_ms

__all__ = ["REPLIES_KEPT", "REPLIES_SURE", "ReplyClock"]

REPLIES_KEPT = 9
REPLIES_SURE = 3  # as many agree, or outvote one that does not
STEP_MS = 1_000  # Date has whole seconds, rounded down; a machine that stood still for less goes unnoticed
AGREE_MS = 5_000  # the nodes of one store tell the time alike within this, and so does a machine that is set right
STAND_STILL_MS = 10_000  # a step back by less is waited out


class _Reply(NamedTuple):
    ahead_ms: int  # store - monotonic, as it said
    machine_ahead_ms: int  # this machine's clock - monotonic, when it arrived


class ReplyClock:
    """`now` is the store's clock: never ahead of what its replies say, within a second of it, and steady.

    A reply of date D that arrived at monotonic M says that (store - monotonic) is in [D - M, D - M + 1 s). Of the last
    nine replies the median counts, and near it the largest of these lower bounds. What one reply says alone, by a node
    whose clock is wrong or from a cache, moves nothing; what most of nine say is followed, forward at once, back by
    standing still where it is a few seconds. The first reply of a process is believed if this machine's clock agrees
    with it; else two more are asked for (`sure`).

    While a machine sleeps its monotonic clock may stand still. Where its own has gone on by more than a second
    meanwhile, the replies from before are forgotten, and the clock is not `sure` until the next one. So what is built
    upon is two seconds old at most: one of the Date, and one of sleep that goes unnoticed.

    All threads of a process tell one clock of their replies; another process needs its own, since the lock may be held
    while it is forked. Test: tests/store/test_reply_clock.py
    """

    def __init__(self, monotonic: Callable[[], int] = monotonic_ms, machine: Callable[[], int] = machine_ms) -> None:
        self._monotonic = monotonic
        self._machine = machine
        self._lock = threading.Lock()
        self._replies: deque[_Reply] = deque(maxlen=REPLIES_KEPT)
        self._ahead_ms: int | None = None  # store - monotonic, as they come to
        self._told_ms = 0

    def observe(self, date: str | None, age: str | None = None) -> None:
        """`date` and `age` are a reply's headers (RFC 9110, 9111). One without a date or with nonsense tells nothing;
        one with an age comes from a cache, and tells of another time. Whatever they are, nothing is raised: the reply
        that they come with may be the word that a commit has happened."""
        if not date or (age or "0").strip() != "0":
            return
        try:
            told = parsedate_to_datetime(date)
            # All dates of HTTP are UTC: of a zone left out (or -0000) Python would make this machine's own.
            date_ms = int((told if told.tzinfo else told.replace(tzinfo=UTC)).timestamp() * 1000)
        except (ValueError, OverflowError):
            return
        self.saw(date_ms)

    def saw(self, date_ms: int) -> None:
        """A reply of this date has arrived."""
        with self._lock:
            monotonic = self._monotonic()
            self._replies.append(_Reply(date_ms - monotonic, self._machine() - monotonic))
            self._follow()

    @property
    def current(self) -> bool:
        """Whether a reply has come since the machine last stood still."""
        with self._lock:
            self._follow()
            return bool(self._replies)

    @property
    def sure(self) -> bool:
        """Whether `now` can be built upon: enough replies were seen, or the machine's own clock bears out the few."""
        with self._lock:
            self._follow()
            if len(self._replies) >= REPLIES_SURE:
                return True
            few = self._replies
            return bool(few) and all(abs(reply.ahead_ms - reply.machine_ahead_ms) <= AGREE_MS for reply in few)

    def now(self) -> int | None:
        """Milliseconds since 1970; None before the first reply."""
        with self._lock:
            if self._ahead_ms is None:
                return None
            told_ms = self._monotonic() + self._ahead_ms
            if not 0 < self._told_ms - told_ms <= STAND_STILL_MS:
                self._told_ms = told_ms
            return self._told_ms

    def _follow(self) -> None:
        """Forget the replies from before a sleep, and go by the others. Requires: the lock is held."""
        machine_ahead_ms = self._machine() - self._monotonic()
        while self._replies and abs(machine_ahead_ms - self._replies[0].machine_ahead_ms) > STEP_MS:
            self._replies.popleft()
        if not self._replies:
            return  # the last that was known stands
        told = sorted(reply.ahead_ms for reply in self._replies)
        middle = told[(len(told) - 1) // 2]  # the lower one of two
        ahead_ms = told[bisect_right(told, middle + STEP_MS) - 1]
        known = self._ahead_ms
        if known is None or not known - STEP_MS <= ahead_ms <= known:
            self._ahead_ms = ahead_ms
