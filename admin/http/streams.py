"""`GET /v1/events`: server-sent events, which a client continues where it stopped (docs/rfcs/0018, Events)."""

import threading
from collections.abc import AsyncGenerator, Callable

import anyio
import anyio.to_thread
from starlette.responses import StreamingResponse
from starlette.types import Receive, Scope, Send

from lithify.admin.http.gate import HEADERS
from lithify.events.feed import Feed, Following
from lithify.events.stream import Asked, Cursor, Sent, as_json
from lithify.store.errors import Unavailable

__all__ = ["EVENTS_TYPE", "Stream", "Streams"]

EVENTS_TYPE = "text/event-stream"
STREAMS_MAX = 32
_WAIT_S = 1.0  # for news; then it is asked whether the client and the server are still there
_SIGN_OF_LIFE_S = 15  # without news


class Streams:
    """Those of one server. `run` in a thread of its own, until `stop`."""

    def __init__(self, feed: Feed, streams_max: int = STREAMS_MAX) -> None:
        self.feed = feed
        self.leaving = threading.Event()
        self.threads = anyio.CapacityLimiter(streams_max)
        self._free = threading.Semaphore(streams_max)

    def run(self) -> None:
        self.feed.run()

    def stop(self) -> None:
        """Ends all streams; their clients come back, to this server or another."""
        self.leaving.set()
        self.feed.close()

    def begin(
        self, topic: str | None, partition: int | None, cursor: str | None, admitted: Callable[[], bool]
    ) -> "Stream":
        """It ends once `admitted` says no. Raises InvalidRequest, NotFound, Unavailable. Blocks while files are read
        back."""
        began = Cursor.parse(cursor) if cursor else None
        if not self._free.acquire(blocking=False):
            raise Unavailable("as many clients follow events as this server takes; retry later")
        try:
            following = self.feed.follow(Asked(topic, partition), began)
            return Stream(self, following, self._free.release, admitted)
        except BaseException:
            self._free.release()
            raise


class Stream(StreamingResponse):
    """One client's. Whoever has it calls it or closes it."""

    def __init__(
        self, streams: Streams, following: Following, free: Callable[[], object], admitted: Callable[[], bool]
    ) -> None:
        super().__init__(self._sent(), 200, HEADERS, EVENTS_TYPE)
        self._streams = streams
        self._following = following
        self._free = free
        self._admitted = admitted
        self._closed = False

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        try:
            await super().__call__(scope, receive, send)
        finally:
            self.close()

    def close(self) -> None:
        if not self._closed:
            self._closed = True
            self._following.close()
            self._free()

    async def _sent(self) -> AsyncGenerator[bytes]:
        """Ends when the server is told to end, or the token is taken away."""
        yield _id(self._following.cursor)
        quiet_s = 0.0
        while not self._streams.leaving.is_set():
            told = await anyio.to_thread.run_sync(
                lambda: self._following.take(_WAIT_S), limiter=self._streams.threads, abandon_on_cancel=True
            )
            if not self._admitted():
                return
            quiet_s = 0.0 if told else quiet_s + _WAIT_S
            if told:
                yield b"".join(map(_event, told))
            elif quiet_s >= _SIGN_OF_LIFE_S:
                quiet_s = 0.0
                yield _id(self._following.cursor)


def _id(cursor: Cursor) -> bytes:
    """Of no event: how far the client is."""
    return f"id: {cursor}\n\n".encode()


def _event(sent: Sent) -> bytes:
    """Its JSON is one line."""
    kind = type(sent.event).__struct_config__.tag
    return f"id: {sent.cursor}\nevent: {kind}\ndata: ".encode() + as_json(sent.event) + b"\n\n"
