"""The applications that number their appends to a topic, as each partition remembers them."""

import msgspec

from lithify.admin.partitions import Answers, Places, required
from lithify.log.names import check_name
from lithify.log.transactions import TransactionInfo, forget, transaction_infos
from lithify.manifest.known import KnownPartitions
from lithify.manifest.walk import FoundPartition

__all__ = ["PartitionTransaction", "check_application", "forget_transaction", "place_of", "transactions"]


class PartitionTransaction(msgspec.Struct, frozen=True, kw_only=True):
    partition: int
    transaction: TransactionInfo


def transactions(known: KnownPartitions, topic: str, partition: int | None) -> Answers[PartitionTransaction]:
    return Places.of(known, topic, partition).ask_for_many(lambda found: _read(known, found, None))


def forget_transaction(
    known: KnownPartitions, topic: str, application: str, partition: int | None
) -> Answers[PartitionTransaction]:
    check_application(application)

    def forgotten(found: FoundPartition) -> list[PartitionTransaction]:
        there = _read(known, found, application)
        if there:
            known.run(found.keys, lambda files: forget(files, application))
        return there

    answers = Places.of(known, topic, partition).ask_for_many(forgotten)
    shown = f"'lithify transaction list {topic}' shows what there is"
    return required(answers, f"{topic} remembers no application {application!r}; {shown}")


def check_application(name: object) -> str:
    return check_name("an application's name", name)


def _read(known: KnownPartitions, found: FoundPartition, application: str | None) -> list[PartitionTransaction]:
    """Those of a partition; or the one with this name."""
    infos = transaction_infos(known.run(found.keys, lambda files: files.live_head()))
    number = found.keys.partition
    known_ones = (PartitionTransaction(partition=number, transaction=it) for it in infos)
    return sorted((it for it in known_ones if application in (None, it.transaction.application)), key=place_of)


def place_of(each: PartitionTransaction) -> tuple[int, int, int, str]:
    """In lists: the longest idle first in each partition."""
    it = each.transaction
    return each.partition, it.committed_at_ms or 0, it.base_offset, it.application
