"""What networks do to conditional writes, on demand: happened or not, told or not, or late."""

import enum
import threading
from collections.abc import Callable, Generator, Iterable, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from botocore.exceptions import ConnectionClosedError
from botocore.httpsession import URLLib3Session

from lithify.store.errors import AccessDenied, Unavailable
from lithify.store.metered import Metered
from lithify.store.port import Object, ObjectInfo, Outcome, OutputFile, Page, Store, StoreSpec
from lithify.store.s3 import S3Store

__all__ = ["Fault", "FaultyStore", "LostReplies", "lose_replies"]


class Fault(enum.Enum):
    """What becomes of one create: whether the store does it × whether the caller learns of it."""

    NONE = "it happens, and the caller learns of it"
    LOST_REPLY = "it happens, but the caller does not learn of it"
    LOST_REQUEST = "it does not happen, and the caller does not learn of that"
    REFUSED = "it does not happen, and the caller learns that (Unavailable)"
    DENIED = "it does not happen, and the caller learns that access is denied (AccessDenied)"
    TWICE = "it happens, is sent once more on its way, and the caller learns of that only: something is there"
    LATE = "the caller does not learn of it, and it happens at `deliver`, perhaps long after the caller looked"


class FaultyStore(Store):
    """Any store, with the faults of `plan` (one per create; none after its end) in the way of `create`.

    `attempts` holds the (key, fault) of each create so far.
    """

    def __init__(self, inner: Store, plan: Iterable[Fault]) -> None:
        self.inner = inner
        self.attempts: list[tuple[str, Fault]] = []
        self._plan = iter(plan)
        self._late: list[tuple[str, bytes]] = []
        self._lock = threading.Lock()

    def create(self, key: str, body: bytes, frees: bool = False) -> Outcome:
        with self._lock:
            fault = next(self._plan, Fault.NONE)
            self.attempts.append((key, fault))
            if fault is Fault.LATE:
                self._late.append((key, body))
        match fault:
            case Fault.NONE:
                return self.inner.create(key, body, frees)
            case Fault.LOST_REPLY:
                self.inner.create(key, body, frees)
                return Outcome.UNKNOWN
            case Fault.TWICE:
                self.inner.create(key, body, frees)
                return self.inner.create(key, body, frees)
            case Fault.LOST_REQUEST | Fault.LATE:
                return Outcome.UNKNOWN
            case Fault.REFUSED:
                raise Unavailable(f"{self.inner.url}/{key}: refused by the plan of this test; try again")
            case Fault.DENIED:
                raise AccessDenied(f"{self.inner.url}/{key}: access is denied by the plan of this test")

    def deliver(self) -> list[Outcome]:
        """Let every late create arrive now, in the order they were sent."""
        with self._lock:
            late, self._late = self._late, []
        return [self.inner.create(key, body) for key, body in late]

    @property
    def url(self) -> str:
        return self.inner.url

    def spec(self) -> StoreSpec:
        return self.inner.spec()

    def get(self, key: str) -> Object | None:
        return self.inner.get(key)

    def read(self, key: str, start: int, length: int) -> bytes:
        return self.inner.read(key, start, length)

    def put(self, key: str, body: bytes) -> None:
        self.inner.put(key, body)

    def output(self, key: str) -> OutputFile:
        return self.inner.output(key)

    def head(self, key: str) -> ObjectInfo | None:
        return self.inner.head(key)

    def stamp(self, key: str) -> Mapping[str, str] | None:
        return self.inner.stamp(key)

    def list(self, prefix: str, token: str | None = None) -> Page:
        return self.inner.list(prefix, token)

    def folders(self, prefix: str) -> Sequence[str]:
        return self.inner.folders(prefix)

    def delete(self, keys: Sequence[str]) -> Mapping[str, str]:
        return self.inner.delete(keys)

    def now(self) -> int:
        return self.inner.now()

    def local_path(self, key: str) -> Path | None:
        return self.inner.local_path(key)

    def close(self) -> None:
        self.inner.close()


class LostReplies:
    """`sent` conditional PUTs so far, of which the replies of `lost` never came."""

    def __init__(self, every: int) -> None:
        self._every = every
        self._lock = threading.Lock()
        self.sent = 0
        self.lost = 0

    def __call__(self, request: Any, **_: Any) -> None:
        if request.headers.get("If-None-Match") is None:
            return
        with self._lock:
            self.sent += 1
            due = self.sent % self._every == 0
            self.lost += due
        if due:
            session = URLLib3Session()
            session.send(request)
            session.close()
            raise ConnectionClosedError(endpoint_url=request.url)


@contextmanager
def lose_replies(store: Store, every: int = 3) -> Generator[LostReplies]:
    """Within the block, every n-th conditional PUT of this process through `store` is done, but its reply is lost."""
    inner = store.inner if isinstance(store, Metered | FaultyStore) else store
    if not isinstance(inner, S3Store):
        raise TypeError(f"{inner!r} sends no requests whose replies could be lost: use FaultyStore")
    events: Any = inner.conditional_client().meta.events
    lost = LostReplies(every)
    handler: Callable[..., None] = lost.__call__  # botocore inspects what it calls: a function, not an object
    events.register("before-send.s3.PutObject", handler)
    try:
        yield lost
    finally:
        events.unregister("before-send.s3.PutObject", handler)
