"""A request that names its sources is done, however many merges that takes (P15)."""

import pytest
from msgspec.structs import replace

from lithify.compactor import plan
from lithify.compactor.coordinator import Coordinator
from lithify.compactor.policy import LEASE_MS
from lithify.compactor.request_edits import Submit
from lithify.compactor.requested import after_merge
from lithify.manifest.config import TopicConfig, parse
from lithify.manifest.jobs import Job, MergeCounts, RangeDone
from lithify.manifest.keys import SegmentId
from lithify.manifest.model import SegmentRef, SortedRun
from lithify.manifest.partition import PartitionFiles
from lithify.manifest.reading import first_state
from lithify.store.port import Create, Put
from tests.compactor.simulated_engine import Row, encode, reference, with_engine
from tests.interleave import World
from tests.protocol.scene import KEYS, ROWS, Held, append_rows, claim, job, new_partition, replacing, segment

ASKED = "000000000001-0000beef"
CONFIG = parse({"cleanup.policy": "compact", "min.cleanable.dirty.ratio": "1", "l0.segments.tier": "100"})


def asked(files: PartitionFiles, world: World, *names: str) -> None:
    plain = {"status": "submitted", "origin": "manual", "kind": None, "plan": None, "segments": (), "sources": ()}
    request: Job = job(ASKED, requested=names, **plain)
    world.alone(files.compactor.commit(Submit(first_state(world.alone(files.head())), request)))


def played(world: World, files: PartitionFiles, config: TopicConfig = CONFIG) -> Job:
    """What became of the request."""
    coordinator = Coordinator(PartitionFiles(KEYS), "me:1")
    for _ in range(20):
        if world.alone(with_engine(KEYS, coordinator.step(config), [])).outcome == "idle":
            break
    ended: Job | None = world.alone(files.compactor_state()).job(ASKED)
    assert ended is not None
    return ended


@pytest.mark.parametrize("left_out", [0, 1, 3, 5])
def test_sources_that_one_merge_cannot_hold_are_tiered_first(monkeypatch: pytest.MonkeyPatch, left_out: int) -> None:
    """Of six L0 segments five are named, and a merge holds two: the runs of the tiers take their sources' places."""
    monkeypatch.setattr(plan, "FAN_IN_MAX", 2)
    world, files = new_partition(), PartitionFiles(KEYS)
    world.alone(append_rows(files, ROWS))
    before = world.alone(files.head()).l0
    names = [segment.id for segment in before if segment is not before[left_out]]
    asked(files, world, *names)
    ended = played(world, files)
    assert (ended.status, ended.reason) == ("completed", "requested: by sources")
    head = world.alone(files.head())
    assert [segment.id for segment in head.l0] == [before[left_out].id], "nothing else was merged"
    assert [run.id for run in head.runs] == [ASKED]
    assert sum(segment.rows for segment in head.segments()) == len(ROWS)


def test_a_crash_after_the_tiers_commit_changes_nothing_of_it(monkeypatch: pytest.MonkeyPatch) -> None:
    """The run is in the manifest, and `.compactor` shows the tier as under way: whoever ends it renames the sources."""
    monkeypatch.setattr(plan, "FAN_IN_MAX", 2)
    world, files = new_partition(), PartitionFiles(KEYS)
    world.alone(append_rows(files, ROWS))
    names = [segment.id for segment in world.alone(files.head()).l0[1:]]
    asked(files, world, *names)
    held = Held(world, with_engine(KEYS, Coordinator(PartitionFiles(KEYS), "me:1").step(CONFIG), []))
    held.until(lambda request: isinstance(request, Create) and bool(world.alone(files.head()).runs))
    world.now_ms += LEASE_MS
    assert played(world, files).status == "completed"
    assert [run.id for run in world.alone(files.head()).runs] == [ASKED]


RUN = "000000000007-0000feed"
IN_PARTS = parse({"cleanup.policy": "compact", "min.cleanable.dirty.ratio": "1", "compaction.output.bytes": "2048"})


