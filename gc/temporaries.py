"""What killed processes left half written: files, or uploads to a bucket.

A listing does not show them, and whoever has the bucket pays for them.
"""

import msgspec

from lithify.manifest.keys import is_segment_key, is_topic_name
from lithify.store.apart import Fault, attempt
from lithify.store.home_names import physical, scheme_of
from lithify.store.homes import HERE, Homes
from lithify.store.owners import owner_key, owner_key_beside, owns_home
from lithify.store.port import Store

__all__ = ["Temporaries", "remove_stale_temporaries"]


class Temporaries(msgspec.Struct, frozen=True):
    removed: int = 0
    fault: Fault | None = None  # the first: why some could not be removed


def remove_stale_temporaries(homes: Homes, *, dry_run: bool = False) -> Temporaries:
    """Remove those that are a day old by the clock of their store, in the warehouse and in every other home that this
    process has opened, as far as it is ours; a sweep opens all that manifests name. A home that is away holds up no
    other."""
    found = [
        attempt(lambda home=home, store=store: _remove(home, store, homes.here, dry_run=dry_run))
        for home, store in homes
        if home == HERE or physical(home) != HERE
    ]
    return Temporaries(
        sum(each for each in found if not isinstance(each, Fault)),
        next((each for each in found if isinstance(each, Fault)), None),
    )


def _remove(home: str, store: Store, here: Store, *, dry_run: bool) -> int:
    """SUBTLE! A home may be another warehouse's, too. 1. A machine that uploads there is suspended for a day. 2. A copy
    of its warehouse is swept, and what is half written is removed. 3. The machine wakes up, and its move fails.
    Therefore home.json must name us (docs/rfcs/0031). An upload says what key it is for. A temporary file does not: so
    no topic in its folder may be another warehouse's. Test: tests/e2e/test_temporaries_of_homes.py
    """
    if home == HERE:
        return store.remove_stale_temporaries(is_segment_key, dry_run=dry_run)
    if scheme_of(home) == "file":
        ours = _all_ours(store, here)
        return store.remove_stale_temporaries(is_segment_key, dry_run=dry_run) if ours else 0
    stale = set[str]()  # whose they are is asked of the home, but not while it answers
    store.remove_stale_temporaries(lambda key: is_segment_key(key) and stale.add(key) is not None, dry_run=True)
    owned = {name for name in sorted(set(map(owner_key_beside, stale))) if owns_home(store, name, here)}
    mine = {key for key in stale if owner_key_beside(key) in owned}
    return store.remove_stale_temporaries(mine.__contains__, dry_run=dry_run) if mine else 0


def _all_ours(store: Store, here: Store) -> bool:
    """Whether somebody has claimed topics there, and always we."""
    names = [
        owner_key(topic, topic_id)
        for topic in store.folders("")
        if is_topic_name(topic)
        for topic_id in store.folders(f"{topic}/")
    ]
    owned = {owns_home(store, name, here) for name in names} - {None}
    return owned == {True}
