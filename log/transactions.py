"""What a partition remembers of applications that number their appends: looking at it, and forgetting it by hand.
Protocol coroutines, and what `transactions` answers."""

import msgspec

from lithify.manifest.model import Manifest, Transaction
from lithify.manifest.partition import PartitionFiles
from lithify.manifest.transactions import EndTransaction, ForgetTransaction, Reach, find_transaction
from lithify.store.errors import NotFound

__all__ = ["TransactionInfo", "end", "forget", "transaction_infos"]


class TransactionInfo(msgspec.Struct, frozen=True, kw_only=True):
    """The latest append of an application that numbers its appends."""

    application: str
    version: int
    base_offset: int  # of that append
    rows: int
    committed_at_ms: int | None  # milliseconds since 1970; None: an earlier lithify wrote it, and did not say
    ended: bool  # it said that it sends no more
    passed_over: tuple[tuple[int, int], ...] = ()  # stretches of versions, inclusive, that it has not sent, and may


def transaction_infos(manifest: Manifest) -> tuple[TransactionInfo, ...]:
    """The one that was idle for longest first."""
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
    """Raises NotFound where the partition does not know it."""
    if find_transaction(await files.live_head(), application) is None:
        raise NotFound(
            f"{files.name} remembers no transaction of application {application[:249]!r}; 'lithify transaction list' "
            "shows what there is"
        )
    await files.manifest.commit(ForgetTransaction(application))


async def end(files: PartitionFiles, application: str, at: Reach | None = None) -> None:
    """Does nothing where the partition does not know it, or (with `at`) it is elsewhere."""
    await files.manifest.commit(EndTransaction(application, at))
