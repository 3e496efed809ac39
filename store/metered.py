"""A store that counts the requests to another store, what they cost, and how long they take."""

import os
import threading
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from types import TracebackType
from typing import Any, Self, TypeVar

import msgspec

from lithify.store.driver import monotonic_ms
from lithify.store.errors import ErrorKind, LithifyError, NotFound
from lithify.store.port import DELETE_KEYS_MAX, Object, ObjectInfo, Outcome, OutputFile, Page, Store, StoreSpec
from lithify.store.prices import PRICES_USD
from lithify.store.refused import Closed
from lithify.store.request_counts import RequestCounts
from lithify.store.silence import Silence
from lithify.store.stirred import tell
from lithify.store.timings import REQUEST_BOUNDS_S, Durations, RequestTimes
from lithify.store.urls import shown
from lithify.store.wrapped import Wrapped, layers

__all__ = ["Metered", "tell_of_silence"]

T = TypeVar("T")

# One lock for all: it is held only for an addition, and processes fork only while it is free.
_lock = threading.Lock()
os.register_at_fork(before=_lock.acquire, after_in_parent=_lock.release, after_in_child=_lock.release)

_TIMED = [name for name in PRICES_USD if name != "output_requests"]  # an output is as slow as what is written to it
_SMALL = frozenset({"creates", "gets", "heads", "lists"})  # of numbered files, mostly: none of these takes long
_KNOWN_FAILURES = (ErrorKind.UNAVAILABLE, ErrorKind.ACCESS_DENIED, ErrorKind.COMMIT_UNKNOWN)


