"""Calls side by side: all outcomes in order, no deadlock, nothing left running, each process its own threads."""

import gc
import os
import threading
import weakref
from collections.abc import Callable

import pytest

from lithify.store.side_by_side import THREADS_MAX, SideBySide, one_after_the_other


@pytest.fixture
def pool() -> SideBySide:
    return SideBySide()


def failing() -> int:
    raise ValueError("no")


@pytest.mark.parametrize("count", [0, 1, 2, 5, 3 * THREADS_MAX])
def test_outcomes_come_in_the_order_of_the_calls(pool: SideBySide, count: int) -> None:
    assert pool.run([lambda number=number: number for number in range(count)]) == list(range(count))
    pool.close()


@pytest.mark.parametrize("make", [one_after_the_other, lambda calls: SideBySide().run(calls)])
def test_a_failure_stops_no_other_call(make: Callable[..., list[int | Exception]]) -> None:
    first, second, third = make([lambda: 1, failing, lambda: 3])
    assert (first, third) == (1, 3)
    assert isinstance(second, ValueError)


def test_calls_run_at_the_same_time(pool: SideBySide) -> None:
    """Each waits for all others: one after the other they would never end."""
    barrier = threading.Barrier(THREADS_MAX, timeout=60)
    found = pool.run([barrier.wait for _ in range(THREADS_MAX)])
    assert sorted(found) == list(range(THREADS_MAX))
    pool.close()


def test_calls_that_make_calls_never_wait_for_a_thread(pool: SideBySide) -> None:
    """More of them than there are threads, three deep."""

    def below(depth: int) -> int:
        return 1 if not depth else sum(map(_int, pool.run([lambda: below(depth - 1)] * 4)))

    found = pool.run([lambda: below(3)] * (2 * THREADS_MAX))
    assert found == [64] * (2 * THREADS_MAX)
    pool.close()


def _int(outcome: int | Exception) -> int:
    assert isinstance(outcome, int)
    return outcome


def test_one_call_needs_no_thread(pool: SideBySide) -> None:
    assert pool.run([threading.get_ident]) == [threading.get_ident()]


def test_an_interrupt_begins_no_other_call_and_waits_for_none(pool: SideBySide) -> None:
    caller, begun, gate = threading.get_ident(), list[int](), threading.Event()

    def call() -> None:
        if threading.get_ident() == caller:
            raise KeyboardInterrupt
        begun.append(1)
        assert gate.wait(60)

    with pytest.raises(KeyboardInterrupt):
        pool.run([call] * 1_000)
    gate.set()
    pool.close()
    assert len(begun) <= THREADS_MAX


def test_it_can_be_used_after_it_was_closed(pool: SideBySide) -> None:
    for _ in range(2):
        assert pool.run([lambda: 1, lambda: 2]) == [1, 2]
        pool.close()


def test_a_pool_that_is_closed_meanwhile_answers(pool: SideBySide) -> None:
    def closing() -> int:
        pool.close()
        return 1

    assert pool.run([closing] * 20) == [1] * 20


def test_a_forked_child_has_threads_of_its_own(pool: SideBySide) -> None:
    barrier = threading.Barrier(2, timeout=60)
    pool.run([barrier.wait] * 2)
    child = os.fork()
    if child == 0:
        again = threading.Barrier(2, timeout=60)
        os._exit(0 if sorted(map(_int, pool.run([again.wait] * 2))) == [0, 1] else 1)
    assert os.waitpid(child, 0)[1] == 0
    pool.run([barrier.wait] * 2)
    pool.close()


def test_what_was_answered_is_not_kept_by_threads_that_are_busy(pool: SideBySide) -> None:
    """1. A stalled store holds all threads. 2. Another reader makes its calls itself, and is done with the answers."""
    begun, go = threading.Semaphore(0), threading.Event()

    def stalls() -> None:
        begun.release()
        assert go.wait(60)

    class Answer:
        pass

    other = threading.Thread(target=pool.run, args=([stalls] * (THREADS_MAX + 1),))
    other.start()
    for _ in range(THREADS_MAX + 1):
        assert begun.acquire(timeout=60)
    answers = [weakref.ref(each) for each in pool.run([Answer, Answer, Answer])]
    gc.collect()
    assert [each() for each in answers] == [None] * 3
    go.set()
    other.join()
    pool.close()
