"""The port to an object store: the requests that protocol code awaits, and the blocking interface that answers them.

Protocol code (commit, claim, job states, sweep) is written as coroutines that await only the requests below. A driver
(`lithify.store.driver`) answers them from a real store; a simulator answers them from a seed. So nothing in the
protocol reads a clock, makes random numbers or waits by itself. The only conditional primitive is create-if-absent
(protocol rule P1): no other has the same meaning on every usable store.
"""

import enum
import os
from collections.abc import Callable, Generator, Hashable, Mapping, Sequence
from pathlib import Path
from typing import Any, Generic, Protocol, TypeVar

import msgspec

from lithify.store.request_counts import RequestCounts
from lithify.store.side_by_side import one_after_the_other
from lithify.store.timings import RequestTimes

__all__ = [
    "DELETE_KEYS_MAX",
    "GLIMPSE_KEYS",
    "HERE",
    "NOT_PICKLED",
    "UNKNOWN_PAGE",
    "Create",
    "Delete",
    "Folders",
    "Get",
    "Glimpse",
    "Head",
    "List",
    "NewId",
    "Now",
    "Object",
    "ObjectInfo",
    "Outcome",
    "OutputFile",
    "OwnHome",
    "Page",
    "Pause",
    "Put",
    "Request",
    "Store",
    "StoreSpec",
    "Together",
    "together",
]

T = TypeVar("T")

HERE = ""  # the home of segments in the warehouse itself (lithify.store.homes)

DELETE_KEYS_MAX = 1_000  # in one Delete: S3 takes so many in one request

# Why a store, or whatever holds one, does not travel; `StoreSpec` is for lithify's own workers.
NOT_PICKLED = (
    "a warehouse, and what was opened of it, cannot be pickled: send its URL, and call lithify.open there; tasks of "
    "Snapshot.plan and of begin_upload can be sent"
)


class Outcome(enum.Enum):
    """What is known about one attempt at create-if-absent."""

    CREATED = "created"  # this attempt stored the body
    EXISTS = "exists"  # the key holds a body: perhaps ours, from an attempt whose reply was lost
    UNKNOWN = "unknown"  # neither is known, and the request may still arrive and store the body


class Object(msgspec.Struct, frozen=True):
    """A whole object. `modified_ms` is by the store's clock; None if an injected clock makes it meaningless. `tag`:
    what is there under the same key with the same tag has the same bytes; "": the store has none."""

    body: bytes
    modified_ms: int | None
    tag: str = ""


class ObjectInfo(msgspec.Struct, frozen=True):
    key: str
    size: int  # bytes
    modified_ms: int | None
    tag: str = ""  # as that of the whole object; only if it was asked for by its key


class Page(msgspec.Struct, frozen=True):
    """One page of a listing, in no particular order. `token` continues it; None: it was the last."""

    objects: tuple[ObjectInfo, ...]
    token: str | None


UNKNOWN_PAGE = Page((), "")  # nothing is shown, and there may be more
GLIMPSE_KEYS = 250  # to read a longer page takes more than to look for what is not on it


class Request(Generic[T]):
    """Something that protocol code asks of the world; `await request` returns its reply, of type T.

    If there is no reply, the await raises `Unavailable`, never anything less specific; if the store refuses access it
    raises `AccessDenied`, and nothing happened. (Of a `Create` that something on the way had sent before, it says
    nothing: P1.)
    """

    __slots__ = ()

    def __await__(self) -> Generator["Request[Any]", T, T]:
        return (yield self)


class Create(Request[Outcome], msgspec.Struct, frozen=True):
    """ONE attempt to store `body` under `key` if nothing is there. Never raises for a lost reply: that is UNKNOWN."""

    key: str
    body: bytes
    frees: bool = False  # it leads to deletions: on a full disk it may use the reserve (docs/rfcs/0012)


class Get(Request[Object | None], msgspec.Struct, frozen=True):
    """The whole object, or None if there is none."""

    key: str


class OwnHome(Request[None], msgspec.Struct, frozen=True):
    """Make sure that the segments of a topic in another home are this warehouse's: the object `key` says whose they
    are. `claims`: the home was not used before, so there may be no such object; the first warehouse that asks has them.
    `renews`: something will be written there, so an object of an earlier lithify, by which a copy of this warehouse
    would be the owner, too, is replaced (docs/rfcs/0032).

    Raises InvalidRequest if they are another warehouse's, or if this one is a copy; Unavailable if the home does not
    answer, or was used before and has no such object, as if it were not mounted. What is in the warehouse's own place
    is its own, and that costs nothing (docs/rfcs/0031)."""

    home: str
    key: str
    claims: bool = False
    renews: bool = False


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
    home: str = HERE


