"""What does the merging: the interface of an engine, and what the coordinator asks of it (docs/rfcs/0004).

An engine runs task descriptors and answers with segment references. It knows nothing of manifests or jobs' states;
the coordinator alone writes numbered files (P11).
"""

from collections.abc import Sequence
from typing import TYPE_CHECKING, Protocol, runtime_checkable

import msgspec

from lithify.manifest.jobs import KeyRange, RangeDone
from lithify.manifest.keys import PartitionKeys
from lithify.manifest.model import SegmentRef
from lithify.segment.task import JobTask, TaskFailure, TaskResult
from lithify.store.errors import Unavailable
from lithify.store.homes import Homes
from lithify.store.port import Request

if TYPE_CHECKING:
    from lithify.segment.ranges import Weight

__all__ = [
    "STOP_MAX_MS",
    "Engine",
    "NextResults",
    "NoWorkers",
    "PrepareTasks",
    "Prepared",
    "Prepares",
    "Reserve",
    "Running",
    "SplitRanges",
    "StartTasks",
    "StopAsked",
    "StopTasks",
    "VerifyOutputs",
    "WeighSegment",
    "range_done",
]


STOP_MAX_MS = 25_000  # below the lease: the compactor shows no life while it waits for the stop


class NoWorkers(Unavailable):
    """The engine has nobody to do the tasks. None of them runs, and the job is not to blame."""


class Running(Protocol):
    """The running tasks of one attempt."""

    def results(self, timeout_ms: int) -> Sequence[TaskResult | TaskFailure]:
        """What has finished since the last call. Waits up to `timeout_ms` for something; empty if nothing came. Raises
        Unavailable if the engine itself is gone and nothing will come, NoWorkers if it waited in vain for workers."""
        ...

    def stop(self) -> None:
        """Cancel what has not finished, and return once no task writes any more, as far as the engine can know, or
        after STOP_MAX_MS.

        A task that hangs is left alone. It may still write under the names of this attempt, which nobody else uses
        (P10). Results that landed before can still be had from `results`. Calling it again is harmless; it never
        raises.
        """
        ...


class Prepared(Protocol):
    """Tasks that read and merge, and write nothing yet (docs/rfcs/0033)."""

    def stop(self) -> None:
        """They are not wanted. Returns at once, for they write nothing; harmless once they were started."""
        ...


class Engine(Protocol):
    """Thread-safe: several attempts (of different partitions) may be under way at once."""

    @property
    def name(self) -> str: ...
    def start(self, homes: Homes, tasks: Sequence[JobTask], label: str) -> Running:
        """Begin all `tasks`, whose sources live in `homes`; if they were prepared, they go on. `label` names topic,
        partition and job for people who look at the engine's own UI. Thread-safe: each partition has its turns in a
        thread of its own. Raises Unavailable or InvalidRequest if it can take no task now."""
        ...

    def close(self) -> None:
        """Stop what this engine started itself; a session that was given to it stays open."""
        ...


@runtime_checkable
class Prepares(Protocol):
    """What an engine can do besides, if it can tell running tasks that they may write."""

    def prepare(self, homes: Homes, tasks: Sequence[JobTask], label: str) -> Prepared | None:
        """Begin to read and merge `tasks`, which write nothing before they are started. None: not now, for it has
        something else to do."""
        ...


class WeighSegment(Request["tuple[Weight, ...]"], msgspec.Struct, frozen=True):
    """Where the bytes of a source lie, by its row groups. Raises Corrupt and NotFound, which name the segment. `ahead`:
    those that will be asked for next, so that a far store can be asked for them already."""

    keys: PartitionKeys
    segment: SegmentRef
    ahead: tuple[SegmentRef, ...] = ()


class SplitRanges(Request[tuple[KeyRange, ...]], msgspec.Struct, frozen=True):
    """Key ranges of about `target_bytes` each, by the weights of all sources."""

    weights: "tuple[Weight, ...]"
    target_bytes: int


class VerifyOutputs(Request[frozenset[str] | None], msgspec.Struct, frozen=True):
    """The ids of those segments that are missing or are not what was recorded: by size and footer, and if `whole` by
    the checksum of every byte too. None: it is not done after some seconds; ask again to continue."""

    keys: PartitionKeys
    segments: tuple[SegmentRef, ...]
    whole: bool
    once: bool = False  # what is not done is not continued later


class StartTasks(Request[None], msgspec.Struct, frozen=True):
    tasks: tuple[JobTask, ...]
    label: str


class PrepareTasks(Request[None], msgspec.Struct, frozen=True):
    """`tasks` are about to be started: let them read and merge already, where that is worth it. They write nothing
    before `StartTasks` asks for the very same ones; if it does not, all of it is thrown away. Never fails."""

    tasks: tuple[JobTask, ...]
    label: str


class NextResults(Request[tuple[TaskResult | TaskFailure, ...]], msgspec.Struct, frozen=True):
    timeout_ms: int


class StopTasks(Request[None], msgspec.Struct, frozen=True):
    """Stop the running tasks; results of those that finished can still be fetched."""


class Reserve(Request[bool], msgspec.Struct, frozen=True):
    """Whether a job that reads so many bytes may begin beside those that this process runs (P8).

    A job above the limit runs alone, except for one `short` one. A job that may have killed the process (`alone`) runs
    with nothing beside it. The reservation ends with the step.
    """

    input_bytes: int
    alone: bool = False
    short: bool = False


class StopAsked(Request[bool], msgspec.Struct, frozen=True):
    """Whether the job should stop: this process was told to leave, compaction of the topic was paused, or the topic was
    deleted."""


def range_done(result: TaskResult, attempt: int) -> RangeDone:
    """What is recorded of a task that has landed (P11)."""
    return RangeDone(
        index=result.range_index,
        attempt=attempt,
        outputs=result.outputs,
        counts=result.counts,
        lost=result.lost,
        kept_bytes=result.kept_bytes,
        lost_bytes=result.lost_bytes,
        dropped_to=result.dropped_to,
        peak_memory_bytes=result.peak_memory_bytes,
    )
