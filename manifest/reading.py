"""What one decision goes by: a partition's manifest, jobs and configuration, and the time. Pure."""

from typing import NamedTuple

from lithify.manifest.config import TopicConfig
from lithify.manifest.jobs import CompactorState
from lithify.manifest.model import FORMAT, Manifest

__all__ = ["Heads", "Reading", "first_state", "held_by"]


class Heads(NamedTuple):
    """Both heads of a partition, each of which was the head at or after `now_ms`."""

    manifest: Manifest
    state: CompactorState | None  # None: there is no `.compactor` file yet
    now_ms: int

    @property
    def unowned(self) -> bool:
        """Whether nobody owned the partition, nor was about to: no claim is in the manifest that is not in `.compactor`
        as well. Whoever only requested a job there has left no name (P15)."""
        state = self.state
        left_at = state.epoch if state is not None and state.owner_name else 0
        return (state is None or not state.owner) and self.manifest.compactor_epoch == left_at

    def reading(self, config: TopicConfig) -> "Reading":
        return Reading.of(self.manifest, self.state, config, self.now_ms)


class Reading(NamedTuple):
    """A partition as it was read once.

    SUBTLE! One decision uses one reading of the clock. 1. `decide` finds a unit old enough. 2. The clock steps back. 3.
    By a second reading the unit is too young: the clean would drop nothing and stamp horizons anyway, and deleted
    keys would come back. Therefore a job is planned by the reading that it was chosen by. Test:
    tests/compactor/test_one_reading.py
    """

    manifest: Manifest
    state: CompactorState
    config: TopicConfig
    now_ms: int

    @classmethod
    def of(cls, manifest: Manifest, state: CompactorState | None, config: TopicConfig, now_ms: int) -> "Reading":
        """`state` None: there is no `.compactor` file yet, so nobody owns the partition, and it has had no jobs."""
        return cls(manifest, first_state(manifest) if state is None else state, config, now_ms)

    @property
    def held(self) -> frozenset[str]:
        """The segments that active jobs hold: no other work may take them (P8)."""
        return held_by(self.state)


def held_by(state: CompactorState) -> frozenset[str]:
    """The segments that active jobs hold (P8)."""
    return frozenset(segment for job in state.jobs if job.plan is not None for segment in job.segments)


def first_state(manifest: Manifest) -> CompactorState:
    """The state before any other: at the manifest's epoch, without an owner (P15)."""
    return CompactorState(
        format=FORMAT,
        topic=manifest.topic,
        topic_id=manifest.topic_id,
        partition=manifest.partition,
        epoch=manifest.compactor_epoch,
    )
