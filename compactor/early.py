"""What of a job begins before it is admitted: its tasks read and merge, and write nothing (docs/rfcs/0033; P10)."""

from msgspec.structs import replace

from lithify.compactor.engine import PrepareTasks
from lithify.compactor.estimate import estimate
from lithify.compactor.plan import Proposal, freeze, tasks, tasks_label
from lithify.compactor.policy import Action, Propose
from lithify.compactor.split import ranges_without_weights
from lithify.compactor.waves import waves
from lithify.manifest.config import TopicConfig
from lithify.manifest.homes import reachable
from lithify.manifest.jobs import Job, KeyRange
from lithify.manifest.keys import SegmentId
from lithify.manifest.model import Manifest
from lithify.manifest.partition import PartitionFiles
from lithify.manifest.reading import Reading
from lithify.manifest.units import segments_of
from lithify.store.port import NewId

__all__ = ["Early", "foresee", "planned"]

_FIRST_ATTEMPT = 1


async def foresee(files: PartitionFiles, action: Action, reading: Reading) -> Job | None:
    """The job to which a claim will lead if it finds what was read before it. None: more has to be known for that, or
    there are jobs or failures, with which a claim admits nothing."""
    if not isinstance(action, Propose) or action.due.kind == "relocate":
        return None
    if reading.state.jobs or reading.state.failures:
        return None
    due, config = action.due, reading.config
    ranges = ranges_without_weights(due.units, config)
    if ranges is None or not all(reachable(segment, files.homes) for segment in segments_of(due.units)):
        return None
    return await planned(reading, Proposal(due.units, due.job_kind, due.reason), ranges)


async def planned(reading: Reading, proposal: Proposal, ranges: tuple[KeyRange, ...]) -> Job:
    """The job that does `proposal`, ready to be admitted."""
    request = proposal.request
    job_id = request.id if request else SegmentId.for_job(reading.manifest.id, await NewId())
    job = freeze(reading, proposal, ranges, job_id)
    return replace(job, estimate=estimate(reading, proposal.units, job.kind or proposal.kind, len(ranges)))


class Early:
    """Lets the tasks of jobs that are about to be admitted read and merge.

    SUBTLE! Only if the last try went well. 1. The store lets this process read, and refuses its claim. 2. It tries
    again every round, for ever. 3. Each time, the tasks would read their sources. Test:
    tests/compactor/test_early_tasks.py
    """

    def __init__(self, files: PartitionFiles) -> None:
        self._files = files
        self._again = True

    def went_well(self) -> None:
        """What was written next was written."""
        self._again = True

    async def prepare(self, manifest: Manifest, job: Job, config: TopicConfig) -> None:
        again, self._again = self._again, False
        if not again or job.plan is None or job.relocates:
            return
        first = waves(job, range(len(job.plan.ranges)), config.compaction_throttle_bytes_per_second)[0]
        await PrepareTasks(tasks(manifest, job, _FIRST_ATTEMPT, first), tasks_label(self._files.name, job))
