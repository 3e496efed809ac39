"""What was done in a partition since the last report, and the report."""

from dataclasses import dataclass, field

from lithify.compactor.info import Holdings, PartitionReport, compaction_id, compaction_info
from lithify.compactor.step import Step, StepEnd
from lithify.manifest.jobs import Job
from lithify.manifest.keys import PartitionKeys
from lithify.manifest.model import Manifest
from lithify.manifest.retention import floor_at, logical_size
from lithify.store.apart import Fault

__all__ = ["TURNS_MAX", "Tally", "holdings"]

TURNS_MAX = 1_000  # in one report; the policy converges long before
ENDS = (StepEnd.FAILED, StepEnd.WORKED)  # of a pass that ended idle: these outcomes of its steps are reported instead


def holdings(manifest: Manifest | None, now_ms: int) -> Holdings:
    if manifest is None:
        return Holdings()
    floor = floor_at(manifest, now_ms)
    size = sum(segment.bytes for segment in manifest.segments())
    return Holdings(floor, manifest.rows, size, *logical_size(manifest, floor))


@dataclass(slots=True)
class Tally:
    before: Holdings | None = None
    last: Step | None = None
    fault: Fault | None = None  # that ended the last step
    turns: int = 0
    outcomes: set[StepEnd] = field(default_factory=set[StepEnd])
    jobs: dict[str, Job] = field(default_factory=dict[str, Job])
    dropped_segments: int = 0
    dropped_bytes: int = 0

    def add(self, step: Step, fault: Fault | None = None) -> None:
        self.last, self.fault = step, fault
        self.turns += 1
        self.note(step)

    def note(self, step: Step) -> None:
        """Count what was done; it says nothing about the state of the partition."""
        self.outcomes.add(step.outcome)
        if step.job is not None:
            self.jobs[step.job.id] = step.job
        self.dropped_segments += len(step.dropped)
        self.dropped_bytes += sum(segment.bytes for segment in step.dropped)

    def rests(self, step: Step) -> None:
        """Note that a look found that a step would come to `step`."""
        self.last, self.fault = step, None

    def report(self, keys: PartitionKeys, manifest: Manifest | None, now_ms: int) -> PartitionReport:
        """The report. Requires: a step was added, or a rest."""
        last = self.last
        assert last is not None
        after = holdings(manifest, now_ms)
        ended = StepEnd.FAILED if last.outcome is StepEnd.WAITING and StepEnd.FAILED in self.outcomes else last.outcome
        outcome = next((o for o in ENDS if o in self.outcomes), ended) if ended is StepEnd.IDLE else ended
        return PartitionReport(
            topic=keys.topic,
            partition=keys.partition,
            outcome=outcome,
            detail=last.detail,
            nothing_due=last.nothing_due,
            last_job=None if last.job is None else compaction_id(keys.topic, keys.partition, last.job.id),
            quarantined=manifest is not None and manifest.quarantine is not None,
            fault=self.fault,
            jobs=tuple(compaction_info(keys.topic, keys.partition, job, now_ms) for job in self.jobs.values()),
            before=self.before or after,
            after=after,
            dropped_segments=self.dropped_segments,
            dropped_bytes=self.dropped_bytes,
        )
