"""What one step of a coordinator came to. Pure."""

from dataclasses import dataclass
from enum import StrEnum

from lithify.manifest.jobs import Job
from lithify.manifest.model import SegmentRef

__all__ = ["Step", "StepEnd"]


class StepEnd(StrEnum):
    """How a step ended; of a report, how the pass over the partition did."""

    IDLE = "idle"  # nothing is due
    WAITING = "waiting"  # something is due, and not yet
    STANDBY = "standby"  # another compactor owns the partition
    WORKED = "worked"  # something was done, and more may be to do
    FAILED = "failed"
    STOPPED = "stopped"  # told to stop, or the topic was paused
    DEFERRED = "deferred"  # there is no room for its job now

    @property
    def rests(self) -> bool:
        """Whether nothing is to be done until the files change, or time passes."""
        return self in (StepEnd.IDLE, StepEnd.WAITING)

    @property
    def goes_on(self) -> bool:
        """Whether another step follows at once, or as soon as there is room."""
        return self in (StepEnd.WORKED, StepEnd.DEFERRED)

    @property
    def leaves_work(self) -> bool:
        """Whether a pass that ended so left something undone."""
        return self in (StepEnd.FAILED, StepEnd.WAITING, StepEnd.STOPPED, StepEnd.STANDBY)


@dataclass(frozen=True, slots=True)
class Step:
    outcome: StepEnd
    detail: str
    job: Job | None = None
    dropped: tuple[SegmentRef, ...] = ()  # retired without a job: they lay below the floor
