"""A store that counts the requests to another store, and what they cost."""

import os
import threading
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

import msgspec

from lithify.store.port import (
    DELETE_KEYS_MAX,
    Object,
    ObjectInfo,
    Outcome,
    OutputFile,
    Page,
    RequestCounts,
    Store,
    StoreSpec,
)

__all__ = ["Metered"]

# One lock for all: it is held only for an addition, and processes fork only while it is free.
_lock = threading.Lock()
os.register_at_fork(before=_lock.acquire, after_in_parent=_lock.release, after_in_child=_lock.release)


class Metered(Store):
    """Wraps any store, `inner`, and counts its requests."""

    def __init__(self, inner: Store) -> None:
        self.inner = inner
        self._counts = dict.fromkeys(RequestCounts.__struct_fields__, 0)  # shared with `hasty`

    def __repr__(self) -> str:
        return f"Metered({self.inner!r})"

    def requests(self) -> RequestCounts:
        with _lock:
            return RequestCounts(**self._counts)

    @property
    def url(self) -> str:
        return self.inner.url

    @property
    def endpoint_url(self) -> str:
        return self.inner.endpoint_url

    def spec(self, credentials_file: str | None = None) -> StoreSpec:
        """How another process opens the same store; see `write_credentials`."""
        return msgspec.structs.replace(self.inner.spec(), credentials_file=credentials_file)

    def hasty(self) -> Store:
        inner = self.inner.hasty()
        if inner is self.inner:
            return self
        hasty = Metered(inner)
        hasty._counts = self._counts
        return hasty

    def versioning(self) -> str | None:
        return self.inner.versioning()

    def write_credentials(self, target: str | os.PathLike[str] | int) -> bool:
        return self.inner.write_credentials(target)

    def create(self, key: str, body: bytes, frees: bool = False) -> Outcome:
        self._count(creates=1, bytes_written=len(body))
        outcome = self.inner.create(key, body, frees)
        self._count(conflicts=outcome is Outcome.EXISTS)
        return outcome

    def get(self, key: str) -> Object | None:
        self._count(gets=1)
        found = self.inner.get(key)
        self._count(bytes_read=len(found.body) if found else 0)
        return found

    def read(self, key: str, start: int, length: int) -> bytes:
        self._count(reads=1)
        body = self.inner.read(key, start, length)
        self._count(bytes_read=length)
        return body

    def put(self, key: str, body: bytes) -> None:
        self._count(puts=1, bytes_written=len(body))
        self.inner.put(key, body)

    def output(self, key: str) -> "_MeteredOutput":
        return _MeteredOutput(self, self.inner.output(key))

    def head(self, key: str) -> ObjectInfo | None:
        self._count(heads=1)
        return self.inner.head(key)

    def list(self, prefix: str, token: str | None = None) -> Page:
        self._count(lists=1)
        return self.inner.list(prefix, token)

    def folders(self, prefix: str) -> Sequence[str]:
        self._count(lists=1)
        return self.inner.folders(prefix)

    def delete(self, keys: Sequence[str]) -> Mapping[str, str]:
        self._count(deletes=-(-len(keys) // DELETE_KEYS_MAX))
        return self.inner.delete(keys)

    def now(self) -> int:
        return self.inner.now()

    def local_path(self, key: str) -> Path | None:
        return self.inner.local_path(key)

    def close(self) -> None:
        self.inner.close()

    def remove_stale_temporaries(self, ours: Callable[[str], bool], *, dry_run: bool = False) -> int:
        return self.inner.remove_stale_temporaries(ours, dry_run=dry_run)

    def _count(self, **more: int) -> None:
        with _lock:
            for name, number in more.items():
                self._counts[name] += number


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
        finally:
            requests = self._inner.requests
            more, self._counted = requests - self._counted, requests
            self._store._count(output_requests=more, bytes_written=self._bytes)  # pyright: ignore[reportPrivateUsage]
            self._bytes = 0
