"""Point reads find what a scan of everything would, and damage never makes them find anything else."""

from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from lithify.manifest.model import SegmentRef
from lithify.segment import parts as parts_module
from lithify.segment.points import Points
from lithify.store.cache import Cache
from lithify.store.errors import Corrupt, NotFound
from lithify.store.memory import MemoryStore
from lithify.store.metered import Metered
from tests.segment.points import KEYS, Rows, manifest, newest, points, stored

SHARED = b"p" * 32
USUAL = [
    b"",
    b"\0",
    b"a",
    b"a\0",
    b"b",
    SHARED[:31],
    SHARED,
    SHARED + b"\0",
    SHARED + b"x",
    SHARED + b"y",
    b"\xff" * 40,
]
HEADERS: list[Any] = [None, [], [{"key": "h", "value": b"1"}], [{"key": "h", "value": None}, {"key": "", "value": b""}]]
ROW = st.fixed_dictionaries(
    {
        "key": st.one_of(st.none(), st.sampled_from(USUAL), st.binary(max_size=2)),
        "value": st.one_of(st.none(), st.binary(max_size=5)),
        "headers": st.sampled_from(HEADERS),
    }
)


def answers(found: Points, keys: Any, floor: int) -> dict[bytes, Any]:
    return {
        key: (row.value, row.offset, row.headers)
        for key, row in found.latest(keys, floor).items()
        if row.timestamp_ms == 7 * row.offset and row.key == key
    }


@settings(deadline=None)
@given(
    segments=st.lists(st.lists(ROW, min_size=1, max_size=30), min_size=1, max_size=4),
    order=st.sampled_from(["key", "offset"]),
    page=st.integers(1, 5),
    group=st.integers(1, 20),
    floor=st.integers(0, 40),
    cache_bytes=st.sampled_from([0, 20_000, 1 << 24]),
)
def test_they_find_the_latest_record_of_each_key(
    segments: list[list[Any]], order: Any, page: int, group: int, floor: int, cache_bytes: int
) -> None:
    store, refs, everything = MemoryStore(), list[SegmentRef](), list[dict[str, Any]]()
    for number, rows in enumerate(segments):
        placed = [{**row, "offset": len(everything) + at} for at, row in enumerate(rows)]
        base = len(everything) if number else None
        refs.append(stored(store, f"1-{number}", placed, order=order, base=base, group=group, page=page))
        everything += placed
    found = points(store, manifest(refs[1:], refs[:1]), Cache(cache_bytes))
    wanted = sorted({*USUAL, *(row["key"] for row in everything if row["key"] is not None)})
    for _ in range(2):  # cold, and from the cache
        assert answers(found, wanted, floor) == newest(everything, floor)
        for key in wanted[:3]:
            assert answers(found, [key], floor).get(key) == newest(everything, floor).get(key)


def numbered(first: int, count: int, step: int = 1, offset: int = 0) -> Rows:
    return [
        {"key": b"%06d" % (first + step * at), "value": b"%d" % at, "offset": offset + at, "headers": None}
        for at in range(count)
    ]


def test_a_run_of_many_segments_is_searched_not_asked_one_by_one() -> None:
    store = Metered(MemoryStore())
    run = [stored(store, f"1-{at}", numbered(100 * at, 50, offset=50 * at), group=50, page=4) for at in range(20)]
    found = points(store, manifest([], run))
    before = store.requests().reads
    assert answers(found, [b"000735"], 0) == {b"000735": (b"35", 385, None)}
    assert store.requests().reads - before == 1  # a small segment comes whole
    assert answers(found, [b"000760", b"9", b""], 0) == {}
    assert store.requests().reads - before == 1


def test_a_cold_look_reads_three_times_and_a_warm_one_only_rows() -> None:
    store = Metered(MemoryStore())
    ref = stored(store, "1-a", numbered(0, 60_000), group=30_000, page=1_000)
    assert ref.bytes > parts_module.TAIL_BYTES
    found = points(store, manifest([], [ref]))
    assert answers(found, [b"031234"], 0) == {b"031234": (b"31234", 31234, None)}
    cold = store.requests()
    assert answers(found, [b"031999"], 0).keys() == {b"031999"}  # the same rows
    assert store.requests().reads == cold.reads
    assert answers(found, [b"031234x"], 0) == {}  # the filter knows
    assert store.requests().reads == cold.reads
    assert answers(found, [b"052000"], 0).keys() == {b"052000"}
    warm = store.requests() - cold
    assert warm.bytes_read < ref.bytes // 4
    assert warm.reads <= 3


def test_a_row_group_of_which_much_is_wanted_is_read_whole() -> None:
    store = Metered(MemoryStore())
    ref = stored(store, "1-a", numbered(0, 60_000), group=30_000, page=1_000)
    found = points(store, manifest([], [ref]))
    wanted = [b"%06d" % at for at in range(0, 60_000, 500)]
    assert answers(found, wanted, 0).keys() == set(wanted)
    assert store.requests().reads <= 6


