"""A home other than the warehouse: its requests have a limit of their own, and its errors name it (docs/rfcs/0031).

Nothing that concerns the warehouse alone waits for such a home: its connections, its threads and its limit are apart.
"""

from collections.abc import Callable, Generator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any, TypeVar

from msgspec.structs import replace

from lithify.store.deadline import Deadline, LeftBehind
from lithify.store.errors import Corrupt, LithifyError, NotFound, Unavailable
from lithify.store.home_names import physical
from lithify.store.owners import owner_key_beside, unclaimed_text
from lithify.store.port import HERE, Object, ObjectInfo, Outcome, OutputFile, Page, Store, StoreSpec
from lithify.store.side_by_side import SideBySide
from lithify.store.urls import shown
from lithify.store.wrapped import Wrapped

__all__ = ["TRIED", "Cold"]

T = TypeVar("T")
F = TypeVar("F")

_LISTING_S = 600.0  # many filesystems list all that is there as one page
_KEY_S = 2.0  # for each key of a deletion: many filesystems delete one after the other
_DELETION_S_MAX = 600.0
TRIED = "home.json"  # no object: whatever the answer is, the home is there


class Cold(Wrapped):
    """`inner`, known as `home`. Raises Unavailable if the home does not answer in time, or if its requests are so slow
    that this one did not get its turn."""

    def __init__(self, home: str, inner: Store, deadline: Deadline | None = None) -> None:
        """`deadline`: of all requests of this process to that home."""
        super().__init__(inner)
        self.home = home
        self.deadline = deadline or Deadline()
        self._side_by_side = SideBySide()

    @property
    def apart(self) -> str:
        return self.home

    def spec(self) -> StoreSpec:
        return replace(self.inner.spec(), timeout_s=self.deadline.timeout_s)

    def create(self, key: str, body: bytes, frees: bool = False) -> Outcome:
        try:
            return self.asked(lambda: self.inner.create(key, body, frees), size=len(body))
        except Unavailable:
            return Outcome.UNKNOWN  # it may arrive later

    def get(self, key: str) -> Object | None:
        return self.asked(lambda: self._mounted(key, self.inner.get(key)))

    def read(self, key: str, start: int, length: int) -> bytes:
        def read() -> bytes:
            try:
                return self.inner.read(key, start, length)
            except NotFound:
                self._mounted(key, None)
                raise

        return self.asked(read, size=length)

    def put(self, key: str, body: bytes) -> None:
        self.asked(lambda: self.inner.put(key, body), size=len(body))

    def output(self, key: str) -> OutputFile:
        made: list[OutputFile] = []

        def output() -> OutputFile:
            made.append(self.inner.output(key))
            return made[0]

        def late() -> None:
            for each in made:
                each.abort()

        return _Output(self, self.asked(output, proves=False, late=late), key)

    def head(self, key: str) -> ObjectInfo | None:
        return self.asked(lambda: self._mounted(key, self.inner.head(key)))

    def stamp(self, key: str) -> Mapping[str, str] | None:
        return self.asked(lambda: self.inner.stamp(key))

    def list(self, prefix: str, token: str | None = None) -> Page:
        return self.asked(lambda: self.inner.list(prefix, token), more_s=_LISTING_S)

    def versioning(self) -> str | None:
        return self.asked(self.inner.versioning, proves=False)

    def folders(self, prefix: str) -> Sequence[str]:
        return self.asked(lambda: self.inner.folders(prefix), more_s=_LISTING_S)

    def delete(self, keys: Sequence[str]) -> Mapping[str, str]:
        return self.asked(lambda: self.inner.delete(keys), more_s=min(_KEY_S * len(keys), _DELETION_S_MAX))

    def _mounted(self, key: str, found: F) -> F:
        """`found`. If it is None, though the home has an owner, an object is missing; without one the home may not be
        mounted, and nothing is known of the object: raises Unavailable."""
        of_topic = key.count("/") > 1
        if found is None and of_topic and physical(self.home) != HERE and key != owner_key_beside(key):
            owner = owner_key_beside(key)
            if self.inner.head(owner) is None:
                raise Unavailable(unclaimed_text(owner))
        return found

    def now(self) -> int:
        return self.asked(self.inner.now, proves=False)

    def side_by_side(self, calls: Sequence[Callable[[], T]]) -> Sequence[T | Exception]:
        return self._side_by_side.run(calls) if self.far else self.inner.side_by_side(calls)

    def hasty(self) -> Store:
        return Cold(self.home, self.inner.hasty(), self.deadline)

    def remove_stale_temporaries(self, ours: Callable[[str], bool], *, dry_run: bool = False) -> int:
        return self.asked(lambda: self.inner.remove_stale_temporaries(ours, dry_run=dry_run), more_s=_LISTING_S)

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

    def asked(
        self,
        request: Callable[[], T],
        *,
        size: int = 0,
        more_s: float = 0.0,
        proves: bool = True,
        begun: bool = False,
        late: Callable[[], object] | None = None,
    ) -> T:
        """As `Deadline.run`; errors name the home."""
        with self.named():
            return self.deadline.run(
                request, size=size, more_s=more_s, proves=proves, begun=begun, trial=self.answers, late=late
            )

    def answers(self) -> None:
        """Raises Unavailable if it does not."""
        self.inner.head(TRIED)


class _Output(OutputFile):
    """What waits is a request as any other; between them an upload has no turn, however long it is written. One that
    did not answer in time is given up: the thread that was left behind aborts it."""

    def __init__(self, cold: Cold, inner: OutputFile, key: str) -> None:
        self._cold = cold
        self._inner = inner
        self._key = key
        self._bytes = 0
        self._lost = False  # a thread may still be at work in it

    @property
    def requests(self) -> int:
        return self._inner.requests

    @property
    def closed(self) -> bool:
        return self._lost or bool(getattr(self._inner, "closed", False))

    def write(self, data: Any, /) -> int:
        with memoryview(data) as view:
            size = view.nbytes
        self._bytes += size
        return self._asked(lambda: self._inner.write(data), size=size, proves=False, late=self._inner.abort)

    def flush(self) -> None:
        """Nothing becomes visible before `close`."""

    def close(self) -> None:
        # Some stores upload only now. Nobody will ever refer to what arrives late.
        self._asked(self._inner.close, size=self._bytes, late=self._undo)

    def abort(self) -> None:
        if self._lost:
            return
        try:
            self._asked(self._inner.abort, proves=False, late=None)
        except LeftBehind:
            pass  # the thread that was left behind is at it
        except Unavailable:  # it is not asked while the home is away, but holds a file, or parts of an upload
            self._lost = True
            self._cold.deadline.later(self._inner.abort)

    def _undo(self) -> None:
        try:
            self._inner.abort()
        finally:
            self._cold.inner.delete([self._key])

    def _asked(
        self,
        request: Callable[[], T],
        *,
        size: int = 0,
        proves: bool = True,
        late: Callable[[], object] | None,
    ) -> T:
        cold = self._cold
        if self._lost:
            raise Unavailable(f"home {shown(cold.home)}: an upload there was given up; nothing is lost, try again")
        try:
            return cold.asked(request, size=size, proves=proves, begun=True, late=late)
        except BaseException as error:
            self._lost = isinstance(error, LeftBehind) or not isinstance(error, Exception)
            raise
