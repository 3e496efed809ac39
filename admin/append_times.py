"""When that was appended which waits for a compactor: manifests know when they were committed, segments do not."""

from typing import NamedTuple

from lithify.admin.overdue import OVERDUE_MS, due_since_ms, taken_by
from lithify.manifest.debt import Debt
from lithify.manifest.model import TopicFile
from lithify.manifest.partition import PartitionFiles
from lithify.manifest.reading import Reading

__all__ = ["AppendTime", "append_time", "committed_at_ms"]


class AppendTime(NamedTuple):
    manifest: int
    at_ms: int  # when it was committed, or some time before


async def append_time(
    files: PartitionFiles, topic: TopicFile, reading: Reading, debt: Debt, known: AppendTime | None = None
) -> AppendTime | None:
    """When the first of the segments that are due was added. None: nothing is due, or for less than OVERDUE_MS even by
    its records. `known`: an earlier answer. Costs a GET for each new one; if that manifest is gone or damaged, the time
    is that of the topic's creation."""
    taken = [ref for due in debt.all_due for ref in taken_by(due, debt)]
    if not taken or reading.now_ms - due_since_ms(reading.manifest, taken) < OVERDUE_MS:
        return None
    number = min(ref.added_at for ref in taken)
    if known is not None and known.manifest == number:
        return known
    head = reading.manifest
    at_ms = head.committed_at_ms if head.id == number else await committed_at_ms(files, number)
    return AppendTime(number, at_ms or topic.created_at_ms)


async def committed_at_ms(files: PartitionFiles, number: int) -> int | None:
    """None: the manifest is gone, or cannot be read, which does not keep anything else from being told."""
    found = await files.manifest.glance(number)
    return None if found is None or found.value is None else found.value.committed_at_ms
