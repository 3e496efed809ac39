"""Whoever asks a home that does not answer hears of it in time, and the home is away until it has answered."""

import threading
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pytest

from lithify.store.cold import Cold
from lithify.store.deadline import Deadline, LeftBehind
from lithify.store.errors import AccessDenied, InvalidRequest, NotFound, Unavailable
from lithify.store.memory import MemoryStore
from lithify.store.opening_homes import opened_homes, opened_spec
from lithify.store.owners import owner_key_beside
from lithify.store.port import ObjectInfo, Outcome
from lithify.store.wrapped import Wrapped
from tests.clock import HandClock
from tests.processes import exit_codes, forked
from tests.store.hanging import Gate, until

HOUR_MS = 3_600_000
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


class Dying(Wrapped):
    """Heads hang for ever, until it is well."""

    def __init__(self, gate: Gate, clock: HandClock) -> None:
        super().__init__(MemoryStore())
        self.put(KEY, b"xy")
        self.gate = gate
        self.well = False
        self._clock = clock
        gate.close()

    def head(self, key: str) -> ObjectInfo | None:
        if not self.well:
            self.gate.passed()
        return super().head(key)

    def cold(self, requests_max: int) -> Cold:
        deadline = Deadline(requests_max=requests_max, turn_s=0.0, clock=self._clock, wait=self._wait)
        return Cold("hang://far", self, deadline)

    def seen_as_away(self, requests_max: int) -> Cold:
        cold = self.cold(requests_max)
        with pytest.raises(LeftBehind):
            cold.head(KEY)
        return cold

    def _wait(self, ended: threading.Event, seconds: float) -> bool:
        return ended.wait(60) if self.well else self.gate.wait(ended, seconds)


def asked_in_vain(cold: Cold) -> None:
    with pytest.raises(Unavailable, match="it does not answer"):
        cold.head(KEY)


@pytest.fixture
def dying(gate: Gate, clock: HandClock) -> Dying:
    return Dying(gate, clock)


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
    """The longer trials hang, the rarer they are; but there always is another."""
    gate.close()
    with pytest.raises(LeftBehind):
        cold.head(KEY)
    for _ in range(10):
        with pytest.raises(Unavailable, match=r"^home hang://far: it does not answer"):
            cold.head(KEY)
    assert gate.came == 1, "no trial begins at once"
    tried_s = 0
    for number, pause_s in enumerate((5, 90, 180, 360, 720, 1440, 2880, 3600, 3600, 3600), start=2):
        tried_s += pause_s
        for ms in (-1, 0):
            clock.now_ms = HandClock.now_ms + tried_s * 1000 + ms
            with pytest.raises(Unavailable, match="it does not answer"):
                cold.head(KEY)
            until(lambda now=number + ms: gate.came == now)
    assert gate.standing == 11


def test_trials_that_hang_for_ever_do_not_keep_it_away(dying: Dying, clock: HandClock) -> None:
    cold = dying.seen_as_away(requests_max=1)
    clock.now_ms += 5_000
    asked_in_vain(cold)
    until(lambda: dying.gate.came == 2)
    dying.well = True
    clock.now_ms += 90_000
    asked_in_vain(cold)
    until(lambda: not cold.deadline.away)


def test_requests_that_hang_for_ever_give_their_turns_back_after_an_hour(dying: Dying, clock: HandClock) -> None:
    cold = dying.seen_as_away(requests_max=1)
    dying.well = True
    clock.now_ms += 5_000
    asked_in_vain(cold)
    until(lambda: not cold.deadline.away)
    clock.now_ms += HOUR_MS - 5_001
    with pytest.raises(Unavailable, match="its 1 requests at a time are under way"):
        cold.head(KEY)
    clock.now_ms += 1
    assert cold.head(KEY) is not None
    dying.gate.open()
    until(lambda: not dying.gate.standing)
    assert cold.head(KEY) is not None


@pytest.mark.parametrize("meanwhile", ["head", "get", "write", "output", "versioning", "now"])
def test_a_slow_request_does_not_make_it_away_if_it_answered_another_meanwhile(gate: Gate, meanwhile: str) -> None:
    """But some requests may be answered without asking the home."""

    class Listing(Wrapped):
        def list(self, prefix: str, token: str | None = None) -> Any:
            gate.passed()

    waited: list[float] = []
    asking = threading.Event()

    def wait(ended: threading.Event, seconds: float) -> bool:
        if asking.is_set():
            return ended.wait(60)
        until(lambda: gate.standing == 1)
        asking.set()
        try:
            others[meanwhile]()
        finally:
            asking.clear()
        waited.append(seconds)
        return False

    cold = Cold("hang://far", Listing(MemoryStore()), Deadline(wait=wait))
    cold.inner.put(KEY, b"xy")
    asking.set()
    output = cold.output(KEY + "2")
    asking.clear()
    others: dict[str, Callable[[], object]] = {
        **{name: lambda name=name: REQUESTS[name](cold) for name in ("head", "get", "output", "versioning", "now")},
        "write": lambda: output.write(b"x"),
    }
    gate.close()
    with pytest.raises(LeftBehind, match="no answer within 690 s" if meanwhile in ("head", "get") else "no answer"):
        cold.list("users/")
    assert cold.deadline.away == (meanwhile not in ("head", "get"))
    assert sum(waited) == 690


