"""Appending one batch until it is known to be durable, or known not to be, or the time is over."""

import copy
from collections.abc import Sequence
from typing import Any

from lithify.log.intake import prepare
from lithify.log.partition import Partition
from lithify.log.record import Record
from lithify.manifest.config import TopicConfig
from lithify.manifest.producers import ProducerStamp
from lithify.store.driver import Clock, Driver
from lithify.store.errors import CommitUnknown, LithifyError, Unavailable
from lithify.store.port import Pause, Request

__all__ = ["deliver", "until"]

PAUSE_MS_FIRST = 100
PAUSE_MS_MAX = 5_000


def deliver(
    driver: Driver,
    partition: Partition,
    records: Sequence[Record],
    config: TopicConfig,
    stamp: ProducerStamp | None,
    *,
    now_ms: int,
    deadline_ms: int,
    clock: Clock,
) -> range:
    """Append `records` once, and only once, as of `now_ms` by the store's clock; their offsets.

    What is unavailable is tried again, and what is unknown is settled before it is sent again. Nothing is waited for
    beyond `deadline_ms`; whoever comes later is tried once. Raises CommitUnknown where it may have happened, everything
    else where it did not: Unavailable where the time is over, and refusals at once, the edit's and the store's of who
    asks.
    """
    table = prepare(records, config, now_ms, f"{partition.topic}/{partition.number}", admitted=True)
    partition = partition.lent(until(driver, deadline_ms, clock, f"{partition.topic}/{partition.number}"), config)
    pause_ms = PAUSE_MS_FIRST
    unknown: CommitUnknown | None = None
    while True:
        try:
            if unknown is not None:
                # SUBTLE! Also with a stamp, by which the partition would recognise a repeat. A repeat is another
                # segment: were it unknown as well, either could arrive, and a token speaks of one of them.
                # Test: tests/log/test_producer_failures.py
                settled = partition.outcome(unknown.token, settle=True)
                if settled is not None:
                    return settled
                unknown = None
            return partition.append_prepared(table, producer=stamp)
        except CommitUnknown as error:
            # Asked about an earlier one, the answer is about that one: its token stays.
            unknown = unknown or error
            if clock() >= deadline_ms:
                raise unknown from None
        except LithifyError as error:
            if error.retryable and clock() < deadline_ms:
                pass
            elif unknown is not None:
                raise unknown from error
            else:
                raise
        # SUBTLE! By the plain driver: the time may be over by now, and what is unknown is not to be told as refused.
        # Test: tests/log/test_producer_attempts.py
        driver.answer(Pause(max(min(pause_ms, deadline_ms - clock()), 0)))
        pause_ms = min(2 * pause_ms, PAUSE_MS_MAX)


def until(driver: Driver, deadline_ms: int, clock: Clock, where: str) -> Driver:
    """The same driver, but where a commit would wait beyond the deadline to try once more, it is told that the store is
    unavailable: then it ends with what is known of it. What only gives way to others is left out then."""

    def answer(request: Request[Any]) -> Any:
        if isinstance(request, Pause):
            left_ms = deadline_ms - clock()
            if left_ms <= 0 and request.gives_way:
                return None
            if left_ms <= 0:
                raise Unavailable(f"{where}: delivery.timeout.ms is over, and the store has given no certain answer")
            request = Pause(min(request.ms, left_ms))
        return driver.answer(request)

    limited = copy.copy(driver)
    limited.answer = answer
    return limited
