"""Consumers' positions by name: taking one over, resetting, forgetting (docs/rfcs/0009). Protocol coroutines."""

import contextlib
from collections.abc import Callable
from typing import Literal

from lithify.log.names import check_name
from lithify.manifest.consumers import CommitPosition, ForgetConsumer, find_consumer
from lithify.manifest.model import ConsumerPosition, Manifest
from lithify.manifest.partition import PartitionFiles
from lithify.store.errors import Fenced, InvalidRequest, NotFound, Unavailable
from lithify.store.port import NewId

__all__ = ["check_consumer_name", "forget", "reset", "take"]

RACES_MAX = 8  # lost to other instances of the same name


def check_consumer_name(name: object) -> str:
    return check_name("a consumer's name", name)


async def take(files: PartitionFiles, name: str, start: Callable[[Manifest], int]) -> ConsumerPosition:
    """Take position `name` over for a new instance: whoever held it is refused at its next commit. Where there is none
    it is created at the offset that `start` answers."""
    instance = await NewId()
    for _ in range(RACES_MAX):
        head = await files.live_head()
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