class Metered(Wrapped):
    """Wraps any store, `inner`, and counts its requests. Once closed, it refuses them, whatever kind of store it is."""

    def __init__(self, inner: Store) -> None:
        super().__init__(inner)
        self._closed = threading.Event()  # this, too, is shared with `hasty`, as are the following
        self._counts = dict.fromkeys(RequestCounts.__struct_fields__, 0)
        self._durations = {name: Durations(REQUEST_BOUNDS_S) for name in _TIMED}
        self.silence: Silence | None = None  # told of requests that are small, so that they have an answer soon
        # Known ones begin at 0: a rate cannot see the first of a series that begins with 1.
        self._failures = {(name, kind.value): 0 for name in PRICES_USD for kind in _KNOWN_FAILURES}

    def requests(self) -> RequestCounts:
        with _lock:
            return RequestCounts(**self._counts)

    def request_times(self) -> RequestTimes:
        with _lock:
            spans = {name: durations.spans for name, durations in self._durations.items()}
            return RequestTimes(spans, dict(self._failures))

    def spec(self, credentials_file: str | None = None) -> StoreSpec:
        """How another process opens the same store; see `write_credentials`."""
        return msgspec.structs.replace(self.inner.spec(), credentials_file=credentials_file)

    def hasty(self) -> Store:
        inner = self.inner.hasty()
        if inner is self.inner:
            return self
        hasty = Metered(inner)
        hasty._closed = self._closed
        hasty._counts, hasty._durations, hasty._failures = self._counts, self._durations, self._failures
        hasty.silence = self.silence
        return hasty

    def create(self, key: str, body: bytes, frees: bool = False) -> Outcome:
        self._count(creates=1, bytes_written=len(body))
        with _Timed(self, "creates") as timed:
            outcome = self.inner.create(key, body, frees)
            timed.answered = outcome is not Outcome.UNKNOWN
        self._count(conflicts=outcome is Outcome.EXISTS)
        if outcome is not Outcome.EXISTS:
            tell(self.url, self.endpoint_url, key)
        if outcome is Outcome.UNKNOWN:
            self.count_failure("creates", ErrorKind.COMMIT_UNKNOWN)
        return outcome

    def get(self, key: str) -> Object | None:
        self._count(gets=1)
        with _Timed(self, "gets"):
            found = self.inner.get(key)
        self._count(bytes_read=len(found.body) if found else 0)
        return found

    def read(self, key: str, start: int, length: int) -> bytes:
        self._count(reads=1)
        with _Timed(self, "reads"):
            body = self.inner.read(key, start, length)
        self._count(bytes_read=length)
        return body

    def put(self, key: str, body: bytes) -> None:
        self._count(puts=1, bytes_written=len(body))
        with _Timed(self, "puts"):
            self.inner.put(key, body)

    def output(self, key: str) -> "_MeteredOutput":
        self.require_open()
        return _MeteredOutput(self, self.inner.output(key))

    def head(self, key: str) -> ObjectInfo | None:
        self._count(heads=1)
        with _Timed(self, "heads"):
            return self.inner.head(key)

    def stamp(self, key: str) -> Mapping[str, str] | None:
        self._count(heads=1)
        with _Timed(self, "heads"):
            return self.inner.stamp(key)

    def list(self, prefix: str, token: str | None = None) -> Page:
        self._count(lists=1)
        with _Timed(self, "lists"):
            return self.inner.list(prefix, token)

    def glimpse(self, prefix: str) -> Page:
        self._count(lists=1)
        with _Timed(self, "lists"):
            return self.inner.glimpse(prefix)

    def folders(self, prefix: str) -> Sequence[str]:
        self._count(lists=1)
        with _Timed(self, "lists"):
            return self.inner.folders(prefix)

    def delete(self, keys: Sequence[str]) -> Mapping[str, str]:
        self._count(deletes=-(-len(keys) // DELETE_KEYS_MAX))
        with _Timed(self, "deletes"):
            return self.inner.delete(keys)

    def now(self) -> int:
        self.require_open()
        return self.inner.now()

    def local_path(self, key: str) -> Path | None:
        self.require_open()
        return self.inner.local_path(key)

    def close(self) -> None:
        self._closed.set()
        if self.silence is not None:
            self.silence.close()
        self.inner.close()

    @property
    def closed(self) -> bool:
        return self._closed.is_set()

    def require_open(self) -> None:
        """Raises InvalidRequest."""
        if self.closed:
            raise Closed(f"{shown(self.url)}: this warehouse was closed; open it again")

    def count_copy(self, requests: int) -> None:
        """The store copied an object in so many requests, at the price of a PUT."""
        self._count(puts=requests)

    def count_copied(self, size: int) -> None:
        """The store copied an object of so many bytes that lies here."""
        self._count(bytes_copied=size)

    def _count(self, **more: int) -> None:
        with _lock:
            for name, number in more.items():
                self._counts[name] += number

    def count_failure(self, request: str, kind: ErrorKind) -> None:
        with _lock:
            self._failures[request, kind] = self._failures.get((request, kind), 0) + 1

    def count_span(self, request: str, span_ms: int) -> None:
        with _lock:
            self._durations[request].add(span_ms / 1000)


def tell_of_silence(store: Store, tell: Callable[[str], object]) -> None:
    """`tell` is called once, with the place, if for SILENCE_MS the store has answered nothing."""
    where = " at ".join(filter(None, (shown(store.url), shown(store.endpoint_url))))
    for each in layers(store):
        if isinstance(each, Metered):
            each.silence = Silence(lambda: tell(where))


class _Timed:
    """One request: how long it takes, repetitions by its client included, and whether it fails."""

    def __init__(self, store: Metered, request: str) -> None:
        self._store = store
        self._request = request
        self._began_ms = 0
        self._silence: Silence | None = None
        self.answered = True

    def __enter__(self) -> Self:
        self._store.require_open()
        self._began_ms = monotonic_ms()
        self._silence = self._store.silence if self._request in _SMALL else None
        if self._silence is not None:
            self._silence.asked()
        return self

    def __exit__(self, _: type[BaseException] | None, error: BaseException | None, __: TracebackType | None) -> None:
        self._store.count_span(self._request, monotonic_ms() - self._began_ms)
        kind = _failed(error)
        if self._silence is not None:
            self._silence.answered(well=self.answered and kind is not ErrorKind.UNAVAILABLE)
        if kind is not None:
            self._store.count_failure(self._request, kind)


def _failed(error: BaseException | None) -> ErrorKind | None:
    """The kind of a failure. None: it is none, such as the answer that nothing is there."""
    if isinstance(error, LithifyError):
        return None if isinstance(error, NotFound) else error.kind
    return None if error is None else ErrorKind.UNEXPECTED


class _MeteredOutput(OutputFile):
    def __init__(self, store: Metered, inner: OutputFile) -> None:
        self._store = store
        self._inner = inner
        self._bytes = 0
        self._counted = 0  # requests
        self.closed = False

    @property
    def requests(self) -> int:
        return self._inner.requests

    def write(self, data: Any, /) -> int:
        written = self._inner.write(data)
        self._bytes += written
        return written

    def flush(self) -> None:
        """Nothing becomes visible before `close`."""

    def close(self) -> None:
        self._end(self._inner.close)

    def abort(self) -> None:
        self._end(self._inner.abort)

    def _end(self, end: Callable[[], None]) -> None:
        """An output that could not be closed can still be aborted."""
        if self.closed:
            return
        try:
            end()
            self.closed = True
        except Exception as error:
            self._store.count_failure("output_requests", _failed(error) or ErrorKind.NOT_FOUND)
            raise
        finally:
            requests = self._inner.requests
            more, self._counted = requests - self._counted, requests
            self._store._count(output_requests=more, bytes_written=self._bytes)  # pyright: ignore[reportPrivateUsage]
            self._bytes = 0
