"""P1: create-if-absent of N+1 is the commit point, and its outcome is created, exists or unknown."""

import pytest

from lithify.manifest.appends import Append
from lithify.manifest.claims import Claim
from lithify.manifest.partition import PartitionFiles
from lithify.manifest.parts import CREATE_ATTEMPTS_MAX
from lithify.store.errors import CommitUnknown, Unavailable
from lithify.store.port import Create, Delete, Get, Outcome, Together
from tests.protocol.scene import KEYS, L0_MAX, Held, append, appends, new_partition, segment


def is_create(request: object) -> bool:
    return isinstance(request, Create)


def test_lost_reply_is_recognised_by_its_body() -> None:
    """The edit is a claim, which does not recognise itself in a head: done twice it would take two epochs."""
    world = new_partition()
    held = Held(world, PartitionFiles(KEYS).manifest.commit(Claim(None)))
    create = held.until(is_create)
    assert isinstance(create, Create)
    world.alone(_put(create))
    held.reply(Outcome.UNKNOWN)
    committed = held.end()
    head = world.alone(PartitionFiles(KEYS).head())
    assert (committed.result, committed.repeated) == (1, False)
    assert (head.id, head.compactor_epoch) == (2, 1)


async def _put(create: Create) -> None:
    assert await create is Outcome.CREATED


def test_a_body_is_never_rebuilt_between_attempts() -> None:
    held = Held(new_partition(), append(PartitionFiles(KEYS)))
    for _ in range(3):
        held.until(is_create)
        held.reply(Outcome.UNKNOWN)
    held.end()
    bodies = [request.body for request in held.asked if isinstance(request, Create)]
    assert len(bodies) == 4
    assert len(set(bodies)) == 1


def test_a_rivals_body_is_never_taken_for_ours() -> None:
    """The same edit by the same client at the same number: the nonce alone tells the bodies apart."""
    world = new_partition()
    held = Held(world, append(PartitionFiles(KEYS)))
    held.until(is_create)
    held.reply(Outcome.UNKNOWN)
    world.alone(appends(PartitionFiles(KEYS), 1))
    _, offsets = held.end()
    head = world.alone(PartitionFiles(KEYS).head())
    assert offsets == range(1, 2)
    assert (head.id, len(head.l0)) == (3, 2)


def test_a_number_that_exists_and_holds_nothing_is_asked_for_with_pauses_and_not_for_ever() -> None:
    """Whoever answers so is not the store: a proxy that says 412 of itself, a cache that has not seen the object."""
    world = new_partition()
    began_ms = world.now_ms
    held = Held(world, append(PartitionFiles(KEYS)))
    for _ in range(CREATE_ATTEMPTS_MAX):
        held.until(is_create)
        held.reply(Outcome.EXISTS)
    with pytest.raises(CommitUnknown, match="no certain answer"):
        held.end()
    assert len(held.asked_for(Create)) == CREATE_ATTEMPTS_MAX
    assert world.now_ms - began_ms > 4_000
    assert world.alone(PartitionFiles(KEYS).head()).id == 1


def test_two_bodies_of_equal_content_differ_in_their_nonce() -> None:
    world = new_partition()
    same = Append(segment("000000000001-x"), L0_MAX)
    first, second = (Held(world, PartitionFiles(KEYS).manifest.commit(same)) for _ in range(2))
    ours, theirs = first.until(is_create), second.until(is_create)
    assert ours != theirs


def test_unknown_at_the_deadline_says_so_and_deletes_nothing() -> None:
    held = Held(new_partition(), append(PartitionFiles(KEYS)))
    with pytest.raises(CommitUnknown) as unknown:
        held.end_in_silence()
    creates = [request for request in held.asked if isinstance(request, Create)]
    number, nonce = unknown.value.token.split(":")
    assert len(creates) == CREATE_ATTEMPTS_MAX
    assert int(number) == 2
    assert nonce.encode() in creates[0].body
    assert held.asked_for(Delete) == []


def test_what_certainly_did_not_happen_is_unavailable() -> None:
    held = Held(new_partition(), PartitionFiles(KEYS).manifest.commit(Append(segment("000000000001-x"), L0_MAX)))
    asked = held.until(lambda request: isinstance(request, Together))  # the search for the head
    assert isinstance(asked, Together)
    with pytest.raises(Unavailable):
        held.reply((Unavailable("no answer"),) * len(asked.requests))


def test_a_warm_commit_is_one_put_and_one_get() -> None:
    world, files = new_partition(), PartitionFiles(KEYS)
    world.alone(appends(files, 1))
    held = Held(world, files.manifest.commit(Append(segment("000000000002-x"), L0_MAX)))
    held.end()
    assert [type(r) for r in held.asked if isinstance(r, Create | Get)] == [Create, Get]
