"""Threads of this process that append to one partition share commits: one of them commits for all that wait
(docs/rfcs/0024). No thread of its own: whoever is first while no commit is in flight leads.

A commit in flight is a coroutine that waits for one reply. If its leader is interrupted, another member continues it.
"""

import threading
from collections import deque
from collections.abc import Generator, Sequence
from inspect import GEN_CLOSED, getgeneratorstate
from itertools import islice
from typing import Any
from weakref import WeakSet

from lithify.log.append import commit_many, unknown_to
from lithify.manifest.appends import Append
from lithify.manifest.keys import PartitionKeys
from lithify.manifest.model import GROUP_MAX
from lithify.manifest.partition import PartitionFiles
from lithify.store.driver import Answer
from lithify.store.errors import CommitUnknown, LithifyError
from lithify.store.port import Create, Outcome, Request, Store

__all__ = ["GROUP_BYTES_MAX", "CommitQueue", "Member"]

GROUP_BYTES_MAX = 512 << 20  # stored bytes of the segments of one commit

Answered = range | LithifyError


class Member:
    """One append whose segment is uploaded. `files`: what its thread knows of the partition, and nobody else uses.
    `answer` answers requests; if its time is limited, only until `deadline_ms`."""

    def __init__(self, edit: Append, files: PartitionFiles, answer: Answer, deadline_ms: int | None = None) -> None:
        self.edit = edit
        self.files = files
        self.answer = answer
        self.deadline_ms = deadline_ms
        self.told: Answered | None = None
        self.gone = False  # its thread was interrupted
        self.news = threading.Lock()  # free once there may be something for its thread to do
        self.news.acquire()

    def wake(self) -> None:
        """Requires: the lock of the queue."""
        if self.news.locked():
            self.news.release()


class CommitQueue:
    """The appends of one partition that wait for a commit, and the commit in flight. Thread-safe."""

    def __init__(self, keys: PartitionKeys) -> None:
        # SUBTLE! Not a threading.Condition: 1. It takes its lock, or releases it, in Python code. 2. Ctrl-C arrives
        # there. 3. The lock stays taken, and all other threads wait for ever. Test:
        # tests/log/test_interrupted_appends.py
        self._lock = threading.Lock()
        self._waiting = deque[Member]()
        self._flight: _Flight | None = None
        self.files = PartitionFiles(keys)  # the leader's; others may learn from it
        self._stores = WeakSet[Store]()

    def use(self, store: Store) -> None:
        """It is shared by whoever uses `store`, until that is closed."""
        with self._lock:
            self._stores.add(store)

    @property
    def used(self) -> bool:
        """SUBTLE! What was seen counts only as long as somebody has the warehouse open: 1. All close it. 2. A backup is
        restored in its place. 3. It is opened, and an append builds on a manifest that is not there any more. Test:
        tests/log/test_restored_in_place.py
        """
        with self._lock:
            return any(not store.closed for store in self._stores)

    def commit(self, member: Member) -> range:
        """Commit the member's append, in its turn; returns its offsets. Raises its own refusal, or CommitUnknown."""
        try:
            with self._lock:
                self._waiting.append(member)
            while (flight := self._turn(member)) is not None:
                flight.fly()
                self._land(flight)
        except BaseException:
            self._leave(member)
            raise
        assert member.told is not None
        if isinstance(member.told, LithifyError):
            raise member.told
        return member.told

    def _turn(self, member: Member) -> "_Flight | None":
        """Wait until there is an answer (None), or a commit to lead."""
        while True:
            with self._lock:
                if member.told is not None:
                    return None
                self._forget_told()
                if self._flight is None and self._waiting[0] is member:
                    self._flight = _Flight(self.files, self._group())
                flight = self._flight
                if flight is not None and flight.leader is None and member in flight.members:
                    flight.leader = member
                    return flight
            member.news.acquire()

    def _group(self) -> list[Member]:
        """As many from the front of the queue as one commit may have, in their order. Requires: the lock.

        SUBTLE! They stay in the queue until they are told. 1. A takes itself, B and C out of it. 2. A is interrupted
        before there is a flight. 3. B and C are nowhere. Test: tests/log/test_group_interruptions.py
        """
        first = self._waiting[0]
        group, size, names = [first], first.edit.segment.bytes, _names(first.edit)
        for following in islice(self._waiting, 1, GROUP_MAX):
            size += following.edit.segment.bytes
            own = _names(following.edit)
            limited = (following.deadline_ms is None) != (first.deadline_ms is None)
            # At most one append of each producer and application per commit, so that an event can name its append.
            if size > GROUP_BYTES_MAX or own & names or limited:
                break
            names |= own
            group.append(following)
        return group

    def _forget_told(self) -> None:
        """Requires: the lock."""
        while self._waiting and self._waiting[0].told is not None:
            self._waiting.popleft()

    def _land(self, flight: "_Flight") -> None:
        with self._lock:
            assert flight.answers is not None
            for member, told in zip(flight.members, flight.answers, strict=True):
                member.files.learn(self.files)
                member.told = told
            self._flight = None
            self._wake(flight)
            self._forget_told()

    def _leave(self, member: Member) -> None:
        """SUBTLE! 1. A leads a commit for A, B and C. 2. A is interrupted. 3. B and C would wait for ever, or take an
        append that may have happened for one that did not. Tests: tests/log/test_group_commit.py,
        tests/log/test_group_interruptions.py"""
        with self._lock:
            member.gone = True
            if member in self._waiting:
                self._waiting.remove(member)
            flight = self._flight
            # No leader: this member was about to lead it, or its leader has left before.
            if flight is not None and flight.leader in (member, None):
                flight.leader = None
                if flight.without_its_leader():
                    self._flight = None
            self._wake(flight)

    def _wake(self, flight: "_Flight | None") -> None:
        """Those who may have an answer, and whoever may lead. Requires: the lock."""
        for member in () if flight is None else flight.members:
            member.wake()
        for member in self._waiting:
            member.wake()


