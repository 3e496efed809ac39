"""The simulated store, as clients use it: ranges are read from it, and large objects are written to it as a whole."""

from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

import msgspec

from lithify.store.errors import Corrupt, NotFound
from lithify.store.port import (
    Create,
    Delete,
    Folders,
    Get,
    Head,
    List,
    Now,
    Object,
    ObjectInfo,
    Outcome,
    OutputFile,
    Page,
    Put,
    Request,
    Store,
    StoreSpec,
)
from tests.sim.cast import Actor
from tests.sim.clients.fibres import ask
from tests.sim.clients.threads import side_by_side
from tests.sim.faulty import FaultyStore

if TYPE_CHECKING:
    from tests.sim.world import World

__all__ = ["RangedStore", "Read", "Remote"]

T = TypeVar("T")


class Read(Request[bytes], msgspec.Struct, frozen=True):
    key: str
    start: int
    length: int


class RangedStore(FaultyStore):
    def __init__(self, world: "World") -> None:
        super().__init__(world)
        self._nodes[Read] = self._read

    def _read(self, actor: Actor, request: Read, fault: str | None) -> bytes:
        if fault is not None:
            self.fail(actor, fault, "Read")
        found = self.objects.get(request.key)
        if found is None:
            raise NotFound(f"{request.key} does not exist")
        if request.start + request.length > len(found[0]):
            raise Corrupt(f"{request.key} has {len(found[0])} bytes")
        return found[0][request.start : request.start + request.length]


class Remote(Store):
    """What a process holds of it. Each call is a request of the fibre that makes it."""

    @property
    def url(self) -> str:
        return "simulated://"

    def spec(self) -> StoreSpec:
        return StoreSpec(self.url)

    def create(self, key: str, body: bytes, frees: bool = False) -> Outcome:
        return ask(Create(key, body, frees))

    def get(self, key: str) -> Object | None:
        return ask(Get(key))

    def read(self, key: str, start: int, length: int) -> bytes:
        return ask(Read(key, start, length))

    def put(self, key: str, body: bytes) -> None:
        ask(Put(key, body))

    def output(self, key: str) -> "_Output":
        return _Output(key)

    def head(self, key: str) -> ObjectInfo | None:
        return ask(Head(key))

    def list(self, prefix: str, token: str | None = None) -> Page:
        return ask(List(prefix, token))

    def folders(self, prefix: str) -> Sequence[str]:
        return ask(Folders(prefix))

    def delete(self, keys: Sequence[str]) -> Mapping[str, str]:
        return ask(Delete(tuple(keys)))

    def now(self) -> int:
        return ask(Now())

    def local_path(self, key: str) -> Path | None:
        return None

    def side_by_side(self, calls: Sequence[Callable[[], T]]) -> Sequence[T | Exception]:
        return side_by_side(calls)

    def close(self) -> None:
        """Nothing is open."""


class _Output(OutputFile):
    def __init__(self, key: str) -> None:
        self._key = key
        self._body = bytearray()

    def write(self, data: Any, /) -> int:
        self._body += memoryview(data).cast("B")
        return len(data)

    def close(self) -> None:
        ask(Put(self._key, bytes(self._body)))

    def abort(self) -> None:
        self._body.clear()
