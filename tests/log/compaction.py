"""What a compactor and a collector do to a partition, in one step each: real merges, real commits, no schedule."""

from collections.abc import Collection
from dataclasses import dataclass
from itertools import zip_longest
from typing import Any

from lithify.log.warehouse import Warehouse
from lithify.manifest.bounds import EVERYTHING
from lithify.manifest.catalog import live_topic, partition_keys, topic_lineage
from lithify.manifest.compactions import CommitCompaction, coverage_offset
from lithify.manifest.edits import Next
from lithify.manifest.floor import RaiseFloor
from lithify.manifest.homes import ONLY_HERE
from lithify.manifest.jobs import MergeRules
from lithify.manifest.keys import SegmentId
from lithify.manifest.model import FORMAT, Boundary, Manifest, SortedRun
from lithify.manifest.partition import PartitionFiles
from lithify.manifest.pins import Collect
from lithify.manifest.units import units
from lithify.segment.execute import execute
from lithify.segment.task import MergeTask
from lithify.store.driver import new_id
from lithify.store.homes import only_here


def files_of(warehouse: Warehouse, name: str, number: int = 0) -> PartitionFiles:
    topic = warehouse.driver.run(live_topic(topic_lineage(name), name))
    return PartitionFiles(partition_keys(topic)[number])


def compact(
    warehouse: Warehouse,
    name: str,
    number: int = 0,
    *,
    take: Collection[str] | None = None,
    order: Any = "key",
    drop: bool = True,
    output_bytes: int = 1 << 28,
) -> Manifest:
    """Merge the L0 segments and runs `take` (None: all) into one run."""
    files = files_of(warehouse, name, number)
    head = warehouse.driver.run(files.head())
    chosen = [unit for unit in units(head) if take is None or unit.id in take]
    pinned = tuple(segment.id for unit in chosen for segment in unit.segments)
    covered = coverage_offset(head, frozenset(pinned))
    job = SegmentId.for_job(head.id, new_id())
    buckets = tuple(bucket.start for bucket in head.time_index)
    rules = MergeRules(order=order, drop_superseded=drop and order == "key", coverage_offset=covered, buckets=buckets)
    task = MergeTask(
        keys=files.keys,
        job=job,
        attempt=1,
        range_index=0,
        bounds=EVERYTHING,
        sources=tuple(unit.segments for unit in chosen),
        rules=rules,
        output_bytes=output_bytes,
    )
    result = execute(task, only_here(warehouse.store))
    edit = CommitCompaction(
        epoch=head.compactor_epoch,
        job=job,
        segments=pinned,
        run=SortedRun(id=job, segments=result.outputs),
        coverage_offset=covered,
        clean=True,
        forget=tuple(done.id for done in head.completed_jobs),
        lost=tuple(zip(buckets, result.lost, strict=False)),
        sizes=tuple(zip_longest(buckets, result.kept_bytes, result.lost_bytes, fillvalue=0)),
    )
    committed = warehouse.driver.run(files.manifest.commit(edit)).version.value
    assert committed is not None
    return committed


@dataclass
class _Put:
    value: Boundary

    repeatable = True
    frees = False

    def apply(self, head: Boundary | None, number: int, now_ms: int) -> Next[Boundary, None]:
        return Next(self.value, None)


def collect(warehouse: Warehouse, name: str, number: int = 0, *, delete_manifests: bool = True) -> int:
    """Declare every manifest below the head dead, and collect what that lets go. The new boundary."""
    files, driver = files_of(warehouse, name, number), warehouse.driver
    head = driver.run(files.head())
    boundary = Boundary(
        format=FORMAT,
        topic=head.topic,
        topic_id=head.topic_id,
        partition=head.partition,
        manifest=head.id - 1,
        manifest_head=head.id,
    )
    driver.run(files.boundary.commit(_Put(boundary)))
    pins = {checkpoint.manifest for checkpoint in head.checkpoints}
    gone = [
        retired.id
        for retired in head.retired
        if retired.retired_at <= boundary.manifest
        and not any(retired.added_at <= pin < retired.retired_at for pin in pins)
    ]
    dead = [files.keys.manifest.key(number) for number in range(1, head.id) if number not in pins]
    driver.store.delete([files.keys.segment(segment) for segment in gone] + (dead if delete_manifests else []))
    driver.run(
        files.manifest.commit(
            Collect(boundary=boundary.manifest, collected=frozenset(gone), always=True, homes=ONLY_HERE)
        )
    )
    return boundary.manifest


def raise_floor(warehouse: Warehouse, offset: int, name: str = "t") -> None:
    """What retention does to a partition."""
    warehouse.driver.run(files_of(warehouse, name).manifest.commit(RaiseFloor(offset)))
