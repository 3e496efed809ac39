"""A store without an answer is told of once, after a while; one that answers never is."""

import contextlib
import threading
from collections.abc import Callable

import pytest

from lithify.store.errors import AccessDenied, Unavailable
from lithify.store.memory import MemoryStore
from lithify.store.metered import Metered, tell_of_silence
from lithify.store.port import Object
from lithify.store.silence import SILENCE_MS, Silence


class Clocked:
    """The watching thread takes steps only when the test says so."""

    def __init__(self) -> None:
        self.now_ms = 0
        self.told = 0
        self.step, self.stepped = threading.Semaphore(0), threading.Semaphore(0)
        self.waits: list[float] = []
        self.silence = Silence(self._tell, lambda: self.now_ms, self._wait)

    def _tell(self) -> None:
        self.told += 1

    def _wait(self, over: threading.Event, timeout_s: float) -> bool:
        if over.is_set():
            return True
        self.waits.append(timeout_s)
        self.stepped.release()
        self.step.acquire()
        return over.is_set()

    def pass_ms(self, ms: int) -> None:
        self.now_ms += ms
        self.step.release()
        self.stepped.acquire()


@pytest.fixture
def clocked() -> Clocked:
    return Clocked()


def test_a_request_that_waits_is_told_of_once(clocked: Clocked) -> None:
    clocked.silence.asked()
    clocked.stepped.acquire()
    clocked.pass_ms(SILENCE_MS - 1)
    assert (clocked.told, clocked.waits) == (0, [SILENCE_MS / 1_000, 0.001])
    clocked.now_ms += 1
    clocked.step.release()
    clocked.silence.join()
    assert clocked.told == 1
    clocked.silence.asked()
    clocked.silence.join()
    assert clocked.told == 1


@pytest.mark.parametrize("well", [True, False])
def test_failures_are_no_answers(clocked: Clocked, well: bool) -> None:
    """As when each attempt is refused at once, and repeated."""
    for _ in range(4):
        clocked.silence.asked()
        clocked.silence.answered(well=well)
        clocked.now_ms += SILENCE_MS // 4
    clocked.stepped.acquire()
    clocked.step.release()
    if well:
        clocked.stepped.acquire()
        clocked.silence.close()
        clocked.step.release()
    clocked.silence.join()
    assert clocked.told == (not well)


def test_others_that_are_answered_show_that_it_is_there(clocked: Clocked) -> None:
    clocked.silence.asked()  # and this waits all the time
    clocked.stepped.acquire()
    for _ in range(3):
        clocked.silence.asked()
        clocked.silence.answered(well=True)
        clocked.pass_ms(SILENCE_MS - 1)
        assert clocked.told == 0
    clocked.silence.close()
    clocked.step.release()
    clocked.silence.join()
    assert clocked.told == 0


class Answering(MemoryStore):
    def __init__(self, answer: Callable[[], Object | None]) -> None:
        super().__init__("w")
        self._answer = answer

    def get(self, key: str) -> Object | None:
        return self._answer()


def away() -> None:
    raise Unavailable("away")


def refused() -> None:
    raise AccessDenied("no")


@pytest.mark.parametrize(("answer", "owed"), [(away, True), (refused, False), (lambda: None, False)])
def test_what_a_store_answers(answer: Callable[[], None], owed: bool) -> None:
    store = Metered(Answering(answer))
    told: list[str] = []
    tell_of_silence(store, told.append)
    silence = store.silence
    assert silence is not None
    with contextlib.suppress(Unavailable, AccessDenied):
        store.hasty().get("k")
    assert (silence.since_ms is not None) == owed
    store.close()
    silence.join()
    assert told == []
