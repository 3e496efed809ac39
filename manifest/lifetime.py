"""The edits that create, touch and seal a partition (P21). Pure."""

from dataclasses import dataclass

from msgspec.structs import replace

from lithify.manifest.edits import Already, Next, Refused
from lithify.manifest.model import Manifest
from lithify.manifest.pins import unpinned
from lithify.manifest.refusals import not_created
from lithify.manifest.retired import retire

__all__ = ["CreatePartition", "Seal", "Touch"]


@dataclass(frozen=True, slots=True)
class CreatePartition:
    """Manifest 1. It exists before the `.topic` that announces the partition (P21)."""

    first: Manifest

    repeatable = True
    frees = False

    def apply(self, head: Manifest | None, number: int, now_ms: int) -> Next[Manifest, None] | Already[None]:
        return Already(None) if head is not None else Next(self.first, None)


@dataclass(frozen=True, slots=True)
class Touch:
    """Take the next number and change nothing, so that no late request can create it any more (P1)."""

    repeatable = True
    frees = True  # also on a full disk, a caller learns what became of its append

    def apply(self, head: Manifest | None, number: int, now_ms: int) -> Next[Manifest, None] | Refused:
        return not_created() if head is None else Next(head, None)


@dataclass(frozen=True, slots=True)
class Seal:
    """The topic was deleted: nothing is appended or compacted any more; everything live, pinned or uploaded is let go
    (P21).

    The retired list may exceed its limit here: nothing will be added to it again.
    """

    repeatable = True
    frees = True

    def apply(self, head: Manifest | None, number: int, now_ms: int) -> Next[Manifest, None] | Already[None]:
        if head is None or head.sealed:
            return Already(None)
        retired = (*head.retired, *retire(head.segments(), number))
        sealed = replace(head, sealed=True, l0=(), runs=(), time_index=(), retired=retired, checkpoints=(), uploads=())
        return Next(replace(sealed, unpinned=unpinned(head, ())), None)
