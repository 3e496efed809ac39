"""The kernel against a dictionary: whatever the keys, the block borders and the rules."""

from collections.abc import Iterator
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from lithify.manifest.jobs import MergeRules
from lithify.segment.merge import Tally, merge
from lithify.segment.rules import NO_HORIZON, Fate, fate, fates, stamped, stamps
from lithify.segment.scan import latest
from lithify.segment.schema import RECORDS, RUN

Row = dict[str, Any]

# Few keys, so that versions are many and straddle blocks; keys that differ only late, in length, or in zero bytes.
KEYS = [None, b"", b"\0", b"\0\0", b"a", b"a\0", b"p" * 32, b"p" * 32 + b"\0", b"p" * 32 + b"q", b"\xff", b"\xff" * 33]
HORIZON = 100


@st.composite
def sources(draw: Any) -> list[list[Row]]:
    """Rows with distinct offsets, dealt to sources at random: offsets of sources overlap or not."""
    count = draw(st.integers(0, 40))
    spread = draw(st.integers(1, 5))
    contiguous = draw(st.booleans())
    dealt: list[list[Row]] = [[] for _ in range(spread)]
    for i in range(count):
        tombstone = draw(st.booleans())
        row = {
            "key": draw(st.sampled_from(KEYS)),
            "value": None if tombstone else draw(st.sampled_from([b"", b"v%d" % i])),
            "offset": i * 3,
            "timestamp_ms": i,
            "headers": draw(st.sampled_from([None, [], [{"key": "h", "value": b"%d" % i}]])),
            "horizon_ms": draw(st.sampled_from([None, HORIZON - 1, HORIZON, HORIZON + 1])) if tombstone else None,
        }
        dealt[i * spread // count if contiguous else draw(st.integers(0, spread - 1))].append(row)
    return dealt


RULES = st.builds(
    MergeRules,
    order=st.just("key"),
    drop_superseded=st.booleans(),
    drop_keyless=st.booleans(),
    floor=st.sampled_from([0, 1, 30, 61, 1000]),
    clock_ms=st.just(HORIZON),
    coverage_offset=st.sampled_from([0, 30, 61, 1000]),
    stamp_horizon_ms=st.sampled_from([None, HORIZON + 50, HORIZON]),
)


def position(row: Row) -> tuple[bool, bytes, int]:
    return row["key"] is not None, row["key"] or b"", row["offset"]


def batches(rows: list[Row], size: int) -> Iterator[pa.RecordBatch]:
    for start in range(0, len(rows), size):
        yield pa.RecordBatch.from_pylist(rows[start : start + size], schema=RUN)


def run(dealt: list[list[Row]], rules: MergeRules, size: int) -> tuple[list[Row], Tally]:
    tally = Tally()
    by = position if rules.order == "key" else (lambda row: row["offset"])
    out = list(merge([batches(sorted(rows, key=by), size) for rows in dealt], rules, tally))
    assert all(batch.schema == RUN for batch in out)
    return [row for batch in out for row in batch.to_pylist()], tally


def model(dealt: list[list[Row]], rules: MergeRules) -> tuple[list[Row], list[int]]:
    every = [row for rows in dealt for row in rows]
    newest: dict[bytes, int] = {}
    for row in every:
        if row["key"] is not None:
            newest[row["key"]] = max(row["offset"], newest.get(row["key"], -1))
    counts = [0] * len(Fate)
    kept: list[Row] = []
    for row in every:
        tombstone = row["value"] is None
        verdict = fate(
            rules,
            offset=row["offset"],
            key=row["key"],
            tombstone=tombstone,
            horizon_ms=row["horizon_ms"],
            superseded=row["offset"] < newest.get(row["key"], -1),
        )
        counts[verdict] += 1
        if verdict is Fate.KEPT:
            horizon = stamped(rules, offset=row["offset"], tombstone=tombstone, horizon_ms=row["horizon_ms"])
            kept.append({**row, "horizon_ms": horizon})
    return sorted(kept, key=position if rules.order == "key" else (lambda row: row["offset"])), counts


@pytest.mark.slow
@settings(max_examples=3 * settings.default.max_examples, deadline=None)
@given(dealt=sources(), rules=RULES, size=st.sampled_from([1, 2, 3, 100]))
def test_merge_by_key_is_the_model(dealt: list[list[Row]], rules: MergeRules, size: int) -> None:
    found, tally = run(dealt, rules, size)
    expected, counts = model(dealt, rules)
    assert found == expected
    assert tally.by_fate == counts
    assert tally.rows_in == sum(map(len, dealt))


@settings(max_examples=6 * settings.default.max_examples // 5, deadline=None)
@given(dealt=sources(), floor=st.sampled_from([0, 30, 61]), keyless=st.booleans(), size=st.sampled_from([1, 3, 100]))
def test_merge_by_offset_is_the_model(dealt: list[list[Row]], floor: int, keyless: bool, size: int) -> None:
    rules = MergeRules(order="offset", floor=floor, clock_ms=HORIZON, drop_keyless=keyless)
    found, tally = run(dealt, rules, size)
    expected, counts = model(dealt, rules)
    assert found == expected
    assert tally.by_fate == counts


@settings(max_examples=6 * settings.default.max_examples // 5, deadline=None)
@given(dealt=sources(), floor=st.sampled_from([0, 30, 61]), keep=st.booleans(), size=st.sampled_from([1, 3, 100]))
def test_scan_is_a_dictionary(dealt: list[list[Row]], floor: int, keep: bool, size: int) -> None:
    newest: dict[bytes, Row] = {}
    for row in sorted((row for rows in dealt for row in rows), key=lambda row: row["offset"]):
        if row["offset"] >= floor and row["key"] is not None:
            newest[row["key"]] = row
    expected = [newest[key] for key in sorted(newest) if keep or newest[key]["value"] is not None]
    out = list(latest([batches(sorted(rows, key=position), size) for rows in dealt], floor, keep_tombstones=keep))
    assert all(batch.schema == RECORDS and batch.num_rows for batch in out)
    found = [row for batch in out for row in batch.to_pylist()]
    assert found == [{name: row[name] for name in RECORDS.names} for row in expected]


@given(dealt=sources(), rules=RULES, cut=st.integers(0, 5), size=st.sampled_from([2, 100]))
def test_merges_commute(dealt: list[list[Row]], rules: MergeRules, cut: int, size: int) -> None:
    """R1: merging some sources first and the rest later gives what merging all at once gives. The first merge is a
    tier: it drops what is superseded within itself and stamps nothing."""
    tier = MergeRules(drop_superseded=rules.drop_superseded, floor=rules.floor, clock_ms=0)
    first, _ = run(dealt[:cut], tier, size)
    found, _ = run([first, *dealt[cut:]], rules, size)
    assert found == run(dealt, rules, size)[0]


@settings(max_examples=3 * settings.default.max_examples, deadline=None)
@given(
    rules=RULES,
    rows=st.lists(
        st.tuples(
            st.integers(0, 70), st.booleans(), st.booleans(), st.one_of(st.none(), st.integers(98, 102)), st.booleans()
        )
    ),
)
def test_the_rule_for_a_block_is_the_rule_for_a_record(rules: MergeRules, rows: list[Any]) -> None:
    offset = np.array([row[0] for row in rows], np.int64)
    keyless = np.array([row[1] for row in rows], np.bool_)
    tombstone = np.array([row[2] for row in rows], np.bool_)
    horizon_ms = np.array([NO_HORIZON if row[3] is None else row[3] for row in rows], np.int64)
    superseded = np.array([row[4] for row in rows], np.bool_)
    verdicts = fates(
        rules, offset=offset, keyless=keyless, tombstone=tombstone, horizon_ms=horizon_ms, superseded=superseded
    )
    stamp = stamps(rules, offset=offset, tombstone=tombstone, horizon_ms=horizon_ms)
    for i, (at, no_key, dead, horizon, older) in enumerate(rows):
        key = None if no_key else b"k"
        assert verdicts[i] == fate(rules, offset=at, key=key, tombstone=dead, horizon_ms=horizon, superseded=older)
        carried = rules.stamp_horizon_ms if stamp[i] else horizon
        assert carried == stamped(rules, offset=at, tombstone=dead, horizon_ms=horizon)


def one(**changes: Any) -> Row:
    row = {"key": b"k", "value": b"v", "offset": 5, "timestamp_ms": 0, "headers": None, "horizon_ms": None}
    return {**row, **changes}


@pytest.mark.parametrize(
    ("offset", "horizon"),
    [(4, 777), (5, None), (6, None)],
    ids=["below T", "at T", "above T"],
)
def test_a_clean_stamps_tombstones_below_its_coverage_only(offset: int, horizon: int | None) -> None:
    rules = MergeRules(drop_superseded=True, coverage_offset=5, stamp_horizon_ms=777, clock_ms=10)
    found, _ = run([[one(value=None, offset=offset)]], rules, 1)
    assert [row["horizon_ms"] for row in found] == [horizon]


def test_a_tombstone_stamped_by_this_merge_is_kept_by_it() -> None:
    rules = MergeRules(drop_superseded=True, coverage_offset=9, stamp_horizon_ms=10, clock_ms=10)
    found, _ = run([[one(value=None)]], rules, 1)
    assert [row["horizon_ms"] for row in found] == [10]
    again, tally = run([found], rules, 1)
    assert again == []
    assert tally.by_fate[Fate.EXPIRED] == 1


def test_a_stamped_horizon_is_never_moved() -> None:
    rules = MergeRules(drop_superseded=True, coverage_offset=9, stamp_horizon_ms=500, clock_ms=10)
    found, _ = run([[one(value=None, horizon_ms=20)]], rules, 1)
    assert [row["horizon_ms"] for row in found] == [20]


def test_a_passed_horizon_drops_the_tombstone_in_a_tier_too() -> None:
    found, tally = run([[one(value=None, horizon_ms=10)]], MergeRules(clock_ms=10), 1)
    assert found == []
    assert tally.by_fate[Fate.EXPIRED] == 1


def test_an_empty_value_is_no_tombstone() -> None:
    rules = MergeRules(drop_superseded=True, coverage_offset=9, stamp_horizon_ms=10, clock_ms=10)
    assert run([[one(value=b"")]], rules, 1)[0] == [one(value=b"")]


def test_large_values_and_a_key_of_many_blocks() -> None:
    hot = [one(offset=i, value=bytes([i]) * (1 << 20)) for i in range(8)]
    rules = MergeRules(drop_superseded=True)
    assert run([hot[::2], hot[1::2]], rules, 2)[0] == [hot[7]]
    assert run([hot[::2], hot[1::2]], MergeRules(), 2)[0] == hot


def test_superseded_records_need_key_order() -> None:
    with pytest.raises(ValueError, match="key order"):
        list(merge([], MergeRules(order="offset", drop_superseded=True), Tally()))
