"""Where a scenario's segments are: all in the warehouse, or all but L0 in a cold home (docs/rfcs/0031)."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from lithify.log.warehouse import Warehouse
from lithify.manifest.catalog import live_topic, partition_keys, topic_lineage
from lithify.manifest.keys import SegmentId
from lithify.manifest.model import SegmentRef
from lithify.manifest.partition import PartitionFiles
from lithify.manifest.relocations import CommitRelocation, UseHome
from lithify.segment.move import move
from lithify.segment.task import MoveTask
from lithify.store.driver import new_id
from lithify.store.port import HERE

__all__ = ["Place", "cool", "homes_of_runs"]


@dataclass(frozen=True)
class Place:
    """A warehouse, and where its topic's old segments go; "": they stay."""

    url: str
    cold: str = ""
    options: Mapping[str, Any] = field(default_factory=dict[str, Any])


def cool(warehouse: Warehouse, topic: str, partition: int, home: str) -> int:
    """Move all segments of runs to `home`, by a worker's own task and the commits of a job. How many moved.

    L0 segments are the newest, and stay (docs/rfcs/0031). A compactor's pass would also do what is due, which is for
    the scenario to ask for.
    """
    driver = warehouse.driver
    files = _files(warehouse, topic, partition)
    head = driver.run(files.head())
    hot = [segment for run in head.runs for segment in run.segments if segment.home == HERE]
    if not hot:
        return 0
    job = SegmentId.for_job(head.id, new_id())
    driver.homes.own(home, files.keys.owner, claims=True, renews=True)
    driver.run(files.manifest.commit(UseHome(head.compactor_epoch, home)))
    copies: list[tuple[str, SegmentRef]] = []
    for number, segment in enumerate(hot):
        task = MoveTask(keys=files.keys, job=job, attempt=1, range_index=number, segment=segment, home=home)
        (copy,) = move(task, driver.homes, lambda: None).outputs
        copies.append((segment.id, copy))
    forget = tuple(done.id for done in head.completed_jobs)
    driver.run(files.manifest.commit(CommitRelocation(head.compactor_epoch, job, tuple(copies), forget)))
    return len(copies)


def homes_of_runs(warehouse: Warehouse, topic: str, partition: int) -> set[str]:
    """Where the segments of runs are."""
    head = warehouse.driver.run(_files(warehouse, topic, partition).head())
    return {segment.home for run in head.runs for segment in run.segments}


def _files(warehouse: Warehouse, topic: str, partition: int) -> PartitionFiles:
    keys = partition_keys(warehouse.driver.run(live_topic(topic_lineage(topic), topic)))[partition]
    return PartitionFiles(keys, homes=warehouse.driver.homes.names)
