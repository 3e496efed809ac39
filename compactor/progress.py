"""How the progress of an attempt is written down (P11)."""

from collections.abc import Sequence

from lithify.compactor import job_edits
from lithify.compactor.engine import range_done
from lithify.compactor.look import Found, whole_outputs
from lithify.manifest.ages import young
from lithify.manifest.commit import Lineage
from lithify.manifest.jobs import CompactorState, Job
from lithify.manifest.model import TopicFile
from lithify.manifest.partition import PartitionFiles
from lithify.segment.task import TaskResult
from lithify.store.in_step import both

__all__ = ["HEARTBEAT_MS", "may_wait", "record", "record_last"]

HEARTBEAT_MS = 10_000  # a third of the lease
UNRECORDED_SHARE = 8  # results wait to be recorded together until they are 1/8 as many as those recorded


def may_wait(state: CompactorState | None, job: Job, landed: int, now_ms: int) -> bool:
    """Whether `landed` results of `job` may wait, so that others can share their write.

    Each write holds all that is recorded: one write for each of n ranges would write some n² of them. Results wait only
    while they are few beside those recorded, and until the next sign of life is due at most.
    """
    current = None if state is None else state.job(job.id)
    if state is None or current is None or landed * UNRECORDED_SHARE >= len(current.done):
        return False
    return young(state.heartbeat_at_ms, now_ms, HEARTBEAT_MS)


async def record(
    files: PartitionFiles, epoch: int, job: Job, attempt: int, landed: Sequence[TaskResult]
) -> CompactorState | None:
    """Record outputs that landed together in one write; with none, a heartbeat shows that work continues."""
    done = tuple(range_done(result, attempt) for result in landed)
    edit = job_edits.Record(epoch, job.id, done) if done else job_edits.Heartbeat(epoch)
    return (await files.compactor.commit(edit)).version.value


async def record_last(
    files: PartitionFiles,
    topic: Lineage[TopicFile],
    epoch: int,
    job: Job,
    attempt: int,
    landed: Sequence[TaskResult],
) -> Found:
    """As `record`, for the last of a job, or of a wave of it. What the commit wants is asked beside it: the topic, and
    which outputs are whole."""
    outputs = [output for result in landed for output in result.outputs]

    async def beside() -> Found:
        return (await both(topic.refresh(), whole_outputs(files.keys, outputs)))[1]

    return (await both(record(files, epoch, job, attempt, landed), beside()))[1]
