"""An HTTP front before an S3 endpoint that fails as networks and servers do: "stored, and the reply was lost" can only
be said at this level."""

import socket
import ssl
import struct
import threading
from collections import deque
from collections.abc import Callable, Generator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from http.client import HTTPConnection, HTTPResponse
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any, Literal
from urllib.parse import urlsplit

from lithify.store.driver import pause

__all__ = ["Amount", "Deed", "Front", "Seen"]

_HOST = "127.0.0.1"
_CONDITION = "if-none-match"
_ERROR = '<?xml version="1.0"?><Error><Code>{code}</Code><Message>by plan</Message></Error>'


# How much of a reply arrives: "half" of the body under the length of the whole; "headers": half of the headers;
# "shortened": half of the body under its own length; "chunks": half of a chunked body; "bad chunk": a chunk of no size.
Amount = Literal["whole", "half", "none", "reset", "headers", "shortened", "chunks", "bad chunk"]


@dataclass(frozen=True, slots=True)
class Deed:
    """What happens to one request. The default lets it pass."""

    forward: bool = True  # whether the store sees the request
    twice: bool = False  # it sees it twice, as if the first answer had been lost on the way: the second one is told
    ignore_condition: bool = False  # whether If-None-Match is removed on the way
    ignore_range: bool = False
    status: int | None = None  # answer with this status, whatever the store said
    code: str = ""  # S3's error code in that answer
    body: str = ""  # or its whole body
    reply: Amount = "whole"
    kind: str = ""  # Content-Type of that answer
    headers: tuple[tuple[str, str], ...] = ()  # and its others
    without: tuple[str, ...] = ()  # headers, in small letters, that are taken off the reply on the way
    delay_ms: int = 0  # the store has done it, and the reply is held back for about so long
    late_ms: int = 0  # the client is cut off at once, and the store sees the request only about so long after


@dataclass(frozen=True, slots=True)
class Seen:
    method: str
    path: str
    conditional: bool