def test_keys_too_long_for_statistics_are_found() -> None:
    store = MemoryStore()
    long = [b"k" * (1 << 20) + bytes([at]) for at in range(3)]
    rows = [{"key": key, "value": b"v", "offset": at, "headers": None} for at, key in enumerate([*long, b"l", b"m"])]
    ref = stored(store, "1-a", rows, group=4, page=1)
    found = points(store, manifest([ref]))
    assert answers(found, [*long, b"l", b"m", b"k" * (1 << 20)], 0) == newest(rows)


def test_a_newer_record_wins_whichever_segment_holds_it() -> None:
    """SUBTLE in points.py: a run may have a record that is newer than one in an L0 segment."""
    store = MemoryStore()
    row = {"key": b"k", "headers": None}
    run = stored(
        store, "1-r", [{**row, "value": b"run", "offset": 5}, {**row, "value": b"x", "offset": 9, "key": b"z"}]
    )
    low = stored(
        store, "1-l", [{**row, "value": b"l0", "offset": 3}, {**row, "value": None, "offset": 20, "key": b"y"}]
    )
    found = points(store, manifest([low], [run]))
    assert answers(found, [b"k"], 0) == {b"k": (b"run", 5, None)}
    assert answers(found, [b"k"], 6) == {}
    assert answers(found, [b"y"], 0) == {b"y": (None, 20, None)}


def test_a_missing_object_is_named() -> None:
    store = MemoryStore()
    ref = stored(store, "1-a", numbered(0, 3))
    store.delete([KEYS.segment(ref.id)])
    with pytest.raises(NotFound) as caught:
        points(store, manifest([ref])).latest([b"000001"], 0)
    assert caught.value.segment == ref.id


def test_memory_is_bounded_by_waves(monkeypatch: pytest.MonkeyPatch) -> None:
    """With next to nothing fetched at once and nothing cached, everything is found all the same."""
    monkeypatch.setattr(parts_module, "WAVE_BYTES", 1)
    store = MemoryStore()
    refs = [stored(store, f"1-{at}", numbered(at, 300, 5, 300 * at), group=100, page=10) for at in range(5)]
    found = points(store, manifest(refs), Cache(0))
    wanted = [b"%06d" % at for at in range(0, 1500, 7)]
    assert answers(found, wanted, 0).keys() == set(wanted)


class Waves(MemoryStore):
    """Counts what is fetched together."""

    def __init__(self) -> None:
        super().__init__()
        self.sizes: list[int] = []

    def side_by_side(self, calls: Any) -> Any:
        self.sizes.append(len(calls))
        return super().side_by_side(calls)


def test_what_is_small_only_in_the_store_is_fetched_little_by_little(monkeypatch: pytest.MonkeyPatch) -> None:
    """SUBTLE in parts.py: each of these is 3 KB there, and 300 KB in memory."""
    monkeypatch.setattr(parts_module, "WAVE_RAW_BYTES", 1_000_000)
    store = Waves()
    alike = [{"key": b"%d" % at, "value": b"x" * 3_000, "offset": at, "headers": None} for at in range(100)]
    moved = [[{**row, "offset": 100 * at + row["offset"]} for row in alike] for at in range(10)]
    refs = [stored(store, f"1-{at}", rows, group=100, page=100) for at, rows in enumerate(moved)]
    assert max(ref.bytes for ref in refs) < 4_000
    assert answers(points(store, manifest(refs)), [b"5", b"50x"], 0).keys() == {b"5"}
    assert max(store.sizes) == 3


DAMAGED: list[Any] = [
    {"key": b"%04d" % (at // 2), "value": None if at % 7 == 0 else b"v%d" % at, "offset": at, "headers": headers}
    for at in range(60)
    for headers in [HEADERS[2] if at % 3 else None]
]


@pytest.mark.slow
@pytest.mark.parametrize("several", [False, True], ids=["one header", "several headers"])
@pytest.mark.parametrize("step", [11, pytest.param(2, marks=pytest.mark.slow)])
def test_every_changed_byte_is_noticed_or_changes_nothing(
    step: int, several: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(parts_module, "TAIL_BYTES", 8)  # so that each part is fetched by itself
    rows = [{**row, "headers": HEADERS[3]} if several and row["offset"] % 5 == 0 else row for row in DAMAGED]
    origin = MemoryStore()
    ref = stored(origin, "1-a", rows, group=24, page=8)
    body, expected = origin.read(KEYS.segment(ref.id), 0, ref.bytes), newest(rows)
    wanted, noticed = [*expected, b"0005x", b"9"], 0
    for at in range(0, len(body), step):
        damaged = bytearray(body)
        damaged[at] ^= 1 << at % 8
        store = MemoryStore()
        store.put(KEYS.segment(ref.id), bytes(damaged))
        found = points(store, manifest([], [ref]))
        for key in wanted[:: 1 if step > 2 else 5]:
            try:
                assert answers(found, [key], 0).get(key) == expected.get(key), at
            except Corrupt:
                noticed += 1
    assert noticed * step > 1_000
