"""The boto3 clients of one process, and the only place that deals with forks."""

import os
import threading
from collections.abc import Callable
from typing import Any

from botocore.handlers import add_expect_header
from botocore.utils import determine_content_length

from lithify.store.reply_clock import ReplyClock
from lithify.store.s3_options import S3Options

__all__ = ["EXPECT_ABOVE_BYTES", "S3Clients"]

# A larger body waits until the server has agreed to take it ("Expect: 100-continue"), which costs a round trip. That
# lets the server refuse or redirect before the body is sent: while one is on its way, a refusal may be lost with the
# connection. botocore asks for every body; Amazon's SDKs for other languages have such a bound.
EXPECT_ABOVE_BYTES = 2 << 20


class S3Clients:
    """Two clients, each made at its first use, and the clock that follows their replies. Neither sockets nor locks may
    cross a fork: compare `pid`."""

    def __init__(self, options: S3Options) -> None:
        self.pid = os.getpid()
        self.clock = ReplyClock()
        self._options = options
        self._lock = threading.Lock()
        self._session: Any = None
        self._conditional: Any = None
        self._bulk: Any = None

    def conditional(self) -> Any:
        with self._lock:
            if self._conditional is None:
                self._conditional = self._watched(self._options.single_attempt_client)
            return self._conditional

    def bulk(self) -> Any:
        with self._lock:
            if self._bulk is None:
                self._bulk = self._watched(self._options.bulk_client)
            return self._bulk

    def close(self) -> None:
        with self._lock:
            for client in (self._conditional, self._bulk):
                if client is not None:
                    client.close()
            self._conditional = self._bulk = None

    def _watched(self, make: Callable[[Any], Any]) -> Any:
        self._session = self._session or self._options.session()
        client = make(self._session)
        client.meta.events.register("after-call.s3", self._observe)  # each reply
        client.meta.events.unregister("before-call.s3", add_expect_header)
        client.meta.events.register("before-call.s3", _expect_if_large)
        return client

    def _observe(self, http_response: Any, **_: Any) -> None:
        self.clock.observe(http_response.headers.get("date"), http_response.headers.get("age"))


def _expect_if_large(model: Any, params: dict[str, Any], **_: Any) -> None:
    if (determine_content_length(params.get("body")) or 0) > EXPECT_ABOVE_BYTES:
        add_expect_header(model, params)
