"""The HTTP server of a process: one address, served by uvicorn in a thread."""

import socket
import threading
from collections.abc import Generator
from contextlib import contextmanager
from typing import Any

import uvicorn

from lithify.admin.http.access import is_loopback
from lithify.store.errors import InvalidRequest, Unavailable

__all__ = ["Address", "Serving"]

_HEADERS_BYTES_MAX = 32 << 10
_IDLE_S = 30  # a connection without a request
_CONNECTIONS_MAX = 512
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
        if not colon or not self.host or not port.isascii() or not port.isdigit() or int(port) > 65535:
            raise InvalidRequest(f"{text[:100]!r} is no address: give HOST:PORT, such as 127.0.0.1:8480 or [::1]:8480")
        family = socket.AF_INET6 if ":" in self.host else socket.AF_INET
        self.socket = socket.socket(family, socket.SOCK_STREAM)
        try:
            self.socket.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            self.socket.bind((self.host, int(port)))
            self.socket.listen(256)
        except OSError as error:
            self.socket.close()
            raise Unavailable(f"{text}: this address cannot be served: {error.strerror or error}") from None

    @property
    def is_loopback(self) -> bool:
        return is_loopback(self.host)

    @property
    def url(self) -> str:
        host = f"[{self.host}]" if ":" in self.host else self.host
        return f"http://{host}:{self.socket.getsockname()[1]}"

    def close(self) -> None:
        self.socket.close()


class Serving:
    """Answers requests until it is told to leave."""

    def __init__(self, address: Address, app: Any) -> None:
        self._address = address
        config = uvicorn.Config(
            app,
            lifespan="off",
            log_config=None,
            access_log=False,
            server_header=False,
            h11_max_incomplete_event_size=_HEADERS_BYTES_MAX,
            http="h11",
            ws="none",
            limit_concurrency=_CONNECTIONS_MAX,
            timeout_keep_alive=_IDLE_S,
            timeout_graceful_shutdown=_LEAVE_S,
            proxy_headers=False,
        )
        self._server = _Quiet(config)
        self.started = threading.Event()
        self._server.begun = self.started

    def run(self) -> None:
        """Returns after `stop`, once running requests have ended, or ten seconds later."""
        self._server.run(sockets=[self._address.socket])

    def stop(self) -> None:
        """Safe in a signal handler."""
        self._server.should_exit = True


class _Quiet(uvicorn.Server):
    """Signals belong to the process, which stops all of its parts; uvicorn would take them."""

    begun: threading.Event

    @contextmanager
    def capture_signals(self) -> Generator[None]:
        yield

    async def startup(self, sockets: list[socket.socket] | None = None) -> None:
        await super().startup(sockets)
        self.begun.set()
