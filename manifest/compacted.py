"""The compacted state: for each key exactly its latest record below an offset, and nothing else. Pure (R1, R4;
docs/rfcs/0017).

A view publishes it, and a scan needs no merge within it. `cleaned_to` alone does not tell that there is one: records
below it may have given way to records above, and then the state at that offset is nowhere any more. Three histories
in which that happens, and a model that remembers everything: tests/manifest/test_compacted.py.
"""

import msgspec

from lithify.manifest.model import Manifest, SegmentRef
from lithify.manifest.units import Unit

__all__ = ["Compacted", "compacted", "is_clean"]


class Compacted(msgspec.Struct, frozen=True, kw_only=True):
    run: str
    segments: tuple[SegmentRef, ...]  # in key order, apart in keys; each key has one record in them
    as_of: int  # exclusive: every record of these lies below it, and nothing else in the manifest does
    floor: int  # records below are hidden from readers; they may still be in it, or not
    tombstones: int  # rows without a value; 0: the segments are the table as they stand


def compacted(manifest: Manifest, floor: int) -> Compacted | None:
    """The compacted state as of `cleaned_to`; None: there is none, or nothing is left of it.

    SUBTLE! It is not enough that one run alone lies below `cleaned_to`. Of three appends the first and third are merged
    around the second, and a record of the first gives way to one of the third. What is made of the second then is all
    that lies below the others, and lacks that record. So nothing else may ever have *absorbed* an offset below.
    """
    as_of = manifest.cleaned_to
    below = [run for run in manifest.runs if all(ref.max_offset < as_of for ref in run.segments)]
    if len(below) != 1 or below[0].segments[0].order != "key":
        return None
    run = below[0]
    loose, runs = manifest.l0, (other for other in manifest.runs if other != run)
    if any(ref.min_offset < as_of for ref in loose) or any(other.reaches_to < as_of for other in runs):
        return None
    return Compacted(
        run=run.id,
        segments=run.segments,
        as_of=as_of,
        floor=floor,
        tombstones=sum(ref.tombstones for ref in run.segments),
    )


def is_clean(unit: Unit, cleaned_to: int) -> bool:
    """Whether all of `unit` was merged with all that lies below `cleaned_to`: it is not dirty, and another clean would
    keep every record of it, but for what gives way to later ones or has expired.

    This is asked of each unit alone, and is no question for `compacted`. A run in offset order can be clean (the topic
    once was `delete`), and so can each part of a divided run; of the manifest there is no compacted state then. Debts
    that went by that would clean again what has nothing dirty in it.
    """
    return unit.max_offset < cleaned_to
