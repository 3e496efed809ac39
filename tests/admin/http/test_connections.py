"""Connections of clients that take nothing, or that are too many: none of them keeps its place, and none takes the
descriptors that the rest of the process needs. No token is needed to make one."""

import select
import socket
import threading
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from typing import Any

import pytest

from lithify.admin.http import connections
from lithify.admin.http import server as server_module
from lithify.admin.http.gate import HEADERS
from lithify.admin.partitions import Answers
from lithify.admin.topics import TopicSummary
from tests.admin.served import TIMEOUT_S, Recorder, Served

pytestmark = pytest.mark.slow  # each test starts a server


def connected(server: Served, stack: ExitStack) -> socket.socket:
    """It takes as little ahead of its reader as the system lets it."""
    found = stack.enter_context(socket.socket())
    found.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4_096)
    found.settimeout(TIMEOUT_S)
    host, _, port = server.authority.partition(":")
    found.connect((host, int(port)))
    return found


def is_ended(connection: socket.socket) -> bool:
    """Whether the server ends it, though nothing of what it sent is read."""
    events = select.poll()
    events.register(connection, 0)  # errors and ends are always told
    return bool(events.poll(TIMEOUT_S * 1_000))


def asked(connection: socket.socket) -> bytes:
    """What it answers, up to its status; nothing if it has ended."""
    try:
        connection.sendall(b"GET /healthz HTTP/1.1\r\nHost: localhost\r\n\r\n")
        return connection.recv(12)
    except OSError:
        return b""


def asked_anew(server: Served) -> bytes:
    with ExitStack() as stack:
        return asked(connected(server, stack))


class Large(Recorder):
    """Its list is more than the system takes ahead of a reader."""

    def topics(self) -> Any:
        one = TopicSummary(
            topic="users", topic_id="1a2b", version=1, created_at_ms=0, partitions=1, config={"x": "y" * 20_000_000}
        )
        return Answers(items=(one,))


@pytest.mark.parametrize("last", ["", "Connection: close\r\n"])
def test_who_takes_no_answer_is_let_go(
    last: str, serve: Callable[..., Served], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(connections, "IDLE_S", 0.1)
    server = serve(Large())
    with ExitStack() as stack:
        connection = connected(server, stack)
        connection.sendall(f"GET /v1/topics HTTP/1.1\r\nHost: localhost\r\n{last}\r\n".encode())
        assert is_ended(connection)


def test_who_asks_on_and_takes_no_answer_is_let_go(
    recorder: Recorder, serve: Callable[..., Served], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(connections, "IDLE_S", 0.1)
    server = serve(recorder)
    with ExitStack() as stack:
        connection = connected(server, stack)
        with pytest.raises(ConnectionError):
            ask_on(connection)


def ask_on(connection: socket.socket) -> None:
    """Until nothing more is taken, and then until it is ended."""
    while True:
        connection.sendall(b"GET /static/views.css HTTP/1.1\r\nHost: localhost\r\n\r\n" * 100)


def test_who_takes_an_answer_gets_all_of_it(serve: Callable[..., Served], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(connections, "IDLE_S", 5)
    reply = serve(Large())("GET", "/v1/topics")
    assert (reply.status, len(reply.json["items"][0]["config"]["x"])) == (200, 20_000_000)


def test_whoever_sends_nothing_makes_room_for_whoever_comes(
    recorder: Recorder, serve: Callable[..., Served], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Those who came later were turned away, a probe among them: the process was restarted for it."""
    monkeypatch.setattr(connections, "CONNECTIONS_MAX", 4)
    server = serve(recorder)
    with ExitStack() as stack:
        made = [connected(server, stack) for _ in range(4)]
        for each in (*made[1:], made[0]):  # from then on it waits for a request
            assert whole(each).startswith(b"HTTP/1.1 200")
        later = [asked(connected(server, stack)) for _ in range(3)]
        assert later == [b"HTTP/1.1 200"] * 3
        assert [each.recv(1) for each in made[1:]] == [b""] * 3
        assert whole(made[0]).startswith(b"HTTP/1.1 200")


def whole(connection: socket.socket) -> bytes:
    """The whole answer of a probe."""
    found = asked(connection)
    while found and not found.endswith(b'{"status":"ok"}'):
        found += connection.recv(65_536)
    return found


@pytest.fixture
def busy(monkeypatch: pytest.MonkeyPatch, serve: Callable[..., Served]) -> Iterator[Served]:
    """A server with as many requests at work as there may be connections."""
    monkeypatch.setattr(connections, "CONNECTIONS_MAX", 4)
    monkeypatch.setattr(server_module, "CONNECTIONS_MAX", 4)
    hanging = Hanging()
    server = serve(hanging)
    with ExitStack() as stack:
        stack.callback(hanging.go.set)
        for _ in range(4):
            connected(server, stack).sendall(b"GET /v1/topics HTTP/1.1\r\nHost: localhost\r\n\r\n")
            assert hanging.begun.acquire(timeout=TIMEOUT_S)
        yield server


class Hanging(Recorder):
    def __init__(self) -> None:
        super().__init__()
        self.go, self.begun = threading.Event(), threading.Semaphore(0)

    def topics(self) -> Any:
        self.begun.release()
        assert self.go.wait(TIMEOUT_S)
        return Answers(items=())


def test_a_busy_server_says_so_and_answers_probes(busy: Served) -> None:
    for _ in range(3):
        told = busy("GET", "/v1/topics")
        assert (told.status, told.is_problem, told.headers["retry-after"]) == (503, True, "1")
        assert (told.json["kind"], told.json["retryable"]) == ("Unavailable", True)
        assert told.headers["content-security-policy"] == HEADERS["Content-Security-Policy"]
        assert [busy("GET", path).status for path in ("/healthz", "/readyz")] == [200, 200]


def test_connections_of_a_busy_server_are_bounded(busy: Served, monkeypatch: pytest.MonkeyPatch) -> None:
    """Else whoever reaches the address takes every descriptor, and a compactor in the same process can open nothing."""
    monkeypatch.setattr(connections, "TOLD_MAX", 0)
    assert asked_anew(busy) == b"", "nothing is read of it"


def test_a_connection_that_ends_makes_room(
    recorder: Recorder, serve: Callable[..., Served], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(connections, "CONNECTIONS_MAX", 1)
    server = serve(recorder)
    assert [asked_anew(server) for _ in range(8)] == [b"HTTP/1.1 200"] * 8