def test_who_has_more_time_hears_that_it_is_away(gate: Gate) -> None:
    waited: list[float] = []

    def wait(_ended: threading.Event, seconds: float) -> bool:
        waited.append(seconds)
        if len(waited) == 2:  # the deletion has waited for 90 s, and goes on
            with pytest.raises(LeftBehind):
                cold.head(KEY)
        return False

    cold = Cold("hang://far", Gated(gate), Deadline(wait=wait))
    gate.close()
    with pytest.raises(LeftBehind, match="no answer within 120 s"):
        cold.delete([KEY] * 1000)
    assert waited == [90, 30, 90]


def test_who_waits_for_a_turn_hears_that_it_is_away(gate: Gate) -> None:
    waits_for_a_turn = threading.Event()

    def clock() -> int:
        """Looked at by whoever wants a turn, under the lock that whoever gives up needs."""
        if threading.current_thread() is main:
            waits_for_a_turn.set()
        return 0

    main = threading.current_thread()
    cold = Cold(
        "hang://far",
        Gated(gate),
        Deadline(requests_max=1, turn_s=600, clock=clock, wait=lambda *_: not waits_for_a_turn.wait(60)),
    )
    gate.close()
    with ThreadPoolExecutor(1) as pool:
        first = pool.submit(cold.head, KEY)
        until(lambda: gate.standing == 1)
        with pytest.raises(Unavailable, match="it does not answer"):
            cold.head(KEY)
        assert type(first.exception()) is LeftBehind


@pytest.mark.filterwarnings("ignore:.*fork.*:DeprecationWarning")
@pytest.mark.parametrize("at", ["away", "all turns taken", "its lock held"])
def test_a_forked_child_begins_anew(dying: Dying, at: str) -> None:
    cold = dying.seen_as_away(requests_max=1) if at == "away" else dying.cold(requests_max=1)
    busy, done = threading.Event(), threading.Event()

    def hold() -> None:
        with cold.deadline._known._lock:
            busy.set()
            done.wait()

    def child() -> None:
        dying.well = True
        assert cold.head(KEY) is not None
        assert not cold.deadline.away

    with ThreadPoolExecutor(1) as pool:
        if at == "its lock held":
            pool.submit(hold)
            busy.wait()
        elif at == "all turns taken":
            pool.submit(cold.head, KEY)
            until(lambda: dying.gate.standing == 1)
        ended = exit_codes([forked(child)])
        done.set()
        dying.gate.open()
    assert ended == [0]


def test_it_is_back_when_a_request_that_was_left_behind_ends(cold: Cold, gate: Gate) -> None:
    gate.close()
    with pytest.raises(LeftBehind):
        cold.head(KEY)
    gate.open()
    until(lambda: not cold.deadline.away)
    assert cold.read(KEY, 0, 2) == b"xy"


@pytest.mark.parametrize("denied", [False, True])
def test_it_is_back_when_a_trial_is_answered(clock: HandClock, denied: bool) -> None:
    """Though the request that was left behind, on a connection that is half open, never is. That whoever asks may not
    see the trial's object is an answer, too: policies need not grant it."""
    gate, hangs = Gate(), threading.Event()

    class HalfOpen(Wrapped):
        def read(self, key: str, start: int, length: int) -> bytes:
            if not hangs.is_set():
                hangs.set()
                gate.passed()
            return super().read(key, start, length)

        def head(self, key: str) -> ObjectInfo | None:
            if denied:
                raise AccessDenied("403")
            return super().head(key)

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


def test_what_is_large_has_more_time() -> None:
    waited_s = 0.0

    def wait(ended: threading.Event, seconds: float) -> bool:
        """As if it had ended at the last moment."""
        nonlocal waited_s
        waited_s += seconds
        assert ended.wait(60)
        return False

    def waited(request: Callable[[], object]) -> float:
        nonlocal waited_s
        waited_s = 0.0
        request()
        return waited_s

    cold = Cold("hang://far", MemoryStore(), Deadline(10, wait=wait))
    assert waited(lambda: cold.put(KEY, bytes(1 << 20))) == 26
    assert waited(lambda: cold.read(KEY, 0, 1 << 20)) == 26
    output = cold.output(KEY)
    assert waited(lambda: output.write(bytes(1 << 19))) == 18
    assert waited(lambda: output.write(bytes(1 << 19))) == 18
    assert waited(output.close) == 26
    assert waited(lambda: cold.delete([KEY] * 10)) == 30
    assert waited(lambda: cold.delete([KEY] * 1000)) == 610
    assert waited(lambda: cold.list("users/")) == 610
    assert waited(lambda: cold.folders("users/")) == 610
    assert waited(lambda: cold.remove_stale_temporaries(lambda _: True)) == 610


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
