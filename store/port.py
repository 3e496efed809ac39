"""The port to an object store: the requests protocol code awaits, and the blocking interface that answers them.

Protocol code (commit, claim, job states, sweep) is written as coroutines that await nothing but the requests below. A
driver (`lithify.store.driver`) answers them from a real store; a simulator answers them from a seed. So nothing in the
protocol reads a clock, makes randomness or waits by itself. The one conditional primitive is create-if-absent
(protocol rule P1): it is the only one that every usable store offers with the same meaning.
"""

import enum
import os
from collections.abc import Callable, Generator, Mapping, Sequence
from pathlib import Path
from typing import Any, Generic, Protocol, TypeVar

import msgspec

__all__ = [
    "HERE",
    "Create",
    "Delete",
    "Folders",
    "Get",
    "Head",
    "List",
    "NewId",
    "Now",
    "Object",
    "ObjectInfo",
    "Outcome",
    "OutputFile",
    "Page",
    "Pause",
    "Put",
    "Request",
    "Store",
    "StoreSpec",
]

T = TypeVar("T")

HERE = ""  # the home of what lies in the warehouse itself (lithify.store.homes)


class Outcome(enum.Enum):
    """What one attempt at create-if-absent is known to have done."""

    CREATED = "created"  # this attempt stored the body
    EXISTS = "exists"  # the key holds some body: perhaps ours, from an attempt whose reply was lost
    UNKNOWN = "unknown"  # neither is known, and a late arrival may still store the body


class Object(msgspec.Struct, frozen=True):
    """A whole object. `modified_ms` is by the store's clock; None where an injected clock makes it meaningless."""

    body: bytes
    modified_ms: int | None


class ObjectInfo(msgspec.Struct, frozen=True):
    key: str
    size: int  # bytes
    modified_ms: int | None


class Page(msgspec.Struct, frozen=True):
    """One page of a listing, in no promised order. `token` continues it; None ends it."""

    objects: tuple[ObjectInfo, ...]
    token: str | None


class Request(Generic[T]):
    """Something protocol code asks of the world; `await request` answers with its reply, of type T.

    A reply that cannot be had raises `Unavailable` at the await, never anything less specific; where the store refuses
    who asks that is `AccessDenied`, and nothing happened.
    """

    __slots__ = ()

    def __await__(self) -> Generator["Request[Any]", T, T]:
        return (yield self)


class Create(Request[Outcome], msgspec.Struct, frozen=True):
    """ONE attempt to store `body` under `key` if nothing is there. Never raises for a lost reply: that is UNKNOWN."""

    key: str
    body: bytes
    frees: bool = False  # it leads to deletions: a full disk may give it the reserve (docs/rfcs/0012)


class Get(Request[Object | None], msgspec.Struct, frozen=True):
    """The whole object, or None where the key holds nothing."""

    key: str


class Put(Request[None], msgspec.Struct, frozen=True):
    """Store `body` under a key that nobody else ever writes; repeating it is harmless."""

    key: str
    body: bytes


class Head(Request[ObjectInfo | None], msgspec.Struct, frozen=True):
    key: str


class List(Request[Page], msgspec.Struct, frozen=True):
    """One page of the keys that begin with `prefix` (which ends in '/')."""

    prefix: str
    token: str | None = None


class Folders(Request[tuple[str, ...]], msgspec.Struct, frozen=True):
    """The names of the folders directly under `prefix` (empty, or ending in '/'), sorted."""

    prefix: str


class Delete(Request[Mapping[str, str]], msgspec.Struct, frozen=True):
    """Delete these keys of one home; a key that is not there counts as deleted. Answers with those that the store would
    not delete (a lock on one object, a missing permission), each with the reason; all others are gone."""

    keys: tuple[str, ...]
    home: str = HERE


class Now(Request[int], msgspec.Struct, frozen=True):
    """Milliseconds since 1970 by the store's own clock (or an injected one). Costs no request once any was answered."""


