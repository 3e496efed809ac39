"""Requests under way: threads, and what becomes of requests when these are busy, gone, or in another process."""

import threading
import weakref
from typing import Any

import pytest

from lithify.store.errors import Unavailable
from lithify.store.fetching import THREADS_MAX, Fetch, Landings
from tests.far import fetching_threads
from tests.processes import exit_codes, forked

pytestmark = pytest.mark.filterwarnings("ignore:.*fork.*:DeprecationWarning")


def awaited(fetch: Fetch[Any], landings: Landings) -> Any:
    while not fetch.help():
        seen = landings.count
        if not fetch.ended:
            landings.wait(seen)
    return fetch.answer()


def idle() -> None:
    for thread in fetching_threads():
        thread.join(20)
    assert not fetching_threads()


def test_requests_are_made_at_once_by_threads_that_then_end() -> None:
    landings, together = Landings(), threading.Barrier(THREADS_MAX)
    fetches = [Fetch(lambda: together.wait(20), landings) for _ in range(THREADS_MAX)]
    assert sorted(awaited(fetch, landings) for fetch in fetches) == list(range(THREADS_MAX))
    idle()


def test_an_error_is_raised_where_the_answer_is_wanted() -> None:
    def fail() -> None:
        raise Unavailable("try again")

    landings = Landings()
    fetch = Fetch(fail, landings)
    with pytest.raises(Unavailable, match="try again"):
        awaited(fetch, landings)


class Hanging:
    """Takes all threads."""

    def __init__(self, landings: Landings) -> None:
        self.go = threading.Event()
        self._begun = threading.Semaphore(0)
        self.fetches = [Fetch(self._hang, landings) for _ in range(THREADS_MAX)]
        for _ in self.fetches:
            assert self._begun.acquire(timeout=20)

    def _hang(self) -> None:
        self._begun.release()
        assert self.go.wait(60)


def test_who_waits_makes_his_request_himself_when_all_threads_hang() -> None:
    landings = Landings()
    hanging = Hanging(landings)
    here: list[threading.Thread] = []
    awaited(Fetch(lambda: here.append(threading.current_thread()), landings), landings)
    assert here == [threading.current_thread()]
    hanging.go.set()
    idle()


def test_a_request_that_nobody_wants_any_more_is_not_made() -> None:
    landings = Landings()
    hanging = Hanging(landings)
    made: list[int] = []
    fetch = Fetch(lambda: made.append(1), landings)
    gone = weakref.ref(fetch)
    del fetch
    assert gone() is None
    hanging.go.set()
    idle()
    assert made == []


def test_an_answer_that_nobody_wants_any_more_is_thrown_away() -> None:
    landings = Landings()
    hanging = Hanging(landings)
    gone = weakref.ref(hanging.fetches[0])
    hanging.fetches.clear()
    assert gone() is None, "a thread must not hold what it works for"
    hanging.go.set()
    idle()
    assert landings.count == 0


@pytest.mark.parametrize("when", ["before the fork", "after it"])
def test_a_forked_child_makes_its_requests_itself(when: str) -> None:
    landings = Landings()
    hanging = Hanging(landings)

    def child() -> None:
        hanging.go.set()  # its own copy
        for mine in (landings, Landings()):
            assert awaited(Fetch(lambda: 7, mine), mine) == 7
        if when == "before the fork":
            assert awaited(hanging.fetches[0], landings) is None

    assert exit_codes([forked(child)]) == [0]
    hanging.go.set()
    idle()
