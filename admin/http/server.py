"""The HTTP server of a process: one address, served by uvicorn in a thread."""

import logging
import socket
import threading
from collections.abc import Callable, Generator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import structlog
import uvicorn

from lithify.admin.client import Admin
from lithify.admin.gauges import TOPICS_MAX
from lithify.admin.http.access import Door, TokenFile, Tokens, is_loopback
from lithify.admin.http.app import Bounded, make_app
from lithify.admin.http.connections import CONNECTIONS_MAX, TOLD_MAX, Connection, Handshake
from lithify.admin.http.few import few_lines
from lithify.admin.http.gate import Gate
from lithify.admin.http.ready import Ready
from lithify.admin.http.streams import Streams
from lithify.admin.http.tls import Certificate
from lithify.admin.metrics import Metrics
from lithify.admin.partitions import WarehouseLike
from lithify.admin.survey import Overview
from lithify.admin.surveyor import SURVEY_MS
from lithify.events.event_log import both, log_event
from lithify.events.feed import Feed
from lithify.events.types import Sink
from lithify.store.errors import InvalidRequest, Unavailable

__all__ = ["TOKENS_VARIABLE", "Address", "Serving", "serving"]

TOKENS_VARIABLE = "LITHIFY_HTTP_TOKENS"

log = structlog.wrap_logger(logging.getLogger("lithify.http"))

_HEADERS_BYTES_MAX = 32 << 10
_KEEP_ALIVE_S = 30
LOOK_S = 1.0  # between two looks at the files of tokens and of the certificate
SCRAPE_WAIT_MS = 100  # for a new survey, before a scrape is answered from the last one
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
            examples = "127.0.0.1:8480 or [::1]:8480"
            raise InvalidRequest(f"{text[:100]!r} is not an address; give HOST:PORT, such as {examples}")
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
        self,
        address: Address,
        app: Any,
        streams: Streams,
        sink: Sink,
        certificate: Certificate | None = None,
        tokens: TokenFile | None = None,
    ) -> None:
        """`sink`: takes the events of a compactor or collector of this process. With a `certificate` it speaks
        HTTPS. Its files and that of `tokens` are looked at while it runs."""
        self._streams = streams
        self._files: list[Certificate | TokenFile] = [each for each in (certificate, tokens) if each is not None]
        self._left = threading.Event()
        self._address = address
        self.sink = sink
        self.url = address.url if certificate is None else f"https://{address.authority}"
        config = uvicorn.Config(
            Bounded(app, self._is_full),
            lifespan="off",
            log_config=None,
            access_log=False,
            server_header=False,
            h11_max_incomplete_event_size=_HEADERS_BYTES_MAX,
            http=Connection if certificate is None else _over_tls(certificate),
            ws="none",
            backlog=TOLD_MAX,
            timeout_keep_alive=_KEEP_ALIVE_S,
            timeout_graceful_shutdown=_LEAVE_S,
            proxy_headers=False,
        )
        self._server = _Quiet(config)
        self.started = threading.Event()
        self._server.begun = self.started

    def run(self) -> None:
        """Returns after `stop`, once running requests have ended, or ten seconds later."""
        beside = [threading.Thread(target=self._streams.run, name="lithify-events", daemon=True)]
        if self._files:
            beside.append(threading.Thread(target=self._look_now_and_then, name="lithify-files", daemon=True))
        for each in beside:
            each.start()
        try:
            with few_lines("uvicorn.error", "asyncio"):
                self._server.run(sockets=[self._address.socket])
        finally:
            self._streams.stop()
            self._left.set()
            for each in beside:
                each.join()

    def look(self) -> None:
        """Read files that have changed."""
        for each in self._files:
            each.look()

    def _look_now_and_then(self) -> None:
        """In a thread of its own: a file system may hang, and requests do not wait for it."""
        while not self._left.wait(LOOK_S):
            self.look()

    def stop(self) -> None:
        """Safe in a signal handler."""
        self._server.should_exit = True
        self._streams.stop()

    @property
    def connections(self) -> int:
        """How many there are now, with those that have not agreed on TLS yet."""
        return len(self._server.server_state.connections)

    def _is_full(self) -> bool:
        return max(self.connections, len(self._server.server_state.tasks)) > CONNECTIONS_MAX


def _over_tls(certificate: Certificate) -> Any:
    """What uvicorn makes for each client: for it, a class of protocols."""
    return lambda **named: Handshake(certificate.context, lambda: Connection(**named))


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
    file: TokenFile | None = None
    if token_file is not None:
        file = TokenFile(token_file, lambda error: log.error("tokens not read", error=str(error)))
        found = file.tokens
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
        homes, store = warehouse.driver.homes, warehouse.driver.store

        def overview() -> Overview:
            return admin.overview(wait_ms=SCRAPE_WAIT_MS)  # made below: its events are counted by `metrics`

        metrics = Metrics(overview, store.requests, topics_max, store.request_times, homes.cache_counts, homes)
        streams = Streams(Feed(warehouse.driver))
        sink = both(metrics.sink, streams.feed.sink)
        admin = Admin(warehouse, survey_ms=survey_ms, events=both(log_event, sink))
        app = make_app(admin, gate, Ready(warehouse.driver), streams, metrics=metrics.text)
        return Serving(bound, app, streams, sink, tls, file)
    except BaseException:
        bound.close()
        raise
