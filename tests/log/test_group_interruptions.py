"""Whoever is interrupted in a shared commit (docs/rfcs/0024), at whatever line of the queue's own code: nobody else
waits for ever, and what they are told is so."""

import gc
import itertools
import linecache
import sys
import threading
from types import FrameType
from typing import Any

import pytest

from lithify.log import commit_queue
from lithify.log.append import outcome
from lithify.log.commit_queue import Member
from lithify.log.warehouse import Warehouse
from lithify.manifest.partition import PartitionFiles
from lithify.store.driver import Driver
from lithify.store.errors import CommitUnknown
from lithify.store.memory import MemoryStore
from lithify.store.metered import Metered
from tests.clock import HandClock
from tests.log.producing import WAIT_MS
from tests.log.test_group_commit import Crowd, Doomed

# A second interrupt, while the first one is dealt with, is not what this is about.
LEAVING = {"_leave", "without_its_leader"}
JOINED = 4  # lines that lead to being in the queue


class Interrupted:
    """Raises KeyboardInterrupt in a thread at the `at`-th line of commit_queue.py that it comes to."""

    def __init__(self, at: int) -> None:
        self.left = at
        self.where = ""

    def __call__(self, frame: FrameType, event: str, arg: Any) -> Any:
        code = frame.f_code
        if code.co_filename != commit_queue.__file__ or code.co_name in LEAVING:
            return None
        if event == "line" and not linecache.getline(code.co_filename, frame.f_lineno).lstrip().startswith("with "):
            self.left -= 1
            if not self.left:
                self.where = f"{code.co_name}:{frame.f_lineno}"
                raise KeyboardInterrupt
        return self


def plays(who: int, at: int) -> Interrupted:
    """Member 0 commits alone, then 1 to 3 together, then 9. One of them is interrupted."""
    warehouse = Warehouse(Driver(Metered(MemoryStore()), HandClock()))
    warehouse.create_topic("t")
    crowd, interrupted = Crowd(warehouse), Interrupted(at)
    plain = crowd.queue.commit

    def commit(member: Member) -> range:
        mine = int(member.edit.segment.id[-1]) == who
        before = sys.gettrace()
        sys.settrace(interrupted if mine else before)
        try:
            return plain(member)
        finally:
            sys.settrace(before)

    crowd.queue.commit = commit  # type: ignore[method-assign]
    crowd.behind(*(crowd.member(number) for number in (1, 2, 3)))
    crowd.joins(9, crowd.member(9))
    crowd.threads[-1].join(WAIT_MS / 1000)
    assert not crowd.threads[-1].is_alive(), f"the queue does not go on after {interrupted.where}"
    stored = [name for commit in crowd.commits() for name in commit]
    assert len(stored) == len(set(stored))
    for number, told in crowd.told.items():
        if number == who and interrupted.where:
            continue
        if isinstance(told, CommitUnknown):
            found = warehouse.driver.run(outcome(PartitionFiles(crowd.keys), told.token, settle=True))
            assert (found is not None) == (str(number) in stored)
        else:
            assert isinstance(told, range), (number, told, interrupted.where)
            assert str(number) in stored
    return interrupted


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore:coroutine 'commit_many' was never awaited")  # interrupted just before that
@pytest.mark.parametrize("who", [1, 2])
def test_who_is_interrupted_at_any_line_leaves_the_others_whole(who: int) -> None:
    reached = sum(1 for _ in itertools.takewhile(lambda at: plays(who, at).where, itertools.count(JOINED)))
    gc.collect()  # what the interrupts held, while its warnings are expected
    assert reached > 10


def test_the_last_one_of_a_commit_without_a_leader_is_interrupted_too() -> None:
    """1. Number 1 leads a commit for itself and 2, and is interrupted. 2. So is 2, as it wakes up to take over."""
    warehouse = Warehouse(Driver(Metered(MemoryStore()), HandClock()))
    warehouse.create_topic("t")
    crowd = Crowd(warehouse)
    led, second = threading.Event(), crowd.member(2)

    class Woken(Doomed):
        def acquire(self) -> bool:
            while not led.is_set():
                self._lock.acquire()
            raise KeyboardInterrupt

    def answer(request: Any) -> Any:
        led.set()
        raise KeyboardInterrupt

    woken: Any = Woken()
    second.news = woken
    crowd.behind(crowd.member(1, answer), second)
    assert [type(crowd.told[number]) for number in (1, 2)] == [KeyboardInterrupt] * 2
    crowd.joins(9, crowd.member(9))
    crowd.threads[-1].join(WAIT_MS / 1000)
    assert crowd.told[9] == range(1, 2)
