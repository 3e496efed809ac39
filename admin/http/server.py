"""The HTTP server of a process: one address, served by uvicorn in a thread."""

import asyncio
import logging
import socket
import struct
import threading
from collections.abc import Callable, Generator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import structlog
import uvicorn
from uvicorn.protocols.http.h11_impl import H11Protocol

from lithify.admin.client import Admin
from lithify.admin.gauges import TOPICS_MAX
from lithify.admin.http.access import Door, TokenFile, Tokens, is_loopback
from lithify.admin.http.app import make_app
from lithify.admin.http.gate import Gate
from lithify.admin.http.ready import Ready
from lithify.admin.http.streams import Streams
from lithify.admin.http.tls import Certificate
from lithify.admin.metrics import Metrics
from lithify.admin.partitions import WarehouseLike
from lithify.admin.surveyor import SURVEY_MS
from lithify.events.event_log import both, log_event
from lithify.events.feed import Feed
from lithify.events.types import Sink
from lithify.store.errors import InvalidRequest, Unavailable

__all__ = ["TOKENS_VARIABLE", "Address", "Serving", "serving"]

TOKENS_VARIABLE = "LITHIFY_HTTP_TOKENS"

log = structlog.wrap_logger(logging.getLogger("lithify.http"))

_HEADERS_BYTES_MAX = 32 << 10
IDLE_S = 30.0  # a connection without a whole head of a request, or whose client takes nothing
CONNECTIONS_MAX = 512  # who makes one more is told so,
TOLD_MAX = 64  # and beyond so many more is let go unheard: each takes a descriptor of the process
_TAKEN_BYTES_S = 1_024  # a client takes at least so much of its answer
_DROP = struct.pack("ii", 1, 0)
_LEAVE_S = 10  # running requests may take so long after the server was told to end


class Address:
    """HOST:PORT, bound when it is made, so that whoever starts a server learns at once whether that is possible.

    >>> address = Address("127.0.0.1:0")
    >>> address.url.startswith("http://127.0.0.1:")
    True
    >>> address.close()
    """

    def __init__(self, text: str) -> None:
        """Port 0: any that is free. Raises InvalidRequest, Unavailable if the address is in use."""
        host, colon, port = text.rpartition(":")
        self.host = host.strip("[]")
        fits = self.host.isprintable() and port.isascii() and port.isdigit() and len(port) <= 5 and int(port) <= 65535
        if not colon or not self.host or not fits:
            raise InvalidRequest(f"{text[:100]!r} is no address: give HOST:PORT, such as 127.0.0.1:8480 or [::1]:8480")
        family = socket.AF_INET6 if ":" in self.host else socket.AF_INET
        # asyncio sends at once only where it sees that this is TCP; else each answer waits 40 ms for its head's ACK.
        self.socket = socket.socket(family, socket.SOCK_STREAM, socket.IPPROTO_TCP)
        try:
            self.socket.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            self.socket.bind((self.host, int(port)))
            self.socket.listen(TOLD_MAX)
        except OSError as error:
            self.socket.close()
            raise Unavailable(f"{text}: this address cannot be served: {error.strerror or error}") from None

    @property
    def is_loopback(self) -> bool:
        return is_loopback(self.host)

    @property
    def authority(self) -> str:
        host = f"[{self.host}]" if ":" in self.host else self.host
        return f"{host}:{self.socket.getsockname()[1]}"

    @property
    def url(self) -> str:
        """Without TLS."""
        return f"http://{self.authority}"

    def close(self) -> None:
        self.socket.close()


class Serving:
    """Answers requests until it is told to leave."""

    def __init__(
        self, address: Address, app: Any, streams: Streams, sink: Sink, certificate: Certificate | None = None
    ) -> None:
        """`sink`: takes the events of a compactor or collector of this process. With a `certificate` it speaks
        HTTPS."""
        self._streams = streams
        self._address = address
        self.sink = sink
        self.url = address.url if certificate is None else f"https://{address.authority}"
        config = uvicorn.Config(
            app,
            lifespan="off",
            log_config=None,
            access_log=False,
            server_header=False,
            h11_max_incomplete_event_size=_HEADERS_BYTES_MAX,
            http=_Impatient,
            ws="none",
            limit_concurrency=CONNECTIONS_MAX,
            backlog=TOLD_MAX,
            timeout_keep_alive=int(_LEAVE_S * 3),
            timeout_graceful_shutdown=_LEAVE_S,
            proxy_headers=False,
        )
        if certificate is not None:
            config.load()  # which sets what is set here
            config.ssl = certificate.context
        self._server = _Quiet(config)
        self.started = threading.Event()
        self._server.begun = self.started

    def run(self) -> None:
        """Returns after `stop`, once running requests have ended, or ten seconds later."""
        events = threading.Thread(target=self._streams.run, name="lithify-events", daemon=True)
        events.start()
        try:
            self._server.run(sockets=[self._address.socket])
        finally:
            self._streams.stop()
            events.join()

    def stop(self) -> None:
        """Safe in a signal handler."""
        self._server.should_exit = True
        self._streams.stop()


