"""What it means that an object which a manifest names is not there (P16). Pure."""

from lithify.manifest.model import Boundary, Manifest
from lithify.store.errors import Corrupt, LithifyError, NotFound, SnapshotExpired

__all__ = ["explain_missing"]


def explain_missing(head: Manifest, boundary: Boundary | None, number: int, missing: NotFound) -> LithifyError:
    """A reader of a retained manifest never meets a missing file (P16): is manifest `number` still retained? Requires:
    `head` and `boundary` were read after the object was found missing."""
    where = f"{head.topic}/{head.partition}"
    dead = boundary is not None and number <= boundary.manifest
    if dead and all(checkpoint.manifest != number for checkpoint in head.checkpoints):
        return SnapshotExpired(
            f"{where}: manifest {number} is no longer retained, and its segments were collected; open a new "
            "snapshot, and give it a pin if it must outlive compactions"
        )
    return Corrupt(
        f"{where}: {missing}, but the retained manifest {number} names it: restore the object from a copy, and "
        "run 'lithify verify' to find everything that is missing",
        missing.key,
        missing.segment,
    )
