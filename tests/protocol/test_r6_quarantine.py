"""R6: a corrupt segment is surfaced and stops the partition's compaction; it is never skipped or truncated."""

import pytest

from lithify.compactor.attempt import JobWork
from lithify.compactor.coordinator import Coordinator
from lithify.compactor.policy import Wait, decide
from lithify.gc.collect import collect, sweep
from lithify.manifest.commit import Already, Next, Refused
from lithify.manifest.edits import LiftQuarantine, Seal, SetQuarantine
from lithify.manifest.floor import RaiseFloor
from lithify.manifest.jobs import JobError
from lithify.manifest.partition import PartitionFiles
from lithify.store.errors import Fenced, Unavailable
from tests.compactor.simulated_engine import with_engine
from tests.interleave import World
from tests.protocol.scene import (
    CONFIG,
    FIRST,
    GRACE_MS,
    KEYS,
    ROWS,
    append,
    append_rows,
    appends,
    at,
    claim,
    compact,
    new_partition,
)


def damaged() -> tuple[World, PartitionFiles, object]:
    """A partition of which one source is missing, compacted once."""
    world, files = new_partition(), PartitionFiles(KEYS)
    world.alone(append_rows(files, ROWS))
    del world.objects[KEYS.segment(world.alone(files.head()).l0[2].id)]
    step = world.alone(with_engine(KEYS, Coordinator(PartitionFiles(KEYS), "me:1").step(CONFIG), []))
    return world, files, step


def test_a_missing_source_quarantines_the_partition_and_nothing_is_skipped() -> None:
    world, files, step = damaged()
    head = world.alone(files.head())
    assert head.quarantine is not None
    lost = KEYS.segment(head.quarantine.segment)
    assert head.quarantine.reason.startswith(f"segment {lost} ")
    assert head.quarantine.reason.endswith(" is missing: restore the object from a copy")
    assert len(head.l0) == 6
    assert head.runs == ()
    assert step.outcome == "failed"  # type: ignore[attr-defined]
    assert step.job.error.category in ("missing", "corrupt")  # type: ignore[attr-defined]


def test_a_quarantined_partition_is_not_compacted_and_says_why() -> None:
    world, files, _ = damaged()
    step = world.alone(with_engine(KEYS, Coordinator(PartitionFiles(KEYS), "other:1").step(CONFIG, True), []))
    assert step.outcome == "idle"
    assert "quarantined" in step.detail
    with pytest.raises(Unavailable, match="quarantined"):
        world.alone(compact(files, world.alone(claim(files))))


def test_it_takes_appends_and_a_person_lifts_it() -> None:
    world, files, _ = damaged()
    _, offsets = world.alone(append(files))
    assert offsets == range(6, 7)
    world.alone(files.manifest.commit(LiftQuarantine()))
    head = world.alone(files.head())
    assert head.quarantine is None
    assert not isinstance(decide(head, None, CONFIG, world.now_ms), Wait)


def test_the_drop_that_retires_the_damaged_segment_ends_the_quarantine() -> None:
    """Nothing is damaged any more; one that takes other segments ends nothing."""
    world, files, _ = damaged()
    lost = world.alone(files.head()).l0[2]
    assert world.alone(files.head()).quarantine.segment == lost.id
    for before, ended in ((lost.min_offset, False), (lost.max_offset + 1, True)):
        world.alone(files.manifest.commit(RaiseFloor(before)))
        step = world.alone(with_engine(KEYS, Coordinator(PartitionFiles(KEYS), "me:1").step(CONFIG, True), []))
        assert step.dropped
        head = world.alone(files.head())
        assert (head.quarantine is None) == ended
    assert lost.id not in {s.id for s in head.segments()}
    assert "quarantined" not in str(decide(head, None, CONFIG, world.now_ms))


def test_the_edit_checks_the_epoch() -> None:
    """A compactor that lost the partition meets missing sources: it is fenced, and quarantines nothing."""
    head = at(FIRST, 1)
    verdict = SetQuarantine(0, "reason", "s").apply(head, 2, 5)
    assert isinstance(verdict, Next)
    assert verdict.value.quarantine is not None
    assert isinstance(SetQuarantine(0, "other", "s").apply(verdict.value, 3, 9), Already)
    world, files = new_partition(), PartitionFiles(KEYS)
    world.alone(claim(files))
    late = SetQuarantine(0, "reason", "s").apply(world.alone(files.head()), 9, 9)
    assert isinstance(late, Refused)
    assert isinstance(late.error, Fenced)


def test_collection_leaves_what_a_person_must_look_at() -> None:
    world, files, _ = damaged()
    live = {KEYS.segment(s.id) for s in world.alone(files.head()).segments()} & world.objects.keys()
    for _ in range(4):
        world.alone(appends(files, 1))
        world.alone(collect(files, GRACE_MS))
        world.alone(sweep(files, GRACE_MS))
        world.now_ms += GRACE_MS
    assert len(live) == 5
    assert live <= world.objects.keys()


def test_what_is_missing_since_the_topic_was_deleted_is_no_damage() -> None:
    """A compactor stands still over a job; meanwhile the topic is deleted, and its segments are collected."""
    world, files = new_partition(), PartitionFiles(KEYS)
    world.alone(append_rows(files, ROWS))
    gone = world.alone(files.head()).l0[0].id
    epoch = world.alone(claim(files))
    world.alone(files.manifest.commit(Seal()))
    late = JobWork(PartitionFiles(KEYS), epoch, "me:1", CONFIG)
    step = world.alone(late.quarantine(None, "a source is missing", gone, JobError("missing", "")))
    assert "deleted" in step.detail
    assert world.alone(files.head()).quarantine is None
