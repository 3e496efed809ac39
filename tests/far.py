"""A far store without a link: its answers come in waves, each of which is one round trip that a reader waits for."""

import threading
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any, TypeVar
from unittest.mock import patch

from lithify.store import fetching
from lithify.store.errors import Unavailable
from lithify.store.fetching import THREADS_MAX, Fetch, Landings
from lithify.store.memory import MemoryStore
from lithify.store.port import GLIMPSE_KEYS, Object, Outcome, Page
from lithify.store.side_by_side import SideBySide

__all__ = ["FarStore", "Meeting", "fetching_threads", "waves"]

T = TypeVar("T")


class FarStore(MemoryStore):
    """In memory, and yet far: what is read of it is read ahead."""

    @property
    def far(self) -> bool:
        return True

    @property
    def glimpses(self) -> bool:
        return True

    def glimpse(self, prefix: str) -> Page:
        page = self.list(prefix)
        shown = page.objects[:GLIMPSE_KEYS]
        return Page(shown, page.token if len(shown) == len(page.objects) else shown[-1].key)


class Meeting(FarStore):
    """A store with threads. While `meets` is set, the first question about each partition's files of one kind is
    answered when so many partitions have been asked about."""

    def __init__(self, name: str = "meeting") -> None:
        super().__init__(name)
        self.pool = SideBySide()
        self.meets: threading.Barrier | None = None
        self.met: set[str] = set()
        self.away = ""
        self.at = "manifest"  # where they meet; "": whatever is asked first; "config": there topics meet
        self._meeting = threading.Lock()

    def side_by_side(self, calls: Sequence[Callable[[], T]]) -> Sequence[T | Exception]:
        return self.pool.run(calls)

    def all_meet(self, count: int, at: str = "manifest") -> None:
        """From now on, so many partitions, or topics."""
        self.at, self.met, self.meets = at, set(), threading.Barrier(count)

    def get(self, key: str) -> Object | None:
        self.meet(key)
        return super().get(key)

    def create(self, key: str, body: bytes, frees: bool = False) -> Outcome:
        self.meet(key)
        return super().create(key, body, frees)

    def put(self, key: str, body: bytes) -> None:
        self.meet(key)
        super().put(key, body)

    def read(self, key: str, start: int, length: int) -> bytes:
        self.meet(key)
        return super().read(key, start, length)

    def meet(self, key: str) -> None:
        topic, life, partition, kind, *_ = (*key.split("/"), "", "", "")
        if self.at == "config":
            who = topic if life == "config" else ""
        else:
            who = partition if partition.isdigit() and self.at in ("", kind) else ""
        if not who:
            return
        if who == self.away:
            raise Unavailable("no answer")
        with self._meeting:
            meets = None if who in self.met else self.meets
            self.met.add(who)
        if meets is not None:
            meets.wait(10)


def fetching_threads() -> list[threading.Thread]:
    return [thread for thread in threading.enumerate() if thread.name == "lithify-fetch"]


class Waves:
    """`count`: how many round trips were waited for so far. A request of the reader's own thread is one, too."""

    def __init__(self) -> None:
        self.count = 0
        self.largest = 0  # requests of one wave
        self._changed = threading.Condition()
        self._requested = self._arrived = self._released = self._ended = 0

    def requested(self) -> None:
        with self._changed:
            self._requested += 1

    def arrive(self) -> None:
        """In a thread of the pool: until the reader waits."""
        with self._changed:
            self._arrived += 1
            mine = self._arrived
            self._changed.notify_all()
            self._changed.wait_for(lambda: mine <= self._released)

    def end(self) -> None:
        with self._changed:
            self._ended += 1
            self._changed.notify_all()

    def release(self) -> None:
        """The reader waits: everything that it could request is requested. All of it is answered."""
        with self._changed:
            under_way = min(self._requested - self._released, THREADS_MAX)
            self._changed.wait_for(lambda: self._arrived - self._released >= under_way)
            self.count += 1
            self.largest = max(self.largest, under_way)
            self._released += under_way
            self._changed.notify_all()
            self._changed.wait_for(lambda: self._ended >= self._released)


@contextmanager
def waves(store: MemoryStore) -> Iterator[Waves]:
    """Within, answers of `store` come in waves. Its reader runs in this thread."""
    found, here = Waves(), threading.current_thread()
    make, tell = Fetch.__init__, Landings.tell

    def gated(ask: Callable[..., Any]) -> Callable[..., Any]:
        def asked(*given: Any) -> Any:
            if threading.current_thread() is here:
                found.count += 1
            else:
                found.arrive()
            return ask(*given)

        return asked

    def made(fetch: Any, request: Any, landings: Any, apart: str = "", **more: Any) -> None:
        found.requested()
        make(fetch, request, landings, apart, **more)

    def told(landings: Landings) -> None:
        tell(landings)
        found.end()

    with (
        patch.object(store, "read", gated(store.read)),
        patch.object(store, "head", gated(store.head)),
        patch.object(fetching.Fetch, "__init__", made),
        patch.object(Landings, "tell", told),
        patch.object(Landings, "wait", lambda *_: found.release()),
    ):
        yield found
