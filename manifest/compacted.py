"""The compacted state: for each key exactly its latest record below an offset, and nothing else. Pure (R1, R4;
docs/rfcs/0017).

Nothing reads it yet: it is for views, which publish it, and for scans, which need no merge within it. (`debt.py` uses
`is_clean`.) `cleaned_to` alone does not prove that there is one: records below it may have given way to records above,
and then the state at that offset no longer exists.
tests/manifest/test_compacted.py has three histories in which that happens, and a model that remembers everything.
"""

import msgspec

from lithify.manifest.model import Manifest, SegmentRef
from lithify.manifest.units import Unit

__all__ = ["CompactedState", "compacted", "is_clean"]


class CompactedState(msgspec.Struct, frozen=True, kw_only=True):
    run: str
    segments: tuple[SegmentRef, ...]  # in key order, with disjoint keys; each key has one record
    as_of: int  # exclusive: all records of these are below it, and nothing else in the manifest is
    floor: int  # records below it are hidden from readers, and may or may not still be stored
    tombstones: int  # rows without a value
    # Whether readers of the topic leave out some of these records: those below the floor, and those that their keys
    # left behind when the topic grew (docs/rfcs/0013). Without that and without tombstones, the segments are the table
    # as it is.
    hides: bool


def compacted(manifest: Manifest, floor: int, *, grown: bool) -> CompactedState | None:
    """The compacted state as of `cleaned_to`. None: there is none, or nothing is left of it. `grown`: whether the topic
    ever had fewer partitions.

    SUBTLE! It is not enough that only one run lies below `cleaned_to`. 1. Of three appends the first and third are
    merged around the second; a record of the first is superseded by one of the third. 2. The run made of the second is
    all that lies below the others, and lacks that record. So nothing else may ever have *absorbed* an offset below.
    Test: tests/manifest/test_compacted.py
    """
    as_of = manifest.cleaned_to
    below = [run for run in manifest.runs if all(ref.max_offset < as_of for ref in run.segments)]
    if len(below) != 1 or below[0].segments[0].order != "key":
        return None
    run = below[0]
    loose, runs = manifest.l0, (other for other in manifest.runs if other != run)
    if any(ref.min_offset < as_of for ref in loose) or any(other.reaches_to < as_of for other in runs):
        return None
    return CompactedState(
        run=run.id,
        segments=run.segments,
        as_of=as_of,
        floor=floor,
        tombstones=sum(ref.tombstones for ref in run.segments),
        hides=grown or any(ref.min_offset < floor for ref in run.segments),
    )


def is_clean(unit: Unit, cleaned_to: int) -> bool:
    """Whether all of `unit` was merged with everything below `cleaned_to`: it is not dirty, and another clean would
    keep all its records except those superseded later or expired.

    This is about one unit, not about `compacted`. A run in offset order can be clean (the topic once was `delete`), and
    so can each part of a divided run; then the manifest has no compacted state. If debts depended on that, they would
    clean again what has nothing dirty in it.
    """
    return unit.max_offset < cleaned_to
