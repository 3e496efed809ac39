"""R6: a corrupt segment is surfaced and stops the partition's compaction; it is never skipped or truncated."""

from typing import Any

import pytest

from lithify.compactor.attempt import JobWork
from lithify.compactor.coordinator import Coordinator
from lithify.compactor.damage import first_damaged
from lithify.compactor.engine import NextResults, VerifyOutputs, WeighSegment
from lithify.compactor.policy import Wait, decide
from lithify.gc.collect import collect, sweep
from lithify.manifest.catalog import topic_lineage
from lithify.manifest.categories import Category
from lithify.manifest.edits import Already, Next, Refused
from lithify.manifest.floor import RaiseFloor
from lithify.manifest.jobs import JobError
from lithify.manifest.lifetime import Seal
from lithify.manifest.partition import PartitionFiles
from lithify.manifest.quarantine import LiftQuarantine, SetQuarantine
from lithify.manifest.reading import Reading
from lithify.segment.task import TaskFailure
from lithify.store.errors import Corrupt, Fenced, NotFound, Unavailable
from lithify.store.port import Pause, Request
from tests.compactor.simulated_engine import with_engine
from tests.interleave import World
from tests.protocol.scene import (
    CONFIG,
    FIRST,
    GRACE_MS,
    KEYS,
    ROWS,
    Held,
    append,
    append_rows,
    appends,
    at,
    claim,
    compact,
    new_partition,
    segment,
)
from tests.steps import within


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
    assert step.job.error.category in (Category.MISSING, Category.CORRUPT)  # type: ignore[attr-defined]


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
    assert not isinstance(decide(Reading.of(head, None, CONFIG, world.now_ms)), Wait)


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
    assert "quarantined" not in str(decide(Reading.of(head, None, CONFIG, world.now_ms)))


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


def one_bad_reply(error: Exception, *, planning: bool) -> tuple[World, Coordinator]:
    """A partition whose segments are all whole, compacted once while one source is read damaged."""
    world = new_partition()
    world.alone(append_rows(PartitionFiles(KEYS), ROWS))
    me, bad = Coordinator(PartitionFiles(KEYS), "me:1"), [error]
    source = world.alone(PartitionFiles(KEYS).head()).l0[2].id

    async def answer(request: Request[Any]) -> Any:
        if planning and isinstance(request, WeighSegment) and request.segment.id == source and bad:
            raise bad.pop()
        reply = await request
        if not planning and isinstance(request, NextResults) and bad and reply:
            category = Category.MISSING if isinstance(bad.pop(), NotFound) else Category.CORRUPT
            return (TaskFailure(reply[0].range_index, category, f"{error}", source),)
        return reply

    world.alone(with_engine(KEYS, within(me.step(CONFIG), answer), []))
    return world, me


@pytest.mark.parametrize("planning", [True, False])
@pytest.mark.parametrize("kind", [Corrupt, NotFound])
def test_a_reply_damaged_on_its_way_quarantines_nothing(kind: type[Exception], planning: bool) -> None:
    """The object is whole: it is read again before anybody is called, and the work goes on, by the next attempt at the
    latest."""
    world, me = one_bad_reply(kind(KEYS.segment("x")), planning=planning)
    head = world.alone(PartitionFiles(KEYS).head())
    assert head.quarantine is None
    if not planning:
        state = world.alone(PartitionFiles(KEYS).compactor_state())
        assert state is not None
        (failure,) = state.failures
        assert failure.count == 1
        assert failure.error.category == Category.ENGINE
        assert "read again and is whole" in failure.error.reason
        world.now_ms = failure.retry_at_ms
        world.alone(with_engine(KEYS, me.step(CONFIG), []))
    assert world.alone(PartitionFiles(KEYS).head()).runs


def test_only_the_last_of_a_few_looks_condemns() -> None:
    """A look that finds it whole ends the matter; between looks time passes, and each shows life first."""
    ref, lives = segment("s"), []
    for answers in ((), (True,), (True, True), (True, True, True)):

        async def show_life() -> None:
            lives.append(1)

        held, pauses = Held(new_partition(), first_damaged(KEYS, (ref,), show_life)), 0
        for damaged in (*answers, False):
            while isinstance(held.request, Pause):
                pauses += 1
                held.reply(None)
            if held.request is None:
                break
            assert isinstance(held.request, VerifyOutputs)
            assert held.request.whole
            held.reply(frozenset(("s",)) if damaged else frozenset[str]())
        assert held.result == (ref if len(answers) == 3 else None)
        assert pauses == min(len(answers), 2)
    assert len(lives) == 1 + 2 + 3 + 3


def test_a_look_that_is_not_answered_condemns_nothing() -> None:
    held = Held(new_partition(), first_damaged(KEYS, (segment("s"),), _nothing))
    with pytest.raises(Unavailable):
        held.fail(Unavailable("no answer"))


async def _nothing() -> None:
    pass


def test_what_is_missing_since_the_topic_was_deleted_is_no_damage() -> None:
    """A compactor stands still over a job; meanwhile the topic is deleted, and its segments are collected."""
    world, files = new_partition(), PartitionFiles(KEYS)
    world.alone(append_rows(files, ROWS))
    gone = world.alone(files.head()).l0[0].id
    epoch = world.alone(claim(files))
    world.alone(files.manifest.commit(Seal()))
    late = JobWork(PartitionFiles(KEYS), epoch, "me:1", CONFIG, topic_lineage("t"))
    step = world.alone(late.quarantine(None, "a source is missing", gone, JobError("missing", "")))
    assert "deleted" in step.detail
    assert world.alone(files.head()).quarantine is None
