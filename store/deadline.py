"""How long a caller waits for a home other than the warehouse (docs/rfcs/0031).

Some stores never say that they give up: a folder on a network disk, most filesystems of fsspec. So each request is made
by a thread of its own, for which the caller waits so long and no longer. Nothing can end such a thread: it is left
behind, and keeps its turn for an hour, which bounds how many there are. A home that let a caller wait in vain, and
answered nobody else meanwhile, is away: requests fail at once, without waiting, until it has answered one. To learn of
that, some are tried in the background.

A home that refused a connection, and has answered nobody for two seconds, is spared for a moment: requests fail at
once. Then it is asked as before. The moment is 50 ms, and twice as long each time that it refuses again, up to two
seconds. Libraries spend milliseconds of the interpreter on each attempt to connect, which is time that all other
threads of the process wait for; this bounds it.
"""

import os
import threading
from collections.abc import Callable
from contextlib import suppress
from typing import Any, Generic, TypeVar

from lithify.store.driver import Clock, monotonic_ms
from lithify.store.errors import AccessDenied, LithifyError, Unavailable
from lithify.store.own_lock import OwnLock
from lithify.store.refused import NotAsked, Refused

__all__ = ["REQUESTS_MAX", "TIMEOUT_S", "Deadline", "LeftBehind", "Wait"]

T = TypeVar("T")
Wait = Callable[[threading.Event, float], bool]

REQUESTS_MAX = 16  # of one home in one process
TIMEOUT_S = 90.0  # longer than S3's own: two attempts with timeouts of 5 and 30 s
_TURN_S = 60.0  # for one of the requests to end
_SLOWEST_BYTES_PER_S = 64 << 10  # of one request, when all others have their share of 1 MiB per second, too
_LOOK_S = 30.0  # so often a caller that has more time looks whether the home is away
_TRIED_EVERY_MS = 5_000
_SPARED_MS_MIN, _SPARED_MS_MAX = 50, 2_000
_FORGOTTEN_MS = 3_600_000  # a request that has not ended so long after its caller left probably never will
_AWAY = "it does not answer; nothing is lost, try again later"


class LeftBehind(Unavailable):
    """A request that was not answered in time: it may still be carried out."""


class Deadline:
    """The requests to one home: so many at a time, each of them waited for so long. Thread-safe; a forked child begins
    anew."""

    def __init__(
        self,
        timeout_s: float = TIMEOUT_S,
        *,
        requests_max: int = REQUESTS_MAX,
        turn_s: float = _TURN_S,
        clock: Clock = monotonic_ms,
        wait: Wait = threading.Event.wait,
    ) -> None:
        """`clock`, `wait`: for tests."""
        self.timeout_s = timeout_s
        self._requests_max = requests_max
        self._turn_s = turn_s
        self._clock = clock
        self._wait = wait
        self._renewing = OwnLock()
        self._known = self._nothing_known()

    @property
    def away(self) -> bool:
        """Whether a request was waited for in vain, and none was answered since it began."""
        return self._mine().away

    def run(
        self,
        request: Callable[[], T],
        *,
        size: int = 0,
        more_s: float = 0.0,
        proves: bool = True,
        begun: bool = False,
        trial: Callable[[], object],
        late: Callable[[], object] | None = None,
    ) -> T:
        """The answer of `request`, or what it raises; LeftBehind if it has not ended in time, Unavailable if the home
        is away.

        `size`: bytes that it transfers, for which there is more time; `more_s` is added, too. That additional time ends
        once the home is away. `proves`: whether an answer proves that the home is there; not if it may come without
        asking the home. `begun`: it goes on with what was begun there, so it is made even if the home is spared.
        `trial`: a harmless request, which is made in the background while the home is away. `late`: made after
        `request`, however that ended, when nobody waited for it any more.
        """
        mine = self._mine()
        if mine.away:
            self._try(mine, trial)
            raise Unavailable(_AWAY)
        if not begun:
            mine.spare()
        call = _Call(request, late, proves, mine)
        answers = mine.take_turn(call)
        _start(call)
        waited_s, left = 0.0, False
        try:
            waited_s = self._wait_for(call, mine, size / _SLOWEST_BYTES_PER_S + more_s)
        finally:
            left = call.leave()
            if left:
                mine.left(call)
        if left:
            mine.late(answers)
            raise LeftBehind(f"no answer within {waited_s:g} s; nothing is lost, try again later")
        try:
            return call.result()
        except Refused as error:
            mine.refused(str(error))
            raise

    def later(self, request: Callable[[], object]) -> None:
        """Make `request` in the background, also if the home is away. It needs no turn, so do not begin many. What
        becomes of it, nobody learns."""
        with suppress(Unavailable):
            _start(_Call(request, None, False, self._mine()))

    def _wait_for(self, call: "_Call[Any]", mine: "_Known", more_s: float) -> float:
        """Returns how many seconds it waited."""
        waited_s, slice_s = 0.0, self.timeout_s
        while slice_s > 0 and not self._wait(call.ended, slice_s):
            waited_s += slice_s
            slice_s = 0.0 if mine.away else min(_LOOK_S, self.timeout_s + more_s - waited_s)
        return waited_s

    def _try(self, mine: "_Known", trial: Callable[[], object]) -> None:
        """In the background, if it is time."""
        call = _Call(trial, None, True, mine)
        if mine.takes_trial(call):
            with suppress(Unavailable):
                _start(call)

    def _mine(self) -> "_Known":
        """SUBTLE! Of this process. 1. Threads of the parent have turns, or hold the lock. 2. The parent forks. 3. The
        child has no such threads, so nothing would ever be given back. Test: tests/store/test_deadline.py
        """
        if self._known.pid != os.getpid():
            with self._renewing.mine():
                if self._known.pid != os.getpid():
                    self._known = self._nothing_known()
        return self._known

    def _nothing_known(self) -> "_Known":
        return _Known(self._requests_max, self._turn_s, round(self.timeout_s * 1000), self._clock)


