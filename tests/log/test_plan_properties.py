"""Plans against `scan` and `read`: over random logs and bounds the tasks give exactly what these show (RFC 0021)."""

import random
from collections.abc import Generator
from contextlib import ExitStack, contextmanager
from typing import Any
from unittest.mock import patch

from hypothesis import given, settings
from hypothesis import strategies as st

from lithify.log.partition import Partition
from lithify.log.record import Record
from lithify.log.warehouse import Warehouse
from lithify.manifest.units import units
from lithify.segment.schema import RECORDS
from lithify.segment.write import SegmentWriter
from lithify.store.driver import Driver
from lithify.store.memory import MemoryStore
from tests.clock import HandClock
from tests.log.compaction import compact, files_of, raise_floor
from tests.log.planned import Row, in_any_order, named, union, within

KEYS = [None, b"", b"\0", b"a", b"a\0", b"b", b"k" * 40, b"k" * 40 + b"x", b"\xff" * 33]
KEYS += [b"%03d" % number for number in range(8)]
BOUNDS = st.none() | st.sampled_from([key for key in KEYS if key is not None]) | st.binary(max_size=2)
RECORD = st.builds(
    Record,
    st.sampled_from(KEYS),
    st.sampled_from([None, b"", b"v", b"long " * 40]),
    st.integers(0, 5),
    st.sampled_from([(), (("h", b"1"),), (("h", None), ("i", b""))]),
)
APPEND = st.lists(RECORD, min_size=1, max_size=12)
STEP = (
    APPEND
    | APPEND
    | APPEND
    | st.tuples(st.sampled_from(["merge", "floor", "other order", "bulk"]), st.integers(0, 1_000))
)


def sized(record: Record) -> Record:
    """A compacted topic takes no record without a key and a value."""
    return record if record.key is not None or record.value is not None else Record(None, b"v", 1)


@contextmanager
def small_pieces(rows: int, gap_bytes: int) -> Generator[None]:
    """Row groups of a few rows, columns that are fetched one by one, and cuts that cost something."""
    with ExitStack() as stack:
        kept = SegmentWriter.__init__.__kwdefaults__ | {"row_group_rows": rows}
        stack.enter_context(patch.object(SegmentWriter.__init__, "__kwdefaults__", kept))
        stack.enter_context(patch("lithify.segment.read.GAP_BYTES_MAX", gap_bytes))
        stack.enter_context(patch("lithify.segment.columns.GAP_BYTES_MAX", gap_bytes))
        stack.enter_context(patch("lithify.segment.ranges._TWICE_BYTES_MIN", 0))
        yield


def played(steps: list[Any], policy: str) -> tuple[Warehouse, Partition]:
    warehouse = Warehouse(Driver(MemoryStore(), HandClock()))
    part = warehouse.create_topic("t", config={"cleanup.policy": policy}, probe=False).partition(0)
    for step in steps:
        if isinstance(step, list):
            part.append([sized(record) if policy == "delete" else keyed(record) for record in step])
            continue
        what, number = step
        end = part.describe().next_offset
        if what == "bulk":  # larger than a small task
            bodies = random.Random(number)
            part.append([Record(key, bodies.randbytes(400), 1) for key in KEYS if key is not None])
        elif what == "floor":
            raise_floor(warehouse, number * end // 4_000)
        elif end:
            known = [unit.id for unit in units(warehouse.driver.run(files_of(warehouse, "t").head()))]
            take = known[: 1 + number % len(known)]
            order = "key" if (policy == "compact") == (what == "merge") else "offset"
            compact(warehouse, "t", take=take, order=order, drop=number % 3 > 0, output_bytes=1 + number * 8)
    return warehouse, part


def keyed(record: Record) -> Record:
    return record if record.key is not None else Record(b"none", record.value, record.timestamp_ms, record.headers)


def assert_each_key_in_order(found: list[Row]) -> None:
    """Whoever writes the tasks' records elsewhere, one task after the other, leaves the same latest of each key."""
    latest: dict[bytes, int] = {}
    for row in found if found and {"key", "offset"} <= found[0].keys() else ():
        if row["key"] is not None:
            assert latest.get(row["key"], -1) < row["offset"]
            latest[row["key"]] = row["offset"]


@st.composite
def options(draw: Any) -> dict[str, Any]:
    low, high = sorted([draw(BOUNDS), draw(BOUNDS)], key=lambda key: (key is not None, key or b""))
    low, high = (high, None) if low is None and high is not None and draw(st.booleans()) else (low, high)
    start = draw(st.just(0) | st.integers(0, 60))
    found = {"low": low, "high": high, "start_offset": start}
    found["end_offset"] = draw(st.none() | st.integers(start, 90))
    found["columns"] = draw(st.none() | st.lists(st.sampled_from(RECORDS.names), min_size=1, max_size=5, unique=True))
    found |= draw(st.sampled_from([{}, {"tasks": 2}, {"tasks": 7}, {"target_bytes": 1}, {"target_bytes": 3_000}]))
    return found


@settings(deadline=None)
@given(st.lists(STEP, max_size=9), st.sampled_from(["compact", "delete"]), options(), st.integers(1, 5), st.data())
def test_the_tasks_give_what_scan_and_read_show(
    steps: list[Any], policy: str, asked: dict[str, Any], rows: int, data: st.DataObject
) -> None:
    tombstones, ordered = data.draw(st.booleans()), data.draw(st.booleans())
    with small_pieces(rows, data.draw(st.sampled_from([0, 100, 1 << 18]))):
        warehouse, part = played(steps, policy)
        snapshot = part.snapshot()
        bounds = [asked[name] for name in ("low", "high", "start_offset", "end_offset")]
        scanned = snapshot.scan(tombstones).read_all().to_pylist()
        expected = [row for row in scanned if within(row, *bounds)]
        tasks = snapshot.plan(tombstones=tombstones, **asked)
        found = union(tasks, warehouse.store)
        assert found == named(expected, asked["columns"])  # in key order, from task to task
        again = snapshot.scan(tombstones, low=bounds[0], high=bounds[1], columns=asked["columns"])
        narrow = [row for row in scanned if within(row, *bounds[:2], 0, None)]
        assert again.read_all().to_pylist() == named(narrow, asked["columns"])
        if asked["start_offset"] > snapshot.next_offset:
            return
        stored = [row for row in snapshot.read_batches().read_all().to_pylist() if within(row, *bounds)]
        tasks = snapshot.plan(view="log", ordered=ordered, **asked)
        found = union(tasks, warehouse.store)
        assert in_any_order(found) == in_any_order(named(stored, asked["columns"]))
        assert_each_key_in_order(found)
        if ordered and (asked["columns"] is None or "offset" in asked["columns"]):
            for task in tasks:
                offsets = [row["offset"] for row in union([task], warehouse.store)]
                assert offsets == sorted(offsets)