class Glimpse(Request[Page], msgspec.Struct, frozen=True):
    """Some of the keys that begin with `prefix` (which ends in '/'), to know where to look: up to GLIMPSE_KEYS of them,
    as they are or once were. Costs one listing. UNKNOWN_PAGE if the store does not list them soon, or may not be asked
    to, or answers looks at once; this request never fails (docs/rfcs/0034)."""

    prefix: str


class Folders(Request[tuple[str, ...]], msgspec.Struct, frozen=True):
    """The names of the folders directly under `prefix` (empty, or ending in '/'), sorted."""

    prefix: str


class Delete(Request[Mapping[str, str]], msgspec.Struct, frozen=True):
    """Delete these keys of one home; a missing key counts as deleted. Answers with those that the store refused to
    delete (a lock on an object, a missing permission), each with the reason; all others are gone."""

    keys: tuple[str, ...]
    home: str = HERE


class Now(Request[int], msgspec.Struct, frozen=True):
    """Milliseconds since 1970 by the store's own clock (or an injected one). Free once any request was answered."""


class NewId(Request[str], msgspec.Struct, frozen=True):
    """16 lower-case hexadecimal digits nobody else has."""


class Pause(Request[None], msgspec.Struct, frozen=True):
    """Let this much time pass; the driver waits a random time between half of it and all."""

    ms: int
    gives_way: bool = False  # to compaction, or to rivals: skipped when the caller is out of time


class Together(Request[tuple[Any, ...]], msgspec.Struct, frozen=True):
    """Several requests to the store at once (docs/rfcs/0023). They may be applied in any order, each at a time of its
    own. Answers, once all have ended, with the reply to each in the order of `requests`, or with the exception that it
    raised: one failure says nothing of the others. If the caller dies meanwhile, each may still arrive.
    """

    requests: tuple[Request[Any], ...]


async def together(requests: Sequence[Request[T]]) -> tuple[T, ...]:
    """The replies to several requests, which are made at once. Raises the first failure in the order of `requests`,
    after all have ended: so for reads, or for writes that may be repeated."""
    if len(requests) == 1:
        return (await requests[0],)
    replies = await Together(tuple(requests))
    for reply in replies:
        if isinstance(reply, Exception):
            raise reply
    return replies


class StoreSpec(msgspec.Struct, frozen=True):
    """How another process opens the same store. Holds no secret: a worker uses its own credential chain, or on this
    machine the private file `credentials_file` (mode 0600, deleted with its maker).

    `withheld`: names of options that only that file contains. Without them the store cannot be reached, or another one
    would be. `homes`: how other homes are opened, if not like this one. `timeout_s`: how long a request to another home
    is waited for; 0: as long as by default."""

    url: str
    options: dict[str, Any] = {}
    credentials_file: str | None = None
    withheld: tuple[str, ...] = ()
    homes: dict[str, "StoreSpec"] = {}
    timeout_s: float = 0.0


class OutputFile(Protocol):
    """A binary sink for one object. The object becomes visible, whole, at `close`; after `abort` it never does.

    `write` accepts anything with the buffer interface, so that pyarrow can write without copying.
    """

    @property
    def requests(self) -> int:
        """Requests made to the store so far: to start, for parts, and to complete."""
        return 1

    def write(self, data: Any, /) -> int: ...
    def close(self) -> None: ...
    def abort(self) -> None: ...


