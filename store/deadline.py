"""How long a caller waits for a home other than the warehouse (docs/rfcs/0031).

Some stores never say that they give up: a folder on a network disk, most filesystems of fsspec. So each request is made
by a thread of its own, for which the caller waits so long and no longer. Nothing can end such a thread: it is left
behind, and keeps its turn, which bounds how many there are. A home that let a caller wait in vain is away: requests
fail at once, without waiting, until it has answered one. To learn of that, some are tried in the background.
"""

import threading
from collections.abc import Callable
from contextlib import suppress
from typing import Any, Generic, TypeVar

from lithify.store.driver import Clock, monotonic_ms
from lithify.store.errors import LithifyError, Unavailable

__all__ = ["REQUESTS_MAX", "TIMEOUT_S", "Deadline", "LeftBehind", "Wait"]

T = TypeVar("T")
Wait = Callable[[threading.Event, float], bool]

REQUESTS_MAX = 16  # of one home in one process
TIMEOUT_S = 90.0  # longer than S3's own: two attempts with timeouts of 5 and 30 s
_TURN_S = 60.0  # for one of the requests to end
_SLOWEST_BYTES_PER_S = 64 << 10  # of one request, when all others have their share of 1 MiB per second, too
_TRIED_EVERY_MS = 5_000


class LeftBehind(Unavailable):
    """A request that was not answered in time: it may still be carried out."""


class Deadline:
    """The requests to one home: so many at a time, each of them waited for so long. Thread-safe."""

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
        self._turns = threading.BoundedSemaphore(requests_max)
        self._lock = threading.Lock()
        self._away = False
        self._tried_ms: int | None = None  # when the last trial began, if the home is away
        self._trying = False

    @property
    def away(self) -> bool:
        """Whether a request was waited for in vain, and none was answered since."""
        return self._away

    def run(
        self,
        request: Callable[[], T],
        *,
        size: int = 0,
        more_s: float = 0.0,
        trial: Callable[[], object],
        late: Callable[[], object] | None = None,
    ) -> T:
        """The answer of `request`, or what it raises; LeftBehind if it has not ended in time, Unavailable if the home
        is away.

        `size`: bytes that it transfers, for which there is more time; `more_s` is added, too. `trial`: a harmless
        request, which is made in the background while the home is away. `late`: made after `request` if it ended
        well when nobody waited for it any more.
        """
        if self._away:
            self._try(trial)
            raise Unavailable("it does not answer; nothing is lost, try again later")
        if not self._turns.acquire(timeout=self._turn_s):
            raise Unavailable(
                f"it is slow: its {self._requests_max} requests at a time are under way, and none ended within "
                f"{self._turn_s:g} s; nothing is lost, try again later"
            )
        call = self._begin(request, late)
        timeout_s = self.timeout_s + size / _SLOWEST_BYTES_PER_S + more_s
        try:
            in_time = self._wait(call.ended, timeout_s)
        finally:
            left = call.leave()
        if not in_time and left:
            self._is_away()
            raise LeftBehind(f"no answer within {timeout_s:g} s; nothing is lost, try again later")
        return call.result()

    def _begin(self, request: Callable[[], T], late: Callable[[], object] | None) -> "_Call[T]":
        """Requires: the caller has a turn, which the call gives back when it ends."""
        call = _Call(request, late, self._ended)
        try:
            threading.Thread(target=call.make, name="lithify-home", daemon=True).start()
        except RuntimeError as error:
            self._turns.release()
            raise Unavailable("this process can begin no more threads; nothing is lost, try again later") from error
        return call

    def _ended(self, answered: bool) -> None:
        if answered:
            with self._lock:
                self._away = False
        self._turns.release()

    def _is_away(self) -> None:
        with self._lock:
            self._away = True
            self._tried_ms, self._trying = self._clock(), False

    def _try(self, trial: Callable[[], object]) -> None:
        """In the background, unless one has just begun, or is under way and may still be answered in time."""
        with self._lock:
            now_ms = self._clock()
            pause_ms = self.timeout_s * 1000 if self._trying else _TRIED_EVERY_MS
            if not self._away or (self._tried_ms is not None and now_ms - self._tried_ms < pause_ms):
                return
            if not self._turns.acquire(blocking=False):
                return  # all of them hang: the first that ends says whether the home is back
            self._tried_ms, self._trying = now_ms, True

        def tried() -> None:
            try:
                trial()
            finally:
                with self._lock:
                    self._trying = False

        with suppress(Unavailable):
            self._begin(tried, None)


class _Call(Generic[T]):
    def __init__(
        self, request: Callable[[], T], late: Callable[[], object] | None, ended: Callable[[bool], None]
    ) -> None:
        self.ended = threading.Event()
        self._request = request
        self._late = late
        self._told = ended
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
        self._told(not isinstance(self._error, Unavailable))
        with self._lock:
            self.ended.set()
            left = self._left
        if left and self._late is not None and self._error is None:
            with suppress(LithifyError):
                self._late()

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
