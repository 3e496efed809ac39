"""What people wish while a compactor is busy with a job: that it rests, or that the job ends. Whatever takes long asks
for it between its steps (P15, docs/rfcs/0014)."""

from lithify.compactor.engine import StopAsked
from lithify.manifest.partition import PartitionFiles

__all__ = ["Interrupted", "heed", "heed_cancel"]


class Interrupted(Exception):
    """Nothing more is done about the job, for now; or for good, where it was `cancelled`."""

    def __init__(self, *, cancelled: bool) -> None:
        super().__init__("cancelled on request" if cancelled else "told to stop")
        self.cancelled = cancelled


def heed_cancel(files: PartitionFiles, job: str) -> None:
    """Raises Interrupted where somebody asked for `job` to be cancelled, by the newest `.compactor` that was seen: each
    write and each sign of life brings it."""
    state = files.compactor.seen.value
    known = None if state is None else state.job(job)
    if known is not None and known.cancel_requested:
        raise Interrupted(cancelled=True)


async def heed(files: PartitionFiles, job: str | None) -> None:
    """As `heed_cancel`; and where this process shall leave, or compaction pause."""
    if job is not None:
        heed_cancel(files, job)
    if await StopAsked():
        raise Interrupted(cancelled=False)
