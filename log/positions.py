"""Consumers' positions by name: taking one over, resetting, forgetting (docs/rfcs/0009). Protocol coroutines."""

import contextlib
from collections.abc import Callable, Coroutine
from typing import Any, Literal

from lithify.log.names import check_name
from lithify.manifest.consumers import ForgetConsumer, ResetPosition, TakePosition, find_consumer, forgotten, taken_over
from lithify.manifest.model import ConsumerPosition, Manifest
from lithify.manifest.partition import PartitionFiles
from lithify.store.errors import Fenced, InvalidRequest, NotFound, Unavailable
from lithify.store.port import NewId, Request

__all__ = ["Holds", "check_consumer_name", "forget", "look", "reset", "still_holds", "take"]

RACES_MAX = 8  # lost to other instances that take the same name over


def check_consumer_name(name: object) -> str:
    return check_name("a consumer's name", name)


Holds = Callable[[], Coroutine[Request[Any], Any, None]]
"""Raises where an instance was replaced by another one."""


async def still_holds(files: PartitionFiles, name: str, instance: str) -> None:
    """Raises Fenced where another instance took consumer `name` over, NotFound where it was forgotten."""
    known = find_consumer(await files.live_head(), name)
    if known is None:
        raise forgotten(f"{files.name}: consumer {name!r}")
    if known.instance != instance:
        raise taken_over(f"{files.name}: consumer {name!r}", known)


async def look(
    files: PartitionFiles, name: str, start: Callable[[Manifest], int], holds: Holds | None = None
) -> TakePosition:
    """What takes `name` over for a new instance, once it is committed; nothing is taken yet. `start` answers where the
    name begins if it has no position; it raises where an instance of it could not begin."""
    head = await files.live_head()
    new_at = start(head)
    if holds is not None:
        await holds()
    known = find_consumer(head, name)
    holder = None if holds is None else known.instance if known is not None else ""
    return TakePosition(name, await NewId(), new_at, holder)


async def take(
    files: PartitionFiles, name: str, start: Callable[[Manifest], int], holds: Holds | None = None
) -> ConsumerPosition:
    """Take position `name` over for a new instance, wherever it is by then: whoever held it is refused at its next
    commit. Where there is none it is created at the offset that `start` answers.

    SUBTLE! `holds` is asked between the look at the position and the commit that takes it. A successor takes this
    partition only after the one that `holds` looks at. So either `holds` sees it; or it comes to this partition after
    that look, and then the commit is refused, since the name has another holder, or it replaces this one.
    Test: tests/log/test_growing_consumer.py
    """
    for _ in range(RACES_MAX):
        edit = await look(files, name, start, holds)
        with contextlib.suppress(Fenced):  # somebody took it over meanwhile: does this one still hold its first?
            return (await files.manifest.commit(edit)).result
    raise Unavailable(f"{files.name}: others take consumer {name!r} over all the time; is its name used twice?")


async def reset(
    files: PartitionFiles, name: str, to: int | Literal["earliest", "latest"], floor: Callable[[Manifest], int]
) -> ConsumerPosition:
    """Put position `name` to an offset, to the log's start (`floor` answers it) or to its end; an instance that runs is
    refused at its next commit, however often it commits. Raises NotFound where there is no such consumer,
    OffsetOutOfRange."""
    if to not in ("earliest", "latest") and (type(to) is not int or to < 0):
        raise InvalidRequest(f"{files.name}: reset a consumer to an offset, 'earliest' or 'latest'")
    head = await files.live_head()
    if find_consumer(head, name) is None:
        raise _unknown(files, name)
    offset = to if isinstance(to, int) else floor(head) if to == "earliest" else None
    # From the log's start everything is made anew, whatever was dropped so far.
    edit = ResetPosition(name, offset, await NewId(), anew=to == "earliest")
    return (await files.manifest.commit(edit)).result


async def forget(files: PartitionFiles, name: str) -> None:
    """Raises NotFound where there is no such consumer."""
    if find_consumer(await files.live_head(), name) is None:
        raise _unknown(files, name)
    await files.manifest.commit(ForgetConsumer(name))


def _unknown(files: PartitionFiles, name: str) -> NotFound:
    return NotFound(f"{files.name} has no consumer {name!r}; 'lithify consumer list' shows what there is")
