"""An S3 on loopback that fails as networks and servers do, when a test asks it to."""

import threading
from collections.abc import Generator
from contextlib import AbstractContextManager, contextmanager
from typing import Any, NamedTuple

from lithify.store.driver import new_id
from lithify.testing.front import Deed, Front, Seen
from lithify.testing.server import S3Server

__all__ = ["FaultyS3"]

_WRITES = ("PUT", "POST", "DELETE")
_PASS = Deed()


class _Trouble(NamedTuple):
    deed: Deed
    every: int  # which of the requests that it concerns
    writes: bool  # it concerns only those that write


class FaultyS3:
    """A bucket of its own on `server`, reached through a front. Without trouble it is an ordinary S3; `with` one of the
    methods below it is not. They may be combined: of two that would meet the same request, the one begun last does.

    `url`, `options` and `env` (for other processes) lead to it. Thread-safe.
    """

    def __init__(self, server: S3Server) -> None:
        self.bucket = server.create_bucket()
        self.url = server.url(f"{self.bucket}/warehouse")
        self._server = server
        self._lock = threading.Lock()
        self._troubles: dict[str, _Trouble] = {}
        self._met: dict[str, int] = {}
        self._failed = 0
        self._front = Front(server.endpoint_url, rule=self._rule)

    def __enter__(self) -> "FaultyS3":
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    @property
    def options(self) -> dict[str, Any]:
        """The storage options that lead through the front."""
        return self._front.options(self._server.options)

    @property
    def env(self) -> dict[str, str]:
        """What to export for programs that read AWS_* variables."""
        return {**self._server.env, "AWS_ENDPOINT_URL_S3": self._front.endpoint_url}

    @property
    def requests(self) -> int:
        """How many requests came so far."""
        return len(self._front.seen)

    @property
    def failed(self) -> int:
        """How many of them met trouble."""
        return self._failed

    def lost_replies(self, every: int = 3) -> AbstractContextManager[None]:
        """Every n-th request that writes is done, but the connection breaks before the client learns of it."""
        return self._during(_Trouble(Deed(reply="none"), every, writes=True))

    def slow_down(self, every: int = 2) -> AbstractContextManager[None]:
        """Every n-th request is refused, with S3's 503 SlowDown."""
        return self._during(_Trouble(Deed(forward=False, status=503, code="SlowDown"), every, writes=False))

    def slow(self, delay_ms: int, every: int = 1) -> AbstractContextManager[None]:
        """Every n-th reply is held back for between half of `delay_ms` and all of it."""
        return self._during(_Trouble(Deed(delay_ms=delay_ms), every, writes=False))

    def down(self) -> AbstractContextManager[None]:
        """Every connection is closed without an answer."""
        return self._during(_Trouble(Deed(forward=False, reply="none"), 1, writes=False))

    def close(self) -> None:
        self._front.__exit__()
        self._server.delete_bucket(self.bucket)

    @contextmanager
    def _during(self, trouble: _Trouble) -> Generator[None]:
        if trouble.every < 1:
            raise ValueError("every: at least 1, which is every request")
        name = new_id()
        with self._lock:
            self._troubles[name], self._met[name] = trouble, 0
        try:
            yield
        finally:
            with self._lock:
                del self._troubles[name], self._met[name]

    def _rule(self, seen: Seen) -> Deed:
        with self._lock:
            found = _PASS
            for name, trouble in self._troubles.items():
                if not trouble.writes or seen.method in _WRITES:
                    self._met[name] += 1
                    if self._met[name] % trouble.every == 0:
                        found = trouble.deed
            self._failed += found is not _PASS
        return found
