"""Plans of snapshots: which tasks there are, what travels with them, and what is read for them (RFC 0021)."""

import pickle
import re
from types import SimpleNamespace
from typing import Any

import msgspec
import numpy as np
import pyarrow as pa
import pytest

from lithify.log.partition import Partition
from lithify.log.planning import target_of
from lithify.log.read_task import read_task
from lithify.log.record import Record
from lithify.log.topic import Topic
from lithify.log.warehouse import Warehouse
from lithify.segment.read_plan import TARGET_BYTES
from lithify.segment.read_task import ReadTask
from lithify.store.driver import Driver
from lithify.store.errors import Corrupt, InvalidRequest, OffsetOutOfRange
from lithify.store.metered import Metered
from lithify.store.s3 import S3Store
from tests.clock import HandClock
from tests.log.compaction import compact, files_of
from tests.log.conftest import TEN_SECONDS_MS
from tests.log.planned import in_any_order, union
from tests.log.test_plan_properties import small_pieces

COMPACTED = {"cleanup.policy": "compact"}
SECRET = "THE-SECRET-KEY"
BULK = b"THE-VALUE-OF-THE-RECORD"


def keyed(number: int) -> bytes:
    return b"key-%06d" % (number * 7_919 % 1_000_000)


def filled(part: Partition, rows: int, seed: int, value_bytes: int = 40) -> None:
    dice = np.random.default_rng(seed)
    keys = [keyed(number) for number in dice.permutation(rows).tolist()]
    part.append(pa.table({"key": keys, "value": [BULK + dice.bytes(value_bytes) for _ in keys]}))


def with_run(warehouse: Warehouse, rows: int = 4_000, appends: int = 0, small_rows: int = 100) -> Partition:
    """One large sorted run, and small appends with keys from everywhere."""
    part = warehouse.create_topic("t", config=COMPACTED).partition(0)
    filled(part, rows, 1)
    compact(warehouse, "t", output_bytes=1 << 18)
    for number in range(appends):
        filled(part, small_rows, number)
    return part


def test_a_run_is_split_evenly_and_each_task_reads_its_own_part(warehouse: Warehouse) -> None:
    with small_pieces(100, 0):
        part = with_run(warehouse)
        stored = part.describe().bytes
        for view in ("latest", "log"):
            tasks = part.snapshot().plan(view=view, tasks=8)
            assert 6 <= len(tasks) <= 8
            assert max(task.bytes for task in tasks) < 2 * min(task.bytes for task in tasks)
            assert sum(task.bytes for task in tasks) < 1.5 * stored
            assert sum(task.rows for task in tasks) < 1.5 * 4_000
            assert len(union(tasks, warehouse.store)) == 4_000


def test_small_appends_beside_a_run_are_read_by_every_task_of_it(warehouse: Warehouse) -> None:
    with small_pieces(100, 0):
        part = with_run(warehouse, appends=5)
        tasks = part.snapshot().plan(tasks=8)
        assert 6 <= len(tasks) <= 8
        assert sum(len(task.l0) == 5 for task in tasks) > 4
        assert sum(task.bytes for task in tasks) <= 2.2 * part.describe().bytes
        assert union(tasks, warehouse.store) == part.scan().read_all().to_pylist()


@pytest.mark.slow
def test_small_appends_alone_are_a_few_tasks_by_keys_and_as_many_as_asked_for_in_a_log(warehouse: Warehouse) -> None:
    with small_pieces(100, 0):
        part = warehouse.create_topic("t", config=COMPACTED).partition(0)
        for number in range(40):
            filled(part, 50, number)
        tasks = part.snapshot().plan(tasks=32)
        assert len(tasks) == 4
        assert {len(task.l0) for task in tasks} == {40}
        found = [len(union([task], warehouse.store)) for task in tasks]
        assert min(found) > max(found) // 4
        assert union(tasks, warehouse.store) == part.scan().read_all().to_pylist()
        log = part.snapshot().plan(view="log", tasks=20)
        assert len(log) == 20
        assert {len(task.l0) for task in log} <= {1, 2, 3}
        assert in_any_order(union(log, warehouse.store)) == in_any_order(part.read_batches().read_all().to_pylist())


