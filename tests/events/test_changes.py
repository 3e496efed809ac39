"""What simulated histories rarely hold of the changes of numbered files (docs/rfcs/0015), and which changes no file
has. The rest is added up there, by tests/sim/followed.py."""

import pytest
from msgspec.structs import replace

from lithify.events.changes import changes_of, changes_of_jobs, changes_of_manifest
from lithify.events.types import (
    CheckpointCreated,
    Claimed,
    ConsumerCommitted,
    ConsumerForgotten,
    PartitionCreated,
    ProducerForgotten,
    RetentionAltered,
)
from lithify.manifest.consumers import CommitPosition, ForgetConsumer
from lithify.manifest.edits import Next
from lithify.manifest.floor import SetBounds
from lithify.manifest.model import Checkpoint, Manifest, ProducerEntry, Retention
from lithify.manifest.reading import first_state
from tests.protocol.scene import FIRST, job, segment

AT = {"topic": FIRST.topic, "topic_id": FIRST.topic_id, "partition": FIRST.partition, "manifest": 8, "at_ms": 5}
HEAD = replace(FIRST, id=7, next_offset=9)


def following(head: Manifest, edit: object) -> Manifest:
    verdict = edit.apply(head, 8, 5)  # type: ignore[attr-defined]
    assert isinstance(verdict, Next)
    return replace(verdict.value, id=8, committed_at_ms=5)


def test_a_consumer_that_commits_and_one_that_is_forgotten() -> None:
    committed = following(HEAD, CommitPosition("billing", 3, 0, "i"))
    assert changes_of_manifest(HEAD, committed) == (ConsumerCommitted(name="billing", offset=3, **AT),)
    forgotten = following(replace(committed, id=7), ForgetConsumer("billing"))
    assert changes_of_manifest(replace(committed, id=7), forgotten) == (ConsumerForgotten(name="billing", **AT),)


def test_a_producer_that_is_forgotten() -> None:
    known = replace(HEAD, producers=(ProducerEntry(id="p", epoch=3, touched_at=3),))
    left = replace(HEAD, id=8, committed_at_ms=5)
    assert changes_of_manifest(known, left) == (ProducerForgotten(producer="p", **AT),)


def test_other_bounds() -> None:
    bounds = Retention(ms=1_000)
    altered = following(HEAD, SetBounds(bounds, 2, Retention()))
    assert changes_of_manifest(HEAD, altered) == (RetentionAltered(retention=bounds, config_at=2, **AT),)


def test_what_changes_nothing_has_no_event() -> None:
    assert changes_of_manifest(HEAD, replace(HEAD, id=8, nonce="another")) == ()


def test_an_id_names_the_file_and_the_place_among_its_changes() -> None:
    pins = tuple(Checkpoint(id=name, name=name, manifest=8, created_at_ms=5) for name in "ab")
    changes = changes_of_manifest(HEAD, replace(HEAD, id=8, checkpoints=pins))
    assert [type(change) for change in changes] == [CheckpointCreated, CheckpointCreated]
    assert [change.id for change in changes] == [f"{FIRST.topic_id}/0/manifest/8/{index}" for index in (0, 1)]
    requested = replace(first_state(HEAD), id=1, jobs=(job(plan=None, status="submitted"),))
    assert [change.id for change in changes_of_jobs(None, requested)] == [f"{FIRST.topic_id}/0/compactor/1/0"]


def test_a_file_without_the_one_before_it_has_no_changes_to_tell() -> None:
    """It was collected: a gap is reported, and no creation, no claim."""
    state = replace(first_state(HEAD), epoch=4, owner="o", owner_name="host:1")
    assert [type(each) for each in changes_of_manifest(None, replace(HEAD, id=1))] == [PartitionCreated]
    assert [type(each) for each in changes_of_jobs(None, replace(state, id=1))] == [Claimed]
    for previous, file in (
        (None, replace(HEAD, id=301)),
        (replace(HEAD, id=299), replace(HEAD, id=301)),
        (None, replace(state, id=301)),
        (replace(state, id=299), replace(state, id=301)),
    ):
        with pytest.raises(ValueError, match="cannot be told"):
            changes_of(previous, file)


def test_a_segment_in_another_home_is_the_same_segment() -> None:
    ref = segment("000000000001-0123456789abcdef", base_offset=0)
    before = replace(HEAD, l0=(ref,))
    assert changes_of_manifest(before, replace(before, id=8, l0=(replace(ref, home="cold"),))) == ()
