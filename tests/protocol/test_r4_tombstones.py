"""R1 and R4 at the partition: a tombstone is stamped and dropped by offsets, never by the position of a run."""

from lithify.compactor.coordinator import Coordinator
from lithify.compactor.request_edits import Submit
from lithify.manifest.config import parse
from lithify.manifest.keys import SegmentId
from lithify.manifest.partition import PartitionFiles
from lithify.manifest.reading import first_state
from tests.compactor.simulated_engine import Row, read_rows, with_engine
from tests.interleave import World
from tests.protocol.scene import KEYS, append_rows, job, new_partition

RETENTION_MS = 10_000
CONFIG = parse(
    {"cleanup.policy": "compact", "delete.retention.ms": str(RETENTION_MS), "min.cleanable.dirty.ratio": "1"}
)
OLD: list[Row] = [("k", 0, "old", None)]
GONE: list[Row] = [("k", 0, None, None)]
OTHER: list[Row] = [("x", 0, "v", None)]


def request(world: World, files: PartitionFiles, requested: tuple[str, ...]) -> None:
    """Ask for a compaction of these sources (none: of everything), and have it run."""
    head = world.alone(files.head())
    its = job(
        SegmentId.for_job(head.id, f"{head.id:016x}"[::-1]),
        status="submitted",
        origin="manual",
        kind=None,
        plan=None,
        segments=(),
        sources=(),
        requested=requested,
    )
    world.alone(files.compactor.commit(Submit(first_state(head), its)))
    coordinator = Coordinator(PartitionFiles(KEYS), "me:1")
    step = world.alone(with_engine(KEYS, coordinator.step(CONFIG, take_over=True), []))
    assert step.job.status == "completed", step


def stored(world: World, files: PartitionFiles) -> list[Row]:
    head = world.alone(files.head())
    return sorted(row for s in head.segments() for row in world.alone(read_rows(KEYS, s)))


def newest_two(world: World, files: PartitionFiles) -> tuple[str, ...]:
    return tuple(s.id for s in world.alone(files.head()).l0[-2:])


def test_a_tombstone_outlives_a_merge_that_does_not_hold_everything_below_it() -> None:
    """The older value lies in a segment outside the merge, so the merge may stamp no horizon on its tombstone."""
    world, files = new_partition(), PartitionFiles(KEYS)
    world.alone(append_rows(files, [OLD, GONE, OTHER]))
    request(world, files, newest_two(world, files))
    world.now_ms += 2 * RETENTION_MS
    world.alone(append_rows(files, [OTHER]))
    runs = tuple(r.id for r in world.alone(files.head()).runs)
    request(world, files, (*runs, world.alone(files.head()).l0[-1].id))
    rows = stored(world, files)
    assert ("k", 0, "old", None) in rows
    assert ("k", 1, None, None) in rows  # gone, it would bring the old value back
    assert world.alone(files.head()).cleaned_to == 0


def test_a_clean_around_a_segment_stamps_nothing_above_it() -> None:
    """It holds the oldest segment, so it is a clean; the older value lies between its sources."""
    world, files = new_partition(), PartitionFiles(KEYS)
    world.alone(append_rows(files, [OTHER, OLD, GONE]))
    first, _, last = world.alone(files.head()).l0
    request(world, files, (first.id, last.id))
    assert world.alone(files.head()).cleaned_to == 1
    world.now_ms += 2 * RETENTION_MS
    world.alone(append_rows(files, [OTHER]))
    runs = tuple(r.id for r in world.alone(files.head()).runs)
    request(world, files, (*runs, world.alone(files.head()).l0[-1].id))
    assert [row for row in stored(world, files) if row[0] == "k"] == [("k", 1, "old", None), ("k", 2, None, None)]


def test_a_clean_stamps_what_lies_below_its_coverage_offset() -> None:
    world, files = new_partition(), PartitionFiles(KEYS)
    world.alone(append_rows(files, [OLD, GONE, OTHER]))
    request(world, files, ())
    rows = stored(world, files)
    horizon = next(h for key, _, _, h in rows if key == "k")
    assert horizon is not None
    assert [row[:3] for row in rows] == [("k", 1, None), ("x", 2, "v")]
    assert world.alone(files.head()).cleaned_to == 3


def test_a_stamped_tombstone_goes_in_any_job_once_its_horizon_has_passed() -> None:
    world, files = new_partition(), PartitionFiles(KEYS)
    world.alone(append_rows(files, [OLD, GONE, OTHER]))
    request(world, files, ())
    request(world, files, ())
    assert any(key == "k" for key, *_ in stored(world, files))
    world.now_ms += 2 * RETENTION_MS
    request(world, files, ())
    assert [row[:3] for row in stored(world, files)] == [("x", 2, "v")]


def test_the_highest_offset_wins_whatever_run_holds_it() -> None:
    """A run of newer offsets is merged first; then the older ones. The newer value stays."""
    world, files = new_partition(), PartitionFiles(KEYS)
    world.alone(append_rows(files, [OLD, OTHER, [("k", 0, "new", None)]]))
    request(world, files, newest_two(world, files))
    request(world, files, ())
    assert [row[:3] for row in stored(world, files)] == [("k", 2, "new"), ("x", 1, "v")]


def test_offsets_and_gaps_never_change() -> None:
    world, files = new_partition(), PartitionFiles(KEYS)
    world.alone(append_rows(files, [OLD, OLD, OTHER, OLD]))
    request(world, files, ())
    assert [row[1] for row in stored(world, files)] == [3, 2]
    head = world.alone(files.head())
    assert head.next_offset == 4
    world.alone(append_rows(files, [OTHER]))
    assert world.alone(files.head()).l0[0].base_offset == 4


def test_a_clean_that_drops_everything_leaves_an_empty_partition_and_its_offsets() -> None:
    world, files = new_partition(), PartitionFiles(KEYS)
    world.alone(append_rows(files, [OLD, GONE]))
    request(world, files, ())
    world.now_ms += 2 * RETENTION_MS
    request(world, files, ())
    head = world.alone(files.head())
    assert (head.runs, head.l0, head.next_offset, head.cleaned_to) == ((), (), 2, 2)