@pytest.mark.parametrize(("stored_mib", "tasks"), [(1, 1), (128, 1), (129, 4), (512, 4), (644, 8), (1_537, 16)])
def test_several_tasks_are_a_multiple_of_four_so_that_cores_share_them_evenly(stored_mib: int, tasks: int) -> None:
    whole: Any = SimpleNamespace(segments=[SimpleNamespace(bytes=stored_mib << 20)])
    target = target_of("users", None, None, [whole])
    assert -(-(stored_mib << 20) // target) == tasks
    assert target <= TARGET_BYTES


def test_a_large_append_is_read_after_the_small_ones_before_it(warehouse: Warehouse) -> None:
    """Before, it came first: who copied the log made the older values the latest."""
    with small_pieces(100, 0):
        part = warehouse.create_topic("t", config=COMPACTED).partition(0)
        for rows in (100, 100, 4_000, 100, 4_000, 4_000, 100):
            filled(part, rows, rows)
        tasks = part.snapshot().plan(view="log", target_bytes=20_000)
        assert len(tasks) > 20
        latest: dict[bytes, int] = {}
        for row in union(tasks, warehouse.store):
            assert latest.get(row["key"], -1) < row["offset"]
            latest[row["key"]] = row["offset"]
        assert len(latest) == 4_000


def test_nothing_to_read_is_no_task(warehouse: Warehouse) -> None:
    part = warehouse.create_topic("t", config=COMPACTED).partition(0)
    assert part.snapshot().plan() == part.snapshot().plan(view="log") == []
    part.append([Record(b"b", None), Record(b"d", None)])
    (task,) = part.snapshot().plan()
    assert union([task], warehouse.store) == []
    assert [row["key"] for row in union(part.snapshot().plan(tombstones=True), warehouse.store)] == [b"b", b"d"]
    for options in ({"low": b"e"}, {"high": b"a"}, {"low": b"b", "high": b"b"}, {"start_offset": 2}, {"end_offset": 0}):
        for view in ("latest", "log"):
            tasks = part.snapshot().plan(view=view, tombstones=True, **options)  # pyright: ignore[reportArgumentType]
            assert union(tasks, warehouse.store) == []
            assert not tasks or "high" in options  # they may hold a record without a key, as far as is known


def test_a_key_without_upper_bound_is_found(warehouse: Warehouse) -> None:
    part = warehouse.create_topic("t", config=COMPACTED).partition(0)
    part.append([Record(b"\xff" * 40, b"v")])
    assert len(union(part.snapshot().plan(), warehouse.store)) == 1


def test_records_without_a_key_are_shown_by_the_log_alone(warehouse: Warehouse) -> None:
    part = warehouse.create_topic("t", config={"cleanup.policy": "delete"}).partition(0)
    part.append([Record(None, b"v"), Record(None, None)])
    part.append([Record(b"a", b"v"), Record(None, b"w")])
    assert [row["key"] for row in union(part.snapshot().plan(target_bytes=1), warehouse.store)] == [b"a"]
    assert len(union(part.snapshot().plan(view="log", target_bytes=1), warehouse.store)) == 4
    assert len(union(part.snapshot().plan(view="log", low=b""), warehouse.store)) == 1
    assert len(union(part.snapshot().plan(view="log", high=b""), warehouse.store)) == 3


def test_the_end_of_offsets_is_a_filter_of_what_is_shown_not_of_what_supersedes(warehouse: Warehouse) -> None:
    part = warehouse.create_topic("t", config=COMPACTED).partition(0)
    part.append([Record(b"a", b"old"), Record(b"b", b"kept")])
    part.append([Record(b"a", b"new")])
    assert [row["key"] for row in union(part.snapshot().plan(end_offset=2), warehouse.store)] == [b"b"]
    assert [row["key"] for row in union(part.snapshot().plan(start_offset=1), warehouse.store)] == [b"a", b"b"]
    assert union(part.snapshot().plan(start_offset=9), warehouse.store) == []
    with pytest.raises(OffsetOutOfRange, match="beyond the end"):
        part.snapshot().plan(view="log", start_offset=9)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"view": "newest"}, "view must be one of latest, log"),
        ({"columns": []}, "columns must be a list"),
        ({"columns": ["keys"]}, "columns must be a list"),
        ({"columns": ["key", "key"]}, "columns must be a list"),
        ({"columns": "key"}, "columns must be a list"),
        ({"columns": 7}, "columns must be a list"),
        ({"columns": [["key"]]}, "columns must be a list"),
        ({"low": "a"}, "low and high are keys"),
        ({"low": b"b", "high": b"a"}, "low must not be above high"),
        ({"start_offset": -1}, "integers >= 0"),
        ({"start_offset": 3, "end_offset": 2}, "integers >= 0"),
        ({"tasks": 0}, "tasks must be"),
        ({"tasks": 2, "target_bytes": 7}, "either tasks or target_bytes"),
        ({"target_bytes": 0}, "target_bytes must be"),
    ],
)
def test_bad_options_are_refused_in_words(warehouse: Warehouse, options: dict[str, Any], message: str) -> None:
    topic = warehouse.create_topic("t", config=COMPACTED)
    for planning in (topic.partition(0).snapshot().plan, topic.snapshot().plan):
        with pytest.raises(InvalidRequest, match=message):
            planning(**options)