class NewId(Request[str], msgspec.Struct, frozen=True):
    """16 lower-case hexadecimal digits nobody else has."""


class Pause(Request[None], msgspec.Struct, frozen=True):
    """Let this much time pass; the driver spreads it at random between half and the whole."""

    ms: int
    gives_way: bool = False  # to compaction, or to rivals: who has no time left goes on at once


class StoreSpec(msgspec.Struct, frozen=True):
    """How another process opens the same store. Holds no secret: a worker uses its own credential chain,
    or, on this machine, the private file that `credentials_file` names (mode 0600, deleted with its maker).

    `withheld` are the names of options that only that file holds, and without which the store is not reached, or
    another one is."""

    url: str
    options: dict[str, Any] = {}
    credentials_file: str | None = None
    withheld: tuple[str, ...] = ()


class OutputFile(Protocol):
    """A binary sink for one object. It becomes visible, whole, at `close`; after `abort` it never does.

    `write` accepts anything with the buffer interface, so that pyarrow writes into it without copying.
    """

    @property
    def requests(self) -> int:
        """How many the store was asked so far: to start, for parts, and to complete."""
        return 1

    def write(self, data: Any, /) -> int: ...
    def close(self) -> None: ...
    def abort(self) -> None: ...


class Store(Protocol):
    """Blocking access to one root. Keys are relative to it, '/'-separated, never empty, never containing '..'.

    Reads and unconditional writes retry by themselves and raise `Unavailable` when they give up. Refused credentials
    and missing permissions are `AccessDenied`, at once; a missing bucket is `InvalidRequest`. All name the object.
    `create` never retries.
    Thread-safe. Not shared across fork or pickle: reopen from `spec()`.

    An adapter derives from this class, and has its answers for what only some stores can do.
    """

    @property
    def url(self) -> str: ...
    def spec(self) -> StoreSpec: ...
    def create(self, key: str, body: bytes, frees: bool = False) -> Outcome: ...
    def get(self, key: str) -> Object | None: ...
    def read(self, key: str, start: int, length: int) -> bytes:
        """Exactly the bytes [start, start + length). Raises NotFound, or Corrupt where the object is shorter."""
        ...

    def put(self, key: str, body: bytes) -> None: ...
    def output(self, key: str) -> OutputFile:
        """Stream a large object; parts are uploaded while it is written, with bounded memory (≤ 32 MiB)."""
        ...

    def head(self, key: str) -> ObjectInfo | None: ...
    def list(self, prefix: str, token: str | None = None) -> Page: ...
    def folders(self, prefix: str) -> Sequence[str]: ...
    def delete(self, keys: Sequence[str]) -> Mapping[str, str]:
        """As the request `Delete`: answers with what could not be deleted, and why."""
        ...

    def now(self) -> int: ...
    def local_path(self, key: str) -> Path | None:
        """Where the object lies as a plain local file (to be memory-mapped), or None where it does not."""
        ...

    def close(self) -> None: ...

    @property
    def endpoint_url(self) -> str:
        """Where requests go, whatever decided that; "" where `url` says it all."""
        return ""

    def hasty(self) -> "Store":
        """The same place, with deadlines of a few seconds in all: to tell an outage while somebody waits for it."""
        return self

    def versioning(self) -> str | None:
        """Whether deleted objects stay as old versions: 'Enabled', 'Suspended' or 'Off'; None where it does not tell,
        or has no such thing."""
        return None

    def write_credentials(self, target: str | os.PathLike[str] | int) -> bool:
        """Write explicit secrets to a private file for workers of this machine; False where there are none."""
        return False

    def remove_stale_temporaries(self, ours: Callable[[str], bool], *, dry_run: bool = False) -> int:
        """Clear what killed processes left half written, if it is a day old by the store's clock; how many that was, or
        would be. Where others may write beside us, only what would become a key that is `ours`."""
        return 0
