"""The store's clock, followed through the Date of its replies; it makes no requests."""

import threading
from bisect import bisect_right
from collections import deque
from collections.abc import Callable
from datetime import UTC
from email.utils import parsedate_to_datetime

from lithify.store.driver import machine_ms, monotonic_ms

__all__ = ["REPLIES_KEPT", "REPLIES_SURE", "ReplyClock"]

REPLIES_KEPT = 9
REPLIES_SURE = 3  # this many agree, or outvote one that does not
STEP_MS = 1_000  # Date has whole seconds, rounded down; a machine that slept for less is not noticed
AGREE_MS = 5_000  # the clocks of one store's nodes agree within this, and so does a machine whose clock is set right
STAND_STILL_MS = 10_000  # if the clock would step back by less, it stands still instead


_Reply = tuple[int, int]
"""Store - monotonic, in ms, according to a reply; and this machine's clock - monotonic, when it arrived."""


class ReplyClock:
    """`now` is the store's clock: never ahead of its replies, within a second of them, and steady.

    A reply of date D that arrived at monotonic time M says that (store - monotonic) is in [D - M, D - M + 1 s). The
    median of the last nine replies counts, and near it the largest of these lower bounds. A single reply, from a node
    with a wrong clock or from a cache, changes nothing. What most of the nine say is followed: forward at once, back by
    standing still if it is a few seconds. The first reply of a process is believed if this machine's clock agrees with
    it; otherwise two more are needed (`sure`).

    While a machine sleeps, its monotonic clock may stop. If its own clock has advanced by over a second more, earlier
    replies are forgotten, and the clock is not `sure` until the next one. So the time that others build upon is at most
    two seconds old: one from the Date, and one of unnoticed sleep.

    All threads of a process share one clock. Another process needs its own, since the lock may be held during a fork.
    Test: tests/store/test_reply_clock.py
    """

    def __init__(self, monotonic: Callable[[], int] = monotonic_ms, machine: Callable[[], int] = machine_ms) -> None:
        self._monotonic = monotonic
        self._machine = machine
        self._lock = threading.Lock()
        self._replies: deque[_Reply] = deque(maxlen=REPLIES_KEPT)
        self._ahead_ms: int | None = None  # store - monotonic, as the replies agree
        self._told_ms = 0

    def observe(self, date: str | None, age: str | None = None) -> None:
        """Learn from a reply's headers `date` and `age` (RFC 9110, 9111). A reply without a date, or with nonsense, is
        ignored; one with an age comes from a cache, and dates from another time. This never raises: the reply may be
        the one that says that a commit has happened."""
        if not date or (age or "0").strip() != "0":
            return
        try:
            told = parsedate_to_datetime(date)
            # HTTP dates are UTC: without a zone (or with -0000) Python would take this machine's zone.
            date_ms = int((told if told.tzinfo else told.replace(tzinfo=UTC)).timestamp() * 1000)
        except (ValueError, OverflowError):
            return
        self.saw(date_ms)

    def saw(self, date_ms: int) -> None:
        """A reply of this date has arrived."""
        with self._lock:
            monotonic = self._monotonic()
            machine_ahead_ms = self._machine() - monotonic
            self._replies.append((date_ms - monotonic, machine_ahead_ms))
            self._forget(machine_ahead_ms)
            self._follow()

    @property
    def current(self) -> bool:
        """Whether a reply has come since the machine last slept."""
        with self._lock:
            self._notice_sleep()
            return bool(self._replies)

    @property
    def sure(self) -> bool:
        """Whether `now` can be relied on: enough replies were seen, or the machine's own clock confirms the few."""
        with self._lock:
            self._notice_sleep()
            if len(self._replies) >= REPLIES_SURE:
                return True
            few = self._replies
            return bool(few) and all(abs(ahead_ms - machine_ahead_ms) <= AGREE_MS for ahead_ms, machine_ahead_ms in few)

    def now(self) -> int | None:
        """Milliseconds since 1970; None before the first reply."""
        with self._lock:
            if self._ahead_ms is None:
                return None
            told_ms = self._monotonic() + self._ahead_ms
            if not 0 < self._told_ms - told_ms <= STAND_STILL_MS:
                self._told_ms = told_ms
            return self._told_ms

    # Requires of each: the lock is held.

    def _notice_sleep(self) -> None:
        if self._forget(self._machine() - self._monotonic()):
            self._follow()

    def _forget(self, machine_ahead_ms: int) -> bool:
        """The replies from before a sleep; tells whether there were any."""
        before = len(self._replies)
        while self._replies and abs(machine_ahead_ms - self._replies[0][1]) > STEP_MS:
            self._replies.popleft()
        return len(self._replies) < before

    def _follow(self) -> None:
        """What the replies agree on."""
        if not self._replies:
            return  # keep the last known value
        told = sorted([ahead_ms for ahead_ms, _ in self._replies])
        middle = told[(len(told) - 1) // 2]  # the lower one, if there are two
        ahead_ms = told[bisect_right(told, middle + STEP_MS) - 1]
        known = self._ahead_ms
        if known is None or not known - STEP_MS <= ahead_ms <= known:
            self._ahead_ms = ahead_ms