class _Impatient(H11Protocol):
    """A connection that ends if it waits for a request too long, or for its client to take an answer. uvicorn ends
    those that are idle after an answer, and waits for ever for a first request, for the rest of its head, or for
    whoever takes nothing; some hundred of them would be all that there may be. Test: tests/admin/http/test_limits.py,
    tests/admin/http/test_connections.py"""

    _timer: asyncio.TimerHandle | None = None
    _slow: asyncio.TimerHandle | None = None

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        super().connection_made(transport)
        if len(self.connections) > CONNECTIONS_MAX + TOLD_MAX:
            transport.abort()
            return
        # `pause_writing` tells of all that waits to be taken. With a limit of 0, TLS would tell where nothing waits.
        transport.set_write_buffer_limits(1, 0)
        self._watch()

    def pause_writing(self) -> None:
        super().pause_writing()
        self._await_taken()

    def resume_writing(self) -> None:
        super().resume_writing()
        self._forget_taken()

    def data_received(self, data: bytes) -> None:
        super().data_received(data)
        self._watch()

    def connection_lost(self, exc: Exception | None) -> None:
        super().connection_lost(exc)
        self._forget_taken()
        if self._timer is not None:
            self._timer.cancel()

    @property
    def _waits(self) -> bool:
        return self.cycle is None or self.cycle.response_complete  # pyright: ignore[reportUnnecessaryComparison]

    def _watch(self) -> None:
        if not self._waits and self._timer is not None:
            self._timer.cancel()
            self._timer = None
        elif self._waits and self._timer is None:
            self._timer = self.loop.call_later(IDLE_S, self._end)

    def _end(self) -> None:
        self._timer = None
        if self._waits and not self.transport.is_closing():
            self.transport.close()

    def _await_taken(self) -> None:
        left = self.transport.get_write_buffer_size()
        self._slow = self.loop.call_later(IDLE_S, self._look, left - _TAKEN_BYTES_S * IDLE_S)

    def _look(self, left_max: float) -> None:
        if self.transport.get_write_buffer_size() > left_max:
            # A close would wait for ever to be rid of what is left, here and in the kernel.
            self.transport.get_extra_info("socket").setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, _DROP)
            self.transport.abort()
        else:
            self._await_taken()

    def _forget_taken(self) -> None:
        if self._slow is not None:
            self._slow.cancel()
            self._slow = None


class _Quiet(uvicorn.Server):
    """Signals belong to the process, which stops all of its parts; uvicorn would take them."""

    begun: threading.Event

    @contextmanager
    def capture_signals(self) -> Generator[None]:
        yield

    async def startup(self, sockets: list[socket.socket] | None = None) -> None:
        await super().startup(sockets)
        self.begun.set()


def serving(
    warehouse: WarehouseLike,
    address: str,
    token_file: Path | None = None,
    tokens: str = "",
    hosts: Sequence[str] = (),
    survey_ms: int = SURVEY_MS,
    topics_max: int = TOPICS_MAX,
    certificate: tuple[Path, Path] | None = None,
) -> Serving:
    """The server of a warehouse, its address bound. `tokens`: one role:token a line, if there is no `token_file`.
    `hosts`: more names by which clients reach it. `survey_ms`: how long a survey is good enough. `topics_max`: how many
    topics have metrics of their own. `certificate`: PEM files of a certificate and its key, for HTTPS.

    Raises InvalidRequest, also for an address beyond loopback without tokens; Unavailable.
    """
    found: Callable[[], Tokens] | None = None
    if token_file is not None:
        found = TokenFile(token_file, lambda error: log.error("tokens not read", error=str(error))).tokens
    elif tokens.strip():
        fixed = Tokens.parse(tokens, TOKENS_VARIABLE)
        found = lambda: fixed  # noqa: E731
    tls = None
    if certificate is not None:
        tls = Certificate(*certificate, lambda error: log.error("certificate not read", error=str(error)))
    bound = Address(address)
    try:
        if found is None and not bound.is_loopback:
            raise InvalidRequest(
                f"other machines can reach {address}: give tokens by --http-tokens FILE or {TOKENS_VARIABLE}, or serve "
                "127.0.0.1"
            )
        gate = Gate(Door([bound.host, *hosts], bound.is_loopback), found)
        store = warehouse.driver.store
        overview = lambda: admin.overview()  # noqa: E731, PLW0108 - admin is made below, with this one's sink
        metrics = Metrics(overview, store.requests, topics_max, store.request_times)
        streams = Streams(Feed(warehouse.driver))
        sink = both(metrics.sink, streams.feed.sink)
        admin = Admin(warehouse, survey_ms=survey_ms, events=both(log_event, sink))
        app = make_app(admin, gate, Ready(warehouse.driver), streams, metrics=metrics.text)
        return Serving(bound, app, streams, sink, tls)
    except BaseException:
        bound.close()
        raise
