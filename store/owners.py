"""Whose the segments of a topic are in a home that several warehouses may share (docs/rfcs/0031).

SUBTLE! 1. A warehouse is copied, to try something. 2. The copy's collector retires a cold segment. 3. It deletes bytes
that the first warehouse still refers to. So the file `home.json` in the home names one warehouse. Before it writes
there, a warehouse claims the home; before it deletes or sweeps there, it looks whether the file still names it. Test:
tests/store/test_owners.py
"""

import msgspec

from lithify.store.errors import Corrupt, InvalidRequest, Unavailable
from lithify.store.port import Outcome, Store
from lithify.store.urls import shown

__all__ = [
    "adopt_home",
    "claim_home",
    "owner_key",
    "owner_key_beside",
    "owner_of_home",
    "require_owner",
    "unclaimed_text",
]

_FORMAT = 1


class _Owner(msgspec.Struct, frozen=True):
    warehouse: str
    format: int = _FORMAT


_decoder = msgspec.json.Decoder(_Owner)


def owner_key(topic: str, topic_id: str) -> str:
    """In another home than the warehouse: the file that says whose the topic's segments there are."""
    return f"{topic}/{topic_id}/home.json"


def owner_key_beside(key: str) -> str:
    """The `owner_key` of the topic that `key` is of: a segment's, or that of anything else in a partition."""
    topic, topic_id, _ = key.split("/", 2)
    return owner_key(topic, topic_id)


def owner_of_home(store: Store, key: str) -> str | None:
    """The URL of the warehouse that may delete there; None if nobody has claimed it. Raises Corrupt if the file cannot
    be read, InvalidRequest if a later lithify wrote it, Unavailable."""
    found = store.get(key)
    if found is None:
        return None
    try:
        owner = _decoder.decode(found.body)
    except msgspec.DecodeError:
        raise Corrupt(
            f"{_where(store, key)} does not name a warehouse. If the home is this warehouse's alone, delete the file, "
            "then run `lithify home adopt`",
            key,
        ) from None
    if owner.format > _FORMAT:
        raise InvalidRequest(
            f"{_where(store, key)} has format {owner.format}, which a later lithify wrote: upgrade lithify"
        )
    return owner.warehouse


def claim_home(store: Store, key: str, url: str) -> None:
    """Make the warehouse at `url` (as its store spells it) the owner, if there is none yet. Repeating it is harmless.
    Raises InvalidRequest, which names the owner, if it is another; Unavailable if it is not known whether it worked.

    A store that cannot create exclusively (`Store.creates`) may take two claims that are made at the same moment: the
    later one stays, and the other warehouse learns of it when it wants to delete.
    """
    body = msgspec.json.encode(_Owner(url))
    if store.creates:
        if store.create(key, body) is Outcome.CREATED:
            return
    elif owner_of_home(store, key) is None:
        store.put(key, body)
    owner = owner_of_home(store, key)
    if owner is None:
        raise Unavailable(f"{_where(store, key)}: nothing is known of the claim; nothing is lost, try again")
    _require(store, key, owner, url)


def unclaimed_text(key: str) -> str:
    """Why nothing is known of a home that has no file `key`."""
    return f"there is no {key}, which says whose it is: is the home mounted?"


def require_owner(store: Store, key: str, url: str) -> None:
    """Before anything is listed, written or deleted in a home that was used before. Raises InvalidRequest unless the
    warehouse at `url` is the owner; Unavailable if the file is gone.

    SUBTLE! 1. A folder is a home, and its disk is not mounted. 2. A job writes into the empty mount point, its sources
    are collected, and the disk is mounted over the copies. Or a sweep finds nothing there, and forgets the home.
    Therefore a home without this file does not answer. Test: tests/e2e/test_unmounted_home.py
    """
    owner = owner_of_home(store, key)
    if owner is None:
        raise Unavailable(
            f"home {shown(store.url)} has no {key}, which says whose it is: is it mounted? Nothing was done"
        )
    _require(store, key, owner, url)


def adopt_home(store: Store, key: str, url: str) -> None:
    """Make the warehouse at `url` the owner, whoever was: for one that has moved. Whoever asks for it knows that the
    former owner is gone."""
    store.put(key, msgspec.json.encode(_Owner(url)))


def _require(store: Store, key: str, owner: str | None, url: str) -> None:
    if owner == url:
        return
    whose = "nobody has claimed it" if owner is None else f"it belongs to the warehouse {shown(owner)}"
    raise InvalidRequest(
        f"home {shown(store.url)}: {whose}, as {key} says. If that warehouse was moved to {shown(url)}, run `lithify "
        "home adopt`; if this one is a copy of it, give it another cold.location"
    )


def _where(store: Store, key: str) -> str:
    return f"{shown(store.url)}/{key}"
