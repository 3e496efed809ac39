"""The stores in which segments live."""

from collections.abc import Iterator, Mapping

from lithify.store.errors import InvalidRequest
from lithify.store.port import HERE, Store

__all__ = ["HERE", "Homes", "only_here"]


class Homes:
    """Opened stores, each under the name of its home. The warehouse's own is `HERE`."""

    def __init__(self, stores: Mapping[str, Store]) -> None:
        """Requires: the store of `HERE` is among them."""
        self._stores = dict(stores)

    @property
    def here(self) -> Store:
        """The warehouse's store: numbered files lie there, and what is written."""
        return self._stores[HERE]

    @property
    def names(self) -> frozenset[str]:
        return frozenset(self._stores)

    def store(self, home: str) -> Store:
        """Raises InvalidRequest where this lithify does not know that home."""
        found = self._stores.get(home)
        if found is None:
            raise InvalidRequest(f"home {home!r} is none that this lithify can reach: upgrade lithify")
        return found

    def __iter__(self) -> Iterator[tuple[str, Store]]:
        """Names and stores."""
        return iter(self._stores.items())


def only_here(store: Store) -> Homes:
    """A warehouse in `store`, all of whose segments live there."""
    return Homes({HERE: store})
