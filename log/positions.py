"""Consumers' positions by name: taking one over, resetting, forgetting (docs/rfcs/0009). Protocol coroutines."""

import contextlib
from collections.abc import Callable, Coroutine
from typing import Any, Literal

from lithify.log.names import check_name
from lithify.manifest.consumers import CommitPosition, ForgetConsumer, find_consumer, forgotten, taken_over
from lithify.manifest.model import ConsumerPosition, Manifest
from lithify.manifest.partition import PartitionFiles
from lithify.store.errors import Fenced, InvalidRequest, NotFound, Unavailable
from lithify.store.port import NewId, Request

__all__ = ["Holds", "check_consumer_name", "forget", "reset", "still_holds", "take"]

RACES_MAX = 8  # lost to other instances of the same name


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


async def take(
    files: PartitionFiles, name: str, start: Callable[[Manifest], int], holds: Holds | None = None
) -> ConsumerPosition:
    """Take position `name` over for a new instance: whoever held it is refused at its next commit. Where there is none
    it is created at the offset that `start` answers.

    SUBTLE! `holds` is asked between the look at the position and the commit that takes it. A successor takes this
    partition only after the one that `holds` looks at. So either `holds` sees it; or it comes to this partition after
    that look, and then the commit is refused, or it replaces this one. Test: tests/log/test_growing_consumer.py
    """
    instance = await NewId()
    for _ in range(RACES_MAX):
        head = await files.live_head()
        if holds is not None:
            await holds()
        known = find_consumer(head, name)
        offset = start(head) if known is None else known.offset
        edit = CommitPosition(name, offset, known.committed_at if known else 0, instance)
        with contextlib.suppress(Fenced):  # somebody committed meanwhile: take over from there
            return (await files.manifest.commit(edit)).result
    raise Unavailable(f"{files.name}: others commit consumer {name!r} all the time; is its name used twice?")


async def reset(
    files: PartitionFiles, name: str, to: int | Literal["earliest", "latest"], floor: Callable[[Manifest], int]
) -> ConsumerPosition:
    """Put position `name` to an offset, to the log's start (`floor` answers it) or to its end; an instance that runs is
    refused at its next commit. Raises NotFound where there is no such consumer, OffsetOutOfRange."""
    if to not in ("earliest", "latest") and (type(to) is not int or to < 0):
        raise InvalidRequest(f"{files.name}: reset a consumer to an offset, 'earliest' or 'latest'")
    instance = await NewId()
    for _ in range(RACES_MAX):
        head = await files.live_head()
        known = find_consumer(head, name)
        if known is None:
            raise _unknown(files, name)
        offset = to if isinstance(to, int) else floor(head) if to == "earliest" else head.next_offset
        # From the log's start everything is made anew, whatever was dropped so far.
        edit = CommitPosition(name, offset, known.committed_at, instance, head.next_offset if to == "earliest" else 0)
        with contextlib.suppress(Fenced):  # it committed meanwhile
            return (await files.manifest.commit(edit)).result
    raise Unavailable(f"{files.name}: consumer {name!r} commits all the time; stop it, then reset its position")


async def forget(files: PartitionFiles, name: str) -> None:
    """Raises NotFound where there is no such consumer."""
    if find_consumer(await files.live_head(), name) is None:
        raise _unknown(files, name)
    await files.manifest.commit(ForgetConsumer(name))


def _unknown(files: PartitionFiles, name: str) -> NotFound:
    return NotFound(f"{files.name} has no consumer {name!r}; 'lithify consumer list' shows what there is")
