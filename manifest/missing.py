"""What it means that an object which a manifest names is not there (P16). Pure."""

from lithify.manifest.model import Boundary, Manifest
from lithify.store.errors import Corrupt, LithifyError, NotFound, SnapshotExpired

__all__ = ["explain_missing"]


def explain_missing(head: Manifest, boundary: Boundary | None, manifest: Manifest, missing: NotFound) -> LithifyError:
    """A reader of a retained manifest never meets a missing file (P16): is `manifest` still retained? Requires: `head`
    and `boundary` were read after the object was found missing."""
    where = f"{manifest.topic}/{manifest.partition}"
    dead = boundary is not None and manifest.id <= boundary.manifest
    if dead and all(checkpoint.manifest != manifest.id for checkpoint in head.checkpoints):
        return SnapshotExpired(
            f"{where}: manifest {manifest.id} is no longer retained, and its segments were collected; open a new "
            "snapshot, and give it a pin if it must outlive compactions"
        )
    return Corrupt(
        f"{where}: {missing}, but the retained manifest {manifest.id} names it: restore the object from a copy, and "
        "run 'lithify verify' to find everything that is missing",
        missing.key,
        missing.segment,
    )