class _Known:
    """What one process knows of the home, and has under way there. Thread-safe."""

    def __init__(self, requests_max: int, turn_s: float, timeout_ms: int, clock: Clock) -> None:
        self.pid = os.getpid()
        self.away = False
        self._requests_max = requests_max
        self._turn_s = turn_s
        self._timeout_ms = timeout_ms
        self._clock = clock
        self._lock = threading.RLock()  # for `with`: a condition's own is Python, and Ctrl-C within it leaks the lock
        self._changed = threading.Condition(self._lock)
        self._turns: dict[_Call[Any], int | None] = {}  # who has one, and since when nobody waits for it
        self._answers = 0
        self._answered_ms: int | None = None  # the last time
        self._trial: _Call[Any] | None = None  # the last one since the home is away
        self._tried_ms = 0
        self._pause_ms = 0  # before another trial, if the last one has not ended
        self._refusal = ""  # the last one; "": it has answered since
        self._spared_ms = 0  # for so long after it
        self._spared_to_ms = 0

    def take_turn(self, call: "_Call[Any]") -> int:
        """Returns how many answers there were before. Raises Unavailable if the home is away, or too slow."""
        with self._lock:
            self._changed.wait_for(lambda: self.away or self._has_turn(), self._turn_s)
            if self.away:
                raise Unavailable(_AWAY)
            if not self._has_turn():
                raise Unavailable(
                    f"it is slow: its {self._requests_max} requests at a time are under way, and none ended within "
                    f"{self._turn_s:g} s; nothing is lost, try again later"
                )
            self._turns[call] = None
            return self._answers

    def spare(self) -> None:
        """Raises Unavailable if the home refused a connection a moment ago."""
        with self._lock:
            if self._refusal and self._clock() < self._spared_to_ms:
                raise Unavailable(f"not asked, because a moment ago: {self._refusal}")

    def refused(self, text: str) -> None:
        """SUBTLE! A server may refuse one connection among many, as behind a balancer with one dead machine. 1. If it
        were spared then, two failures in a hundred would become eighty. So it is not if it answered somebody. 2.
        Whoever asks it seldom has had no answer lately, and tries again at once: all four attempts would fail. So it is
        spared for longer only if it refuses again after that. Test: tests/store/test_refused_connections.py"""
        with self._lock:
            now_ms = self._clock()
            answers = self._answered_ms is not None and now_ms - self._answered_ms < _SPARED_MS_MAX
            if answers or (self._refusal and now_ms < self._spared_to_ms):  # that one was under way already
                return
            self._refusal, self._spared_ms = text, min(max(2 * self._spared_ms, _SPARED_MS_MIN), _SPARED_MS_MAX)
            self._spared_to_ms = now_ms + self._spared_ms

    def give_back(self, call: "_Call[Any]") -> None:
        """Its turn, if it still has one."""
        with self._lock:
            self._turns.pop(call, None)
            self._changed.notify()

    def left(self, call: "_Call[Any]") -> None:
        """Nobody waits for it any more."""
        with self._lock:
            if call in self._turns:
                self._turns[call] = self._clock()

    def late(self, answers: int) -> None:
        """A request has passed its deadline; `answers`: how many there were when it began."""
        with self._lock:
            if self._answers == answers and not self.away:
                self.away = True
                self._trial, self._tried_ms, self._pause_ms = None, self._clock(), self._timeout_ms
                self._changed.notify_all()

    def answered(self) -> None:
        with self._lock:
            self._answers += 1
            self._answered_ms = self._clock()
            self.away, self._refusal, self._spared_ms = False, "", 0

    def takes_trial(self, call: "_Call[Any]") -> bool:
        """Not if one has just begun, or may still be answered. Those that hang have no turn, and each doubles the pause
        before the next, up to an hour: so there are few of them, and there always is another."""
        with self._lock:
            hangs = self._trial is not None and not self._trial.ended.is_set()
            now_ms = self._clock()
            if not self.away or now_ms - self._tried_ms < (self._pause_ms if hangs else _TRIED_EVERY_MS):
                return False
            if hangs:
                self._pause_ms = min(2 * self._pause_ms, _FORGOTTEN_MS)
            self._trial, self._tried_ms = call, now_ms
            return True

    def _has_turn(self) -> bool:
        """Whether one is free. Requests that were left behind long ago have theirs no more."""
        before_ms = self._clock() - _FORGOTTEN_MS
        for call in [call for call, left_ms in self._turns.items() if left_ms is not None and left_ms <= before_ms]:
            del self._turns[call]
        return len(self._turns) < self._requests_max


