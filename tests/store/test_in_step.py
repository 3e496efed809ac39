"""Coroutines in step: one Together per round, each told only what it asked for, in the order of a coroutine alone."""

from typing import Any

import pytest

from lithify.store.driver import drive
from lithify.store.errors import Unavailable
from lithify.store.in_step import both, in_step
from lithify.store.port import Get, NewId, Now, Request, Together, together


async def reads(*keys: str) -> list[Any]:
    return [await Get(key) for key in keys]


class Asked:
    """Answers with the key, and keeps what was asked."""

    def __init__(self, fails: str = "") -> None:
        self.requests: list[Request[Any]] = []
        self._fails = fails

    def __call__(self, request: Request[Any]) -> Any:
        self.requests.append(request)
        if isinstance(request, Together):
            return tuple(map(self._one, request.requests))
        reply = self._one(request)
        if isinstance(reply, Exception):
            raise reply
        return reply

    def _one(self, request: Request[Any]) -> Any:
        if isinstance(request, Get):
            return Unavailable(request.key) if request.key == self._fails else request.key
        return 7


def test_each_round_is_one_request() -> None:
    asked = Asked()
    assert drive(in_step(reads("a", "b", "c"), reads("d")), asked) == (["a", "b", "c"], ["d"])
    assert asked.requests == [Together((Get("a"), Get("d"))), Get("b"), Get("c")]


def test_equal_requests_of_a_round_are_made_once() -> None:
    asked = Asked()
    assert drive(in_step(reads("a", "b"), reads("c", "b"), reads("b")), asked) == (["a", "b"], ["c", "b"], ["b"])
    assert asked.requests == [Together((Get("a"), Get("c"), Get("b"))), Get("b")]


def test_requests_made_together_join_those_of_others() -> None:
    asked = Asked()
    assert drive(in_step(together((Get("a"), Get("b"))), reads("b", "c")), asked) == (("a", "b"), ["b", "c"])
    assert asked.requests == [Together((Get("a"), Get("b"))), Get("c")]


async def late(*keys: str) -> list[Any]:
    assert (await Now(), await NewId()) == (7, 7)
    return await reads(*keys)


def test_the_time_and_new_ids_join_no_round() -> None:
    asked = Asked()
    assert drive(in_step(late("a"), late("b")), asked) == (["a"], ["b"])
    assert asked.requests == [Now(), NewId(), Now(), NewId(), Together((Get("a"), Get("b")))]


def test_a_failure_is_raised_in_the_coroutine_that_asked_and_the_other_goes_on() -> None:
    first, second = drive(in_step(reads("a", "bad"), reads("b", "c", "d")), Asked(fails="bad"))
    assert isinstance(first, Unavailable)
    assert second == ["b", "c", "d"]


def test_both_raise_the_first_failure_once_both_have_ended() -> None:
    asked = Asked(fails="bad")
    with pytest.raises(Unavailable, match="bad"):
        drive(both(reads("bad"), reads("b", "c")), asked)
    assert asked.requests[-1] == Get("c")


async def closing(closed: list[str], name: str) -> None:
    try:
        await Get(name)
        await Get(name)
    finally:
        closed.append(name)


def test_who_is_closed_closes_those_in_step() -> None:
    closed: list[str] = []
    work = in_step(closing(closed, "a"), closing(closed, "b"))
    work.send(None)
    work.close()
    assert closed == ["a", "b"]


def test_none_at_all_end_at_once() -> None:
    assert drive(in_step(), Asked()) == ()
