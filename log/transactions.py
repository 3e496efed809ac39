"""The applications that number their appends, as a partition remembers them: listing and forgetting them. Protocol
coroutines."""

import msgspec

from lithify.log.names import check_name
from lithify.manifest.model import Manifest, Transaction
from lithify.manifest.partition import PartitionFiles
from lithify.manifest.transactions import (
    EndTransaction,
    ForgetTransaction,
    Reach,
    TransactionStamp,
    find_transaction,
)
from lithify.store.errors import InvalidRequest, NotFound

__all__ = ["TransactionInfo", "end", "forget", "stamp_of", "transaction_infos"]


class TransactionInfo(msgspec.Struct, frozen=True, kw_only=True):
    """The latest append of an application that numbers its appends."""

    application: str
    version: int
    base_offset: int  # of that append
    rows: int
    committed_at_ms: int | None  # milliseconds since 1970; None: unknown, written by an earlier lithify
    ended: bool  # it said that it will send no more
    # Stretches of versions, inclusive, that it has not sent and still may.
    passed_over: tuple[tuple[int, int], ...] = ()


def stamp_of(txn: tuple[str, int] | None) -> TransactionStamp | None:
    """A caller's `txn`. Raises InvalidRequest."""
    if txn is None:
        return None
    application, version = txn if type(txn) is tuple and len(txn) == 2 else ("", -1)
    if type(application) is not str or type(version) is not int or version < 0:
        raise InvalidRequest("txn must be (application, version): a string and an integer >= 0")
    return TransactionStamp(check_name("txn's application", application), version)


def transaction_infos(manifest: Manifest) -> tuple[TransactionInfo, ...]:
    """The remembered applications, the longest idle first."""
    return tuple(map(_info, sorted(manifest.transactions, key=lambda entry: entry.touched_at)))


def _info(entry: Transaction) -> TransactionInfo:
    return TransactionInfo(
        application=entry.application,
        version=entry.version,
        base_offset=entry.base_offset,
        rows=entry.rows,
        committed_at_ms=entry.touched_at_ms if entry.touched_at else None,
        ended=entry.ended,
        passed_over=tuple((each.first, each.last) for each in entry.passed_over),
    )


async def forget(files: PartitionFiles, application: str) -> None:
    """Forget an application. Raises NotFound if the partition does not know it."""
    if find_transaction(await files.live_head(), application) is None:
        raise NotFound(
            f"{files.name} remembers no transaction of application {application[:249]!r}; 'lithify transaction list' "
            "shows what there is"
        )
    await files.manifest.commit(ForgetTransaction(application))


async def end(files: PartitionFiles, application: str, at: Reach | None = None) -> None:
    """Mark an application as ended. Does nothing if the partition does not know it, or (with `at`) it is elsewhere."""
    await files.manifest.commit(EndTransaction(application, at))
