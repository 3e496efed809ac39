"""P7: a segment id begins with the manifest number its producer last read; below the orphan floor it is refused."""

import pytest
from msgspec.structs import replace

from lithify.gc.reachable import orphan
from lithify.manifest.appends import Append, BelowOrphanFloor
from lithify.manifest.codec import encode
from lithify.manifest.edits import Next, Refused
from lithify.manifest.homes import ONLY_HERE
from lithify.manifest.keys import SegmentId
from lithify.manifest.model import FORMAT, Boundary
from lithify.manifest.partition import PartitionFiles
from lithify.manifest.pins import Collect
from lithify.store.errors import CommitUnknown
from lithify.store.port import Create, Outcome
from tests.protocol.scene import (
    FIRST,
    KEYS,
    L0_MAX,
    TOPIC_ID,
    Held,
    append,
    appends,
    at,
    new_partition,
    segment,
    upload,
)

FLOOR = 7


@pytest.mark.parametrize("began_at", [FLOOR - 1, FLOOR])
def test_append_and_sweep_agree_on_the_floor(began_at: int) -> None:
    """What the sweep may delete is refused, and what is not refused is not deleted."""
    segment_id = SegmentId.for_append(began_at, "n")
    head = replace(at(FIRST, 9), orphan_floor=FLOOR)
    verdict = Append(segment(segment_id), L0_MAX).apply(head, 10, 0)
    goes, _ = orphan(segment_id, FLOOR, None)
    assert goes == isinstance(verdict, Refused) == (began_at < FLOOR)
    assert isinstance(verdict, Next) or isinstance(verdict.error, BelowOrphanFloor)


def test_an_append_below_the_floor_is_uploaded_again_under_a_new_id() -> None:
    world, files = new_partition(), PartitionFiles(KEYS)
    old = world.alone(upload(files))
    world.alone(appends(PartitionFiles(KEYS), 5))
    world.alone(PartitionFiles(KEYS).manifest.commit(Collect(4, frozenset(), always=True, homes=ONLY_HERE)))
    with pytest.raises(BelowOrphanFloor):
        world.alone(files.manifest.commit(Append(old, L0_MAX)))
    world.alone(files.head())
    new, offsets = world.alone(append(files))
    assert new.id != old.id
    assert offsets == range(5, 6)


def test_below_the_floor_an_unknown_outcome_stays_unknown() -> None:
    """The append happened and its reply was lost; its segment was compacted and collected since. "Refused" would make
    the producer append the records a second time."""
    world, files = new_partition(), PartitionFiles(KEYS)
    ref = world.alone(upload(files))
    held = Held(world, files.manifest.commit(Append(ref, L0_MAX)))
    held.until(lambda request: isinstance(request, Create))
    held.reply(Outcome.UNKNOWN)
    rival = PartitionFiles(KEYS)
    world.alone(appends(rival, 5))
    world.alone(rival.manifest.commit(Collect(4, frozenset(), always=True, homes=ONLY_HERE)))
    boundary = Boundary(format=FORMAT, topic="t", topic_id=TOPIC_ID, partition=0, id=1, nonce="b", manifest=4)
    world.objects[KEYS.boundary.key(1)] = (encode(boundary), world.now_ms)
    with pytest.raises(CommitUnknown):
        held.end()


def test_ids_of_jobs_and_appends_begin_with_their_number() -> None:
    assert SegmentId.manifest_id(SegmentId.for_append(41, "ab")) == 41
    job = SegmentId.for_job(42, "0123456789abcdef")
    assert SegmentId.manifest_id(SegmentId.for_output(job, 3, 2, "0123456789abcdef")) == 42
    assert SegmentId.manifest_id("photo") == -1