def _names(edit: Append) -> set[tuple[str, str]]:
    """Whose append it is: a producer's, an application's."""
    producer = {("producer", edit.producer.id)} if edit.producer is not None else set[tuple[str, str]]()
    return producer | ({("application", edit.transaction.application)} if edit.transaction is not None else set())


class _Flight:
    """One commit, for its members."""

    def __init__(self, files: PartitionFiles, members: Sequence[Member]) -> None:
        self.members = members
        self.leader: Member | None = None
        self.answers: Sequence[Answered] | None = None
        self._files = files
        for member in members:
            files.learn(member.files)
        self._begin()

    def _begin(self) -> None:
        self._pending: Request[Any] | None = None  # what the commit waits for
        self._again = False  # ask it again: the leader who asked is gone, and nobody knows whether it was answered
        self._tried: int | None = None  # the number of the manifest that it last tried to create
        self._commit = self._committing()

    def _committing(self) -> Generator[Request[Any], Any, None]:
        """The commit. It notes each request before it is asked, so that whatever interrupts its leader, the next one
        knows where it stands."""
        commit = commit_many(self._files, [member.edit for member in self.members])
        try:
            request = commit.send(None)
            while True:
                self._pending = request
                if isinstance(request, Create):
                    self._tried = self._files.keys.manifest.number(request.key) or self._tried
                try:
                    reply = yield request
                except Exception as error:  # noqa: BLE001 - passed on: the commit decides
                    request = commit.throw(error)
                else:
                    request = commit.send(reply)
        except StopIteration as stop:
            self.answers = stop.value

    def fly(self) -> None:
        """Go on with the commit until it ends. Requires: the caller leads it."""
        answer = self._answer()
        try:
            request = self._pending if self._again and self._pending is not None else next(self._commit)
            while self.answers is None:
                try:
                    reply = self._reply(request, answer)
                except Exception as error:  # noqa: BLE001 - passed on
                    request = self._commit.throw(error)
                else:
                    request = self._commit.send(reply)
        except StopIteration:
            assert self.answers is not None

    def _answer(self) -> Answer:
        """The leader's own, or that of the member whose time is over first."""
        assert self.leader is not None
        limited = [(member.deadline_ms, member.answer) for member in self.members if member.deadline_ms is not None]
        return min(limited, key=lambda each: each[0])[1] if limited else self.leader.answer

    def _reply(self, request: Request[Any], answer: Answer) -> Any:
        again, self._again = self._again, False
        if again and isinstance(request, Create):
            return Outcome.UNKNOWN  # the leader who sent it may have stored it: the same bytes are sent again (P1)
        return answer(request)

    def without_its_leader(self) -> bool:
        """Its leader is gone: prepare for the next one. Returns whether nobody is left to lead, which ends it."""
        here = [member for member in self.members if not member.gone and member.told is None]
        if not here:
            self._commit.close()
            return True
        if self.answers is not None or getgeneratorstate(self._commit) != GEN_CLOSED:
            self._again = self._pending is not None
        elif self._tried is None:
            self.members = here
            self._begin()
        else:
            why = CommitUnknown(
                f"{self._files.name}: the thread that committed this append was interrupted; nothing was deleted. Look "
                "it up before retrying",
                f"{self._tried}:interrupted",
            )
            self.answers = [unknown_to(self._files, member.edit, why) for member in self.members]
        return False
