"""A range read pays for the segments that it meets, and for no other."""

import itertools
from collections import Counter

import msgspec
import pytest

from lithify.log.record import Record
from lithify.log.warehouse import Warehouse
from lithify.manifest.bounds import EVERYTHING, Bounds
from lithify.manifest.keys import PartitionKeys
from lithify.manifest.model import Manifest, SegmentRef, SortedRun
from lithify.manifest.places_of_keys import KeyPlaces
from lithify.segment.offset_order import in_offset_order
from lithify.segment.ranges import Weight, split_ranges
from lithify.segment.read import SegmentReader
from lithify.segment.scan import latest_by_key
from lithify.segment.segments import Segments
from lithify.segment.stayed import stayed_batches
from tests.log.compaction import compact, files_of

APPENDS, KEYS_EACH = 40, 5


def key(number: int) -> bytes:
    return b"k%04d" % number


class Counted:
    """Opens segments; counts what is opened."""

    def __init__(self, warehouse: Warehouse) -> None:
        files = files_of(warehouse, "t")
        self.manifest: Manifest = warehouse.driver.run(files.head())
        self._segments = Segments(files.keys, warehouse.driver.homes)
        self.opened: Counter[str] = Counter()

    def __call__(self, ref: SegmentRef, fetch_bytes: int) -> SegmentReader:
        self.opened[ref.id] += 1
        return self._segments.reader(ref, fetch_bytes)


def filled(warehouse: Warehouse, policy: str = "compact") -> Counted:
    """40 appends, each of 5 keys that no other has."""
    part = warehouse.create_topic("t", config={"cleanup.policy": policy}).partition(0)
    for at in range(APPENDS):
        part.append([Record(key(at * KEYS_EACH + n), b"%d" % at) for n in range(KEYS_EACH)])
    return Counted(warehouse)


def test_a_range_within_one_of_forty_segments_costs_two_reads(warehouse: Warehouse) -> None:
    opens = filled(warehouse)
    wanted = Bounds(key(101), key(103))
    before = warehouse.store.requests()
    batches = list(latest_by_key(opens.manifest.runs, opens.manifest.l0, opens, wanted, tombstones=False))
    spent = warehouse.store.requests() - before
    assert [found for batch in batches for found in batch.column("key").to_pylist()] == [key(101), key(102)]
    assert spent.reads == 2  # the footer, and the row group
    assert opens.opened == Counter({opens.manifest.l0[20].id: 1})


@pytest.mark.slow
@pytest.mark.parametrize("merged", [0, 10, 40])
def test_the_ranges_of_a_scan_together_are_the_scan(warehouse: Warehouse, merged: int) -> None:
    opens = filled(warehouse)
    if merged:
        compact(warehouse, "t", take=[ref.id for ref in opens.manifest.l0[:merged]], output_bytes=1)
        opens = Counted(warehouse)

    def scan(wanted: Bounds) -> list[dict[str, object]]:
        batches = latest_by_key(opens.manifest.runs, opens.manifest.l0, opens, wanted, tombstones=True)
        return [row for batch in batches for row in batch.to_pylist()]

    edges = [None, key(0), key(7), key(52), key(199) + b"\0", None]
    parts = [Bounds(low, high) for low, high in itertools.pairwise(edges)]
    assert [row for part in parts for row in scan(part)] == scan(EVERYTHING)
    assert len(scan(EVERYTHING)) == APPENDS * KEYS_EACH
    assert scan(Bounds(low=key(200))) == []
    within = scan(Bounds(key(20), key(60), from_offset=30, to_offset=41))
    assert [row["offset"] for row in within] == list(range(30, 41))


@pytest.mark.parametrize("policy", ["compact", "delete"])
def test_offsets_within_one_of_forty_segments_cost_two_reads(warehouse: Warehouse, policy: str) -> None:
    opens = filled(warehouse, policy)
    before = warehouse.store.requests()
    batches = list(
        in_offset_order(opens.manifest.runs, opens.manifest.l0, opens, Bounds(from_offset=101, to_offset=103))
    )
    spent = warehouse.store.requests() - before
    assert [offset for batch in batches for offset in batch.column("offset").to_pylist()] == [101, 102]
    assert spent.reads == 2
    assert opens.opened == Counter({opens.manifest.l0[20].id: 1})


class Scan(msgspec.Struct, frozen=True):
    """What a worker would be told to scan a part of a partition of a topic that grew."""

    keys: PartitionKeys
    runs: tuple[SortedRun, ...]
    l0: tuple[SegmentRef, ...]
    wanted: Bounds
    places: KeyPlaces


def test_what_a_scan_needs_can_travel(warehouse: Warehouse) -> None:
    """As JSON, without a driver; the parts that workers scan are what the topic shows."""
    topic = warehouse.create_topic("t", config={"cleanup.policy": "compact"})
    for at in range(0, 60, 10):
        topic.append([Record(key(at + n), b"old") for n in range(10)])
    compact(warehouse, "t", output_bytes=1)
    topic.alter(partitions=3)
    topic.append([Record(key(n), b"new") for n in range(0, 60, 7)])
    found: list[dict[str, object]] = []
    for number in range(3):
        head = warehouse.driver.run(files_of(warehouse, "t", number).head())
        keys = files_of(warehouse, "t", number).keys
        weights = [Weight.of(ref) for ref in head.segments()]
        parts = split_ranges(weights, sum(weight.weight_bytes for weight in weights) // 4 + 1)
        assert len(parts) > 1
        for each in parts:
            sent = msgspec.json.encode(Scan(keys, head.runs, head.l0, each.bounds, topic.key_places()))
            task = msgspec.json.decode(sent, type=Scan)
            opens = Segments(task.keys, warehouse.driver.homes).reader
            batches = latest_by_key(task.runs, task.l0, opens, task.wanted, tombstones=False)
            kept = stayed_batches(batches, task.places, task.keys.partition, lambda *_: None)
            found += [row for batch in kept for row in batch.to_pylist()]
    assert found == topic.scan().read_all().to_pylist()
    assert len({row["key"] for row in found}) == len(found)
