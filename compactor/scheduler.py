"""The loop of a compactor: looks at every partition again and again, and gives turns (docs/rfcs/0014).

One thread runs it and owns all its state. Looks and turns run in a pool, and their results come back through a queue,
so nothing here needs a lock, and `leave` is safe in a signal handler.
"""

import queue
from collections import deque
from collections.abc import Callable, Hashable, Iterable
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from dataclasses import dataclass
from typing import Generic, Literal, Protocol, TypeVar

from lithify.compactor.turns import Turns, Want
from lithify.store.driver import monotonic_ms

__all__ = ["Scheduler", "Turned", "Work"]

K = TypeVar("K", bound=Hashable)
_What = Literal["found", "looked", "turned"]
LOOKS_AT_ONCE = 32  # they wait for the store, on half of the connections that an S3 client keeps


@dataclass(frozen=True, slots=True)
class Turned:
    """What a partition wants after its turn (None: nothing). `deferred`: the turn did nothing, for lack of room."""

    want: Want | None
    deferred: bool = False


class Work(Protocol[K]):
    """What runs in the threads of two pools. An exception from one of these ends the loop and is raised there."""

    def find(self) -> Iterable[K]:
        """Everything there is to look at."""
        ...

    def look(self, key: K) -> Want | None:
        """What `key` wants a turn for; None: nothing. Never called while it has a turn."""
        ...

    def turn(self, key: K, want: Want) -> Turned: ...


@dataclass(frozen=True, slots=True)
class _Done(Generic[K]):
    """What came back from the pool."""

    what: _What
    key: K | None = None
    answer: object = None
    error: BaseException | None = None


class Scheduler(Generic[K]):
    """Runs up to LOOKS_AT_ONCE looks at once, in threads of their own, and `concurrency` edits; `turns` limits the
    jobs."""

    def __init__(self, work: Work[K], turns: Turns[K], concurrency: int, interval_ms: int) -> None:
        self._work = work
        self._turns = turns
        self._concurrency = concurrency
        self._interval_ms = interval_ms
        self._mailbox: queue.SimpleQueue[_Done[K] | None] = queue.SimpleQueue()  # its put is reentrant
        self._under_way = 0  # in the pools, as far as this thread has heard
        self._working: set[Callable[[], None]] = set()  # in the pools, in truth
        self._in_round = False
        self._holds_jobs = False  # true until the round is over
        self._finding = False
        self._to_look: deque[K] = deque()
        self._looking = 0
        self._next_round_ms = 0
        self.leaving = False  # no look or turn begins after this

    def leave(self) -> None:
        """Begin nothing more; `run` returns when what runs has ended. Safe in a signal handler."""
        self.leaving = True
        self._mailbox.put(None)

    @property
    def works(self) -> bool:
        """Whether a look or turn is under way; also after `run` was interrupted while it waited for them."""
        return bool(self._working)

    def run(self, *, once: bool) -> None:
        """Run until `leave` is called, or with `once` until nothing wants a turn any more."""
        # Edits, jobs, one short and one requested job: none of them waits for another's thread, nor for a look's.
        with (
            ThreadPoolExecutor(2 * self._concurrency + 2, thread_name_prefix="lithify-compactor") as pool,
            ThreadPoolExecutor(LOOKS_AT_ONCE, thread_name_prefix="lithify-look") as looks,
        ):
            try:
                self._begin_round(looks)
                while True:
                    self._go_on(pool, looks, once=once)
                    if not self._under_way and (self.leaving or once):
                        return
                    self._hear()
            finally:
                # However the loop ended: running work is told to stop, and the pool waits for it.
                self.leaving = True

    def _go_on(self, pool: ThreadPoolExecutor, looks: ThreadPoolExecutor, *, once: bool) -> None:
        if self.leaving:
            return
        while self._to_look and self._looking < LOOKS_AT_ONCE:
            self._look(looks, self._to_look.popleft())
        if self._in_round and not (self._finding or self._to_look or self._looking):
            self._in_round = self._holds_jobs = False
            self._next_round_ms = monotonic_ms() + self._interval_ms
        while (turn := self._turns.begin(jobs=not self._holds_jobs)) is not None:
            key, want = turn
            self._submit(pool, "turned", key, lambda key=key, want=want: self._work.turn(key, want))
        if not self._in_round and monotonic_ms() >= self._next_round_ms and (self._under_way or not once):
            self._begin_round(looks)

    def _begin_round(self, pool: ThreadPoolExecutor) -> None:
        self._in_round = self._finding = True
        # After an idle period nothing is ranked yet, so no job starts until the round has looked at every partition.
        # Otherwise jobs keep starting by the last ranking: a round over many partitions takes minutes, and workers that
        # come free meanwhile would sit idle.
        self._holds_jobs = self._turns.at_rest
        self._submit(pool, "found", None, lambda: tuple(self._work.find()))

    def _look(self, pool: ThreadPoolExecutor, key: K) -> None:
        if self._turns.has_turn(key):
            return
        self._looking += 1
        self._turns.look(key)
        self._submit(pool, "looked", key, lambda: self._work.look(key))

    def _submit(self, pool: ThreadPoolExecutor, what: _What, key: K | None, do: Callable[[], object]) -> None:
        def work() -> None:
            try:
                done = _Done(what, key, do())
            except BaseException as error:  # noqa: BLE001 - raised again by the thread that runs the loop
                done = _Done(what, key, error=error)
            self._working.discard(work)
            self._mailbox.put(done)

        self._under_way += 1
        self._working.add(work)
        pool.submit(work)

    def _hear(self) -> None:
        """Wait until a result comes back, or the next round may begin; take in all results that are there."""
        sleeps = self._in_round or self.leaving  # then nothing begins by the clock
        timeout_s = None if sleeps else max(self._next_round_ms - monotonic_ms(), 0) / 1000
        with suppress(queue.Empty):
            self._take_in(self._mailbox.get(timeout=timeout_s))
            while True:
                self._take_in(self._mailbox.get_nowait())

    def _take_in(self, done: "_Done[K] | None") -> None:
        if done is None:
            return
        self._under_way -= 1
        if done.error is not None:
            raise done.error
        match done.what, done.key, done.answer:
            case "found", _, tuple() as keys:
                self._finding = False
                self._found(keys)
            case "looked", key, Want() | None as want:
                assert key is not None
                self._looking -= 1
                self._turns.looked(key, want)
            case "turned", key, Turned(want, deferred):
                assert key is not None
                self._turns.end(key, want, deferred=deferred)
            case _:
                raise AssertionError("each answers with what is its own")

    def _found(self, keys: tuple[K, ...]) -> None:
        there = set(keys)
        for key in self._turns.waiting:
            if key not in there:
                self._turns.looked(key, None)
        self._to_look = deque(keys)
