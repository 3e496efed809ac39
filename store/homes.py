"""The stores in which segments live."""

from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
from contextlib import suppress
from typing import TYPE_CHECKING, Protocol

from msgspec.structs import replace

from lithify.store.disk_cache_counts import DiskCacheCounts
from lithify.store.errors import InvalidRequest, Unavailable
from lithify.store.home_names import Names, physical, spelled
from lithify.store.own_lock import OwnLock
from lithify.store.owners import claim_home, require_owner
from lithify.store.port import HERE, Store, StoreSpec
from lithify.store.urls import shown

if TYPE_CHECKING:
    from lithify.store.disk_cache import DiskCache

__all__ = ["HERE", "Homes", "Opener", "only_here", "physical"]


class Opener(Protocol):
    """Opens homes by their names (lithify.store.opening_homes)."""

    @property
    def own(self) -> Collection[str]:
        """The homes that have options of their own."""
        ...

    @property
    def timeout_s(self) -> float:
        """How long a request to a home is waited for; 0: as long as by default."""
        ...

    def can_open(self, home: str) -> bool: ...
    def open(self, home: str) -> Store:
        """Raises InvalidRequest; Unavailable if the library that opens it does not come back in time."""
        ...


class Homes:
    """The stores by the name of their home. The warehouse's own is `HERE`; others are opened when they are first asked
    for, once each. Thread-safe."""

    def __init__(
        self, stores: Mapping[str, Store], opener: Opener | None = None, cache: "DiskCache | None" = None
    ) -> None:
        """Requires: the store of `HERE` is among them. Without an `opener` there are no others. `cache`: where the
        stores keep what they read, if they do."""
        self.cache = cache
        self._stores = dict(stores)  # replaced as a whole
        self._opener = opener
        self._lock = OwnLock()
        self._opening: dict[str, OwnLock] = {}

    def cache_counts(self) -> DiskCacheCounts:
        """Of the cache on disk; zeros if there is none."""
        return DiskCacheCounts() if self.cache is None else self.cache.counts()

    @property
    def here(self) -> Store:
        """The warehouse's store: it has the numbered files, and everything new is written to it."""
        return self._stores[HERE]

    @property
    def names(self) -> Collection[str]:
        """Its `in` says whether a home can be opened; it need not be open yet."""
        return Names(lambda: self._stores, self._can_open)

    def store(self, home: str) -> Store:
        """The store of `home`. Raises InvalidRequest if this lithify does not know that home."""
        found = self._stores.get(home)
        return self._open(home) if found is None else found

    def spec(self, needed: Iterable[str] = ()) -> StoreSpec:
        """How another process opens the warehouse, and those homes that are `needed` there. No other home is opened for
        that: it may be away, or need what is not installed here. Holds no secret."""
        if self._opener is None:
            return self.here.spec()
        own: dict[str, StoreSpec] = {}
        for home in frozenset(map(spelled, needed)) & frozenset(self._opener.own):
            with suppress(Unavailable):  # whoever needs it will hear of that
                own[home] = self.store(home).spec()
        return replace(self.here.spec(), homes=own, timeout_s=self._opener.timeout_s)

    def derived(self, change: Callable[[Store], Store]) -> "Homes":
        """The same homes, each store as `change` returns it."""
        return Homes({home: change(store) for home, store in self}, _Derived(self, change))

    def close(self) -> None:
        """Close the connections of all that are open."""
        for store in self._stores.values():
            store.close()

    def own(self, home: str, key: str, *, claims: bool, renews: bool) -> None:
        """As the request OwnHome."""
        if physical(home) == HERE:
            return
        if claims:
            claim_home(self.store(home), key, self.here)
        else:
            require_owner(self.store(home), key, self.here, renews=renews)

    def __iter__(self) -> Iterator[tuple[str, Store]]:
        """Pairs of home and store, of those that are open."""
        return iter(self._stores.items())

    def _can_open(self, home: str) -> bool:
        return self._opener is not None and self._opener.can_open(home)

    def _open(self, home: str) -> Store:
        with self._lock.mine():
            opening = self._opening.setdefault(home, OwnLock())
        with opening.mine():  # one that hangs holds up no other
            found = self._stores.get(home)
            if found is None:
                if self._opener is None or not self._opener.can_open(home):
                    raise InvalidRequest(f"this lithify cannot reach home {shown(home)!r}: upgrade lithify")
                try:
                    found = self._opener.open(home)
                except OSError as error:  # of a filesystem's library; nobody but who needs this home shall fail
                    text = f"home {shown(home)} cannot be opened ({type(error).__name__}): is its library set up?"
                    raise Unavailable(text) from error
                with self._lock.mine():
                    self._stores = {**self._stores, home: found}
            return found


class _Derived:
    def __init__(self, homes: Homes, change: Callable[[Store], Store]) -> None:
        self._homes = homes
        self._change = change

    @property
    def own(self) -> Collection[str]:
        return ()

    @property
    def timeout_s(self) -> float:
        return 0.0

    def can_open(self, home: str) -> bool:
        return home in self._homes.names

    def open(self, home: str) -> Store:
        return self._change(self._homes.store(home))


def only_here(store: Store) -> Homes:
    """A warehouse in `store`, all of whose segments live there."""
    return Homes({HERE: store})
