"""Warehouses that claim a home, and copies of them."""

from lithify.store.memory import MemoryStore
from lithify.store.owners import owner_key, owns_home, witnesses
from lithify.store.port import Store

__all__ = ["FIRST", "KEY", "OF_AN_EARLIER_RELEASE", "REFUSED", "body_of", "copied", "ours", "who_owns"]

KEY = owner_key("users", "0123456789abcdef")
FIRST = witnesses("users", "0123456789abcdef") + "first.witness"
OF_AN_EARLIER_RELEASE = b'{"warehouse":"memory://ours","format":1}'  # as 0.1 wrote it: never change it
REFUSED = r"belongs to another warehouse of the same URL \(memory://ours\).*copy.*lithify home adopt users`; otherwise"


def ours() -> MemoryStore:
    return MemoryStore("ours")


def copied(warehouse: Store) -> MemoryStore:
    """A copy under the same URL, object by object."""
    copy = ours()
    for found in warehouse.list("").objects:
        copy.put(found.key, body_of(warehouse, found.key))
    return copy


def body_of(store: Store, key: str) -> bytes:
    found = store.get(key)
    assert found is not None
    return found.body


def who_owns(home: Store, *warehouses: Store) -> list[bool | None]:
    return [owns_home(home, KEY, each) for each in warehouses]
