"""Whose the segments of a topic are in a home that several warehouses may share (docs/rfcs/0031, docs/rfcs/0032).

SUBTLE! 1. A warehouse is copied, to try something. 2. The copy's collector retires a cold segment. 3. It deletes bytes
that the first warehouse still refers to. So the file `home.json` in the home names one warehouse: by its URL, and by
its *witness*, since a copy may have the same URL (a folder on another machine, a bucket behind another endpoint). The
witness is an object in the warehouse, and `home.json` has the stamp that its store gave it (`Store.stamp`). A copy of
it, made by whatever tool, has another stamp. Before it writes there, a warehouse claims the home; before it deletes or
sweeps there, it looks whether the file still names it. Tests: tests/store/test_owners.py, tests/e2e/test_copies.py
"""

from collections.abc import Mapping
from typing import Annotated

import msgspec

from lithify.store.errors import Corrupt, InvalidRequest, Unavailable
from lithify.store.port import Outcome, Store
from lithify.store.urls import shown

__all__ = [
    "WITNESSES",
    "HomeOwner",
    "adopt_home",
    "claim_home",
    "owner_key",
    "owner_key_beside",
    "owner_of_home",
    "owns_home",
    "require_owner",
    "unclaimed_text",
    "witnesses",
]

WITNESSES = "witness"  # the folder of a topic's witnesses, beside those of its partitions
_BY_URL, _BY_WITNESS = 1, 2  # formats
_FIRST = "first"  # the witness of every claim
_WITNESS = b"lithify: home.json in the topic's cold home has this object's stamp (docs/homes.md)\n"

_Name = Annotated[str, msgspec.Meta(pattern=r"^[0-9a-z]{1,32}\Z")]


class HomeOwner(msgspec.Struct, frozen=True):
    """What `home.json` says. Without a `witness`, an earlier lithify wrote it, or the warehouse's store has no
    stamps."""

    warehouse: str  # its URL
    format: int = _BY_URL
    witness: _Name | None = None
    stamp: Mapping[str, str] = {}


_decoder = msgspec.json.Decoder(HomeOwner)


def owner_key(topic: str, topic_id: str) -> str:
    """In another home than the warehouse: the file that says whose the topic's segments there are."""
    return f"{topic}/{topic_id}/home.json"


def owner_key_beside(key: str) -> str:
    """The `owner_key` of the topic that `key` is of: a segment's, or that of anything else in a partition."""
    topic, topic_id, _ = key.split("/", 2)
    return owner_key(topic, topic_id)


def witnesses(topic: str, topic_id: str) -> str:
    """In the warehouse: the prefix of the topic's witnesses."""
    return f"{topic}/{topic_id}/{WITNESSES}/"


def owner_of_home(store: Store, key: str) -> HomeOwner | None:
    """The warehouse that may delete there; None if nobody has claimed it. Raises Corrupt if the file cannot be read,
    InvalidRequest if a later lithify wrote it, Unavailable."""
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
    if owner.format > _BY_WITNESS:
        raise InvalidRequest(
            f"{_where(store, key)} has format {owner.format}, which a later lithify wrote: upgrade lithify"
        )
    return owner


def claim_home(store: Store, key: str, here: Store) -> None:
    """Make the warehouse in `here` the owner, if there is none yet. Repeating it is harmless. Raises InvalidRequest,
    which names the owner, if it is another; Unavailable if it is not known whether it worked.

    SUBTLE! The witness comes first. Otherwise: 1. We claim the home, and die. 2. The warehouse is copied. 3. Neither
    has a witness with the stamp that the home names: the original is locked out, too. And every claim has the same
    witness, so that two compactors that claim at once store the same file, whoever is later, and however late.
    Test: tests/store/test_owners.py

    A store that cannot create exclusively (`Store.creates`) may take two warehouses' claims that are made at the same
    moment: the later one stays, and the other learns of it when it wants to delete.
    """
    owner = owner_of_home(store, key)
    if owner is None:
        body = _encoded(_this_warehouse(here, key, _FIRST))
        if not store.creates:
            store.put(key, body)
        elif store.create(key, body) is Outcome.CREATED:
            return
        owner = owner_of_home(store, key)
        if owner is None:
            raise Unavailable(f"{_where(store, key)}: nothing is known of the claim; nothing is lost, try again")
    _require(store, key, owner, here)
    _renew(store, key, owner, here)


def unclaimed_text(key: str) -> str:
    """Why nothing is known of a home that has no file `key`."""
    return f"there is no {key}, which says whose it is: is the home mounted?"


