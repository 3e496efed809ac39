"""What a missing object means to a reader: its snapshot is over, or something was lost (P16)."""

import pytest

from lithify.manifest.missing import explain_missing
from lithify.manifest.model import FORMAT, Boundary, Checkpoint, Manifest
from lithify.store.errors import Corrupt, NotFound, SnapshotExpired

LIFE = {"format": FORMAT, "topic": "users", "topic_id": "0badcafe0badcafe", "partition": 3}
MISSING = NotFound("a/segment does not exist", "a/segment", "s7")


def manifest(number: int, pins: int | None = None) -> Manifest:
    pinned = Checkpoint(id="c1", name="kept", manifest=pins or 0, created_at_ms=0)
    return Manifest(id=number, checkpoints=() if pins is None else (pinned,), **LIFE)


@pytest.mark.parametrize(
    ("dead_to", "pins", "expired"),
    [
        (None, None, False),  # nothing was ever collected
        (6, None, False),
        (7, None, True),
        (8, None, True),
        (8, 7, False),  # a checkpoint keeps it
        (8, 6, True),
    ],
)
def test_only_a_manifest_that_is_no_longer_retained_may_miss_its_objects(
    dead_to: int | None, pins: int | None, expired: bool
) -> None:
    boundary = None if dead_to is None else Boundary(id=1, manifest=dead_to, **LIFE)
    error = explain_missing(manifest(9, pins), boundary, 7, MISSING)
    if expired:
        assert isinstance(error, SnapshotExpired)
        assert "users/3: manifest 7 is no longer retained" in str(error)
    else:
        assert isinstance(error, Corrupt)
        assert "users/3: a/segment does not exist, but the retained manifest 7 names it" in str(error)
        assert (error.key, error.segment) == ("a/segment", "s7")
