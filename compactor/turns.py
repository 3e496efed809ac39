"""Whose turn it is: many partitions, few workers, and none that waits for ever (docs/rfcs/0014). Pure: it learns from
its caller what began and ended, and has neither threads nor a clock."""

from collections.abc import Callable, Hashable, Iterable
from dataclasses import dataclass
from typing import Generic, TypeVar

from lithify.compactor.room import Load, has_room

__all__ = ["Turns", "Want"]

FAIR_EVERY = 4  # jobs; one of them goes to the partition that has waited longest

K = TypeVar("K", bound=Hashable)


@dataclass(frozen=True, slots=True)
class Want:
    """What a partition wants its next turn for."""

    rank: tuple[int, int]  # the smallest is the most urgent
    bytes: int = 0  # what its job reads; 0: an edit, or a look that may find one
    short: bool = False
    asked: bool = False  # a person asked for it
    alone: bool = False  # no other job may run beside it

    @property
    def load(self) -> Load:
        return Load(self.bytes, self.short, self.alone)


@dataclass(slots=True)
class _Entry:
    want: Want
    since: int  # when it began to wait: a sequence number
    # It found no room, and waits for the jobs that began before this number.
    behind: int | None = None
    refused: bool = False  # by the budget; it is asked again when a job has ended
    # Whether all workers were busy when it began, and its place among the jobs of that kind: see Turns._unfair.
    counted: tuple[bool, int] = (False, 0)


class Turns(Generic[K]):
    """`concurrency`: how many jobs may run, besides one short and one requested one. `bytes_max`: how much they may
    read together; None: any amount. `waits_for`: the key that must have no turn when a turn of the given one begins."""

    def __init__(
        self,
        concurrency: int,
        bytes_max: int | None = None,
        waits_for: Callable[[K], K | None] = lambda _: None,
    ) -> None:
        self._concurrency = concurrency
        self._bytes_max = bytes_max
        self._waits_for = waits_for
        self._waiting: dict[K, _Entry] = {}
        self._running: dict[K, tuple[_Entry, int]] = {}  # with the sequence number of its beginning
        self._looked_at: set[K] = set()
        self._number = 0
        # Jobs since the last that went to the longest waiting, by whether they began while all workers were busy.
        self._unfair = {False: 0, True: 0}

    @property
    def waiting(self) -> Iterable[K]:
        return tuple(self._waiting)

    @property
    def at_rest(self) -> bool:
        """Nothing waits, and nothing has a turn."""
        return not self._waiting and not self._running

    def has_turn(self, key: K) -> bool:
        return key in self._running

    def look(self, key: K) -> None:
        """`key` is being looked at: it has no turn until `looked`. Requires: it has none now."""
        self._looked_at.add(key)

    def looked(self, key: K, want: Want | None) -> None:
        """The look found that `key` wants a turn, or (None) nothing. It keeps its place."""
        self._looked_at.discard(key)
        if want is None:
            self._waiting.pop(key, None)
        elif (entry := self._waiting.get(key)) is not None:
            entry.want = want
        else:
            self._waiting[key] = _Entry(want, self._next_number())

    def begin(self, *, jobs: bool = True) -> tuple[K, Want] | None:
        """Begin the next turn. None: nothing can begin until something ends or is looked at. `jobs` False: edits."""
        key = self._first_edit()
        if key is None and jobs:
            key = self._first_job()
        if key is None:
            return None
        entry = self._waiting.pop(key)
        if entry.want.bytes:
            busy = self._busy()
            entry.counted = busy, self._unfair[busy]
            self._unfair[busy] = (self._unfair[busy] + 1) % FAIR_EVERY
        self._running[key] = entry, self._next_number()
        return key, entry.want

    def end(self, key: K, want: Want | None, *, deferred: bool = False) -> None:
        """The turn of `key` is over. It wants another, or (None) nothing. `deferred`: there was no room for it."""
        before, _ = self._running.pop(key)
        if before.want.bytes and not deferred:
            for entry in self._waiting.values():
                entry.refused = False
        if deferred:
            self._uncount(before)
        if want is None:
            return
        if deferred:
            before.want, before.refused = want, True
            before.behind = self._number + 1 if before.behind is None else before.behind
            self._waiting[key] = before
        else:
            self._waiting[key] = _Entry(want, self._next_number())

    def _uncount(self, entry: _Entry) -> None:
        """Its turn did nothing. If it was the one in four that goes to the longest waiting, the next is."""
        busy, at = entry.counted
        fair = at == FAIR_EVERY - 1
        self._unfair[busy] = at if fair else max(self._unfair[busy] - 1, 0)

    def _next_number(self) -> int:
        self._number += 1
        return self._number

    def _jobs(self) -> list[Want]:
        return [entry.want for entry, _ in self._running.values() if entry.want.bytes]

    def _busy(self) -> bool:
        return len(self._jobs()) >= self._concurrency

    def _first_edit(self) -> K | None:
        if sum(not entry.want.bytes for entry, _ in self._running.values()) >= self._concurrency:
            return None
        edits = ((key, entry) for key, entry in self._waiting.items() if not entry.want.bytes and self._is_free(key))
        return min(edits, key=lambda each: (each[1].want.rank, each[1].since), default=(None,))[0]

    def _first_job(self) -> K | None:
        jobs = self._jobs()
        if len(jobs) >= self._concurrency + 2:
            return None
        candidates = ((key, entry) for key, entry in self._waiting.items() if entry.want.bytes and self._may_hold(key))
        held = False
        for key, entry in sorted(candidates, key=lambda each: self._place(each[1])):
            if held and (not entry.want.short or any(job.short for job in jobs)):
                continue
            if key not in self._looked_at and self._has_worker(entry.want, jobs):
                if self._has_room(entry, jobs):
                    return key
                entry.behind = self._number + 1 if entry.behind is None else entry.behind
            if self._is_held(entry):
                # All jobs that it waited for have ended: nothing begins before it, except the one short job that does
                # not count and so does not delay it.
                if entry.want.alone:
                    return None
                held = True
        return None

    def _is_free(self, key: K) -> bool:
        return key not in self._looked_at and self._may_hold(key)

    def _may_hold(self, key: K) -> bool:
        """Whether it may hold others off. One that waits for room does so even while it is looked at: each round looks
        at everything that waits, and others would take the room meanwhile. Test: tests/compactor/test_turns.py"""
        return self._waits_for(key) not in self._running

    def _place(self, entry: _Entry) -> tuple[int, ...]:
        """The sort key: the smallest begins first."""
        if self._is_held(entry):
            return 0, entry.behind or 0
        if self._unfair[self._busy()] == FAIR_EVERY - 1:
            return 1, entry.since
        return 1, *entry.want.rank, entry.since

    def _is_held(self, entry: _Entry) -> bool:
        """Whether it waits for room, and every job that it waited for has ended."""
        behind = entry.behind
        return behind is not None and not any(
            number < behind for other, number in self._running.values() if other.want.bytes
        )

    def _has_worker(self, want: Want, jobs: list[Want]) -> bool:
        if len(jobs) < self._concurrency:
            return True
        return (want.short and not any(job.short for job in jobs)) or (
            want.asked and not any(job.asked for job in jobs)
        )

    def _has_room(self, entry: _Entry, jobs: list[Want]) -> bool:
        if jobs and entry.refused:
            return False
        return has_room(entry.want.load, [job.load for job in jobs], self._bytes_max)
