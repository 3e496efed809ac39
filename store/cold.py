"""A home other than the warehouse: its requests have a limit of their own, and its errors name it (docs/rfcs/0031).

Nothing that concerns the warehouse alone waits for such a home: its connections, its threads and its limit are apart.
"""

import threading
from collections.abc import Callable, Generator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any, TypeVar

from lithify.store.errors import Corrupt, LithifyError, NotFound, Unavailable
from lithify.store.home_names import physical
from lithify.store.owners import owner_key_beside
from lithify.store.port import HERE, Object, ObjectInfo, Outcome, OutputFile, Page, Store
from lithify.store.side_by_side import SideBySide
from lithify.store.urls import shown
from lithify.store.wrapped import Wrapped

__all__ = ["REQUESTS_MAX", "Cold"]

T = TypeVar("T")
F = TypeVar("F")

REQUESTS_MAX = 16  # of one home in one process
_WAIT_S = 60.0  # for one of them to end


class Cold(Wrapped):
    """`inner`, known as `home`. Raises Unavailable if the home does not answer, or if its requests are so slow that
    this one did not get its turn."""

    def __init__(self, home: str, inner: Store, *, requests_max: int = REQUESTS_MAX, wait_s: float = _WAIT_S) -> None:
        super().__init__(inner)
        self.home = home
        self._turns = threading.BoundedSemaphore(requests_max)
        self._requests_max = requests_max
        self._wait_s = wait_s
        self._side_by_side = SideBySide()

    @property
    def apart(self) -> str:
        return self.home

    def create(self, key: str, body: bytes, frees: bool = False) -> Outcome:
        with self._turn():
            return self.inner.create(key, body, frees)

    def get(self, key: str) -> Object | None:
        with self._turn():
            return self._mounted(key, self.inner.get(key))

    def read(self, key: str, start: int, length: int) -> bytes:
        with self._turn():
            try:
                return self.inner.read(key, start, length)
            except NotFound:
                self._mounted(key, None)
                raise

    def put(self, key: str, body: bytes) -> None:
        with self._turn():
            self.inner.put(key, body)

    def output(self, key: str) -> OutputFile:
        with self._turn():
            return _Output(self, self.inner.output(key))

    def head(self, key: str) -> ObjectInfo | None:
        with self._turn():
            return self._mounted(key, self.inner.head(key))

    def list(self, prefix: str, token: str | None = None) -> Page:
        with self._turn():
            return self.inner.list(prefix, token)

    def folders(self, prefix: str) -> Sequence[str]:
        with self._turn():
            return self.inner.folders(prefix)

    def delete(self, keys: Sequence[str]) -> Mapping[str, str]:
        with self._turn():
            return self.inner.delete(keys)

    def _mounted(self, key: str, found: F) -> F:
        """`found`. If it is None, though the home has an owner, an object is missing; without one the home may not be
        mounted, and nothing is known of the object: raises Unavailable."""
        of_topic = key.count("/") > 1
        if found is None and of_topic and physical(self.home) != HERE and key != owner_key_beside(key):
            owner = owner_key_beside(key)
            if self.inner.head(owner) is None:
                raise Unavailable(f"there is no {owner}, which says whose it is: is the home mounted?")
        return found

    def now(self) -> int:
        with self.named():
            return self.inner.now()

    def side_by_side(self, calls: Sequence[Callable[[], T]]) -> Sequence[T | Exception]:
        return self._side_by_side.run(calls) if self.far else self.inner.side_by_side(calls)

    def hasty(self) -> Store:
        return Cold(self.home, self.inner.hasty(), requests_max=self._requests_max, wait_s=self._wait_s)

    def remove_stale_temporaries(self, ours: Callable[[str], bool], *, dry_run: bool = False) -> int:
        with self._turn():
            return self.inner.remove_stale_temporaries(ours, dry_run=dry_run)

    def close(self) -> None:
        self._side_by_side.close()
        self.inner.close()

    @contextmanager
    def named(self) -> Generator[None]:
        """Errors name the home."""
        try:
            yield
        except (NotFound, Corrupt):
            raise  # they are about the object
        except LithifyError as error:
            raise type(error)(f"home {shown(self.home)}: {error}") from error

    @contextmanager
    def _turn(self) -> Generator[None]:
        if not self._turns.acquire(timeout=self._wait_s):
            raise Unavailable(
                f"home {shown(self.home)} is slow: its {self._requests_max} requests at a time are under way, and none "
                f"ended within {self._wait_s:g} s; nothing is lost, try again later"
            )
        try:
            with self.named():
                yield
        finally:
            self._turns.release()


class _Output(OutputFile):
    """Its parts have their own bound, which a turn does not count: an upload lasts as long as it is written."""

    def __init__(self, cold: Cold, inner: OutputFile) -> None:
        self._cold = cold
        self._inner = inner

    @property
    def requests(self) -> int:
        return self._inner.requests

    @property
    def closed(self) -> bool:
        return bool(getattr(self._inner, "closed", False))

    def write(self, data: Any, /) -> int:
        with self._cold.named():
            return self._inner.write(data)

    def flush(self) -> None:
        """Nothing becomes visible before `close`."""

    def close(self) -> None:
        with self._cold.named():
            self._inner.close()

    def abort(self) -> None:
        self._inner.abort()