def test_a_task_has_no_secret_and_no_contents_but_bounds_of_keys(warehouse: Warehouse) -> None:
    with small_pieces(100, 0):
        part = with_run(warehouse, appends=3)
        part.append([Record(b"key-of-headers", BULK, headers=(("name", b"THE-HEADER"),))])
        tasks = part.snapshot(ttl=60_000).plan(tasks=4)
    store = S3Store("bucket", "prefix", {"key": "THE-ACCESS-KEY", "secret": SECRET})
    assert SECRET not in repr(Driver(store).homes)
    for task in tasks:
        travelling = pickle.dumps(task) + msgspec.json.encode(task)
        for secret in (SECRET.encode(), b"THE-ACCESS-KEY", BULK, b"THE-HEADER", b"THE-VALUE"):
            assert secret not in travelling
        known = {keyed(number) for number in range(4_000)}
        bounds = {bound for ref in task.segments for bound in (ref.min_key, ref.max_key)}
        bounds |= {task.bounds.low, task.bounds.high}
        assert set(re.findall(rb"key-\d{6}", pickle.dumps(task))) & known <= {b for b in bounds if b is not None}
        assert msgspec.json.decode(msgspec.json.encode(task), type=ReadTask) == task


def test_columns_that_are_not_asked_for_are_not_fetched(warehouse: Warehouse) -> None:
    part = warehouse.create_topic("t", config=COMPACTED).partition(0)
    filled(part, 5_000, 1, value_bytes=2_000)  # noise: what is not fetched cannot be small by compression
    compact(warehouse, "t")

    def fetched(**options: Any) -> int:
        store = warehouse.store
        tasks = part.snapshot().plan(**options)
        before = store.requests().bytes_read
        assert len(union(tasks, store, seed=3)) == 5_000
        return store.requests().bytes_read - before

    everything = fetched()
    assert everything > 10_000_000
    assert fetched(columns=["key"]) < everything / 8
    assert fetched(view="log", columns=["timestamp_ms"]) < everything / 8
    assert fetched(columns=["value"]) > everything / 2
    part.append([Record(keyed(1), BULK)])
    part.append([Record(b"another", None)])
    assert fetched(columns=["key"]) < everything / 8  # only the append that has a tombstone has its values read
    assert fetched(view="log", columns=["value"], end_offset=5_000) > everything / 2


