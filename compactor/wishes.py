"""What people ask for while a compactor works on a job: that it pause, or that the job be cancelled. Long work checks
for this between its steps (P15, docs/rfcs/0014)."""

from lithify.compactor.engine import StopAsked
from lithify.manifest.partition import PartitionFiles

__all__ = ["Interrupted", "heed", "heed_cancel"]


class Interrupted(Exception):
    """Work on the job ends: for now, or for ever if it was `cancelled`."""

    def __init__(self, *, cancelled: bool) -> None:
        super().__init__("cancelled on request" if cancelled else "told to stop")
        self.cancelled = cancelled


def heed_cancel(files: PartitionFiles, job: str) -> None:
    """Raise Interrupted if a request asks for `job` to be cancelled, by the newest `.compactor` seen; each write and
    each sign of life brings a newer one."""
    state = files.compactor.seen.value
    known = None if state is None else state.job(job)
    if known is not None and known.cancel_requested:
        raise Interrupted(cancelled=True)


async def heed(files: PartitionFiles, job: str | None) -> None:
    """As `heed_cancel`; also raises if this process should leave, or compaction is paused."""
    if job is not None:
        heed_cancel(files, job)
    if await StopAsked():
        raise Interrupted(cancelled=False)