class _Call(Generic[T]):
    def __init__(
        self, request: Callable[[], T], late: Callable[[], object] | None, proves: bool, known: _Known
    ) -> None:
        self.ended = threading.Event()
        self.known = known
        self._request = request
        self._late = late
        self._proves = proves
        self._lock = threading.Lock()
        self._left = False
        self._answer: Any = None
        self._error: BaseException | None = None

    def make(self) -> None:
        """In a thread of its own."""
        try:
            self._answer = self._request()
        except BaseException as error:  # noqa: BLE001 - raised where the answer is wanted
            self._error = error
        if self._proves and _is_answer(self._error):
            self.known.answered()
        with self._lock:
            left = self._left
            if not left:
                self.known.give_back(self)  # first: who waits may want the next turn at once
            self.ended.set()
        if left:
            self._clean_up()

    def leave(self) -> bool:
        """Nobody waits any more. Returns whether that was before it ended."""
        with self._lock:
            self._left = not self.ended.is_set()
            return self._left

    def result(self) -> T:
        error, self._error = self._error, None
        try:
            if error is not None:
                raise error
            return self._answer
        finally:
            del error  # it holds this frame

    def _clean_up(self) -> None:
        try:
            if self._late is not None:
                with suppress(LithifyError):
                    self._late()
        finally:
            self.known.give_back(self)


def _is_answer(error: BaseException | None) -> bool:
    """Whether the home has answered. That whoever asks may not see this object is an answer, too."""
    denied = isinstance(error, AccessDenied) and not isinstance(error, NotAsked)
    return denied or not isinstance(error, Unavailable)


def _start(call: _Call[Any]) -> None:
    """Raises Unavailable."""
    try:
        threading.Thread(target=call.make, name="lithify-home", daemon=True).start()
    except RuntimeError as error:
        call.ended.set()
        call.known.give_back(call)
        raise Unavailable("this process can begin no more threads; nothing is lost, try again later") from error