def test_a_missing_segment_of_a_retained_manifest_is_damage(warehouse: Warehouse) -> None:
    part = with_run(warehouse, 50)
    (task,) = part.snapshot().plan()
    warehouse.store.delete([files_of(warehouse, "t").keys.segment(task.segments[0].id)])
    with pytest.raises(Corrupt, match="names it"):
        read_task(task, warehouse.store).read_all()
    with pytest.raises(Corrupt, match="names it"):
        part.snapshot().plan(target_bytes=1)


def scanned(topic: Topic, **options: Any) -> list[dict[str, Any]]:
    return topic.scan(**options).read_all().to_pylist()


def test_a_topic_of_ten_partitions_that_has_grown(warehouse: Warehouse, clock: HandClock) -> None:
    topic = warehouse.create_topic("t", partitions=3, config=COMPACTED)
    topic.append([Record(b"%03d" % number, b"old") for number in range(300)])
    topic.alter(partitions=10)
    clock.now_ms += TEN_SECONDS_MS
    topic.append([Record(b"%03d" % number, None if number % 5 == 0 else b"new") for number in range(0, 300, 2)])
    snapshot = topic.snapshot(ttl=60_000)
    assert len(snapshot.partitions) == 10
    for shown in ({}, {"tombstones": True}, {"low": b"100", "high": b"2"}, {"columns": ["value", "key"]}):
        tasks = snapshot.plan(tasks=20, **shown)  # pyright: ignore[reportArgumentType]
        assert union(tasks, warehouse.store) == scanned(topic, **shown)
    stored = [row for number in range(10) for row in topic.partition(number).read_batches().read_all().to_pylist()]
    assert in_any_order(union(snapshot.plan(view="log", tasks=20), warehouse.store)) == in_any_order(stored)
    numbers = [each.manifest_id for each in snapshot.partitions]
    again = warehouse.topic("t").snapshot(ttl=60_000, manifests=numbers)
    topic.append([Record(b"001", b"later")])
    assert again.plan()
    assert union(again.plan(), warehouse.store) == union(snapshot.plan(), warehouse.store)
    before = topic.snapshot(manifests=numbers[:3])  # as it was with three
    assert len(union(before.plan(), warehouse.store)) > len(union(snapshot.plan(), warehouse.store))
    with pytest.raises(InvalidRequest, match="give one for each of its 10"):
        topic.snapshot(manifests=numbers[:4])
    snapshot.renew()
    again.release()
    snapshot.release()
    assert all(topic.partition(number).checkpoints(owner=None) == () for number in range(10))


def test_pins_are_let_go_if_one_partition_cannot_be_pinned(
    warehouse: Warehouse, monkeypatch: pytest.MonkeyPatch
) -> None:
    topic = warehouse.create_topic("t", partitions=3, config=COMPACTED)
    topic.partition(2).snapshot(ttl=60_000)
    monkeypatch.setitem(__import__("lithify.manifest.pins", fromlist=["PINS_MAX"]).PINS_MAX, "scan", 1)
    with pytest.raises(Exception, match="has 1 pins of scans, its limit"):
        topic.snapshot(ttl=60_000)
    assert [len(topic.partition(number).checkpoints(owner=None)) for number in range(3)] == [0, 0, 1]


@pytest.mark.slow
def test_every_store_gives_tasks_that_others_read(any_warehouse: Warehouse) -> None:
    part = with_run(any_warehouse, 500, appends=2)
    tasks = part.snapshot(ttl=60_000).plan(tasks=3, columns=["key", "offset"])
    expected = part.scan(columns=["key", "offset"]).read_all().to_pylist()
    assert union(tasks, Metered(any_warehouse.store)) == expected
