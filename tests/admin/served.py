"""Servers on loopback, each in a thread of its own."""

import http.client
import json
import threading
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from typing import Any, NamedTuple

import lithify
from lithify.admin.http.access import Door, Tokens
from lithify.admin.http.app import Limits, make_app
from lithify.admin.http.gate import Gate
from lithify.admin.http.server import Address, Serving
from lithify.admin.http.streams import EVENTS_TYPE, Streams
from lithify.events.feed import Feed
from lithify.store.driver import Driver
from lithify.store.memory import MemoryStore

READ, OPERATE, ADMIN, WRONG = "r" * 32, "o" * 32, "a" * 32, "w" * 32
TOKENS = Tokens.parse(f"read:{READ}\noperate:{OPERATE}\nadmin:{ADMIN}", "tokens")
TIMEOUT_S = 60


class Reply(NamedTuple):
    status: int
    headers: Mapping[str, str]
    body: bytes

    @property
    def json(self) -> Any:
        return json.loads(self.body)

    @property
    def is_problem(self) -> bool:
        """Whether it is a problem document of this status, and complete."""
        found = self.json
        said = {"type", "title", "detail", "kind"}
        return (
            self.headers["content-type"] == "application/problem+json"
            and all(isinstance(found[name], str) and found[name] for name in said)
            and (found["status"], type(found["retryable"])) == (self.status, bool)
            and found["type"] == f"urn:lithify:error:{found['kind']}"
        )


class Served:
    """Asks one server, over one connection at a time for each thread."""

    def __init__(self, address: Address, app: Any) -> None:
        self.app = app
        self.url = address.url
        self.authority = self.url.removeprefix("http://")
        self._own = threading.local()
        self._connections: list[http.client.HTTPConnection] = []

    def close(self) -> None:
        for connection in self._connections:
            connection.close()

    def __call__(
        self,
        verb: str,
        path: str,
        body: bytes | str | None = None,
        headers: Mapping[str, str | bytes] | None = None,
        *,
        token: str | None = None,
    ) -> Reply:
        """`path` goes out as it is. A body is JSON unless `headers` say otherwise."""
        given: dict[str, Any] = {} if body is None else {"Content-Type": "application/json"}
        given |= {} if token is None else {"Authorization": f"Bearer {token}"}
        given |= headers or {}
        connection = getattr(self._own, "connection", None)
        if connection is None:
            host, _, port = self.authority.rpartition(":")
            connection = self._own.connection = http.client.HTTPConnection(host, int(port), timeout=TIMEOUT_S)
            self._connections.append(connection)
        try:
            connection.putrequest(verb, path, skip_host="Host" in given, skip_accept_encoding=True)
            content = body.encode() if isinstance(body, str) else body
            for name, value in given.items():
                connection.putheader(name, value)
            if content is not None and not {"Content-Length", "Transfer-Encoding"} & given.keys():
                connection.putheader("Content-Length", str(len(content)))
            connection.endheaders(content)
            with connection.getresponse() as reply:
                if reply.headers.get_content_type() == EVENTS_TYPE and verb != "HEAD":
                    begun = reply.readline()
                    connection.close()  # it has no end
                    return Reply(reply.status, {k.lower(): v for k, v in reply.getheaders()}, begun)
                return Reply(reply.status, {k.lower(): v for k, v in reply.getheaders()}, reply.read())
        finally:
            if connection.sock is None or verb == "HEAD":
                connection.close()
                self._own.connection = None


@contextmanager
def running(server: Serving) -> Iterator[None]:
    """In a thread of its own, which has ended at the end of the block."""
    thread = threading.Thread(target=server.run, name="served")
    thread.start()
    try:
        yield
    finally:
        server.stop()
        thread.join(TIMEOUT_S)
        assert not thread.is_alive(), "the server does not end"


@contextmanager
def served(
    admin: Any,
    tokens: Tokens | None = None,
    *,
    limits: Limits | None = None,
    ready: Callable[[], object] = lambda: None,
    streams: Streams | None = None,
    port: int = 0,
) -> Iterator[Served]:
    address = Address(f"127.0.0.1:{port}")
    gate = Gate(Door([address.host], True), None if tokens is None else lambda: tokens)
    streams = streams or Streams(Feed(Driver(MemoryStore())))
    app = make_app(admin, gate, ready, streams, limits or Limits(), lambda: b"")
    found = Served(address, app)
    with running(Serving(address, app, streams, streams.feed.sink)):
        try:
            yield found
        finally:
            found.close()


class Recorder:
    """An `Admin` that does nothing but to remember what it was asked, and answers that it is not there."""

    def __init__(self) -> None:
        self.calls: list[tuple[str, dict[str, Any]]] = []

    def __getattr__(self, name: str) -> Callable[..., Any]:
        def call(**arguments: Any) -> Any:
            self.calls.append((name, arguments))
            raise lithify.NotFound("nothing is here")

        return call
