"""A part of what a snapshot shows, as data: a worker's input (docs/rfcs/0021). Pure.

Tasks travel, as JSON or pickled. They have references and bounds, never rows or secrets; of the records' contents only
the bounds of keys.
"""

from collections.abc import Iterable
from typing import Literal

import msgspec

from lithify.manifest.bounds import Bounds
from lithify.manifest.homes import in_warehouse
from lithify.manifest.keys import PartitionKeys
from lithify.manifest.model import SegmentRef, SortedRun
from lithify.manifest.places_of_keys import KeyPlaces

__all__ = ["Beside", "Hold", "ReadTask", "View", "cold_segments", "homes_needed"]

View = Literal["latest", "log"]
"""`latest`: the latest record of each key, as `scan` shows it. `log`: every stored record, as `read` does."""


class Hold(msgspec.Struct, frozen=True):
    """The pin that keeps a task's manifest readable, and that its readers renew."""

    id: str  # of the checkpoint
    ttl_ms: int
    expires_at_ms: int  # by the store's clock, when the task was made


class Beside(msgspec.Struct, frozen=True, array_like=True):
    """The pin of another partition of the plan, which the task's readers renew too."""

    partition: int
    hold: Hold


class ReadTask(msgspec.Struct, frozen=True, kw_only=True):
    """Read what these segments hold within `bounds`. The tasks of one plan are disjoint, and together they give all
    that the snapshot shows.

    `rows` and `bytes` are about what is read of Parquet, and no promise: superseded records and all columns count.
    """

    keys: PartitionKeys
    manifest_id: int
    view: View
    columns: tuple[str, ...]
    tombstones: bool = False  # whether `latest` shows deleted keys
    ordered: bool = False  # whether `log` comes in offset order; else as it is stored
    bounds: Bounds  # from the floor on; for `latest`, `to_offset` is applied to what the merge gives
    runs: tuple[SortedRun, ...]
    l0: tuple[SegmentRef, ...]
    places: KeyPlaces | None = None  # of the keys of a topic that has grown, for `latest`
    hold: Hold | None = None
    beside: tuple[Beside, ...] = ()
    rows: int
    bytes: int

    @property
    def partition(self) -> int:
        return self.keys.partition

    @property
    def holds(self) -> list[tuple[PartitionKeys, Hold]]:
        """Its own pin, if it has one, and those of other partitions of its topic."""
        others = [(msgspec.structs.replace(self.keys, partition=each.partition), each.hold) for each in self.beside]
        return others if self.hold is None else [(self.keys, self.hold), *others]

    @property
    def segments(self) -> tuple[SegmentRef, ...]:
        return (*(ref for run in self.runs for ref in run.segments), *self.l0)

    @property
    def cold_segments(self) -> int:
        """How many of its segments are outside the warehouse."""
        return sum(not in_warehouse(ref) for ref in self.segments)

    @property
    def read_bounds(self) -> Bounds:
        """What is read of segments. SUBTLE! For `latest` the end of the offsets is no bound of it: the record that
        supersedes may be above the end. Test: tests/log/test_plans.py"""
        return self.bounds if self.view == "log" else msgspec.structs.replace(self.bounds, to_offset=None)


def homes_needed(tasks: Iterable[ReadTask]) -> frozenset[str]:
    """Those that whoever reads `tasks` opens."""
    return frozenset(ref.home for task in tasks for ref in task.segments)


def cold_segments(tasks: Iterable[ReadTask]) -> int:
    """How many segments outside the warehouse `tasks` read, each counted once."""
    return len({(task.keys, ref.id) for task in tasks for ref in task.segments if not in_warehouse(ref)})
