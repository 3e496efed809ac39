"""What the contenders read: the live segments of the benchmark's partition, and plain Parquet files for the rivals."""

from pathlib import Path

import msgspec

import lithify
from benchmarks.generate import TOPIC, Shape, warehouse
from lithify.manifest.catalog import live_topic, partition_keys, topic_lineage
from lithify.manifest.model import SegmentRef
from lithify.manifest.partition import PartitionFiles
from lithify.segment.read import SegmentReader
from lithify.segment.write import SegmentWriter
from lithify.store.file import FileStore

__all__ = ["Located", "located", "plain_files"]


class Located(msgspec.Struct, frozen=True):
    key: str  # of the object
    ref: SegmentRef


def located(opened: lithify.Warehouse) -> list[Located]:
    """The L0 segments of the benchmark's partition."""
    driver = opened.driver
    (keys,) = partition_keys(driver.run(live_topic(topic_lineage(TOPIC), TOPIC)))
    return [Located(keys.segment(ref.id), ref) for ref in driver.run(PartitionFiles(keys).head()).l0]


def plain_files(folder: Path, shape: Shape) -> Path:
    """A folder with the same records as Parquet files that hold whole offsets: rivals know of no base offset."""
    plain = folder / f"{shape.name}-plain"
    if not plain.exists():
        root = warehouse(folder, shape)
        store, target = FileStore(root), FileStore(folder / f"{shape.name}-plain.part")
        for segment in located(lithify.open(f"file://{root}")):
            writer = SegmentWriter(target.output(f"{segment.ref.id}.parquet"), segment.ref.id, "key")
            for batch in SegmentReader(store, segment.key, segment.ref).batches():
                writer.write(batch)
            writer.close()
        (folder / f"{shape.name}-plain.part").rename(plain)
    return plain
