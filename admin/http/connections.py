"""The connections of a server: how long each may take, and how many there may be (docs/http.md, Limits)."""

import asyncio
import socket
import ssl
import struct
from collections.abc import Callable
from typing import Any, Protocol

import h11
import msgspec
from uvicorn.protocols.http.h11_impl import H11Protocol

from lithify.admin.http.gate import HEADERS
from lithify.admin.http.problems import MEDIA_TYPE, refusal

__all__ = ["CONNECTIONS_MAX", "TOLD_MAX", "Connection", "Handshake"]

IDLE_S = 30.0  # a connection without a whole head of a request, or whose client takes nothing
HANDSHAKE_S = 10.0  # of TLS
CONNECTIONS_MAX = 512  # beyond, a new one takes the place of the one that has waited longest for a request
TOLD_MAX = 64  # where none waits, so many more are answered, and all others closed: each takes a descriptor
_TAKEN_BYTES_S = 1_024  # a client takes at least so much of its answer
_DROP = struct.pack("ii", 1, 0)


class _Placed(Protocol):
    """What takes a place among the connections of a server."""

    waits_since: float | None  # for its client, by the loop's clock; None: a request of it is at work

    def drop(self) -> None: ...


def _take_place(connections: set[Any], new: _Placed) -> bool:
    """Whether there is one for `new`.

    SUBTLE! Whoever reaches the address takes every place with connections that send nothing. If those who come then
    were turned away, a probe would be, too, and the process ended for it. Test: tests/admin/http/test_connections.py
    """
    connections.add(new)
    if len(connections) <= CONNECTIONS_MAX:
        return True
    waiting = [each for each in connections if each is not new and each.waits_since is not None]
    if waiting:
        longest = min(waiting, key=lambda each: each.waits_since)
        connections.discard(longest)
        longest.drop()
    elif len(connections) > CONNECTIONS_MAX + TOLD_MAX:
        connections.discard(new)
        return False
    return True


class Connection(H11Protocol):
    """A connection that ends if it waits for a request too long, or for its client to take an answer. uvicorn ends
    those that are idle after an answer, and waits for ever for a first request, for the rest of its head, or for
    whoever takes nothing; some hundred of them would be all that there may be. Test: tests/admin/http/test_limits.py,
    tests/admin/http/test_connections.py"""

    waits_since: float | None = None
    _timer: asyncio.TimerHandle | None = None
    _slow: asyncio.TimerHandle | None = None

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        super().connection_made(transport)
        if not _take_place(self.connections, self):
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

    def on_response_complete(self) -> None:
        super().on_response_complete()
        if not self.transport.is_closing():
            self._watch()

    def connection_lost(self, exc: Exception | None) -> None:
        super().connection_lost(exc)
        self._forget_taken()
        if self._timer is not None:
            self._timer.cancel()

    def drop(self) -> None:
        self.transport.abort()

    def shutdown(self) -> None:
        """Called by uvicorn for each connection when the server ends. TLS has told the client of it then, and would
        wait for an answer of whoever does not read."""
        waits = self._waits
        super().shutdown()
        if waits:
            self.transport.abort()

    @property
    def _waits(self) -> bool:
        return self.cycle is None or self.cycle.response_complete  # pyright: ignore[reportUnnecessaryComparison]

    def _watch(self) -> None:
        if not self._waits and self._timer is not None:
            self._timer.cancel()
            self._timer = None
        elif self._waits and self._timer is None:
            self._timer = self.loop.call_later(IDLE_S, self._end)
        self.waits_since = (self.waits_since or self.loop.time()) if self._waits else None

    def _end(self) -> None:
        self._timer = None
        if self._waits and not self.transport.is_closing():
            self.transport.close()
            self.transport.abort()  # as in `shutdown`

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

    def send_400_response(self, msg: str) -> None:
        """As every other error, where uvicorn would answer in plain text; unless an answer has begun."""
        if self.cycle is not None and not self.cycle.response_complete:  # pyright: ignore[reportUnnecessaryComparison]
            self.cycle.disconnected = True  # what its request still says goes nowhere
            self.cycle.message_event.set()
        if self.conn.our_state in (h11.IDLE, h11.SEND_RESPONSE):
            problem = refusal(400, "InvalidRequest", "this is no HTTP request")
            body = msgspec.json.encode(problem)
            headers = {**HEADERS, "Content-Type": MEDIA_TYPE, "Content-Length": str(len(body)), "Connection": "close"}
            for event in (
                h11.Response(status_code=400, headers=[*headers.items()], reason=b"Bad Request"),
                h11.Data(data=body),
                h11.EndOfMessage(),
            ):
                self.transport.write(self.conn.send(event) or b"")
        self.transport.close()


class Handshake(asyncio.Protocol):
    """A client that has connected and not yet agreed on TLS. It takes a place like any connection, for ten seconds at
    most; asyncio alone would count none, and wait for a minute."""

    def __init__(self, context: ssl.SSLContext, make: Callable[[], Connection]) -> None:
        """`make`: what speaks with the client afterwards."""
        self._context = context
        self._next = make()
        self._early: list[bytes] = []
        self._transport: asyncio.Transport | None = None
        self._task: asyncio.Task[None] | None = None
        self.waits_since: float | None = None

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        assert isinstance(transport, asyncio.Transport)
        self._transport, self.waits_since = transport, self._next.loop.time()
        if not _take_place(self._next.connections, self):
            transport.abort()
            return
        transport.pause_reading()  # its bytes are for TLS
        self._task = self._next.loop.create_task(self._shake(transport))

    def data_received(self, data: bytes) -> None:
        """SUBTLE! The client's first request may come with the end of the handshake: before the one who waited for that
        has gone on, and has put the connection in our place. Test: tests/admin/http/test_tls.py"""
        self._early.append(data)

    def drop(self) -> None:
        assert self._transport is not None
        self._transport.abort()

    def shutdown(self) -> None:
        """Called by uvicorn for each connection when the server ends."""
        self.drop()

    async def _shake(self, transport: asyncio.Transport) -> None:
        try:
            shaken = await self._next.loop.start_tls(
                transport,
                self,
                self._context,
                server_side=True,
                ssl_handshake_timeout=HANDSHAKE_S,
                ssl_shutdown_timeout=IDLE_S,
            )
        except OSError:  # of TLS too; and what takes too long
            return
        finally:
            self._next.connections.discard(self)
        if shaken is None or shaken.is_closing():
            return
        shaken.set_protocol(self._next)
        self._next.connection_made(shaken)
        for data in self._early:
            self._next.data_received(data)
