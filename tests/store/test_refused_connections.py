"""A home that refuses connections is spared for a moment: requests fail at once. Then it is asked as before."""

import socket
import threading
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import Any
from unittest.mock import Mock

import pytest

from lithify.store.cold import Cold
from lithify.store.deadline import Deadline, LeftBehind
from lithify.store.errors import AccessDenied, NotFound, Unavailable
from lithify.store.memory import MemoryStore
from lithify.store.owners import owner_key_beside
from lithify.store.port import ObjectInfo
from lithify.store.refused import NotAsked, Refused
from lithify.store.s3 import S3Store
from lithify.store.wrapped import Wrapped
from tests.clock import HandClock
from tests.cluster.standalone import free_port

KEY = "users/0123456789abcdef/00000/segments/1.parquet"


class Down(Wrapped):
    """While it is down, nothing can be asked. `asked`: how often it was tried."""

    def __init__(self) -> None:
        super().__init__(MemoryStore())
        self.put(KEY, b"xy")
        self.put(owner_key_beside(KEY), b"{}")
        self.down = True
        self.asked = 0
        self.meanwhile: Callable[[], object] = lambda: None

    def head(self, key: str) -> ObjectInfo | None:
        self._try()
        return super().head(key)

    def read(self, key: str, start: int, length: int) -> bytes:
        self._try()
        return super().read(key, start, length)

    def _try(self) -> None:
        self.asked += 1
        if self.down:
            self.meanwhile()
            raise Refused("nobody listens")


@pytest.fixture
def clock() -> HandClock:
    return HandClock()


@pytest.fixture
def down() -> Down:
    return Down()


@pytest.fixture
def cold(down: Down, clock: HandClock) -> Cold:
    return Cold("down://far", down, Deadline(clock=clock))


@pytest.fixture
def refused(cold: Cold) -> Cold:
    """A moment ago."""
    with pytest.raises(Refused, match=r"^home down://far: nobody listens$"):
        cold.read(KEY, 0, 2)
    return cold


def spared_for(ms: int, cold: Cold, clock: HandClock) -> None:
    """For so long it is not asked, and then it refuses again."""
    clock.now_ms += ms - 1
    with pytest.raises(Unavailable, match="not asked"):
        cold.read(KEY, 0, 2)
    clock.now_ms += 1
    with pytest.raises(Refused):
        cold.read(KEY, 0, 2)


def test_for_a_moment_nobody_asks_and_the_reason_is_told(refused: Cold, down: Down, clock: HandClock) -> None:
    clock.now_ms += 49
    for _ in range(10):
        with pytest.raises(Unavailable, match=r"^home down://far: not asked, because a moment ago: nobody listens$"):
            refused.read(KEY, 0, 2)
    assert down.asked == 1
    assert not refused.deadline.away


def test_each_refusal_doubles_the_moment_up_to_two_seconds(refused: Cold, down: Down, clock: HandClock) -> None:
    for tries, spared_ms in enumerate((50, 100, 200, 400, 800, 1_600, 2_000, 2_000), 2):
        spared_for(spared_ms, refused, clock)
        assert down.asked == tries


def test_an_answer_ends_it(refused: Cold, down: Down, clock: HandClock) -> None:
    for _ in range(5):
        clock.now_ms += 2_000
        with pytest.raises(Refused):
            refused.read(KEY, 0, 2)
    clock.now_ms += 2_000
    down.down = False
    assert refused.read(KEY, 0, 2) == b"xy"
    down.down = True
    clock.now_ms += 2_000
    for passed_ms in (0, 50):
        clock.now_ms += passed_ms
        with pytest.raises(Refused):
            refused.read(KEY, 0, 2)


@pytest.mark.parametrize(("error", "spared_ms"), [(NotAsked("no credentials"), 100), (AccessDenied("403"), 50)])
def test_an_error_that_came_without_asking_ends_nothing(
    refused: Cold, down: Down, clock: HandClock, error: AccessDenied, spared_ms: int
) -> None:
    def fails() -> None:
        raise error

    clock.now_ms += 2_000
    down.meanwhile = fails
    with pytest.raises(AccessDenied):
        refused.read(KEY, 0, 2)
    down.meanwhile = lambda: None
    clock.now_ms += 2_000
    with pytest.raises(Refused):
        refused.read(KEY, 0, 2)
    spared_for(spared_ms, refused, clock)


def test_requests_that_were_under_way_count_as_one(cold: Cold, down: Down, clock: HandClock) -> None:
    together = threading.Barrier(8)

    def all_at_once() -> None:
        together.wait()

    down.meanwhile = all_at_once
    with ThreadPoolExecutor(8) as pool:
        failed = [pool.submit(cold.read, KEY, 0, 2) for _ in range(8)]
    assert all(type(each.exception()) is Refused for each in failed)
    down.meanwhile = lambda: None
    clock.now_ms += 50
    with pytest.raises(Refused):
        cold.read(KEY, 0, 2)