async def with_a_run_in_offset_order(files: PartitionFiles) -> None:
    """Five L0 segments of one key are a run now, from before cleanup.policy became compact; a sixth follows it."""
    batches: list[list[Row]] = [[("k", 0, f"v{n}", None)] for n in range(6)]
    await append_rows(files, batches)
    epoch, head = await claim(files), await files.head()
    refs: list[SegmentRef] = []
    for ref in head.l0[:5]:
        rows: list[Row] = [("k", ref.min_offset, f"v{ref.min_offset}", None)]
        made = reference(SegmentId.for_output(RUN, 1, ref.min_offset, "0" * 16), rows)
        await Put(KEYS.segment(made.id), encode(rows))
        refs.append(replace(made, order="offset"))
    run = SortedRun(id=RUN, segments=tuple(refs))
    await files.manifest.commit(replacing(await files.head(), head.l0[:5], epoch, run=run, job=RUN))


@pytest.mark.parametrize("more", [0, 1])
@pytest.mark.parametrize("crashes_in", [None, 0, 1, 2, 3])
def test_a_run_that_is_sorted_part_by_part_is_asked_for_to_its_end(more: int, crashes_in: int | None) -> None:
    """It is the oldest, so at last all of it is cleaned: also where the compactor dies after the commit of a part."""
    world, files = new_partition(), PartitionFiles(KEYS)
    world.alone(with_a_run_in_offset_order(files))
    world.now_ms += LEASE_MS
    names = [RUN, *(segment.id for segment in world.alone(files.head()).l0[:more])]
    asked(files, world, *names)
    for _ in range(-1 if crashes_in is None else crashes_in):
        world.alone(with_engine(KEYS, Coordinator(PartitionFiles(KEYS), "me:1").step(IN_PARTS, take_over=True), []))
    if crashes_in is not None:
        dies_after_its_commit(world, files)
    ended = played(world, files, IN_PARTS)
    assert (ended.status, ended.kind) == ("completed", "clean")
    head = world.alone(files.head())
    assert [run.id for run in head.runs] == [ASKED]
    assert [segment.rows for segment in head.runs[0].segments] == [1], "the latest of them"
    assert head.cleaned_to == head.runs[0].segments[0].max_offset + 1 == 5 + more


def dies_after_its_commit(world: World, files: PartitionFiles) -> None:
    before = world.alone(files.head()).completed_jobs
    step = Coordinator(PartitionFiles(KEYS), "me:1").step(IN_PARTS, take_over=True)
    held = Held(world, with_engine(KEYS, step, []))
    held.until(lambda request: isinstance(request, Create) and world.alone(files.head()).completed_jobs != before)
    world.now_ms += LEASE_MS


OUTPUT = RangeDone(index=0, attempt=1, outputs=(segment("out"),), counts=MergeCounts())


@pytest.mark.parametrize(
    ("names", "merged", "divided", "outputs", "left"),
    [
        ("abcde", "bc", "", True, ["a", "run", "d", "e"]),
        ("abcde", "db", "", True, ["a", "run", "c", "e"]),
        ("abcde", "bc", "", False, ["a", "d", "e"]),  # nothing of them survived
        ("abc", "abc", "", True, ["run"]),
        ("abc", "abc", "", False, ["a", "b", "c"]),  # nothing is left to ask for: an empty list would mean everything
        ("abc", "bx", "", True, ["a", "b", "c"]),  # more was merged than was asked for
        ("", "bc", "", True, []),  # everything
        ("abcd", "bc", "c", True, ["a", "run", "c", "d"]),  # of c a part was merged
        ("a", "a", "a", True, ["run", "a"]),
        ("a", "a", "a", False, ["a"]),
        ("b", "ab", "b", True, ["b"]),
    ],
)
def test_a_run_takes_the_place_of_its_sources(
    names: str, merged: str, divided: str, outputs: bool, left: list[str]
) -> None:
    request = job(ASKED, status="submitted", origin="manual", requested=tuple(names), sources=(), segments=())
    done = job("run", sources=tuple(merged), done=(OUTPUT,) if outputs else ())
    assert list(after_merge(request, done, frozenset(divided)).requested) == left
    assert after_merge(replace(request, status="in_progress"), done, frozenset()).requested == request.requested


def test_what_is_moved_is_still_asked_for() -> None:
    request = job(ASKED, status="submitted", origin="manual", requested=("a", "b"), sources=(), segments=())
    done = job("move", kind="relocate", home="memory://cold", sources=("a",), done=(OUTPUT,))
    assert after_merge(request, done, frozenset()) == request
