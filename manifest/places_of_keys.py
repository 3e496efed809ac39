"""Where the keys of a topic live after it has grown, and where they lived before (docs/rfcs/0013). Pure."""

import msgspec

from lithify.manifest.model import Growth

__all__ = ["KeyPlaces"]


class KeyPlaces(msgspec.Struct, frozen=True):
    """The growths of a topic, oldest first, and its present number of partitions."""

    growths: tuple[Growth, ...]
    partitions: int

    @property
    def counts(self) -> tuple[int, ...]:
        """All partition counts that it has had, ascending."""
        return (*(growth.partitions for growth in self.growths), self.partitions)
