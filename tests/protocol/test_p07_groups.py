"""P7 for members of a group (docs/rfcs/0024): a refusal is believed if no earlier attempt of the commit is open."""

from typing import Any

from lithify.log.append import commit_many, outcome
from lithify.manifest.appends import Append, BelowOrphanFloor
from lithify.manifest.codec import encode
from lithify.manifest.homes import ONLY_HERE
from lithify.manifest.keys import SegmentId
from lithify.manifest.model import FORMAT, Boundary
from lithify.manifest.partition import PartitionFiles
from lithify.manifest.pins import Collect
from lithify.store.errors import CommitUnknown
from lithify.store.port import Create, Outcome, Request
from tests.protocol.scene import KEYS, L0_MAX, TOPIC_ID, Held, appends, claim, compact, new_partition, segment, upload


async def asks(request: Request[Any]) -> Any:
    return await request


def test_a_member_below_the_floor_is_refused_beside_one_that_is_appended() -> None:
    world, files = new_partition(), PartitionFiles(KEYS)
    old = world.alone(upload(files))
    world.alone(appends(files, 5))
    world.alone(files.manifest.commit(Collect(4, frozenset(), always=True, homes=ONLY_HERE)))
    fresh = world.alone(upload(files))
    refused, offsets = world.alone(commit_many(files, [Append(old, L0_MAX), Append(fresh, L0_MAX)]))
    assert isinstance(refused, BelowOrphanFloor)
    assert offsets == range(5, 6)


def test_if_an_earlier_attempt_is_open_who_is_refused_is_told_that_it_is_unknown() -> None:
    """1. A group is created, and the reply lost. 2. Its number dies, and the floor passes one member's id. 3. The other
    member is appended, or recognised. The first may have been appended, compacted and collected."""
    world, files = new_partition(), PartitionFiles(KEYS)
    old = world.alone(upload(files))
    young = segment(SegmentId.for_append(5, "f" * 16))
    held = Held(world, commit_many(files, [Append(old, L0_MAX), Append(young, L0_MAX)]))
    create = held.until(lambda request: isinstance(request, Create))
    held.reply(Outcome.UNKNOWN)
    rival = PartitionFiles(KEYS)
    world.alone(appends(rival, 5))
    world.alone(rival.manifest.commit(Collect(4, frozenset(), always=True, homes=ONLY_HERE)))
    boundary = Boundary(format=FORMAT, topic="t", topic_id=TOPIC_ID, partition=0, id=1, nonce="b", manifest=4)
    world.objects[KEYS.boundary.key(1)] = (encode(boundary), world.now_ms)
    unknown, offsets = held.end()
    assert offsets == range(5, 6)
    assert isinstance(unknown, CommitUnknown)
    number = int(create.key.rpartition("/")[2].partition(".")[0])  # type: ignore[attr-defined]
    assert unknown.token.split(":")[1] == str(number)
    assert unknown.token.endswith(old.id)


def test_what_an_earlier_attempt_appended_is_told_although_the_last_one_is_unknown() -> None:
    """1. Number 3 appends A, and refuses B: too many L0 segments. Its reply is lost, and it dies. 2. Compaction makes
    room: a later number appends B, and is unknown. 3. A is collected; the later number is above the floor."""
    world, files = new_partition(), PartitionFiles(KEYS)
    a, b = world.alone(upload(files)), world.alone(upload(files))
    world.alone(appends(files, 1))
    held = Held(world, commit_many(files, [Append(a, 2), Append(b, 2)]))
    world.alone(asks(held.until(lambda request: isinstance(request, Create))))
    held.reply(Outcome.UNKNOWN)
    compactor = PartitionFiles(KEYS)
    epoch = world.alone(claim(compactor))
    world.alone(compact(compactor, epoch))
    boundary = Boundary(format=FORMAT, topic="t", topic_id=TOPIC_ID, partition=0, id=1, nonce="b", manifest=3)
    world.objects[KEYS.boundary.key(1)] = (encode(boundary), world.now_ms)
    held.until(lambda request: isinstance(request, Create) and request.key > KEYS.manifest.key(3))
    known, unknown = held.end_in_silence()
    assert known == range(1, 2)
    assert isinstance(unknown, CommitUnknown)
    world.alone(appends(compactor, 1))
    assert world.alone(outcome(compactor, unknown.token)) is None
