"""The edit by which a compactor takes a partition, and whether its epoch still holds afterwards (P5). Pure."""

from dataclasses import dataclass

from msgspec.structs import replace

from lithify.manifest.edits import Already, Next, Refused
from lithify.manifest.model import Manifest
from lithify.manifest.refusals import not_created, topic_gone
from lithify.store.errors import EpochRegression, Fenced, LithifyError

__all__ = ["Claim", "epoch_regressed", "fenced"]


@dataclass(frozen=True, slots=True)
class Claim:
    """Take the next compactor epoch (P5). Answers with it, or with None if another claim came first.

    SUBTLE! 1. A and B see epoch 3, whose owner seems dead. 2. A commits epoch 4 and begins to work. 3. B loses the race
    for the number. If it simply claimed 5, it would fence a living owner. So it must look again. Test:
    tests/protocol/test_p05_fencing.py
    """

    expected: int | None  # the epoch that was seen; None: any, an order to take over

    repeatable = True  # a repeat finds the epoch that the first one made, and answers None
    frees = True

    def apply(
        self, head: Manifest | None, number: int, now_ms: int
    ) -> Next[Manifest, int | None] | Already[int | None] | Refused:
        if head is None:
            return not_created()
        if head.sealed:
            return Refused(topic_gone(head))
        epoch = head.compactor_epoch
        if self.expected is not None and epoch < self.expected:
            return Refused(epoch_regressed(head.topic, head.partition, epoch, self.expected))
        if self.expected is not None and epoch > self.expected:
            return Already(None)
        return Next(replace(head, compactor_epoch=epoch + 1), epoch + 1)


def epoch_regressed(topic: str, partition: int, stored: int, known: int) -> EpochRegression:
    return EpochRegression(
        f"{topic}/{partition}: the store shows epoch {stored} though epoch {known} was committed: it lost "
        "acknowledged writes. Stop every writer and investigate the bucket before you do anything else"
    )


def fenced(topic: str, partition: int, stored: int, mine: int) -> LithifyError | None:
    """What epoch `stored` means for the holder of epoch `mine` (P5). None: it still holds the partition."""
    if stored > mine:
        return Fenced(
            f"{topic}/{partition}: another compactor took over (epoch {stored}, mine is {mine}); this one stops here "
            "and has deleted nothing"
        )
    return epoch_regressed(topic, partition, stored, mine) if stored < mine else None
