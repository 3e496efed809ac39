"""After a change of cleanup.policy to compact: what lies in offset order is sorted by key, output by output, and each
is committed, before a clean merges them over key ranges.

Tried, and caught here: a run sorted whole (plan.py), from its middle or beyond what one output holds (plan.py), and a
commit that takes a part from elsewhere in a run, or any part of one in key order (manifest/compactions.py).
"""

from collections.abc import Sequence

import pytest
from msgspec.structs import replace

import lithify
from lithify import Record
from lithify.compactor.plan import FAN_IN_MAX, to_sort
from lithify.manifest.edits import Next, Refused
from lithify.manifest.model import SegmentRef, SortedRun
from lithify.manifest.units import Unit, units
from lithify.store.driver import new_id
from lithify.store.errors import InvalidRequest
from tests.compactor.test_tiers import partition
from tests.protocol.scene import FIRST, replacing, segment

KEYS, ROUNDS = 400, 12


def run(name: str, *segments: SegmentRef, order: str = "offset") -> SortedRun:
    return SortedRun(id=name, segments=tuple(replace(ref, order=order, base_offset=None) for ref in segments))


def named(chosen: Sequence[Unit]) -> list[tuple[str, int]]:
    return [(unit.id, len(unit.segments)) for unit in chosen]


def test_as_much_as_one_output_holds_is_sorted_at_a_time() -> None:
    made = partition([100] * 8, [60] * 4)
    refs = [run.segments[0] for run in made.runs]
    sorted_one, first, second = run("s", refs[0], order="key"), run("a", *refs[1:5]), run("b", *refs[5:8])
    some = units(replace(made, runs=(sorted_one, first, second), l0=()))
    assert named(to_sort(some, 250)) == [("a", 2)]
    assert named(to_sort(some, 99)) == [("a", 1)], "one segment at least"
    assert named(to_sort(some, 500)) == [("a", 4), ("b", 1)]
    assert named(to_sort(some, 10_000)) == [], "one range takes all"
    assert named(to_sort(units(replace(made, runs=(sorted_one,))), 250)) == []
    loose = tuple(replace(ref, order="offset") for ref in made.l0)
    assert [unit.bytes for unit in to_sort(units(replace(made, runs=(sorted_one,), l0=loose)), 150)] == [60, 60]
    large = tuple(replace(ref, max_row_bytes=20 << 20, raw_bytes=100 << 20) for ref in loose)
    assert len(to_sort(units(replace(made, runs=(), l0=large * 5)), 1_000)) == 7, "no more than one merge can hold"
    many = tuple(replace(ref, order="offset") for ref in partition([], [1] * 600).l0)
    assert len(to_sort(units(replace(made, runs=(), l0=many)), 599)) == FAN_IN_MAX


def test_a_clean_of_what_was_offset_ordered_goes_on_from_what_is_sorted() -> None:
    """Before, it was one range over everything: interrupted, it began again from nothing."""
    with lithify.open(f"memory://{new_id()}") as warehouse:
        config = {"cleanup.policy": "delete", "compaction.output.bytes": "8192", "l0.segments.tier": "2"}
        topic = warehouse.create_topic("t", 1, config)
        part = topic.partition(0)
        for turn in range(ROUNDS):
            part.append([Record(b"%06d" % (n * 7919 % KEYS), b"%d" % turn + b"x" * 60) for n in range(KEYS)])
        lithify.Compactor(warehouse, engine="local").run_once()
        assert max(len(run.segments) for run in part.describe().runs) > 3
        topic.alter({"cleanup.policy": "compact", "min.cleanable.dirty.ratio": "0.01"})
        jobs = lithify.Compactor(warehouse, engine="local").run_once().jobs
        sorts = [job for job in jobs if "sorted by key first" in job.reason]
        assert len(sorts) > 4, "each is committed by itself"
        assert {segment.order for run in part.describe().runs for segment in run.segments} == {"key"}
        last = jobs[-1]
        assert last.kind == "clean"
        assert len(part.describe().runs[0].segments) > 1, "and it had several ranges"
        found = {row["key"]: row["value"] for batch in topic.scan() for row in batch.to_pylist()}
        assert found == {b"%06d" % key: b"%d" % (ROUNDS - 1) + b"x" * 60 for key in range(KEYS)}


@pytest.mark.parametrize(
    ("order", "taken", "refused"),
    [
        ("offset", [0], False),
        ("offset", [0, 1], False),
        ("offset", [1], True),
        ("offset", [0, 2], True),
        ("key", [0], True),
    ],
)
def test_only_the_first_segments_of_a_run_in_offset_order_are_replaced_alone(
    order: str, taken: list[int], refused: bool
) -> None:
    refs = [
        replace(segment(f"{n:012d}-x"), min_offset=10 * n, max_offset=10 * n + 9, min_key=b"%d" % n, max_key=b"%dz" % n)
        for n in range(3)
    ]
    head = replace(FIRST, id=9, next_offset=30, compactor_epoch=1, runs=(run("r", *refs, order=order),))
    verdict = replacing(head, tuple(head.runs[0].segments[n] for n in taken), 1).apply(head, 10, 0)
    if refused:
        assert isinstance(verdict, Refused)
        assert isinstance(verdict.error, InvalidRequest)
    else:
        assert isinstance(verdict, Next)
        left = next(each for each in verdict.value.runs if each.id == "r")
        assert [ref.id for ref in left.segments] == [refs[n].id for n in range(3) if n not in taken]
