"""Tries to append one batch until the outcome is known, or its time is over."""

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
    """Append `records` exactly once, as of `now_ms` by the store's clock; returns their offsets.

    What is unavailable is tried again; what is unknown is settled before it is sent again. Nothing waits beyond
    `deadline_ms`; after it there is one last try. Raises CommitUnknown if it may have happened; everything else means
    that it did not: Unavailable if the time is over; refusals by the edit, and refused access, at once.
    """
    table = prepare(records, config, now_ms, f"{partition.topic}/{partition.number}", admitted=True)
    where = f"{partition.topic}/{partition.number}"
    partition = partition.lent(until(driver, deadline_ms, clock, where), config, deadline_ms)
    pause_ms = PAUSE_MS_FIRST
    unknown: CommitUnknown | None = None
    while True:
        try:
            if unknown is not None:
                # SUBTLE! Also with a stamp, although the partition would recognise a repeat by it. A repeat is another
                # segment: if it became unknown as well, either of the two could arrive, but a token is about one of
                # them. Test: tests/log/test_producer_failures.py
                settled = partition.outcome(unknown.token, settle=True)
                if settled is not None:
                    return settled
                unknown = None
            return partition.append_prepared(table, producer=stamp)
        except CommitUnknown as error:
            # If asking about an earlier one fails, the error is about that one: keep its token.
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
        # SUBTLE! With the plain driver: the time may be over by now, and an unknown outcome must not be reported as a
        # refusal. Test: tests/log/test_producer_attempts.py
        driver.answer(Pause(max(min(pause_ms, deadline_ms - clock()), 0)))
        pause_ms = min(2 * pause_ms, PAUSE_MS_MAX)


def until(driver: Driver, deadline_ms: int, clock: Clock, where: str) -> Driver:
    """A driver that does not wait beyond the deadline: a commit that wants to wait and try again gets Unavailable, and
    ends with what is known. Pauses that only let others go first are skipped then."""

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
