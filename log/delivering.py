"""Appending one batch until it is known to be durable, or known not to be, or the time is over."""

from collections.abc import Sequence

from lithify.log.intake import prepare
from lithify.log.partition import Partition
from lithify.log.record import Record
from lithify.manifest.appends import ProducerStamp
from lithify.manifest.config import TopicConfig
from lithify.store.driver import Clock, Driver
from lithify.store.errors import AccessDenied, CommitUnknown, LithifyError, Unavailable
from lithify.store.port import Pause

__all__ = ["deliver"]

PAUSE_MS_FIRST = 100
PAUSE_MS_MAX = 5_000


def deliver(
    driver: Driver,
    partition: Partition,
    records: Sequence[Record],
    config: TopicConfig,
    stamp: ProducerStamp | None,
    *,
    timeout_ms: int,
    clock: Clock,
) -> range:
    """Append `records` once, and only once; their offsets.

    What is unavailable is tried again, and what is unknown is cleared up: with a stamp by sending it again, which the
    partition recognises; without one by settling the lost commit first. Raises CommitUnknown where the time is over
    and it may have happened, Unavailable where it did not, and refusals at once: the edit's, and the store's of who
    asks.
    """
    table = prepare(records, config, driver.now_ms(), f"{partition.topic}/{partition.number}", admitted=True)
    deadline_ms = clock() + timeout_ms
    pause_ms = PAUSE_MS_FIRST
    unknown: CommitUnknown | None = None
    while True:
        try:
            if unknown is not None and stamp is None:
                settled = partition.outcome(unknown.token, settle=True)
                unknown = None
                if settled is not None:
                    return settled
            return partition.append_prepared(table, producer=stamp)
        except CommitUnknown as error:
            # Asked about an earlier one, the answer is about that one: its token stays.
            unknown = unknown or error
            if clock() >= deadline_ms:
                raise unknown from None
        except Unavailable as error:
            if clock() >= deadline_ms or isinstance(error, AccessDenied):
                if unknown is not None:
                    raise unknown from None
                raise
        except LithifyError as error:
            if unknown is not None:
                error.add_note("whether the batch was appended at an earlier attempt is not known")
            raise
        driver.answer(Pause(pause_ms))
        pause_ms = min(2 * pause_ms, PAUSE_MS_MAX)
