"""A home to which no connection can be made: for a second after each try nobody else tries, and all fail at once."""

from collections.abc import Callable

import pytest

from lithify.store.cold import Cold
from lithify.store.deadline import Deadline
from lithify.store.errors import NotFound, Unavailable
from lithify.store.memory import MemoryStore
from lithify.store.owners import owner_key_beside
from lithify.store.port import ObjectInfo
from lithify.store.s3 import S3Store
from lithify.store.unreachable import Unreachable
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
            raise Unreachable("no connection")


@pytest.fixture
def clock() -> HandClock:
    return HandClock()


@pytest.fixture
def down() -> Down:
    return Down()


@pytest.fixture
def cold(down: Down, clock: HandClock) -> Cold:
    return Cold("down://far", down, Deadline(clock=clock))


def test_for_a_second_nobody_tries_again(cold: Cold, down: Down, clock: HandClock) -> None:
    with pytest.raises(Unreachable, match=r"^home down://far: no connection$"):
        cold.read(KEY, 0, 2)
    clock.now_ms += 999
    for _ in range(10):
        with pytest.raises(Unavailable, match=r"^home down://far: it could not be reached a moment ago; nothing"):
            cold.read(KEY, 0, 2)
    assert down.asked == 1
    assert cold.deadline.away


def test_after_that_one_tries_and_the_others_still_fail_at_once(cold: Cold, down: Down, clock: HandClock) -> None:
    with pytest.raises(Unreachable):
        cold.read(KEY, 0, 2)
    for tries in range(2, 5):
        clock.now_ms += 1_000
        for _ in range(5):
            with pytest.raises(Unavailable, match="could not be reached"):
                cold.read(KEY, 0, 2)
        assert down.asked == tries


def test_who_tries_and_finds_it_there_gets_what_it_asked_for(cold: Cold, down: Down, clock: HandClock) -> None:
    """No request fails because of what was true a second ago."""
    with pytest.raises(Unreachable):
        cold.read(KEY, 0, 2)
    down.down = False
    clock.now_ms += 1_000
    assert cold.read(KEY, 0, 2) == b"xy"
    assert not cold.deadline.away
    assert cold.read(KEY, 0, 2) == b"xy"


def test_one_that_answered_another_request_meanwhile_is_not_away(cold: Cold, down: Down) -> None:
    """A server may refuse a single connection."""

    def another() -> None:
        down.down = False
        assert cold.head(KEY) is not None
        down.down = True

    down.meanwhile = another
    with pytest.raises(Unreachable):
        cold.read(KEY, 0, 2)
    assert not cold.deadline.away


def test_other_failures_do_not_make_it_away(cold: Cold, down: Down) -> None:
    """Among them that of one object, in an archive."""
    down.down = False
    with pytest.raises(NotFound):
        cold.read(KEY + "2", 0, 2)

    def archived() -> None:
        raise Unavailable("restore it")

    down.down, down.meanwhile = True, archived
    with pytest.raises(Unavailable, match="restore it"):
        cold.read(KEY, 0, 2)
    assert not cold.deadline.away


def test_s3_says_that_no_connection_could_be_made() -> None:
    client = {"endpoint_url": f"http://127.0.0.1:{free_port()}", "region_name": "us-east-1"}
    store = S3Store("bucket", "p", {"key": "k", "secret": "s", "client_kwargs": client}, pause=lambda _: None)
    with pytest.raises(Unreachable, match="Could not connect"):
        store.head(KEY)
    with pytest.raises(Unreachable, match="Could not connect"):
        store.read(KEY, 0, 2)
    store.close()
