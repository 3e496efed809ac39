"""A merge task end to end over a store: ranges, outputs, failures."""

import random
from hashlib import sha512
from typing import Any

import msgspec
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from lithify.log.tables import normalise
from lithify.manifest.bounds import EVERYTHING, Bounds
from lithify.manifest.jobs import KeyRange, MergeRules
from lithify.manifest.keys import PartitionKeys, SegmentId
from lithify.manifest.model import SegmentRef
from lithify.segment.execute import TaskCancelled, execute
from lithify.segment.ranges import row_group_weights, split_ranges
from lithify.segment.read import SegmentReader
from lithify.segment.scan import latest_by_key
from lithify.segment.schema import RECORDS
from lithify.segment.segments import Segments
from lithify.segment.task import MergeTask
from lithify.segment.verify import verify_rows
from lithify.segment.write import encode_append
from lithify.store.errors import Corrupt, InvalidRequest, NotFound, Unavailable
from lithify.store.homes import HERE, Homes, only_here
from lithify.store.memory import MemoryStore
from lithify.store.port import OutputFile

KEYS = PartitionKeys("orders", "0a", 3)
CLEAN = MergeRules(drop_superseded=True)
WIDE = 1 << 30
Record = tuple[bytes | None, bytes | None]


def append(store: MemoryStore, records: list[Record], base: int, order: Any = "key", name: str = "a") -> SegmentRef:
    keys, values = (pa.array(column, pa.binary()) for column in zip(*records, strict=True))
    body, ref = encode_append(normalise(pa.table({"key": keys, "value": values}), 7), order, f"1-{name}{base}")
    store.put(KEYS.segment(ref.id), body)
    last = base + len(records) - 1
    return msgspec.structs.replace(ref, base_offset=base, min_offset=base, max_offset=last)


def task(sources: list[list[SegmentRef]], **changes: Any) -> MergeTask:
    made = MergeTask(
        keys=KEYS,
        job="000000000001-0badcafe",
        attempt=2,
        range_index=1,
        bounds=EVERYTHING,
        sources=tuple(map(tuple, sources)),
        rules=CLEAN,
        output_bytes=WIDE,
    )
    made = msgspec.structs.replace(made, **changes)
    return msgspec.json.decode(msgspec.json.encode(made), type=MergeTask)  # it crosses process borders as JSON


def rows(store: MemoryStore, refs: Any) -> list[tuple[int, bytes | None, bytes | None]]:
    return [
        (row["offset"], row["key"], row["value"])
        for ref in refs
        for batch in SegmentReader(store, KEYS.segment(ref.id), ref).batches()
        for row in batch.to_pylist()
    ]


def segments(store: MemoryStore) -> set[str]:
    return {found.key for found in store.list(KEYS.segments).objects}


