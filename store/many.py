"""The same blocking work on many things at a time, in threads that do nothing else."""

from collections import deque
from collections.abc import Callable, Iterable
from concurrent.futures import ThreadPoolExecutor
from typing import TypeVar

__all__ = ["AT_ONCE", "many"]

T = TypeVar("T")
R = TypeVar("R")
AT_ONCE = 32  # half of the connections that an S3 client keeps; requests side by side take the others


def many(do: Callable[[T], R], things: Iterable[T], at_once: int = AT_ONCE) -> list[R]:
    """What `do` answers for each of `things`, in their order. Raises the failure that came first, once those that had
    begun have ended. After a failure, or an interrupt (Ctrl-C), no other begins."""
    todo = deque(enumerate(things))
    count = len(todo)
    found: dict[int, R] = {}
    raised: list[BaseException] = []

    def work() -> None:
        while not raised:
            try:
                at, thing = todo.popleft()
            except IndexError:
                return
            try:
                found[at] = do(thing)
            except BaseException as error:  # noqa: BLE001 - raised again below, in the thread that asked
                raised.append(error)

    if min(count, at_once) <= 1:
        work()
    else:
        try:
            with ThreadPoolExecutor(min(count, at_once), thread_name_prefix="lithify-many") as pool:
                for _ in range(min(count, at_once)):
                    pool.submit(work)
        finally:
            # SUBTLE! 1. Ctrl-C, while the first of a thousand partitions are collected, ends the wait for the threads.
            # 2. They would do all the others. Test: tests/store/test_many.py
            todo.clear()
    if raised:
        raise raised[0]
    return [found[at] for at in range(count)]
