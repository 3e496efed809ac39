"""The edits that create and seal a partition (P21). Pure."""

from dataclasses import dataclass

from msgspec.structs import replace

from lithify.manifest.commit import Already, Next
from lithify.manifest.model import Manifest
from lithify.manifest.pins import unpinned
from lithify.manifest.retired import retire

__all__ = ["CreatePartition", "Seal"]


@dataclass(frozen=True, slots=True)
class CreatePartition:
    """Manifest 1. It exists before the `.topic` that announces the partition (P21)."""

    first: Manifest

    repeatable = True

    def apply(self, head: Manifest | None, number: int, now_ms: int) -> Next[Manifest, None] | Already[None]:
        return Already(None) if head is not None else Next(self.first, None)


@dataclass(frozen=True, slots=True)
class Seal:
    """The topic was deleted: nothing is appended or compacted any more; everything live or pinned is released (P21).

    The retired list may exceed its limit here: nothing will be added to it again.
    """

    repeatable = True
    frees = True

    def apply(self, head: Manifest | None, number: int, now_ms: int) -> Next[Manifest, None] | Already[None]:
        if head is None or head.sealed:
            return Already(None)
        retired = (*head.retired, *retire(head.segments(), number))
        sealed = replace(head, sealed=True, l0=(), runs=(), time_index=(), retired=retired, checkpoints=())
        return Next(replace(sealed, unpinned=unpinned(head, ())), None)
