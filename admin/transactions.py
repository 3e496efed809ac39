"""The applications that number their appends to a topic, as each partition remembers them."""

import msgspec

from lithify.admin.partitions import Answers, Places, required
from lithify.log.transactions import TransactionInfo, forget, transaction_infos
from lithify.manifest.known import KnownPartitions
from lithify.manifest.walk import FoundPartition

__all__ = ["PartitionTransaction", "forget_transaction", "transactions"]


class PartitionTransaction(msgspec.Struct, frozen=True, kw_only=True):
    partition: int
    transaction: TransactionInfo


def transactions(known: KnownPartitions, topic: str, partition: int | None) -> Answers[PartitionTransaction]:
    return Places.of(known, topic, partition).ask_for_many(lambda found: _read(known, found, None))


def forget_transaction(
    known: KnownPartitions, topic: str, application: str, partition: int | None
) -> Answers[PartitionTransaction]:
    def forgotten(found: FoundPartition) -> list[PartitionTransaction]:
        there = _read(known, found, application)
        if there:
            known.run(found.keys, lambda files: forget(files, application))
        return there

    answers = Places.of(known, topic, partition).ask_for_many(forgotten)
    shown = f"'lithify transaction list {topic}' shows what there is"
    return required(answers, f"{topic} remembers no application {application!r}; {shown}")


def _read(known: KnownPartitions, found: FoundPartition, application: str | None) -> list[PartitionTransaction]:
    """Those of a partition; or the one with this name."""
    infos = transaction_infos(known.run(found.keys, lambda files: files.live_head()))
    return [
        PartitionTransaction(partition=found.keys.partition, transaction=it)
        for it in infos
        if application in (None, it.application)
    ]
