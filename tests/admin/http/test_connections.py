"""Connections of clients that take nothing, or that are too many: none of them keeps its place, and none takes the
descriptors that the rest of the process needs. No token is needed to make one."""

import select
import socket
from collections.abc import Callable
from contextlib import ExitStack
from typing import Any

import pytest

from lithify.admin.http import server as http_server
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
    monkeypatch.setattr(http_server, "IDLE_S", 0.1)
    server = serve(Large())
    with ExitStack() as stack:
        connection = connected(server, stack)
        connection.sendall(f"GET /v1/topics HTTP/1.1\r\nHost: localhost\r\n{last}\r\n".encode())
        assert is_ended(connection)


def test_who_asks_on_and_takes_no_answer_is_let_go(
    recorder: Recorder, serve: Callable[..., Served], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(http_server, "IDLE_S", 0.1)
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
    monkeypatch.setattr(http_server, "IDLE_S", 5)
    reply = serve(Large())("GET", "/v1/topics")
    assert (reply.status, len(reply.json["items"][0]["config"]["x"])) == (200, 20_000_000)


def test_connections_are_bounded_and_each_that_ends_makes_room(
    recorder: Recorder, serve: Callable[..., Served], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Else whoever reaches the address takes every descriptor, and a compactor in the same process can open nothing."""
    monkeypatch.setattr(http_server, "CONNECTIONS_MAX", 4)
    monkeypatch.setattr(http_server, "TOLD_MAX", 2)
    server = serve(recorder)
    with ExitStack() as stack:
        made = [connected(server, stack) for _ in range(12)]
        told = [asked(each) for each in made]
    assert told[0] == b"HTTP/1.1 503"
    assert set(told[:6]) <= {b"HTTP/1.1 503", b"HTTP/1.1 200"}
    assert told[6:] == [b""] * 6, "nothing is read of them"
    while asked_anew(server) != b"HTTP/1.1 200":  # the server learns of their end when it next looks
        pass
