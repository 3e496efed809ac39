"""P22: what is uploaded under an upload that stands can be committed whatever collectors do, and once."""

from typing import Any

import pytest
from msgspec.structs import replace

from lithify.gc.collect import collect, sweep
from lithify.log.append import outcome
from lithify.log.upload import append_uploaded
from lithify.manifest.keys import SegmentId
from lithify.manifest.lifetime import Seal
from lithify.manifest.model import (
    UPLOADS_MAX,
    Manifest,
    SegmentRef,
    Upload,
)
from lithify.manifest.partition import PartitionFiles
from lithify.manifest.transactions import ForgetTransaction, TransactionStamp
from lithify.manifest.uploads import AppendUploaded, BeginUpload
from lithify.store.errors import AlreadyExists, CommitUnknown, NotFound, Unavailable
from lithify.store.port import Create, NewId, Put
from tests.interleave import World
from tests.protocol.scene import (
    CONFIG,
    FIRST,
    GRACE_MS,
    KEYS,
    L0_MAX,
    Held,
    after,
    appends,
    at,
    claim,
    compact,
    new_partition,
    segment,
)

DAY_MS = 86_400_000
TTL_MS = 10 * GRACE_MS
ID = "00112233445566aa"


async def begin(files: PartitionFiles, upload_id: str | None = None, ttl_ms: int = TTL_MS) -> Upload:
    return (await files.manifest.commit(BeginUpload(upload_id or await NewId(), ttl_ms))).result


async def write(upload: Upload, rows: int = 1) -> SegmentRef:
    ref = segment(SegmentId.for_upload(upload.name, await NewId()), rows)
    await Put(KEYS.segment(ref.id), b"x" * rows)
    return ref


def edit(upload: Upload, *refs: SegmentRef, **fields: Any) -> AppendUploaded:
    return AppendUploaded(upload.name, refs, L0_MAX, **fields)


def append(world: World, files: PartitionFiles, upload: Upload, *refs: SegmentRef, **fields: Any) -> range:
    return world.alone(files.manifest.commit(edit(upload, *refs, **fields))).result


def time_passes(world: World, periods: int, *, files: PartitionFiles | None = None) -> None:
    """Others append, compact, collect and sweep, for so many grace periods."""
    others = files or PartitionFiles(KEYS)
    epoch = world.alone(claim(others))
    for _ in range(periods):
        world.alone(appends(others, 2))
        world.alone(compact(others, epoch))
        world.alone(collect(others, GRACE_MS))
        world.alone(sweep(others, GRACE_MS))
        world.now_ms += GRACE_MS
    world.alone(collect(others, GRACE_MS))
    world.alone(sweep(others, GRACE_MS))


def head_of(world: World) -> Manifest:
    return world.alone(PartitionFiles(KEYS).head())


# --- the four histories of RFC 0019


def test_a_write_of_many_grace_periods_is_committed() -> None:
    world, files = new_partition(), PartitionFiles(KEYS)
    upload = world.alone(begin(files))
    early = world.alone(write(upload, 2))
    time_passes(world, 5)
    late = world.alone(write(upload, 3))
    head = head_of(world)
    assert upload.begun_at < head.orphan_floor, "an append that began then would be refused"
    end = head.next_offset
    assert append(world, files, upload, early, late) == range(end, end + 5)
    assert [(ref.id, ref.base_offset, ref.rows) for ref in head_of(world).l0[-2:]] == [
        (early.id, end, 2),
        (late.id, end + 2, 3),
    ]
    assert {KEYS.segment(ref.id) for ref in (early, late)} <= world.objects.keys()


def test_a_commit_that_is_repeated_after_its_segments_are_gone_appends_nothing() -> None:
    world, files = new_partition(), PartitionFiles(KEYS)
    upload = world.alone(begin(files))
    refs = [world.alone(write(upload)) for _ in range(3)]
    first = append(world, files, upload, *refs)  # its answer is lost
    time_passes(world, 4)
    head = head_of(world)
    assert not {ref.id for ref in refs} & {known.id for known in (*head.segments(), *head.retired)}
    assert append(world, PartitionFiles(KEYS), upload, *refs) == first
    assert head_of(world) == head


