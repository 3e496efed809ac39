"""The stores in which segments live."""

from collections.abc import Iterator, Mapping

from lithify.store.errors import InvalidRequest
from lithify.store.port import HERE, Store

__all__ = ["HERE", "Homes", "only_here"]


class Homes:
    """Opened stores by the name of their home. The warehouse's own is `HERE`."""

    def __init__(self, stores: Mapping[str, Store]) -> None:
        """Requires: the store of `HERE` is among them."""
        self._stores = dict(stores)

    @property
    def here(self) -> Store:
        """The warehouse's store: it has the numbered files, and everything new is written to it."""
        return self._stores[HERE]

    @property
    def names(self) -> frozenset[str]:
        return frozenset(self._stores)

    def store(self, home: str) -> Store:
        """The store of `home`. Raises InvalidRequest if this lithify does not know that home."""
        found = self._stores.get(home)
        if found is None:
            raise InvalidRequest(f"this lithify cannot reach home {home!r}: upgrade lithify")
        return found

    def own(self, home: str, folder: str) -> None:
        """As the request OwnHome."""
        self.store(home)

    def __iter__(self) -> Iterator[tuple[str, Store]]:
        """Pairs of home and store."""
        return iter(self._stores.items())


def only_here(store: Store) -> Homes:
    """A warehouse in `store`, all of whose segments live there."""
    return Homes({HERE: store})
