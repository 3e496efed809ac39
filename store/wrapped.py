"""A store that passes everything on to another: what derives from it changes only what it means to."""

import os
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import TypeVar

from lithify.store.port import Object, ObjectInfo, Outcome, OutputFile, Page, Store, StoreSpec
from lithify.store.request_counts import RequestCounts
from lithify.store.timings import RequestTimes

__all__ = ["Wrapped", "innermost", "layers"]

T = TypeVar("T")


class Wrapped(Store):
    def __init__(self, inner: Store) -> None:
        self.inner = inner
        self.same_as = inner.same_as

    def __repr__(self) -> str:
        return f"{type(self).__name__}({self.inner!r})"

    @property
    def closed(self) -> bool:
        return self.inner.closed

    @property
    def url(self) -> str:
        return self.inner.url

    @property
    def endpoint_url(self) -> str:
        return self.inner.endpoint_url

    @property
    def far(self) -> bool:
        return self.inner.far

    @property
    def apart(self) -> str:
        return self.inner.apart

    @property
    def creates(self) -> bool:
        return self.inner.creates

    @property
    def knows_time(self) -> bool:
        return self.inner.knows_time

    def spec(self) -> StoreSpec:
        return self.inner.spec()

    def write_credentials(self, target: str | os.PathLike[str] | int) -> bool:
        return self.inner.write_credentials(target)

    def create(self, key: str, body: bytes, frees: bool = False) -> Outcome:
        return self.inner.create(key, body, frees)

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

    def list(self, prefix: str, token: str | None = None) -> Page:
        return self.inner.list(prefix, token)

    @property
    def glimpses(self) -> bool:
        return self.inner.glimpses

    def glimpse(self, prefix: str) -> Page:
        return self.inner.glimpse(prefix)

    def folders(self, prefix: str) -> Sequence[str]:
        return self.inner.folders(prefix)

    def delete(self, keys: Sequence[str]) -> Mapping[str, str]:
        return self.inner.delete(keys)

    def now(self) -> int:
        return self.inner.now()

    def local_path(self, key: str) -> Path | None:
        return self.inner.local_path(key)

    def side_by_side(self, calls: Sequence[Callable[[], T]]) -> Sequence[T | Exception]:
        return self.inner.side_by_side(calls)

    def stamp(self, key: str) -> Mapping[str, str] | None:
        return self.inner.stamp(key)

    def at_hand(self, key: str, start: int, length: int) -> bool:
        return self.inner.at_hand(key, start, length)

    def distrust(self, key: str) -> None:
        self.inner.distrust(key)

    def hasty(self) -> Store:
        return self.inner.hasty()

    def requests(self) -> RequestCounts:
        return self.inner.requests()

    def request_times(self) -> RequestTimes:
        return self.inner.request_times()

    def versioning(self) -> str | None:
        return self.inner.versioning()

    def remove_stale_temporaries(self, ours: Callable[[str], bool], *, dry_run: bool = False) -> int:
        return self.inner.remove_stale_temporaries(ours, dry_run=dry_run)

    def close(self) -> None:
        self.inner.close()


def layers(store: Store) -> Iterator[Store]:
    """What counts, limits or keeps what passes through it, from outside in; at last the store itself."""
    found: Store | None = store
    while found is not None:
        yield found
        found = getattr(found, "inner", None)


def innermost(store: Store) -> Store:
    return list(layers(store))[-1]
