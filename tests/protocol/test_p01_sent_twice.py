"""P1: what is on the way may send a create twice (a proxy that lost the first reply, a client library). The answer is
that to the second: something exists there, or the request is refused. It says nothing of the first."""

from contextlib import suppress
from typing import Any

import pytest

from lithify.manifest.appends import Append
from lithify.manifest.partition import PartitionFiles
from lithify.store.errors import AccessDenied, CommitUnknown, Corrupt, InvalidRequest, LithifyError, Unavailable
from lithify.store.port import Create, Delete, Get, Object, Outcome, Request
from lithify.store.refused import Closed, NotAsked
from tests.interleave import World
from tests.protocol.days import Partition, lists_there
from tests.protocol.scene import (
    KEYS,
    L0_MAX,
    Held,
    append,
    appends,
    creates_manifest,
    new_partition,
    replacing,
    upload,
)


@pytest.fixture(autouse=True)
def _every_run_is_listed(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("lithify.manifest.list_layout.INLINE_MAX", 0)
    monkeypatch.setattr("lithify.manifest.list_layout.LIST_MAX", 1)


DENIED = AccessDenied("the request has expired")
AWAY = Unavailable("no answer")


def stored(held: Held, world: World) -> str:
    """Our body is there, by the first of two requests; the key. The second one is to be answered."""
    create = held.until(creates_manifest)
    assert isinstance(create, Create)
    assert world._store_if_absent(create.key, create.body) is Outcome.CREATED  # pyright: ignore[reportPrivateUsage]
    return create.key


def appending(world: World) -> Held:
    files = PartitionFiles(KEYS)
    return Held(world, files.manifest.commit(Append(world.alone(upload(files)), L0_MAX)))


def compacting() -> tuple[World, Held]:
    """A commit whose manifest names a run list."""
    partition = Partition()
    partition.append()
    head = partition.head
    return partition.world, Held(partition.world, partition.files.manifest.commit(replacing(head, head.l0, 1)))


def end(held: Held, key: str, read: LithifyError | None, create: Outcome | LithifyError = Outcome.EXISTS) -> None:
    """Every create of `key` is answered with `create`, and every read of it with `read` (None: as it is)."""

    def reply(request: Request[Any]) -> Any:
        if getattr(request, "key", None) != key:
            return None
        return create if isinstance(request, Create) else read

    while held.request is not None:
        held.answers(reply)


def fails(held: Held, failure: LithifyError) -> None:
    """It, and all that follows."""
    while held.request is not None:
        held.fail(failure)


def test_what_exists_is_read_and_found_to_be_our_own() -> None:
    world = new_partition()
    held = appending(world)
    stored(held, world)
    held.reply(Outcome.EXISTS)
    committed = held.end()
    assert (committed.result, committed.repeated) == (range(1), False)
    assert world.alone(PartitionFiles(KEYS).head()).id == committed.version.number == 2


@pytest.mark.parametrize("failure", [DENIED, AWAY])
def test_what_exists_and_cannot_be_read_may_be_our_own(failure: LithifyError) -> None:
    world = new_partition()
    held = appending(world)
    key = stored(held, world)
    with pytest.raises(CommitUnknown, match="whether this commit happened is not known"):
        end(held, key, failure)


@pytest.mark.parametrize("failure", [DENIED, AWAY])
def test_no_list_is_deleted_that_the_new_head_may_name(failure: LithifyError) -> None:
    world, held = compacting()
    key = stored(held, world)
    named = lists_there(world)
    with pytest.raises(CommitUnknown):
        end(held, key, failure)
    assert not held.asked_for(Delete)
    assert {each.id for each in world.alone(PartitionFiles(KEYS).head()).lists} == named


@pytest.mark.parametrize("refusal", [DENIED, InvalidRequest("the key is disabled")])
def test_a_refusal_of_what_is_stored_already_is_none(refusal: LithifyError) -> None:
    world, held = compacting()
    stored(held, world)
    held.fail(refusal)
    assert held.end().version.number == world.alone(PartitionFiles(KEYS).head()).id


def test_a_refusal_of_what_cannot_be_read_may_be_that_of_a_second_request() -> None:
    world, held = compacting()
    key = stored(held, world)
    with pytest.raises(CommitUnknown):
        end(held, key, DENIED, create=DENIED)
    assert not held.asked_for(Delete)
    assert world.alone(PartitionFiles(KEYS).head()).lists


EXISTS = [Outcome.EXISTS]
AFTER_UNKNOWN = [Outcome.UNKNOWN, Outcome.EXISTS]


@pytest.mark.parametrize("failure", [DENIED, AWAY, InvalidRequest("the warehouse was closed"), Corrupt("a boundary")])
@pytest.mark.parametrize("answers", [EXISTS, AFTER_UNKNOWN])
@pytest.mark.parametrize("number", range(3))
def test_whatever_fails_after_it_was_stored_it_may_have_happened(
    number: int, answers: list[Outcome], failure: LithifyError
) -> None:
    """The request of that number after the create, and all that follow."""
    world, held = compacting()
    stored(held, world)
    lists = lists_there(world)
    for answer in answers:
        held.until(creates_manifest)
        held.reply(answer)
    for _ in range(number):
        if held.request is not None:
            held.go()
    outcome: Any = None
    try:
        while held.request is not None:
            held.fail(failure)
        outcome = held.result
    except CommitUnknown as unknown:
        outcome = unknown
    assert outcome is not None, "it is said to have failed"
    assert not held.asked_for(Delete)
    assert {each.id for each in world.alone(PartitionFiles(KEYS).head()).lists} == lists


@pytest.mark.parametrize("refusal", [NotAsked("no credentials"), Closed("the warehouse was closed")])
def test_what_was_never_sent_did_not_happen(refusal: LithifyError) -> None:
    world = new_partition()
    held = appending(world)
    held.until(creates_manifest)
    with pytest.raises(type(refusal)):
        fails(held, refusal)


@pytest.mark.parametrize("refusal", [NotAsked("no credentials"), Closed("the warehouse was closed")])
def test_what_was_sent_once_and_then_no_more_may_have_happened(refusal: LithifyError) -> None:
    world = new_partition()
    held = appending(world)
    stored(held, world)
    held.reply(Outcome.UNKNOWN)
    held.until(creates_manifest)
    with pytest.raises(CommitUnknown):
        fails(held, refusal)


@pytest.mark.parametrize("place", range(0, 300, 7))
def test_one_flipped_bit_does_not_make_our_own_file_a_rivals(place: int) -> None:
    """1. Ours is stored, and we are told that something exists. 2. We read it, with one bit wrong: one that its
    checksum would show, or one of the checksum's own. 3. Others forget our job, so that a later head refuses us."""
    partition = Partition()
    partition.append()
    world, head = partition.world, partition.head
    held = Held(world, partition.files.again().manifest.commit(replacing(head, head.l0, partition.epoch)))
    key = stored(held, world)
    named = lists_there(world)
    held.reply(Outcome.EXISTS)
    assert held.request == Get(key)
    body = bytearray(world.objects[key][0])
    body[-1 - place // 8] ^= 1 << place % 8
    held.reply(Object(bytes(body), world.now_ms))
    if held.request is not None:
        held.go()
    partition.append()
    partition.compact()
    with suppress(CommitUnknown):
        assert held.end().repeated
    assert not held.asked_for(Delete)
    assert {each.id for each in partition.head.lists} >= named


def test_a_damaged_number_that_has_successors_stops_no_writer_who_comes_to_it() -> None:
    world, warm, quick = new_partition(), PartitionFiles(KEYS), PartitionFiles(KEYS)
    world.alone(append(warm))
    world.alone(appends(quick, 2))
    damaged = KEYS.manifest.key(warm.manifest.seen.number + 1)
    body, modified_ms = world.objects[damaged]
    world.objects[damaged] = (body.replace(b'"l0"', b'"l1"'), modified_ms)
    assert world.alone(append(warm))[1] == range(3, 4)


def test_what_was_refused_and_is_not_there_yet_may_arrive_later() -> None:
    """The first of two requests is still on its way: its lists stay, and a sweep takes them if it never arrives."""
    world, held = compacting()
    create = held.until(creates_manifest)
    assert isinstance(create, Create)
    with pytest.raises(AccessDenied):
        end(held, create.key, None, create=DENIED)
    assert not held.asked_for(Delete)
    world._store_if_absent(create.key, create.body)  # pyright: ignore[reportPrivateUsage]
    assert world.alone(PartitionFiles(KEYS).head()).lists


def test_what_existed_and_is_gone_by_now_may_have_been_our_own() -> None:
    """1. It is stored, and we are told that something is there. 2. We stand still, and the number is collected. 3. A
    later head refuses us, and it names the list that our manifest named first."""
    partition = Partition()
    partition.append()
    world, head = partition.world, partition.head
    held = Held(world, partition.files.manifest.commit(replacing(head, head.l0, partition.epoch)))
    key = stored(held, world)
    named = {each.id for each in partition.head.lists}
    held.reply(Outcome.EXISTS)
    partition.day()  # its compaction forgets our job
    partition.collect(3)
    assert key not in world.objects
    with pytest.raises(CommitUnknown):
        held.end()
    assert not held.asked_for(Delete)
    assert named <= {each.id for each in partition.head.lists}


@pytest.mark.parametrize("failure", [DENIED, AWAY, InvalidRequest("the warehouse was closed"), Corrupt("a boundary")])
@pytest.mark.parametrize("refusal", [DENIED, InvalidRequest("the key is disabled")])
def test_whatever_fails_after_a_refusal_of_what_is_stored_it_may_have_happened(
    refusal: LithifyError, failure: LithifyError
) -> None:
    """1. Our body is found there, though the create was refused. 2. The boundary that would confirm it is not read."""
    world, held = compacting()
    key = stored(held, world)
    held.fail(refusal)
    assert held.request == Get(key)
    held.go()
    with pytest.raises(CommitUnknown):
        fails(held, failure)
    assert not held.asked_for(Delete)


@pytest.mark.parametrize("answers", [EXISTS, AFTER_UNKNOWN, [DENIED], [Outcome.UNKNOWN, DENIED]])
@pytest.mark.parametrize("is_there_anew", [True, False])
def test_what_is_at_a_dead_number_says_nothing_of_ours(
    is_there_anew: bool, answers: list[Outcome | LithifyError]
) -> None:
    """1. Ours is stored, and we are told that something is there, or are refused. 2. We stand still, and the number is
    collected. 3. The delayed create of a rival may arrive: the dead number is there anew, and holds another body."""
    partition = Partition()
    world = partition.world
    ours, rival = appending(world), appending(world)
    late = rival.until(creates_manifest)
    assert isinstance(late, Create)
    assert stored(ours, world) == late.key
    for answer in answers:
        ours.until(creates_manifest)
        if isinstance(answer, LithifyError):
            ours.fail(answer)
        else:
            ours.reply(answer)
    for _ in range(2):
        partition.append()
        partition.compact()
        partition.collect(3)
    if is_there_anew:
        assert world._store_if_absent(late.key, late.body) is Outcome.CREATED  # pyright: ignore[reportPrivateUsage]
    end_of_log = partition.head.next_offset
    with pytest.raises(CommitUnknown):
        ours.end()
    assert partition.head.next_offset == end_of_log