@pytest.mark.slow
@pytest.mark.parametrize("numbered", [False, True])
def test_two_thousand_writes_of_a_day_are_appended_and_leave_no_application_behind(numbered: bool) -> None:
    """Their uploads all stand for a day: at the bound those that were appended first give way."""
    head = at(FIRST, 1)
    for now_ms in range(2_000):
        upload_id = f"{now_ms:016x}"
        head = after(head, BeginUpload(upload_id, DAY_MS), now_ms=now_ms)
        ref = segment(SegmentId.for_upload(head.uploads[-1].name, upload_id))
        stamp = TransactionStamp("query", now_ms) if numbered else None
        head = after(head, edit(head.uploads[-1], ref, transaction=stamp), now_ms=now_ms)
        head = replace(head, l0=head.l0[-1:], time_index=head.time_index[-1:])  # what came before was dropped
        head = replace(head, log_start_offset=head.next_offset - 1)
    assert (len(head.transactions), len(head.uploads), head.next_offset) == (int(numbered), UPLOADS_MAX, 2_000)


def test_readers_see_all_segments_of_a_batch_or_none() -> None:
    """A driver that is killed while forty segments are there, and one that is killed while it commits."""
    world, files = new_partition(), PartitionFiles(KEYS)
    upload = world.alone(begin(files))
    refs = [world.alone(write(upload)) for _ in range(40)]
    assert head_of(world).next_offset == 0
    held = Held(world, files.manifest.commit(edit(upload, *refs)))
    held.until(lambda request: isinstance(request, Create))
    assert head_of(world).next_offset == 0
    held.go()
    head = head_of(world)
    assert (head.next_offset, len(head.l0), head.rows) == (40, 40, 40)


# --- what stands, and for how long


def test_what_a_driver_left_behind_is_swept_once_its_upload_is_gone() -> None:
    world, files = new_partition(), PartitionFiles(KEYS)
    upload = world.alone(begin(files, ttl_ms=3 * GRACE_MS))
    orphan = KEYS.segment(world.alone(write(upload)).id)
    time_passes(world, 2)
    assert orphan in world.objects
    kept = world.alone(sweep(PartitionFiles(KEYS), GRACE_MS, dry_run=True)).kept
    assert [(each.key, upload.name in each.reason) for each in kept] == [(orphan, True)]
    time_passes(world, 3)
    assert head_of(world).uploads == ()
    assert orphan not in world.objects


def test_an_upload_that_expired_stands_until_a_commit_removes_it() -> None:
    world, files = new_partition(), PartitionFiles(KEYS)
    upload = world.alone(begin(files, ttl_ms=10))
    ref = world.alone(write(upload))
    world.now_ms += GRACE_MS
    assert append(world, files, upload, ref) == range(1)
    world.alone(collect(files, GRACE_MS))
    assert head_of(world).uploads == ()
    with pytest.raises(Unavailable, match="was removed: it had expired"):
        append(world, files, upload, ref)


def test_an_idle_partition_lets_go_of_what_expired_and_then_writes_nothing() -> None:
    world, files = new_partition(), PartitionFiles(KEYS)
    world.alone(begin(files, ttl_ms=10))
    world.now_ms += GRACE_MS
    world.alone(collect(files, GRACE_MS))
    head = head_of(world)
    assert head.uploads == ()
    for _ in range(3):
        world.now_ms += GRACE_MS
        world.alone(collect(files, GRACE_MS))
    assert head_of(world) == head


def test_a_collection_keeps_what_has_not_expired_by_the_clock_of_its_own_commit() -> None:
    world, files = new_partition(), PartitionFiles(KEYS)
    upload = world.alone(begin(files))
    append(world, files, upload, world.alone(write(upload)))
    time_passes(world, 3)
    (standing,) = head_of(world).uploads
    assert standing.appended is not None
    assert (standing.appended.number, standing.appended.base_offset, standing.appended.rows) == (3, 0, 1)


