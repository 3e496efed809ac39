"""Whoever asks a home that does not answer hears of it in time, and the home is away until it has answered."""

import threading
from collections.abc import Callable, Iterator
from typing import Any

import pytest

from lithify.store.cold import Cold
from lithify.store.deadline import Deadline, LeftBehind
from lithify.store.errors import InvalidRequest, NotFound, Unavailable
from lithify.store.memory import MemoryStore
from lithify.store.opening_homes import opened_homes, opened_spec
from lithify.store.owners import owner_key_beside
from lithify.store.port import Outcome, OutputFile
from lithify.store.wrapped import Wrapped
from tests.clock import HandClock
from tests.store.hanging import Gate

KEY = "users/0123456789abcdef/00000/segments/1.parquet"
REQUESTS: dict[str, Callable[[Cold], Any]] = {
    "get": lambda cold: cold.get(KEY),
    "read": lambda cold: cold.read(KEY, 0, 1),
    "put": lambda cold: cold.put(KEY, b"x"),
    "head": lambda cold: cold.head(KEY),
    "list": lambda cold: cold.list("users/"),
    "folders": lambda cold: cold.folders(""),
    "delete": lambda cold: cold.delete([KEY]),
    "now": lambda cold: cold.now(),
    "output": lambda cold: cold.output(KEY),
    "versioning": lambda cold: cold.versioning(),
    "remove_stale_temporaries": lambda cold: cold.remove_stale_temporaries(lambda _: True),
}


class Gated(Wrapped):
    """Every request stands at the gate first."""

    def __init__(self, gate: Gate) -> None:
        super().__init__(MemoryStore())
        self._gate = gate

    def __getattribute__(self, name: str) -> Any:
        found = super().__getattribute__(name)
        if name not in REQUESTS and name != "create":
            return found

        def gated(*args: Any, **kwargs: Any) -> Any:
            self._gate.passed()
            return found(*args, **kwargs)

        return gated


@pytest.fixture
def gate() -> Iterator[Gate]:
    made = Gate()
    yield made
    made.open()


@pytest.fixture
def clock() -> HandClock:
    return HandClock()


@pytest.fixture
def cold(gate: Gate, clock: HandClock) -> Cold:
    made = Cold("hang://far", Gated(gate), Deadline(requests_max=4, turn_s=0.0, clock=clock, wait=gate.wait))
    made.put(KEY, b"xy")
    made.put(owner_key_beside(KEY), b"{}")
    return made


@pytest.mark.parametrize("name", REQUESTS)
def test_every_request_has_a_deadline_and_its_error_names_the_home(cold: Cold, gate: Gate, name: str) -> None:
    gate.close()
    with pytest.raises(Unavailable, match=r"^home hang://far: no answer within") as caught:
        REQUESTS[name](cold)
    assert type(caught.value) is LeftBehind
    assert cold.deadline.away


def test_a_create_that_is_not_answered_may_have_happened(cold: Cold, gate: Gate) -> None:
    gate.close()
    assert cold.create("k", b"x") is Outcome.UNKNOWN


def test_while_it_is_away_nobody_waits_and_it_is_tried_now_and_then(cold: Cold, gate: Gate, clock: HandClock) -> None:
    """However long, and however often it is asked, its hanging threads stay within the limit."""
    gate.close()
    with pytest.raises(LeftBehind):
        cold.head(KEY)
    for _ in range(10):
        with pytest.raises(Unavailable, match=r"^home hang://far: it does not answer"):
            cold.head(KEY)
    assert gate.came == 1, "no trial begins at once"
    for _ in range(10):
        clock.now_ms += 100_000
        with pytest.raises(Unavailable, match="it does not answer"):
            cold.head(KEY)
    until(lambda: gate.came == 4)
    assert gate.standing == 4, "as many as there are turns"


def test_it_is_back_when_a_request_that_was_left_behind_ends(cold: Cold, gate: Gate) -> None:
    gate.close()
    with pytest.raises(LeftBehind):
        cold.head(KEY)
    gate.open()
    until(lambda: not cold.deadline.away)
    assert cold.read(KEY, 0, 2) == b"xy"


