"""Consumers' positions by name: taking over, resetting, deleting (docs/rfcs/0009). Protocol coroutines."""

import contextlib
from collections.abc import Callable, Coroutine
from typing import Any, Literal

from lithify.log.names import check_name
from lithify.manifest.consumers import ForgetConsumer, ResetPosition, TakePosition, find_consumer, forgotten, taken_over
from lithify.manifest.model import ConsumerPosition, Manifest
from lithify.manifest.partition import PartitionFiles
from lithify.store.errors import Fenced, InvalidRequest, NotFound, Unavailable
from lithify.store.port import NewId, Request

__all__ = ["RACES_MAX", "Holds", "check_consumer_name", "forget", "look", "reset", "still_holds", "take"]

RACES_MAX = 8  # attempts lost to other instances that take over the same name


def check_consumer_name(name: object) -> str:
    return check_name("a consumer's name", name)


Holds = Callable[[], Coroutine[Request[Any], Any, None]]
"""Raises if an instance was replaced by another one."""


async def still_holds(files: PartitionFiles, name: str, instance: str) -> None:
    """Raises Fenced if another instance took consumer `name` over, NotFound if it was deleted."""
    known = find_consumer(await files.live_head(), name)
    if known is None:
        raise forgotten(f"{files.name}: consumer {name!r}")
    if known.instance != instance:
        raise taken_over(f"{files.name}: consumer {name!r}", known)


async def look(
    files: PartitionFiles, name: str, start: Callable[[Manifest], int | None], holds: Holds | None = None
) -> TakePosition:
    """The edit that takes `name` over for a new instance; nothing is taken until it is committed. `start` returns where
    the name begins if it has no position, or None if it has one; it raises if an instance could not begin."""
    head = await files.live_head()
    new_at = start(head)
    if holds is not None:
        await holds()
    known = find_consumer(head, name)
    holder = None if holds is None else known.instance if known is not None else ""
    return TakePosition(name, await NewId(), new_at, holder)


async def take(
    files: PartitionFiles, name: str, start: Callable[[Manifest], int | None], holds: Holds | None = None
) -> ConsumerPosition:
    """Take over the position of `name` for a new instance, wherever it is by then; the former holder is refused at its
    next commit. Without a position, one is created at the offset that `start` returns.

    SUBTLE! `holds` is asked between reading the position and committing its takeover. A successor first takes over the
    partition that `holds` looks at, then this one. So either 1. `holds` sees the successor; or 2. the successor comes
    to this partition later: our commit is refused because the name has another holder, or the successor replaces us.
    Test: tests/log/test_growing_consumer.py
    """
    for _ in range(RACES_MAX):
        edit = await look(files, name, start, holds)
        with contextlib.suppress(Fenced):  # taken over meanwhile: does this one still hold its first?
            return (await files.manifest.commit(edit)).result
    raise Unavailable(f"{files.name}: other instances keep taking over consumer {name!r}; is its name used twice?")


async def reset(
    files: PartitionFiles, name: str, to: int | Literal["earliest", "latest"], floor: Callable[[Manifest], int]
) -> ConsumerPosition:
    """Set the position of `name` to an offset, to the log's start (`floor` returns it) or to its end. A running
    instance is refused at its next commit, however often it commits. Raises NotFound if there is no such consumer,
    OffsetOutOfRange."""
    if to not in ("earliest", "latest") and (type(to) is not int or to < 0):
        raise InvalidRequest(f"{files.name}: a consumer can be reset to an offset >= 0, 'earliest' or 'latest'")
    head = await files.live_head()
    if find_consumer(head, name) is None:
        raise _unknown(files, name)
    offset = to if isinstance(to, int) else floor(head) if to == "earliest" else None
    # From the log's start all state is rebuilt, so deletions dropped so far do not matter.
    edit = ResetPosition(name, offset, await NewId(), anew=to == "earliest")
    return (await files.manifest.commit(edit)).result


async def forget(files: PartitionFiles, name: str) -> None:
    """Delete consumer `name`. Raises NotFound."""
    if find_consumer(await files.live_head(), name) is None:
        raise _unknown(files, name)
    await files.manifest.commit(ForgetConsumer(name))


def _unknown(files: PartitionFiles, name: str) -> NotFound:
    return NotFound(f"{files.name} has no consumer {name!r}; 'lithify consumer list' shows what there is")