def test_begun_twice_it_is_the_same_upload_and_begun_after_it_is_gone_another() -> None:
    """Whoever was away since may not append to the second what was uploaded under the first."""
    world, files = new_partition(), PartitionFiles(KEYS)
    first = world.alone(begin(files, ID, ttl_ms=GRACE_MS))
    assert world.alone(begin(PartitionFiles(KEYS), ID)) == first
    ref = world.alone(write(first))
    time_passes(world, 3)
    second = world.alone(begin(files, ID))
    assert second.id == first.id
    assert second.begun_at > first.begun_at
    with pytest.raises(Unavailable, match="removed"):
        append(world, PartitionFiles(KEYS), first, ref)
    assert append(world, files, second, world.alone(write(second))).stop == head_of(world).next_offset


# --- at the bound


BOUND = 4


@pytest.fixture
def few(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("lithify.manifest.uploads.UPLOADS_MAX", BOUND)


def others(world: World, files: PartitionFiles, begun: int = BOUND, *, appended: bool = True) -> None:
    """Others begin so many uploads, and append each."""
    for _ in range(begun):
        upload = world.alone(begin(files))
        if appended:
            append(world, files, upload, world.alone(write(upload)))


@pytest.mark.usefixtures("few")
def test_what_gave_way_at_the_bound_and_is_committed_again_appends_nothing() -> None:
    """1. A commit's answer is lost. 2. Others are begun until its entry gives way, and its segments are compacted
    and collected. 3. The driver repeats its commit."""
    world, files = new_partition(), PartitionFiles(KEYS)
    upload = world.alone(begin(files))
    refs = [world.alone(write(upload, 2)) for _ in range(2)]
    token = unanswered(world, upload, *refs, arrives=True).token
    others(world, files)
    time_passes(world, 4)
    head = head_of(world)
    assert upload.name not in [each.name for each in head.uploads]
    with pytest.raises(Unavailable, match="others needed its place"):
        append(world, PartitionFiles(KEYS), upload, *refs)
    with pytest.raises(CommitUnknown, match="others needed its place"):
        world.alone(outcome(PartitionFiles(KEYS), token))
    assert head_of(world) == head


@pytest.mark.usefixtures("few")
def test_what_gave_way_at_the_bound_is_told_by_its_transaction() -> None:
    world, files = new_partition(), PartitionFiles(KEYS)
    upload, stamp = world.alone(begin(files, ID)), TransactionStamp("query", 7)
    ref = world.alone(write(upload, 2))
    append(world, files, upload, ref, transaction=stamp)
    others(world, files)
    assert append(world, PartitionFiles(KEYS), upload, ref, transaction=stamp) == range(2)
    another = world.alone(begin(files, ID))
    assert another.begun_at > upload.begun_at
    ref = world.alone(write(another, 2))
    assert append(world, PartitionFiles(KEYS), another, ref, transaction=stamp) == range(2)


@pytest.mark.usefixtures("few")
def test_what_was_not_appended_never_gives_way() -> None:
    """A write of many hours beside thousands of short ones; and no other can begin, once nothing but such stands."""
    world, files = new_partition(), PartitionFiles(KEYS)
    upload = world.alone(begin(files))
    ref = world.alone(write(upload))
    others(world, files, 2 * BOUND)
    time_passes(world, 2)
    assert append(world, files, upload, ref).stop == head_of(world).next_offset
    others(world, files, BOUND, appended=False)
    assert all(each.appended is None for each in head_of(world).uploads)
    with pytest.raises(Unavailable, match="4 uploads that were not appended"):
        world.alone(begin(files))


# --- what ends it


def test_a_deleted_topic_takes_its_uploads_along() -> None:
    world, files = new_partition(), PartitionFiles(KEYS)
    upload = world.alone(begin(files))
    ref = world.alone(write(upload))
    world.alone(files.manifest.commit(Seal()))
    assert head_of(world).uploads == ()
    with pytest.raises(NotFound, match="was deleted"):
        append(world, PartitionFiles(KEYS), upload, ref)
    with pytest.raises(NotFound, match="was deleted"):
        world.alone(begin(PartitionFiles(KEYS)))
    for _ in range(3):
        world.alone(sweep(files, GRACE_MS))
        world.now_ms += GRACE_MS
    assert KEYS.segment(ref.id) not in world.objects


# --- versions of an application (RFC 0011)


def test_another_run_of_the_same_write_appends_nothing() -> None:
    world, files = new_partition(), PartitionFiles(KEYS)
    one, other, third = (world.alone(begin(files)) for _ in range(3))
    refs = [world.alone(write(each, 2)) for each in (one, other, third)]
    stamp = TransactionStamp("query", 7)
    assert append(world, files, one, refs[0], transaction=stamp) == range(2)
    assert append(world, files, other, refs[1], transaction=stamp) == range(2)
    with pytest.raises(AlreadyExists, match="before the latest"):
        append(world, files, third, refs[2], transaction=TransactionStamp("query", 6))
    assert append(world, files, third, refs[2], transaction=TransactionStamp("query", 8)) == range(2, 4)
    assert [entry.version for entry in head_of(world).transactions] == [8]


def test_what_another_run_was_told_it_is_told_again_though_its_application_is_forgotten() -> None:
    world, files = new_partition(), PartitionFiles(KEYS)
    one = world.alone(begin(files))
    stamp, ref = TransactionStamp("query", 7), world.alone(write(one, 2))
    append(world, files, one, ref, transaction=stamp)
    other = world.alone(begin(files))
    ref = world.alone(write(other, 2))
    assert append(world, files, other, ref, transaction=stamp) == range(2)
    world.alone(files.manifest.commit(ForgetTransaction("query")))
    assert append(world, PartitionFiles(KEYS), other, ref, transaction=stamp) == range(2)
    assert head_of(world).next_offset == 2


def test_it_is_told_of_its_version_also_once_its_upload_is_gone() -> None:
    world, files = new_partition(), PartitionFiles(KEYS)
    upload = world.alone(begin(files, ttl_ms=10))
    ref = world.alone(write(upload))
    assert append(world, files, upload, ref, transaction=TransactionStamp("query", 7)) == range(1)
    time_passes(world, 1)
    assert head_of(world).uploads == ()
    assert append(world, files, upload, ref, transaction=TransactionStamp("query", 7)) == range(1)


# --- what became of it


def unanswered(world: World, upload: Upload, *refs: SegmentRef, arrives: bool) -> CommitUnknown:
    """A commit whose creates are never answered; `arrives`: one of them was done all the same."""
    held = Held(world, append_uploaded(PartitionFiles(KEYS), upload.name, refs, CONFIG))
    create = held.until(lambda request: isinstance(request, Create))
    assert isinstance(create, Create)
    if arrives:
        world.objects[create.key] = (create.body, world.now_ms)
    with pytest.raises(CommitUnknown) as found:
        held.end_in_silence()
    return found.value


def test_its_token_tells_what_became_of_it() -> None:
    world = new_partition()
    upload = world.alone(begin(PartitionFiles(KEYS)))
    refs = [world.alone(write(upload, 2)) for _ in range(2)]
    lost = unanswered(world, upload, *refs, arrives=False)
    with pytest.raises(CommitUnknown, match="may still arrive"):
        world.alone(outcome(PartitionFiles(KEYS), lost.token))
    assert world.alone(outcome(PartitionFiles(KEYS), lost.token, settle=True)) is None
    done = unanswered(world, upload, *refs, arrives=True)
    assert world.alone(outcome(PartitionFiles(KEYS), done.token)) == range(4)
    time_passes(world, 4)
    assert world.alone(outcome(PartitionFiles(KEYS), done.token)) == range(4)


def test_once_its_upload_is_gone_nobody_can_tell() -> None:
    world = new_partition()
    upload = world.alone(begin(PartitionFiles(KEYS), ttl_ms=10))
    token = unanswered(world, upload, world.alone(write(upload)), arrives=True).token
    world.now_ms += GRACE_MS
    world.alone(collect(PartitionFiles(KEYS), GRACE_MS))
    with pytest.raises(CommitUnknown, match="was removed: it had expired"):
        world.alone(outcome(PartitionFiles(KEYS), token))


def test_a_commit_that_was_never_answered_is_repeated_and_recognised() -> None:
    world = new_partition()
    upload = world.alone(begin(PartitionFiles(KEYS)))
    refs = [world.alone(write(upload, 2)) for _ in range(2)]
    unanswered(world, upload, *refs, arrives=True)
    assert append(world, PartitionFiles(KEYS), upload, *refs) == range(4)
    assert head_of(world).next_offset == 4
