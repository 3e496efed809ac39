"""A process that forks while its other threads are at work: handles that the child inherits are its own (P1)."""

import os
import signal
import threading
from collections.abc import Callable
from pathlib import Path

import pytest

import lithify

# From 3.12 on Python warns of forks beside threads, which is what is tested here.
pytestmark = pytest.mark.filterwarnings("ignore:.*fork.*:DeprecationWarning")


def in_a_child(work: Callable[[], object]) -> int:
    """How a forked child ended: 0, or what ended it. One that waits for ever is ended by its alarm."""
    pid = os.fork()
    if pid == 0:
        signal.signal(signal.SIGALRM, signal.SIG_DFL)
        signal.alarm(20)
        code = 99
        try:
            work()
            code = 0
        finally:
            os._exit(code)
    return os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1])


@pytest.mark.parametrize("used", ["partition", "topic"])
def test_a_child_does_not_wait_for_a_thread_that_it_does_not_have(used: str, tmp_path: Path) -> None:
    topic = lithify.open(str(tmp_path / "w")).create_topic("t", probe=False)
    part = topic.partition(0)
    part.append([lithify.Record(b"k", b"parent")])
    lock = (part if used == "partition" else topic)._lock.mine()
    busy, done = threading.Event(), threading.Event()

    def other() -> None:
        with lock:
            busy.set()
            done.wait()

    thread = threading.Thread(target=other)
    thread.start()
    busy.wait()
    work = (lambda: part.append([lithify.Record(b"k", b"child")])) if used == "partition" else topic.describe
    ended = in_a_child(work)
    done.set()
    thread.join()
    assert ended == 0
    part.append([lithify.Record(b"k", b"parent again")])
    values = [record.value for record in part.read()]
    assert values == [b"parent", *([b"child"] if used == "partition" else []), b"parent again"]