def test_whoever_asks_seldom_and_repeats_is_answered_behind_a_balancer(
    cold: Cold, down: Down, clock: HandClock
) -> None:
    """One of four machines is dead: every fourth connection is refused, and what failed is repeated after 100 ms."""
    for task in range(100):
        clock.now_ms += 5_000
        for attempt in range(2):
            down.down = attempt == 0 and task % 4 == 0
            try:
                cold.read(KEY, 0, 2)
                break
            except Unavailable:
                clock.now_ms += 100
        else:
            raise AssertionError(f"task {task} was not answered")


def test_after_two_seconds_all_are_answered_side_by_side(refused: Cold, down: Down, clock: HandClock) -> None:
    """No request fails because of what was true before."""
    together, down.down = threading.Barrier(4), False
    clock.now_ms += 2_000

    def read(_: int) -> bytes:
        together.wait()
        return refused.read(KEY, 0, 2)

    with ThreadPoolExecutor(4) as pool:
        assert list(pool.map(read, range(4))) == [b"xy"] * 4


@pytest.mark.parametrize(("passed_ms", "asked"), [(0, 12), (1_999, 12), (2_000, 3)])
def test_one_that_answered_a_moment_ago_is_not_spared(
    cold: Cold, down: Down, clock: HandClock, passed_ms: int, asked: int
) -> None:
    """A server may refuse a single connection, as behind a balancer with one dead machine."""
    down.down = False
    assert cold.head(KEY) is not None
    assert cold.read(KEY, 0, 2) == b"xy"
    down.down = True
    clock.now_ms += passed_ms
    for _ in range(10):
        with pytest.raises(Unavailable, match="nobody listens"):
            cold.read(KEY, 0, 2)
    assert down.asked == asked


def test_one_that_answered_another_request_meanwhile_is_not_spared(cold: Cold, down: Down) -> None:
    def another() -> None:
        down.down = False
        assert cold.head(KEY) is not None
        down.down = True

    down.meanwhile = another
    for _ in range(2):
        with pytest.raises(Refused):
            cold.read(KEY, 0, 2)


def test_an_upload_that_has_begun_goes_on_and_its_answer_ends_it(cold: Cold, down: Down) -> None:
    output = cold.output(KEY + "2")
    output.write(b"a")
    with pytest.raises(Refused):
        cold.read(KEY, 0, 2)
    output.write(b"b")
    with pytest.raises(Unavailable, match="not asked"):
        cold.read(KEY, 0, 2)
    output.close()
    down.down = False
    assert cold.read(KEY + "2", 0, 2) == b"ab"


def test_a_long_request_is_not_cut_off(down: Down) -> None:
    """A listing has 690 s; after 90 of them a connection is refused."""
    hangs, waited = threading.Event(), list[float]()

    class Listing(Wrapped):
        def list(self, prefix: str, token: str | None = None) -> Any:
            assert hangs.wait(60)

    def wait(ended: threading.Event, seconds: float) -> bool:
        if threading.current_thread() is not lists:
            return ended.wait(60)
        if not waited:
            with ThreadPoolExecutor(1) as pool:
                assert type(pool.submit(lambda: cold.read(KEY, 0, 2)).exception()) is Refused
        waited.append(seconds)
        return False

    lists = threading.current_thread()
    cold = Cold("down://far", Listing(down), Deadline(wait=wait))
    with pytest.raises(LeftBehind, match="no answer within 690 s"):
        cold.list("users/")
    hangs.set()


def test_other_failures_do_not_count(cold: Cold, down: Down, clock: HandClock) -> None:
    """Among them that of one object, in an archive."""
    down.down = False
    with pytest.raises(NotFound):
        cold.read(KEY + "2", 0, 2)

    def archived() -> None:
        raise Unavailable("restore it")

    down.down, down.meanwhile = True, archived
    clock.now_ms += 2_000
    for _ in range(2):
        with pytest.raises(Unavailable, match="restore it"):
            cold.read(KEY, 0, 2)


def test_s3_tells_a_refused_connection() -> None:
    client = {"endpoint_url": f"http://127.0.0.1:{free_port()}", "region_name": "us-east-1"}
    store = S3Store("bucket", "p", {"key": "k", "secret": "s", "client_kwargs": client}, pause=lambda _: None)
    for ask in (lambda: store.head(KEY), lambda: store.read(KEY, 0, 2), lambda: store.list("users/")):
        with pytest.raises(
            Refused,
            match=r"could not connect to http://127\.0\.0\.1:\d+: connection refused; nothing is lost, try again$",
        ):
            ask()
    store.close()


def test_a_name_that_nobody_knows_is_not_a_refused_connection(monkeypatch: pytest.MonkeyPatch) -> None:
    """To learn that may take long."""
    monkeypatch.setattr("socket.getaddrinfo", Mock(side_effect=socket.gaierror(socket.EAI_NONAME, "unknown")))
    client = {"endpoint_url": "http://nowhere.invalid", "region_name": "us-east-1"}
    store = S3Store("bucket", "p", {"key": "k", "secret": "s", "client_kwargs": client}, pause=lambda _: None)
    with pytest.raises(Unavailable) as caught:
        store.head(KEY)
    assert type(caught.value) is Unavailable
    store.close()
