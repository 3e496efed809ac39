"""The outcome of one step of a coordinator. Pure."""

from dataclasses import dataclass
from enum import StrEnum

from lithify.compactor.policy import Wait
from lithify.manifest.jobs import Job
from lithify.manifest.model import SegmentRef

__all__ = ["Step", "StepEnd", "deferred", "resting"]


class StepEnd(StrEnum):
    """How a step ended; in a report, how the pass over the partition ended."""

    IDLE = "idle"  # nothing is due
    WAITING = "waiting"  # something is due, but not yet
    STANDBY = "standby"  # another compactor owns the partition
    WORKED = "worked"  # something was done, and there may be more to do
    FAILED = "failed"
    STOPPED = "stopped"  # told to stop, or the topic was paused
    DEFERRED = "deferred"  # no room for its job at the moment

    @property
    def rests(self) -> bool:
        """Whether there is nothing to do until the files change or time passes."""
        return self in (StepEnd.IDLE, StepEnd.WAITING)

    @property
    def goes_on(self) -> bool:
        """Whether another step follows, at once or as soon as there is room."""
        return self in (StepEnd.WORKED, StepEnd.DEFERRED)

    @property
    def leaves_work(self) -> bool:
        """Whether a pass that ended like this left something undone."""
        return self in (StepEnd.FAILED, StepEnd.WAITING, StepEnd.STOPPED, StepEnd.STANDBY)


@dataclass(frozen=True, slots=True)
class Step:
    outcome: StepEnd
    detail: str
    job: Job | None = None
    dropped: tuple[SegmentRef, ...] = ()  # retired without a job, because they were below the floor
    nothing_due: bool = False  # no debt is left

    @property
    def completed(self) -> bool:
        """Whether it ended with a job's end in both files."""
        return self.job is not None and self.job.status == "completed"


def deferred(input_bytes: int) -> Step:
    return Step(StepEnd.DEFERRED, f"a job of {input_bytes} bytes waits until others of this compactor have finished")


def resting(wait: Wait) -> Step:
    outcome = StepEnd.IDLE if wait.until_ms is None else StepEnd.WAITING
    return Step(outcome, wait.reason, nothing_due=wait.nothing_due)