class Front:
    """Passes requests on to `endpoint_url`. Deeds given to `plan` meet the next requests that `concerns` picks;
    `rule`, where given, decides on all others. `seen` holds what came so far.
    """

    def __init__(
        self,
        endpoint_url: str,
        concerns: Callable[[Seen], bool] = lambda _: True,
        rule: Callable[[Seen], Deed] = lambda _: Deed(),
        observe: Callable[[Seen, Deed, bytes, int], object] = lambda *_: None,
        tls: ssl.SSLContext | None = None,
    ) -> None:
        """`observe` learns, before the client does, what the store answered (its status) to a request and its body.
        With `tls` it speaks HTTPS, and what is cut off ends without the closing alert."""
        self.seen: list[Seen] = []
        self._target = urlsplit(endpoint_url).netloc
        self._concerns = concerns
        self._rule = rule
        self._observe = observe
        self._planned: deque[Deed] = deque()
        self._under_way = 0
        self._changed = threading.Condition()
        front = self

        class Handler(_Handler):
            def answer(self) -> None:
                with front._counted():
                    front._answer(self)

        self._server = ThreadingHTTPServer((_HOST, 0), Handler)
        self._scheme = "http" if tls is None else "https"
        if tls is not None:
            self._server.socket = tls.wrap_socket(self._server.socket, server_side=True)
        self._thread = threading.Thread(target=self._server.serve_forever, kwargs={"poll_interval": 0.05}, daemon=True)
        self._thread.start()

    def __enter__(self) -> "Front":
        return self

    def __exit__(self, *_: object) -> None:
        self._server.shutdown()
        self._thread.join()
        self._server.server_close()

    @property
    def endpoint_url(self) -> str:
        return f"{self._scheme}://{_HOST}:{self._server.server_port}"

    def options(self, options: Mapping[str, Any]) -> dict[str, Any]:
        """The same storage options, by way of this front."""
        return {**options, "client_kwargs": {**options["client_kwargs"], "endpoint_url": self.endpoint_url}}

    def plan(self, *deeds: Deed) -> None:
        self._planned.extend(deeds)

    def drain(self) -> None:
        """Wait until the store has seen the last of what clients sent, and were cut off from."""
        with self._changed:
            self._changed.wait_for(lambda: not self._under_way)

    @contextmanager
    def _counted(self) -> Generator[None]:
        with self._changed:
            self._under_way += 1
        try:
            yield
        finally:
            with self._changed:
                self._under_way -= 1
                self._changed.notify_all()

    def _answer(self, handler: "_Handler") -> None:
        conditional = handler.headers.get(_CONDITION) is not None
        seen = Seen(handler.command, handler.path, conditional)
        self.seen.append(seen)
        planned = self._planned.popleft() if self._planned and self._concerns(seen) else None
        deed = planned or self._rule(seen)
        body = handler.rfile.read(int(handler.headers.get("Content-Length") or 0))
        status, headers, content = 503, dict[str, str](), b""
        if deed.late_ms:
            handler.cut()
            pause(deed.late_ms)
        for _ in range((1 + deed.twice) * deed.forward):
            status, headers, content = self._forward(handler, body, deed)
            self._observe(seen, deed, body, status)
        if deed.late_ms:
            return
        if deed.delay_ms:
            pause(deed.delay_ms)
        if deed.status is not None:
            status, headers = deed.status, {"Date": headers.get("Date", "")} if headers else {}
            content = (deed.body or (_ERROR.format(code=deed.code) if deed.code else "")).encode()
            content = b"" if handler.command == "HEAD" else content
            headers |= {"Content-Type": deed.kind} if deed.kind else {}
            headers |= dict(deed.headers)
        headers = {name: value for name, value in headers.items() if name.lower() not in deed.without}
        handler.reply(status, headers, content, deed.reply)

    def _forward(self, handler: "_Handler", body: bytes, deed: Deed) -> tuple[int, dict[str, str], bytes]:
        hidden = {"connection", "expect"}
        hidden |= {_CONDITION} if deed.ignore_condition else set()
        hidden |= {"range"} if deed.ignore_range else set()
        headers = {name: value for name, value in handler.headers.items() if name.lower() not in hidden}
        connection = HTTPConnection(self._target)
        try:
            connection.request(handler.command, handler.path, body, headers)
            reply: HTTPResponse = connection.getresponse()
            return reply.status, dict(reply.getheaders()), reply.read()
        finally:
            connection.close()


class _Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    disable_nagle_algorithm = True

    def answer(self) -> None:
        raise NotImplementedError

    def reply(self, status: int, headers: Mapping[str, str], content: bytes, amount: str) -> None:
        self.close_connection = amount != "whole"
        if amount == "reset":  # closed with time 0 to linger, TCP sends RST
            self.connection.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
            self.connection.close()
        if amount in ("none", "reset"):
            return
        self.send_response_only(status)
        for name, value in headers.items():
            if name.lower() not in {"content-length", "transfer-encoding", "connection"}:
                self.send_header(name, value)
        half = content[: len(content) // 2]
        if amount in ("chunks", "bad chunk"):
            self.send_header("Transfer-Encoding", "chunked")
            self.end_headers()
            self.wfile.write(b"%x\r\n%s\r\n" % (len(half), half) + (b"no size\r\n" if amount == "bad chunk" else b""))
            return
        if amount == "headers":
            self.flush_headers()
            self.wfile.write(b"Content-Le")
            return
        length = headers.get("Content-Length") if self.command == "HEAD" else None
        self.send_header("Content-Length", length or str(len(half if amount == "shortened" else content)))
        self.end_headers()
        self.wfile.write(content if amount == "whole" else half)

    def cut(self) -> None:
        self.close_connection = True
        self.connection.shutdown(socket.SHUT_RDWR)

    def do_GET(self) -> None:
        self.answer()

    do_HEAD = do_PUT = do_POST = do_DELETE = do_GET  # noqa: N815 - http.server's names

    def log_message(self, format: str, *args: Any) -> None:  # noqa: A002
        """Tests look at `seen`."""
