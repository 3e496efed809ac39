"""The same work on many things at a time: in order, to its end, and no further than that."""

import threading
from concurrent.futures import ThreadPoolExecutor

import pytest

from lithify.store import many as module
from lithify.store.many import many


@pytest.mark.parametrize("at_once", [1, 3, 50])
def test_answers_come_in_order(at_once: int) -> None:
    assert many(lambda number: number * 2, range(20), at_once) == list(range(0, 40, 2))
    assert many(lambda number: number, [], at_once) == []


@pytest.mark.parametrize("at_once", [1, 3])
@pytest.mark.parametrize("error", [ValueError, SystemExit])
def test_the_first_failure_is_raised_and_nothing_is_begun_after_it(error: type[BaseException], at_once: int) -> None:
    begun: list[int] = []

    def do(number: int) -> None:
        begun.append(number)
        raise error

    with pytest.raises(error):
        many(do, range(100), at_once)
    assert len(begun) <= at_once


def test_an_interrupt_begins_nothing_else(monkeypatch: pytest.MonkeyPatch) -> None:
    """SUBTLE in store/many.py: it comes while the first ones are waited for."""
    begun, go = threading.Semaphore(0), threading.Event()
    done: list[int] = []

    class Interrupted(ThreadPoolExecutor):
        def shutdown(self, wait: bool = True, *, cancel_futures: bool = False) -> None:
            for _ in range(2):
                assert begun.acquire(timeout=60)
            raise KeyboardInterrupt

    def do(number: int) -> None:
        begun.release()
        assert go.wait(60)
        done.append(number)

    monkeypatch.setattr(module, "ThreadPoolExecutor", Interrupted)
    with pytest.raises(KeyboardInterrupt):
        many(do, range(100), 2)
    go.set()
    for thread in threading.enumerate():
        if thread.name.startswith("lithify-many"):
            thread.join(60)
    assert len(done) == 2
