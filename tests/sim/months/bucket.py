"""The object store of the months: folders of objects with a size, latencies, and minutes in which it answers nobody.

Segments are told by what they hold (`Contents`), and take the room that these would take.
"""

from collections import Counter, defaultdict
from collections.abc import Callable, Iterator
from typing import Any, NamedTuple

from lithify.store.errors import Unavailable
from lithify.store.port import (
    UNKNOWN_PAGE,
    Create,
    Delete,
    Folders,
    Get,
    Glimpse,
    Head,
    List,
    Object,
    ObjectInfo,
    Outcome,
    Page,
    Put,
    Request,
)
from tests.sim.months.clock import Answers, Clock, Process

__all__ = ["Bucket", "Entry"]

PAGE_KEYS = 1_000
LATENCY_MS: dict[type[Any], int] = {
    Get: 12,
    Head: 8,
    Create: 30,
    Put: 30,
    List: 40,
    Glimpse: 40,
    Folders: 40,
    Delete: 30,
}
UPLOAD_BYTES_PER_MS = 200_000
GIVES_UP_MS = 30_000  # after which a request that nobody answers ends
LOST_SHARE = 0.0002  # of creates whose reply is lost
FAILED_SHARE = 0.00005  # of other requests that a store gives up after its own repeats


class Entry(NamedTuple):
    body: Any  # bytes, or what is sized like them
    modified_ms: int

    @property
    def size(self) -> int:
        return len(self.body)


class Bucket(Answers):
    """`created` and `deleted` are told of each change, when it happens."""

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self.folders: defaultdict[str, dict[str, Entry]] = defaultdict(dict)  # by the path up to the last slash
        self.requests: Counter[tuple[str, str]] = Counter()  # by role and kind
        self.away_until_ms = 0
        self.unknown = 0  # creates that nobody was told the outcome of
        self.created: Callable[[Process, str, Any], None] = lambda *_: None
        self.deleted: Callable[[str], None] = lambda _: None

    @property
    def away(self) -> bool:
        return self._clock.now_ms < self.away_until_ms

    def find(self, key: str) -> Entry | None:
        folder, _, name = key.rpartition("/")
        return self.folders[folder].get(name) if folder in self.folders else None

    def keys(self, prefix: str) -> Iterator[str]:
        for folder, objects in self.folders.items():
            if f"{folder}/".startswith(prefix):
                yield from (f"{folder}/{name}" for name in objects)

    # --- requests

    def latency_ms(self, request: Request[Any]) -> int:
        if self.away:
            return GIVES_UP_MS
        base = LATENCY_MS[type(request)]
        size = len(request.body) // UPLOAD_BYTES_PER_MS if isinstance(request, Put) else 0
        return int(base * (0.6 + self._clock.dice.random())) + size

    def answer(self, process: Process, request: Request[Any]) -> Any:
        self.requests[process.role, "List" if isinstance(request, Glimpse) else type(request).__name__] += 1
        if self.away:
            return self._fails(request)
        if isinstance(request, Create):
            outcome = self._create(process, request)
            if self._clock.dice.random() >= LOST_SHARE:
                return outcome
            self.unknown += 1
            return Outcome.UNKNOWN
        if self._clock.dice.random() < FAILED_SHARE:
            return self._fails(request)
        return getattr(self, f"_{type(request).__name__.lower()}")(process, request)

    def _fails(self, request: Request[Any]) -> Outcome | Page:
        if isinstance(request, Create):
            return Outcome.UNKNOWN
        if isinstance(request, Glimpse):
            return UNKNOWN_PAGE
        raise Unavailable(f"the store does not answer ({type(request).__name__})")

    def _put_there(self, process: Process, key: str, body: Any) -> None:
        folder, _, name = key.rpartition("/")
        self.folders[folder][name] = Entry(body, self._clock.now_ms)
        self.created(process, key, body)

    def _create(self, process: Process, request: Create) -> Outcome:
        if self.find(request.key) is not None:
            return Outcome.EXISTS
        self._put_there(process, request.key, request.body)
        return Outcome.CREATED

    def _put(self, process: Process, request: Put) -> None:
        self._put_there(process, request.key, request.body)

    def put_now(self, process: Process, key: str, body: Any) -> None:
        """By a worker, which has waited for it already."""
        self.requests[process.role, "Put"] += 1
        self._put_there(process, key, body)

    def _get(self, _: Process, request: Get) -> Object | None:
        found = self.find(request.key)
        return None if found is None else Object(found.body, found.modified_ms, f"{found.size} {found.modified_ms}")

    def _head(self, _: Process, request: Head) -> ObjectInfo | None:
        found = self.find(request.key)
        if found is None:
            return None
        return ObjectInfo(request.key, found.size, found.modified_ms, f"{found.size} {found.modified_ms}")

    def _list(self, _: Process, request: List) -> Page:
        keys = sorted(key for key in self.keys(request.prefix) if request.token is None or key > request.token)
        page = [(key, self.find(key)) for key in keys[:PAGE_KEYS]]
        infos = tuple(ObjectInfo(key, found.size, found.modified_ms) for key, found in page if found is not None)
        return Page(infos, keys[PAGE_KEYS - 1] if len(keys) > PAGE_KEYS else None)

    def _glimpse(self, process: Process, request: Glimpse) -> Page:
        return self._list(process, List(request.prefix))

    def _folders(self, _: Process, request: Folders) -> tuple[str, ...]:
        rests = (f"{path}/"[len(request.prefix) :] for path in self.folders if f"{path}/".startswith(request.prefix))
        return tuple(sorted({rest.partition("/")[0] for rest in rests if rest}))

    def _delete(self, process: Process, request: Delete) -> dict[str, str]:
        for key in request.keys:
            folder, _, name = key.rpartition("/")
            objects = self.folders.get(folder)
            if objects is not None and objects.pop(name, None) is not None:
                self.deleted(key)
                if not objects:
                    del self.folders[folder]
        return {}