@given(
    records=st.lists(
        st.tuples(
            st.sampled_from([None, b"", b"a", b"b", b"p" * 40, b"p" * 41, b"q\0", b"\xff" * 33]),
            st.one_of(st.none(), st.binary(max_size=5)),
        ),
        min_size=1,
        max_size=40,
    ),
    appends=st.integers(1, 4),
    cuts=st.sets(st.sampled_from([b"\0", b"a", b"p" * 41, b"q"])),
    order=st.sampled_from(["key", "offset"]),
)
def test_ranges_together_give_every_key_once(records: list[Record], appends: int, cuts: set[bytes], order: Any) -> None:
    store = MemoryStore()
    size = -(-len(records) // appends)
    refs = [append(store, records[i : i + size], i, order) for i in range(0, len(records), size)]
    bounds = [None, *sorted(cuts), None]
    written: list[SegmentRef] = []
    rows_in = 0
    for index in range(len(bounds) - 1):
        work = task([[ref] for ref in refs], bounds=Bounds(bounds[index], bounds[index + 1]), range_index=index)
        result = execute(work, only_here(store))
        rows_in += result.counts.rows_in
        assert result.counts.rows_out == sum(ref.rows for ref in result.outputs)
        written += result.outputs
    newest = {key: (offset, value) for offset, (key, value) in enumerate(records) if key is not None}
    keyless = [(offset, None, value) for offset, (key, value) in enumerate(records) if key is None]
    assert rows(store, written) == keyless + [(newest[key][0], key, newest[key][1]) for key in sorted(newest)]
    assert rows_in == len(records)
    for ref in written:
        verify_rows(store, KEYS.segment(ref.id), ref)
    reader = Segments(KEYS, only_here(store)).reader
    found = pa.Table.from_batches(latest_by_key((), refs, reader, EVERYTHING, tombstones=True), RECORDS)
    shown = zip(*(found[name].to_pylist() for name in ("key", "offset", "value")), strict=True)
    assert {key: (offset, value) for key, offset, value in shown} == newest


@given(
    appends=st.lists(
        st.lists(
            st.tuples(
                st.one_of(st.none(), st.sampled_from([b"a", b"b", b"p" * 41, b"q\0"])),
                st.one_of(st.none(), st.binary(max_size=3), st.just(b"v" * 5_000)),
            ),
            min_size=1,
            max_size=6,
        ),
        min_size=1,
        max_size=5,
    ),
    cuts=st.sets(st.sampled_from([b"a", b"p" * 41])),
    order=st.sampled_from(["key", "offset"]),
)
def test_kept_and_dropped_records_are_counted_by_size(
    appends: list[list[Record]], cuts: set[bytes], order: Any
) -> None:
    """By the buckets of the time index, which begin where the appends do: what was read of each is all it had (R3)."""
    store = MemoryStore()
    refs: list[SegmentRef] = []
    for records in appends:
        refs.append(append(store, records, refs[-1].max_offset + 1 if refs else 0, order))
    starts = tuple(ref.min_offset for ref in refs)
    rules = msgspec.structs.replace(CLEAN, buckets=starts)
    bounds = [None, *sorted(cuts), None]
    kept, lost = [0] * len(starts), [0] * len(starts)
    for index in range(len(bounds) - 1):
        work = task(
            [[ref] for ref in refs], bounds=Bounds(bounds[index], bounds[index + 1]), range_index=index, rules=rules
        )
        result = execute(work, only_here(store))
        assert result.kept_bytes, "a range that was counted says so, though it kept nothing"
        assert sum(result.kept_bytes) == sum(ref.raw_bytes for ref in result.outputs)
        for sums, counted in ((kept, result.kept_bytes), (lost, result.lost_bytes)):
            sums[: len(counted)] = [sum(pair) for pair in zip(sums, counted, strict=False)]
    assert [sum(pair) for pair in zip(kept, lost, strict=True)] == [ref.raw_bytes for ref in refs]


def test_outputs_are_cut_at_the_target_and_between_keys_only() -> None:
    store = MemoryStore()
    records: list[Record] = [(b"%04d" % (i // 7), sha512(b"%d" % i).digest()) for i in range(30_000)]
    ref = append(store, records, 0)
    result = execute(task([[ref]], rules=MergeRules(), output_bytes=300_000), only_here(store))
    assert len(result.outputs) > 3
    assert rows(store, result.outputs) == [(i, key, value) for i, (key, value) in enumerate(records)]
    for one, two in zip(result.outputs, result.outputs[1:], strict=False):
        assert one.max_key is not None
        assert two.min_key is not None
        assert one.max_key < two.min_key
        assert 300_000 * 0.7 < one.bytes < 300_000 * 2


@pytest.mark.slow
@pytest.mark.parametrize(("value_bytes", "target_bytes"), [(30_000, 1 << 20), (1_000, 1 << 16), (200_000, 1 << 20)])
def test_outputs_come_near_the_target_however_large_the_records(value_bytes: int, target_bytes: int) -> None:
    """Before, the size was looked at every 4,096 rows: one output of 60 MB where 1 MiB was asked for."""
    store, dice = MemoryStore(), random.Random(0)
    records: list[Record] = [(b"%06d" % i, dice.randbytes(value_bytes)) for i in range((6 << 20) // value_bytes)]
    work = task([[append(store, records, 0)]], rules=MergeRules(), output_bytes=target_bytes)
    result = execute(work, only_here(store))
    for output in result.outputs[:-1]:
        assert target_bytes * 0.8 < output.bytes < target_bytes * 1.15 + value_bytes
    assert result.outputs[-1].bytes < target_bytes * 1.15 + value_bytes


def test_a_merge_holds_one_large_record_of_each_source(monkeypatch: pytest.MonkeyPatch) -> None:
    """Before, what was merged and what was written last were held as well while the next was read."""
    store, large, fan_in = MemoryStore(), 5 << 20, 3
    refs = [append(store, [(b"%d" % n, b"x" * large) for n in range(3)], 3 * at) for at in range(fan_in)]
    assert [ref.max_row_bytes for ref in refs] == [24 + 1 + large] * fan_in
    read, base, held = SegmentReader._decode, pa.total_allocated_bytes(), [0]

    def decode(reader: SegmentReader, *group: Any) -> pa.RecordBatch:
        held.append(pa.total_allocated_bytes() - base)
        return read(reader, *group)

    monkeypatch.setattr(SegmentReader, "_decode", decode)
    result = execute(task([[ref] for ref in refs]), only_here(store))
    assert [ref.rows for ref in result.outputs] == [3]
    assert max(held) < (fan_in + 0.5) * large


def test_one_key_is_never_cut_however_many_versions() -> None:
    store = MemoryStore()
    records: list[Record] = [(b"hot", b"x" * 100)] * 20_000 + [(b"z", b"y")]
    result = execute(task([[append(store, records, 0)]], rules=MergeRules(), output_bytes=1), only_here(store))
    assert [ref.rows for ref in result.outputs] == [20_000, 1]


def test_outputs_carry_job_attempt_range_and_a_new_nonce() -> None:
    store = MemoryStore()
    source = append(store, [(b"a", b"1")], 0)
    work = task([[source]])
    one, two = execute(work, only_here(store)).outputs[0], execute(work, only_here(store)).outputs[0]
    assert one.id != two.id
    assert one.id.startswith("000000000001-0badcafe-2-1-")
    assert SegmentId.of_job(one.id, work.job)
    assert (one.rows, one.checksum, one.base_offset, one.added_at) == (1, two.checksum, None, 0)
    assert segments(store) == {KEYS.segment(ref.id) for ref in (source, one, two)}


def test_a_task_whose_records_all_go_has_no_output() -> None:
    store = MemoryStore()
    ref = append(store, [(b"a", b"1"), (b"b", b"1")], 0)
    result = execute(task([[ref]], rules=MergeRules(floor=2)), only_here(store))
    assert result.outputs == ()
    assert (result.counts.rows_in, result.counts.below_floor) == (2, 2)


def test_a_run_is_one_source_and_only_what_overlaps_is_opened() -> None:
    store = MemoryStore()
    low, high = append(store, [(b"a", b"1")], 0), append(store, [(b"m", b"2")], 1)
    store.delete([KEYS.segment(low.id)])
    result = execute(task([[low, high]], bounds=Bounds(low=b"b")), only_here(store))
    assert rows(store, result.outputs) == [(1, b"m", b"2")]


def test_after_a_change_of_policy_sources_of_the_other_order_are_sorted() -> None:
    store = MemoryStore()
    records: list[Record] = [(b"%d" % (i * 7 % 10), b"x") for i in range(30)]
    mixed = [append(store, records[:10], 0, "key"), append(store, records[10:20], 10, "offset")]
    runs = [mixed, [append(store, records[20:], 20, "key")]]
    by_key = execute(task(runs), only_here(store))
    assert rows(store, by_key.outputs) == sorted(
        ((i, *records[i]) for i in range(20, 30)), key=lambda row: (row[1], row[0])
    )
    by_offset = execute(task(runs, rules=MergeRules(order="offset")), only_here(store))
    assert [row[0] for row in rows(store, by_offset.outputs)] == list(range(30))
    assert {ref.order for ref in by_offset.outputs} == {"offset"}


def test_a_corrupt_source_leaves_nothing_behind() -> None:
    store = MemoryStore()
    good = append(store, [(b"%05d" % i, b"x" * 100) for i in range(70_000)], 0)
    bad = append(store, [(b"%05d" % i, b"y" * 100) for i in range(70_000)], 70_000)
    body = bytearray(store.read(KEYS.segment(bad.id), 0, bad.bytes))
    last = SegmentReader(store, KEYS.segment(bad.id), bad).row_groups[-1]
    body[last.start + 100] ^= 1
    store.put(KEYS.segment(bad.id), bytes(body))
    before = segments(store)
    with pytest.raises(Corrupt, match=bad.id):
        execute(task([[good], [bad]]), only_here(store))
    assert segments(store) == before


def test_a_missing_source_is_not_found() -> None:
    store = MemoryStore()
    ref = append(store, [(b"a", b"1")], 0)
    store.delete([KEYS.segment(ref.id)])
    with pytest.raises(NotFound):
        execute(task([[ref]]), only_here(store))


def test_a_cancelled_task_stops_and_gives_its_output_up() -> None:
    store = MemoryStore()
    refs = [append(store, [(b"%05d" % i, b"x" * 200) for i in range(70_000)], base) for base in (0, 70_000)]
    before = segments(store)
    asked: list[bool] = []

    def at_the_second_block() -> bool:
        asked.append(True)
        return len(asked) == 2

    with pytest.raises(TaskCancelled):
        execute(task([[ref] for ref in refs]), only_here(store), at_the_second_block)
    assert len(asked) == 2
    assert segments(store) == before


def test_sources_in_another_home_are_read_from_there() -> None:
    warehouse, cold = MemoryStore(), MemoryStore("cold")
    ref = msgspec.structs.replace(append(cold, [(b"a", b"1")], 0), home="cold")
    result = execute(task([[ref]]), Homes({HERE: warehouse, "cold": cold}))
    assert rows(warehouse, result.outputs) == [(0, b"a", b"1")]
    with pytest.raises(InvalidRequest, match="in another home \\('cold'\\)"):
        execute(task([[ref]]), only_here(warehouse))


@pytest.mark.parametrize("kind", [Corrupt, NotFound])
def test_a_bad_source_is_named_by_its_id_wherever_it_lies(kind: Any) -> None:
    """The key of an object is that of its home: in another one it names another object."""
    warehouse, cold = MemoryStore(), MemoryStore("cold")
    good = append(warehouse, [(b"a", b"1")], 0)
    bad = msgspec.structs.replace(append(cold, [(b"a", b"2")], 1), home="cold")
    warehouse.put(KEYS.segment(bad.id), b"a copy that was left behind")
    if kind is NotFound:
        cold.delete([KEYS.segment(bad.id)])
    else:
        cold.put(KEYS.segment(bad.id), b"x" * bad.bytes)
    with pytest.raises(kind) as raised:
        execute(task([[good], [bad]]), Homes({HERE: warehouse, "cold": cold}))
    assert raised.value.segment == bad.id


def test_planned_ranges_are_balanced_whatever_the_sources() -> None:
    store = MemoryStore()
    refs = [append(store, [(b"user-%07d" % (i * 37 % 100_000), b"v" * 40) for i in range(4_000)], 0, name=f"{n}-")
            for n in range(6)]  # fmt: skip
    weights = [w for ref in refs for w in row_group_weights(SegmentReader(store, KEYS.segment(ref.id), ref))]
    ranges = split_ranges(weights, sum(weight.weight_bytes for weight in weights) // 4)
    assert ranges == split_ranges(reversed(weights), sum(weight.weight_bytes for weight in weights) // 4)
    tasks = [task([[ref] for ref in refs], bounds=each.bounds) for each in ranges]
    rows_in = [execute(each, only_here(store)).counts.rows_in for each in tasks]
    assert sum(rows_in) == 24_000
    assert isinstance(ranges[0], KeyRange)
    assert len(rows_in) in (4, 5)
    assert max(rows_in) < 2 * 24_000 / len(rows_in)


class _FailingOutput(OutputFile):
    """An output that the store refuses after so many bytes."""

    def __init__(self, room_bytes: int) -> None:
        self.room_bytes = room_bytes
        self.aborted = 0

    def write(self, data: Any, /) -> int:
        self.room_bytes -= len(data)
        if self.room_bytes < 0:
            raise Unavailable("the store does not answer")
        return len(data)

    def close(self) -> None:
        raise Unavailable("the store does not answer")

    def abort(self) -> None:
        self.aborted += 1


class _FailingStore(MemoryStore):
    def __init__(self, outputs: list[_FailingOutput]) -> None:
        super().__init__()
        self.outputs = outputs

    def output(self, key: str) -> Any:
        return self.outputs[-1]


@pytest.mark.slow
@pytest.mark.parametrize("room_bytes", [0, 100, 200_000, 2_000_000, 1 << 40])
def test_a_store_that_fails_is_reported_as_itself_and_the_output_given_up(room_bytes: int) -> None:
    outputs = [_FailingOutput(room_bytes)]
    store = _FailingStore(outputs)
    ref = append(store, [(b"%05d" % i, sha512(b"%d" % i).digest()) for i in range(70_000)], 0)
    with pytest.raises(Unavailable, match="does not answer"):
        execute(task([[ref]]), only_here(store))
    assert outputs[0].aborted == 1


class _WrongOutput(OutputFile):
    """An output whose footer is stored with one wrong bit: its size is right."""

    def __init__(self, output: Any) -> None:
        self._output = output
        self.abort = output.abort
        self.close = output.close

    def write(self, data: Any, /) -> int:
        content = bytearray(data)
        if len(content) > 4 and content.endswith(b"PAR1"):
            content[-20] ^= 1
        return self._output.write(bytes(content))


class _StoresWrong(MemoryStore):
    def output(self, key: str) -> Any:
        return _WrongOutput(super().output(key))


def test_an_output_that_does_not_open_is_not_answered() -> None:
    store = _StoresWrong()
    ref = append(store, [(b"a", b"1")], 0)
    with pytest.raises(Corrupt, match="footer"):
        execute(task([[ref]]), only_here(store))


def test_a_task_knows_whether_a_row_may_be_larger_than_a_usual_row_group() -> None:
    store = MemoryStore()
    small, large = append(store, [(b"a", b"v" * 1_000)], 0), append(store, [(b"a", b"v" * (5 << 20))], 1)
    assert not task([[small], [small]]).large_rows
    assert task([[small], [small, large]]).large_rows
