"""Objects in this process's memory: for tests, the demo, and as the simplest form of the contract."""

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, NoReturn

import xxhash

from lithify.store.driver import Clock, machine_ms, new_id
from lithify.store.errors import Corrupt, NotFound
from lithify.store.own_lock import OwnLock
from lithify.store.paths import check_key, check_prefix, check_range
from lithify.store.port import Object, ObjectInfo, Outcome, OutputFile, Page, Store, StoreSpec

__all__ = ["MemoryStore"]

_PAGE_KEYS = 1000


class MemoryStore(Store):
    """A store that lives as long as the process. `clock` gives modification times and `now`, in milliseconds."""

    def __init__(self, name: str = "anonymous", clock: Clock | None = None) -> None:
        self._name = name
        self._clock = clock or machine_ms
        self._objects: dict[str, Object] = {}
        self._lock = OwnLock()
        self._nonce = new_id()  # no other store's

    def __repr__(self) -> str:
        return f"MemoryStore({self.url!r})"

    def __reduce__(self) -> NoReturn:
        raise TypeError("a memory store cannot leave its process: use file:// or s3:// where processes share data")

    @property
    def url(self) -> str:
        return f"memory://{self._name}"

    def spec(self) -> StoreSpec:
        return StoreSpec(self.url)

    def create(self, key: str, body: bytes, frees: bool = False) -> Outcome:
        check_key(key)
        with self._lock.mine():
            if key in self._objects:
                return Outcome.EXISTS
            self._objects[key] = Object(bytes(body), self._clock(), _tag(body))
            return Outcome.CREATED

    def get(self, key: str) -> Object | None:
        return self._objects.get(check_key(key))

    def read(self, key: str, start: int, length: int) -> bytes:
        check_range(key, start, length)
        found = self.get(key)
        if found is None:
            raise NotFound(f"{self.url}/{key} does not exist", key)
        if start + length > len(found.body):
            raise Corrupt(f"{self.url}/{key} has {len(found.body)} bytes, fewer than {start} + {length}", key)
        return found.body[start : start + length]

    def put(self, key: str, body: bytes) -> None:
        check_key(key)
        with self._lock.mine():
            self._objects[key] = Object(bytes(body), self._clock(), _tag(body))

    def output(self, key: str) -> "_MemoryOutput":
        return _MemoryOutput(self, check_key(key))

    def head(self, key: str) -> ObjectInfo | None:
        found = self.get(key)
        return found and ObjectInfo(key, len(found.body), found.modified_ms, found.tag)

    def stamp(self, key: str) -> Mapping[str, str] | None:
        return {"store": self._nonce} if self.get(key) else None

    def list(self, prefix: str, token: str | None = None) -> Page:
        check_prefix(prefix)
        with self._lock.mine():
            keys = sorted(key for key in self._objects if key.startswith(prefix) and (token is None or key > token))
            page = keys[:_PAGE_KEYS]
            found = [(key, self._objects[key]) for key in page]
        infos = tuple(ObjectInfo(key, len(value.body), value.modified_ms) for key, value in found)
        return Page(infos, page[-1] if len(keys) > len(page) else None)

    def folders(self, prefix: str) -> Sequence[str]:
        """The names of the folders directly under `prefix`, sorted."""
        check_prefix(prefix)
        with self._lock.mine():
            rests = [key[len(prefix) :] for key in self._objects if key.startswith(prefix)]
        return sorted({rest.partition("/")[0] for rest in rests if "/" in rest})

    def delete(self, keys: Sequence[str]) -> dict[str, str]:
        with self._lock.mine():
            for key in keys:
                self._objects.pop(check_key(key), None)
        return {}

    def now(self) -> int:
        return self._clock()

    def local_path(self, key: str) -> Path | None:
        check_key(key)
        return None

    def close(self) -> None:
        """Nothing to close: the objects stay, as in any store."""


class _MemoryOutput(OutputFile):
    def __init__(self, store: MemoryStore, key: str) -> None:
        self._store = store
        self._key = key
        self._buffer = bytearray()
        self.closed = False

    def write(self, data: Any, /) -> int:
        if self.closed:
            raise ValueError(f"{self._key} is closed")
        with memoryview(data) as view:
            self._buffer += view.cast("B")
            return view.nbytes

    def flush(self) -> None:
        """Nothing becomes visible before `close`."""

    def close(self) -> None:
        if not self.closed:
            self.closed = True
            self._store.put(self._key, bytes(self._buffer))

    def abort(self) -> None:
        self.closed = True
        self._buffer = bytearray()


def _tag(body: bytes) -> str:
    return xxhash.xxh3_64_hexdigest(body)