class Store(Protocol):
    """Blocking access to one root. Keys are relative to it, '/'-separated, never empty, and never contain '..'.

    Reads and unconditional writes retry by themselves and raise `Unavailable` when they give up. Refused credentials
    and missing permissions raise `AccessDenied` at once, a missing bucket `InvalidRequest`. All errors name the object.
    `create` never retries.
    Thread-safe. Do not share across fork or pickle: open it again from `spec()`.

    An adapter derives from this class, and overrides what only some stores can do.
    """

    same_as: Hashable | None = None
    """Equal for stores that are reached in the same way (URL, options, clock); None: this one is like no other."""

    @property
    def url(self) -> str: ...
    def spec(self) -> StoreSpec: ...
    def create(self, key: str, body: bytes, frees: bool = False) -> Outcome: ...
    def get(self, key: str) -> Object | None: ...
    def read(self, key: str, start: int, length: int) -> bytes:
        """Exactly the bytes [start, start + length). Raises NotFound, or Corrupt if the object is shorter."""
        ...

    def put(self, key: str, body: bytes) -> None: ...
    def output(self, key: str) -> OutputFile:
        """Stream a large object; parts are uploaded while it is written, with bounded memory (≤ 32 MiB)."""
        ...

    def head(self, key: str) -> ObjectInfo | None: ...
    def list(self, prefix: str, token: str | None = None) -> Page: ...
    @property
    def glimpses(self) -> bool:
        """Whether `glimpse` lists anything."""
        return False

    def glimpse(self, prefix: str) -> Page:
        """As the request `Glimpse`."""
        return UNKNOWN_PAGE

    def folders(self, prefix: str) -> Sequence[str]: ...
    def delete(self, keys: Sequence[str]) -> Mapping[str, str]:
        """As the request `Delete`: returns the keys that could not be deleted, with the reasons."""
        ...

    def now(self) -> int: ...
    @property
    def knows_time(self) -> bool:
        """Whether `now` can answer at once, without a request."""
        return True

    def local_path(self, key: str) -> Path | None:
        """The path of the object as a plain local file (for memory-mapping), or None if it is not one."""
        ...

    def close(self) -> None: ...

    def side_by_side(self, calls: Sequence[Callable[[], T]]) -> Sequence[T | Exception]:
        """Make these calls at once if this store answers after a while, each on a thread, else one after the other.
        Returns what each returned or raised, in order. Calls may themselves make others side by side."""
        return one_after_the_other(calls)

    @property
    def endpoint_url(self) -> str:
        """Where requests go, whatever decided that; "" if `url` says it all."""
        return ""

    @property
    def far(self) -> bool:
        """Whether a request takes so long that others are worth making meanwhile (docs/rfcs/0028): not on a disk, nor
        in memory."""
        return False

    @property
    def apart(self) -> str:
        """Requests that wait here are made by threads of this name (lithify.store.fetching). "": the warehouse's."""
        return ""

    @property
    def creates(self) -> bool:
        """Whether `create` can promise that only one of two writers wins."""
        return True

    def once(self) -> "Store":
        """The same place, for what is read once: past a cache on disk."""
        return self

    @property
    def closed(self) -> bool:
        """Whether requests are refused from now on."""
        return False

    def stamp(self, key: str) -> Mapping[str, str] | None:
        """What the store itself noted of the object when it was stored, and a copy of it does not get: by kind. None:
        there is no such object. Empty, and asks nothing: this store notes nothing of which that is sure. Nothing that
        is done to an object without storing it anew may change it (docs/rfcs/0032)."""
        return {}

    def view(self, key: str, start: int, length: int) -> memoryview:
        """As `read`. A store that has the bytes in several places makes no copy of them all."""
        return memoryview(self.read(key, start, length))

    def at_hand(self, key: str, start: int, length: int) -> bool:
        """Whether a copy of this part of the object is on a local disk, so that to read it ahead gains nothing. It may
        be gone when it is read."""
        return False

    def distrust(self, key: str) -> None:
        """What was read of the object is not what was written there: if a copy was kept, forget it."""

    def hasty(self) -> "Store":
        """The same place, with total deadlines of a few seconds: detects an outage while somebody waits."""
        return self

    def requests(self) -> RequestCounts:
        """What was asked of this store so far, through this object; zeros if nobody counts."""
        return RequestCounts()

    def request_times(self) -> RequestTimes:
        """How long these requests took, and which of them failed; nothing if nobody counts."""
        return RequestTimes()

    def versioning(self) -> str | None:
        """Whether deleted objects stay as old versions: 'Enabled', 'Suspended' or 'Off'; None if the store does not
        say, or has no versioning."""
        return None

    def write_credentials(self, target: str | os.PathLike[str] | int) -> bool:
        """Write explicit secrets to a private file for workers of this machine; returns False if there are none."""
        return False

    def remove_stale_temporaries(self, ours: Callable[[str], bool], *, dry_run: bool = False) -> int:
        """Remove what killed processes left half written, if it is a day old by the store's clock; returns how many (or
        would, in a dry run). If others may write here too, only what would become a key that is `ours`, as far as its
        name reveals that."""
        return 0
