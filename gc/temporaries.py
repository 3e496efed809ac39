"""What killed processes left half written: files, or uploads to a bucket.

A listing does not show them, and whoever has the bucket pays for them.
"""

import msgspec

from lithify.manifest.keys import is_segment_key
from lithify.store.apart import Fault, attempt
from lithify.store.home_names import physical
from lithify.store.homes import HERE, Homes

__all__ = ["Temporaries", "remove_stale_temporaries"]


class Temporaries(msgspec.Struct, frozen=True):
    removed: int = 0
    fault: Fault | None = None  # the first: why some could not be removed


def remove_stale_temporaries(homes: Homes, *, dry_run: bool = False) -> Temporaries:
    """Remove those that are a day old by the clock of their store, in the warehouse and in every other home that this
    process has opened; a sweep opens all that manifests name. A home that is away holds up no other."""
    stores = [store for home, store in homes if home == HERE or physical(home) != HERE]
    found = [
        attempt(lambda store=store: store.remove_stale_temporaries(is_segment_key, dry_run=dry_run)) for store in stores
    ]
    return Temporaries(
        sum(each for each in found if not isinstance(each, Fault)),
        next((each for each in found if isinstance(each, Fault)), None),
    )