def require_owner(store: Store, key: str, here: Store, *, renews: bool = False) -> None:
    """Before anything is listed, written or deleted in a home that was used before. Raises InvalidRequest unless the
    warehouse in `here` is the owner; Unavailable if the file is gone. `renews`: we write there, so a file of an earlier
    lithify, which names no witness, is replaced.

    SUBTLE! 1. A folder is a home, and its disk is not mounted. 2. A job writes into the empty mount point, its sources
    are collected, and the disk is mounted over the copies. Or a sweep finds nothing there, and forgets the home.
    Therefore a home without this file does not answer. Test: tests/e2e/test_unmounted_home.py
    """
    owner = owner_of_home(store, key)
    if owner is None:
        raise Unavailable(
            f"home {shown(store.url)} has no {key}, which says whose it is: is it mounted? Nothing was done"
        )
    _require(store, key, owner, here)
    if renews:
        _renew(store, key, owner, here)


def owns_home(store: Store, key: str, here: Store) -> bool | None:
    """Whether the warehouse in `here` is the owner; None if nobody is."""
    owner = owner_of_home(store, key)
    return None if owner is None else owner.warehouse == here.url and _has_witness(owner, key, here)


def adopt_home(store: Store, key: str, here: Store, name: str) -> None:
    """Make the warehouse in `here` the owner, whoever was: for one that was moved or restored. Whoever asks for it
    knows that the former owner is gone.

    `name`: of a new witness, which nobody has used. So a clone, in which the former one has the same stamp, is locked
    out, too; and a request of an earlier adoption that arrives late changes nothing that counts.
    """
    store.put(key, _encoded(_this_warehouse(here, key, name)))


def _this_warehouse(here: Store, key: str, name: str) -> HomeOwner:
    """With its witness `name`, which is created if need be; without one if its store has no stamps."""
    witness = _witness_key(key, name)
    stamp = here.stamp(witness)
    if stamp is None:
        here.create(witness, _WITNESS)  # if another was faster, that is as good; if nothing is known, we see below
        stamp = here.stamp(witness)
    if stamp is None:
        raise Unavailable(f"{_where(here, witness)}: it is not known whether it was stored; nothing is lost, try again")
    return HomeOwner(here.url, _BY_WITNESS, name, stamp) if stamp else HomeOwner(here.url)


def _renew(store: Store, key: str, owner: HomeOwner, here: Store) -> None:
    """Requires: `owner` is this warehouse."""
    if owner.witness is None:
        mine = _this_warehouse(here, key, _FIRST)
        if mine.witness is not None:
            store.put(key, _encoded(mine))


def _require(store: Store, key: str, owner: HomeOwner, here: Store) -> None:
    if owner.warehouse != here.url:
        raise InvalidRequest(
            f"home {shown(store.url)}: it belongs to the warehouse {shown(owner.warehouse)}, as {key} says. If that "
            f"warehouse was moved to {shown(here.url)}, run `lithify home adopt`; if this one is a copy of it, give it "
            "another cold.location"
        )
    if not _has_witness(owner, key, here):
        topic = key.partition("/")[0]
        raise InvalidRequest(
            f"home {shown(store.url)}: it belongs to another warehouse of the same URL ({shown(here.url)}), of which "
            f"this one is a copy: its witness has another stamp than {key} says. If that warehouse is gone, because "
            f"this one was moved or restored, run `lithify home adopt {topic}`; otherwise give this one another "
            "cold.location"
        )


def _has_witness(owner: HomeOwner, key: str, here: Store) -> bool:
    """Also if nothing is known of the stamp, or nothing that could be compared: then the URL alone counts."""
    if owner.witness is None:
        return True
    found = here.stamp(_witness_key(key, owner.witness))
    return found is not None and all(found.get(kind, value) == value for kind, value in owner.stamp.items())


def _encoded(owner: HomeOwner) -> bytes:
    body = {"warehouse": owner.warehouse, "format": owner.format}
    more = {} if owner.witness is None else {"witness": owner.witness, "stamp": owner.stamp}
    return msgspec.json.encode(body | more)


def _witness_key(key: str, name: str) -> str:
    """Beside the owner's file `key`, but in the warehouse."""
    topic, topic_id, _ = key.split("/", 2)
    return f"{witnesses(topic, topic_id)}{name}.witness"


def _where(store: Store, key: str) -> str:
    return f"{shown(store.url)}/{key}"