def test_it_is_back_when_a_trial_is_answered(clock: HandClock) -> None:
    """Though the request that was left behind, on a connection that is half open, never is."""
    gate, hangs = Gate(), threading.Event()

    class HalfOpen(Wrapped):
        def read(self, key: str, start: int, length: int) -> bytes:
            if not hangs.is_set():
                hangs.set()
                gate.passed()
            return super().read(key, start, length)

    store = HalfOpen(MemoryStore())
    store.put(KEY, b"xy")
    cold = Cold("hang://far", store, Deadline(clock=clock, wait=gate.wait))
    gate.close()
    with pytest.raises(LeftBehind):
        cold.read(KEY, 0, 2)
    with pytest.raises(Unavailable):
        cold.read(KEY, 0, 2)
    clock.now_ms += 5_000
    with pytest.raises(Unavailable):
        cold.read(KEY, 0, 2)  # begins the trial
    until(lambda: not cold.deadline.away)
    assert gate.standing == 1
    gate.open()
    assert cold.read(KEY, 0, 2) == b"xy"


def test_an_upload_that_arrives_late_is_deleted(gate: Gate) -> None:
    class Slow(Wrapped):
        def output(self, key: str) -> OutputFile:
            return SlowOutput(super().output(key))

    class SlowOutput(OutputFile):
        def __init__(self, inner: OutputFile) -> None:
            self.write, self.abort, self._inner = inner.write, inner.abort, inner

        def close(self) -> None:
            gate.passed()
            self._inner.close()
            closed.set()

    store, closed = Slow(MemoryStore()), threading.Event()
    cold = Cold("hang://far", store, Deadline(wait=gate.wait))
    output = cold.output(KEY)
    output.write(b"xy")
    gate.close()
    with pytest.raises(LeftBehind):
        output.close()
    output.abort()
    with pytest.raises(Unavailable, match="given up"):
        output.write(b"z")
    assert not closed.is_set(), "the thread that closes it is left alone"
    gate.open()
    assert closed.wait(60)
    until(lambda: store.inner.head(KEY) is None)


def test_an_answer_is_passed_on_whatever_it_is() -> None:
    class Answering(Wrapped):
        def get(self, key: str) -> Any:
            raise errors.pop()

    errors: list[BaseException] = [InvalidRequest("no"), NotFound("gone", KEY), KeyboardInterrupt()]
    cold = Cold("hang://far", Answering(MemoryStore()))
    for kind in (KeyboardInterrupt, NotFound, InvalidRequest):
        with pytest.raises(kind):
            cold.get(KEY)
    assert not cold.deadline.away


def test_what_is_large_has_more_time(gate: Gate) -> None:
    waited: list[float] = []

    def wait(ended: threading.Event, seconds: float) -> bool:
        waited.append(seconds)
        return ended.wait(60)

    cold = Cold("hang://far", MemoryStore(), Deadline(10, wait=wait))
    cold.put(KEY, bytes(1 << 20))
    cold.read(KEY, 0, 1 << 20)
    output = cold.output(KEY)
    output.write(bytes(1 << 19))
    output.write(bytes(1 << 19))
    output.close()
    cold.delete([KEY] * 10)
    assert waited == [26, 26, 10, 18, 18, 26, 30]


def test_how_long_is_an_option_that_workers_are_told() -> None:
    homes = opened_homes("memory://w", {"home_timeout_s": "7"})
    spec = homes.spec()
    assert spec.timeout_s == 7
    for opened in (homes, opened_spec(spec)):
        store = opened.store("memory://w-cold")
        assert isinstance(store, Cold)
        assert store.deadline.timeout_s == 7
        assert store.spec().timeout_s == 7
    default = opened_homes("memory://w").store("memory://w-cold")
    assert isinstance(default, Cold)
    assert default.deadline.timeout_s == 90


@pytest.mark.parametrize("given", ["", "soon", 0, -1, 3_601, None, "nan", [1]])
def test_a_wrong_one_is_refused(given: Any) -> None:
    with pytest.raises(InvalidRequest, match="home_timeout_s is a number of seconds from 1 to 3600"):
        opened_homes("memory://w", {"home_timeout_s": given})


def until(holds: Callable[[], bool]) -> None:
    """Other threads are about to make it so."""
    waiting = threading.Event()
    for _ in range(6_000):
        if holds():
            return
        waiting.wait(0.01)
    raise AssertionError("it never was so")
