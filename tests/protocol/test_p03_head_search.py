"""P3: N is the head when N exists, N+1 does not, and a boundary read after that is below N."""

from typing import Any

import pytest

from lithify.gc.collect import collect
from lithify.manifest.appends import Append, BelowOrphanFloor
from lithify.manifest.partition import PartitionFiles
from lithify.manifest.pins import CreateCheckpoint
from lithify.manifest.transactions import TransactionStamp
from lithify.store.errors import CommitUnknown, Corrupt, Unavailable
from lithify.store.port import UNKNOWN_PAGE, Create, Get, Head, List, Now, Object, Pause, Request, Together
from tests.interleave import World
from tests.protocol.scene import (
    GRACE_MS,
    KEYS,
    L0_MAX,
    Held,
    appends,
    claim,
    compact,
    creates_manifest,
    is_get,
    new_partition,
    upload,
)
from tests.unreadable import UNREADABLE, Rewrite, rewrite_in, unsealed


async def grow(files: PartitionFiles, epoch: int, commits: int) -> None:
    """Commits that leave something to collect, so that the boundary has a reason to move."""
    await appends(files, commits - 2)
    await compact(files, epoch)
    await appends(files, 1)


def collect_all(world: World, files: PartitionFiles) -> int:
    """Passes a grace period apart, until the boundary is just below the head; answers with it."""
    for _ in range(3):
        world.now_ms += GRACE_MS
        done = world.alone(collect(files, GRACE_MS))
    assert done.boundary > 0
    return done.boundary


def test_a_number_that_was_collected_is_not_the_end() -> None:
    """A client saw N and slept. Meanwhile N+1 came, went on to be collected, and others are far ahead."""
    world, slow, quick = new_partition(), PartitionFiles(KEYS), PartitionFiles(KEYS)
    epoch = world.alone(claim(quick))
    seen = world.alone(slow.head()).id
    world.alone(grow(quick, epoch, 6))
    boundary = collect_all(world, quick)
    assert seen + 1 <= boundary
    assert KEYS.manifest.key(seen + 1) not in world.objects
    assert world.alone(slow.head()) == world.alone(quick.head())


def test_the_boundary_is_read_after_the_absence_of_the_next_number() -> None:
    """The boundary passes between the client's look at N+1 and the end of its search."""
    world, slow, quick = new_partition(), PartitionFiles(KEYS), PartitionFiles(KEYS)
    epoch = world.alone(claim(quick))
    seen = world.alone(slow.head()).id
    held = Held(world, slow.head())
    held.until(is_get(KEYS.manifest.key(seen + 1)))
    held.go()  # nothing there
    world.alone(grow(quick, epoch, 6))
    boundary = collect_all(world, quick)
    assert boundary > seen
    assert held.end() == world.alone(quick.head())


def test_a_first_number_collected_while_it_was_looked_for_is_no_empty_chain() -> None:
    """A cold client asks for the boundary and for the first numbers together. It is told that there is no boundary;
    before it is told of any number, all that it asks for are collected."""
    world, quick = new_partition(), PartitionFiles(KEYS)
    epoch = world.alone(claim(quick))
    held = Held(world, PartitionFiles(KEYS).head())
    held.reply(UNKNOWN_PAGE)  # the store is near
    asked = held.request
    assert isinstance(asked, Together)
    boundaries = [each for each in asked.requests if isinstance(each, Get)]
    assert boundaries[0] == Get(KEYS.boundary.key(1))
    assert Head(KEYS.manifest.key(1)) in asked.requests
    world.alone(grow(quick, epoch, 40))
    collect_all(world, quick)
    assert not any(each.key in world.objects for each in asked.requests if isinstance(each, Head))
    held.reply((None,) * len(asked.requests))
    assert held.end() == world.alone(quick.head())


def test_a_manifest_that_is_pinned_below_the_boundary_is_not_taken_for_the_head() -> None:
    """A search from number 1 ends at it, for its next number was collected."""
    world, quick = new_partition(), PartitionFiles(KEYS)
    epoch = world.alone(claim(quick))
    world.alone(appends(quick, 5))
    pinned = world.alone(quick.manifest.commit(CreateCheckpoint("c" * 16, "kept", None))).version.number
    assert pinned == 8  # a search from 1 looks there
    world.alone(grow(quick, epoch, 30))
    boundary = collect_all(world, quick)
    assert pinned < boundary
    assert KEYS.manifest.key(pinned) in world.objects
    assert KEYS.manifest.key(pinned + 1) not in world.objects
    assert world.alone(PartitionFiles(KEYS).head()) == world.alone(quick.head())


def test_the_boundary_that_proves_is_never_asked_for_together_with_a_number() -> None:
    """Whatever is asked together may be answered in any order: the boundary would be read first, both N and N+1
    collected, and N+1 found absent."""
    for known in (False, True):
        world, files = new_partition(), PartitionFiles(KEYS)
        world.alone(appends(files, 12))
        slow = PartitionFiles(KEYS)
        if known:
            world.alone(slow.head())
            world.alone(appends(files, 20))
        held = Held(world, slow.head())
        held.end()
        last = [together_of(request) for request in held.asked if not isinstance(request, Now)][-1]
        assert KEYS.boundary.key(1) in last
        assert KEYS.manifest.key(slow.manifest.seen.number + 1) not in last


def together_of(request: Request[Any]) -> list[str]:
    requests = request.requests if isinstance(request, Together) else (request,)
    return [each.key for each in requests if isinstance(each, Get | Head)]


def test_every_search_ends_with_a_boundary_read() -> None:
    world, files = new_partition(), PartitionFiles(KEYS)
    world.alone(appends(files, 3))
    held = Held(world, files.manifest.refresh())
    held.end()
    assert [r.key for r in held.asked if isinstance(r, Get)] == [KEYS.manifest.key(5), KEYS.boundary.key(1)]


@pytest.mark.parametrize(("appended", "rounds"), [(0, 2), (8, 3), (30, 3), (200, 5)])
def test_a_first_search_without_a_listing_gallops_in_few_rounds(appended: int, rounds: int) -> None:
    world, files = new_partition(), PartitionFiles(KEYS)
    world.near = True
    world.alone(appends(files, appended))
    held = Held(world, PartitionFiles(KEYS).head())
    assert held.end().id == appended + 1
    assert held.asked_for(List) == []
    assert len(held.asked_for(Get, Head, Together)) <= rounds
    assert sum(len(together_of(request)) for request in held.asked) <= 48


def test_twenty_new_numbers_are_found_in_four_rounds() -> None:
    world, files, slow = new_partition(), PartitionFiles(KEYS), PartitionFiles(KEYS)
    world.alone(slow.head())
    world.alone(appends(files, 20))
    held = Held(world, slow.head())
    assert held.end().id == 21
    assert len(held.asked_for(Get, Head, Together)) == 4


def test_a_client_that_found_many_new_numbers_looks_at_as_many_at_once_the_next_time() -> None:
    world, files, slow = new_partition(), PartitionFiles(KEYS), PartitionFiles(KEYS)
    world.alone(slow.head())
    rounds: list[int] = []
    asked: list[int] = []
    for appended in (20, 20, 25, 60, 2, 2, 0):
        world.alone(appends(files, appended))
        held = Held(world, slow.head())
        assert held.end() == world.alone(files.head())
        looks = held.asked_for(Get, Head, Together)
        rounds.append(len(looks))
        asked.append(sum(len(together_of(request)) for request in looks))
    assert rounds == [4, 3, 3, 6, 3, 3, 2]
    assert max(asked) < 60
    assert asked[-2] <= 9  # one that found few asks for few


def test_what_a_look_ahead_found_is_where_the_search_begins() -> None:
    world, files, slow = new_partition(), PartitionFiles(KEYS), PartitionFiles(KEYS)
    world.alone(slow.head())
    world.alone(appends(files, 1))
    assert world.alone(slow.manifest.moved())
    held = Held(world, slow.head())
    assert held.end().id == 2
    assert KEYS.manifest.key(2) not in [each.key for each in held.asked if isinstance(each, Get)]


def test_what_a_look_ahead_found_may_be_dead_when_the_search_begins() -> None:
    """Its next number is absent then, and the boundary says why."""
    world, slow, quick = new_partition(), PartitionFiles(KEYS), PartitionFiles(KEYS)
    epoch = world.alone(claim(quick))
    seen = world.alone(slow.head()).id
    world.alone(appends(quick, 1))
    assert world.alone(slow.manifest.moved())
    world.alone(grow(quick, epoch, 6))
    assert collect_all(world, quick) > seen + 1
    assert world.alone(slow.head()) == world.alone(quick.head())


@pytest.mark.parametrize("head", range(1, 40))
def test_the_gallop_finds_the_head_wherever_it_is(head: int) -> None:
    world, files = new_partition(), PartitionFiles(KEYS)
    world.near = True
    world.alone(appends(files, head - 1))
    assert world.alone(PartitionFiles(KEYS).head()).id == head


def test_a_search_that_is_always_overtaken_gives_up() -> None:
    world, files = new_partition(), PartitionFiles(KEYS)
    epoch = world.alone(claim(files))
    world.alone(grow(files, epoch, 6))
    collect_all(world, files)
    for key in [k for k in world.objects if KEYS.manifest.number(k) is not None]:
        del world.objects[key]  # a boundary, and nothing above it: what an endless race looks like
    with pytest.raises(Unavailable, match="overtook"):
        world.alone(PartitionFiles(KEYS).head())


def damage(world: World, number: int) -> None:
    body, at_ms = world.objects[KEYS.manifest.key(number)]
    world.objects[KEYS.manifest.key(number)] = (body[: len(body) // 2], at_ms)


@pytest.mark.parametrize("number", range(1, 7))
def test_a_damaged_number_that_others_have_followed_is_no_obstacle(number: int) -> None:
    world = new_partition()
    world.alone(appends(PartitionFiles(KEYS), 6))
    damage(world, number)
    assert world.alone(PartitionFiles(KEYS).head()).id == 7


def test_a_damaged_head_is_neither_read_nor_taken_for_absent() -> None:
    """Who knew the number before it meets it as a rival's, who knows nothing finds it: both stop, and nothing is
    created behind it."""
    world, quick, warm = new_partition(), PartitionFiles(KEYS), PartitionFiles(KEYS)
    world.alone(appends(quick, 3))
    world.alone(warm.head())
    world.alone(appends(quick, 1))
    whole = world.objects[KEYS.manifest.key(5)]
    damage(world, 5)
    for files in (warm, PartitionFiles(KEYS)):
        with pytest.raises(Corrupt, match=r"0005\.manifest is damaged"):
            world.alone(files.head())
        # Who meets it in its own place cannot tell whose it was.
        with pytest.raises(CommitUnknown if files is warm else Corrupt, match=r"0005\.manifest is damaged"):
            world.alone(appends(files, 1))
        with pytest.raises(Corrupt, match=r"0005\.manifest is damaged"):
            world.alone(collect(files, GRACE_MS))
    assert KEYS.manifest.key(6) not in world.objects
    world.objects[KEYS.manifest.key(5)] = whole
    world.alone(appends(warm, 1))
    assert world.alone(PartitionFiles(KEYS).head()).id == 6


def test_a_writer_that_knew_the_head_before_it_was_damaged_goes_on() -> None:
    """What it builds on is what was written; what it commits is whole, and the damage is history."""
    world, files = new_partition(), PartitionFiles(KEYS)
    world.alone(appends(files, 3))
    damage(world, 4)
    world.alone(appends(files, 1))
    assert [ref.rows for ref in world.alone(PartitionFiles(KEYS).head()).l0] == [1] * 4


class _Everything(dict[str, tuple[bytes, int]]):
    """Whatever is asked for is there."""

    def get(self, key: str, default: object = None) -> tuple[bytes, int]:  # type: ignore[override]
        return super().get(key, (b"<html/>", 0))


def test_a_search_that_finds_every_number_ends() -> None:
    """A page was answered to each request, and the search went on through 3,259 of them to a number of 900 digits."""
    world = new_partition()
    world.objects = _Everything(world.objects)
    with pytest.raises(Unavailable, match="every number seems to exist"):
        world.alone(PartitionFiles(KEYS).head())


def collected(world: World, files: PartitionFiles, epoch: int) -> None:
    """All numbers so far."""
    for _ in range(2):
        world.alone(grow(files, epoch, 6))
        collect_all(world, files)


def asks(request: Request[Any], wanted: Request[Any]) -> bool:
    return request == wanted or (isinstance(request, Together) and wanted in request.requests)


def create(world: World, late: Create) -> None:
    """The request of a stalled writer arrives."""
    assert late.key not in world.objects
    world.objects[late.key] = (late.body, world.now_ms)


def test_an_edit_is_not_found_in_what_did_not_live() -> None:
    """1. A transaction and its retry stall before they create numbers 3 and 4, which rivals take. 2. The one at 3 has
    found that out, and stands still; both numbers are collected. 3. The create of the other arrives at the dead 4."""
    world, quick = new_partition(), PartitionFiles(KEYS)
    epoch = world.alone(claim(quick))

    def send() -> tuple[Held, Create]:
        files = PartitionFiles(KEYS)
        commit = files.manifest.commit(
            Append(world.alone(upload(files)), L0_MAX, transaction=TransactionStamp("app", 1))
        )
        held = Held(world, commit)
        waits = held.until(creates_manifest)
        assert isinstance(waits, Create)
        return held, waits

    retry, _ = send()
    world.alone(appends(quick, 1))
    _, late = send()
    world.alone(appends(quick, 1))
    retry.until(lambda request: isinstance(request, Pause))
    collected(world, quick, epoch)
    create(world, late)
    with pytest.raises(BelowOrphanFloor):
        retry.end()
    assert not world.alone(PartitionFiles(KEYS).head()).transactions


def test_a_head_is_what_was_there_when_the_boundary_was_below_it() -> None:
    """1. A search finds N, and asks for the boundary and N's content together; the boundary is below N. 2. N is
    collected before its content is read, and a stalled writer creates it anew."""
    world, quick = new_partition(), PartitionFiles(KEYS)
    world.near = True
    epoch = world.alone(claim(quick))
    world.alone(grow(quick, epoch, 6))
    files = PartitionFiles(KEYS)
    slow = Held(world, files.manifest.commit(Append(world.alone(upload(files)), L0_MAX)))
    late = slow.until(creates_manifest)
    assert isinstance(late, Create)
    world.alone(appends(quick, 1))
    reader = Held(world, PartitionFiles(KEYS).head())
    asked = reader.until(lambda request: asks(request, Get(late.key)) and isinstance(request, Together))
    assert isinstance(asked, Together)
    (boundary,) = [request for request in asked.requests if request != Get(late.key)]
    before_ms = world.objects[late.key][1]
    below = world._answer(boundary)  # pyright: ignore[reportPrivateUsage]
    collected(world, quick, epoch)
    create(world, late)
    # What tells it from the one that was there before is its tag alone, as where both were written at the same time.
    anew = Object(late.body, before_ms, "another")
    reader.reply(tuple(below if request == boundary else anew for request in asked.requests))
    assert reader.end() == world.alone(PartitionFiles(KEYS).head())


CHANGES = pytest.mark.parametrize("change", [*UNREADABLE, bytes])


@CHANGES
def test_a_number_that_has_successors_stops_nobody_who_knows_an_earlier_one(change: Rewrite) -> None:
    world, quick, warm = new_partition(), PartitionFiles(KEYS), PartitionFiles(KEYS)
    seen = world.alone(warm.head()).id
    world.alone(appends(quick, 4))
    rewrite_in(world, KEYS.manifest.key(seen + 1), change)
    world.alone(appends(warm, 1))
    assert world.alone(PartitionFiles(KEYS).head()).id == seen + 5


@CHANGES
def test_what_becomes_of_a_dead_number_stops_nobody_who_knows_an_earlier_one(change: Rewrite) -> None:
    """1. We have seen N, and N+1 is pinned. 2. The numbers after it are collected. 3. N+1 is damaged: nothing is there
    after it, as after a head."""
    world, quick = new_partition(), PartitionFiles(KEYS)
    epoch = world.alone(claim(quick))
    warm = PartitionFiles(KEYS)
    world.alone(warm.heads())
    pin = world.alone(quick.manifest.commit(CreateCheckpoint("a", "a", None))).version.number
    assert pin == warm.manifest.seen.number + 1
    collected(world, quick, epoch)
    rewrite_in(world, KEYS.manifest.key(pin), change)
    assert KEYS.manifest.key(pin + 1) not in world.objects
    assert world.alone(warm.head()) == world.alone(quick.head())
    world.alone(appends(warm, 1))


@pytest.mark.parametrize("inline_max", [0, 1_000], ids=["lists", "no lists"])
def test_what_no_reader_believes_no_writer_builds_on(inline_max: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """1. We have seen N. 2. N+1 is mended by hand: it has no checksum, and breaks an invariant. 3. We lose N+1 to it,
    and would seal what is wrong with a checksum of our own."""
    monkeypatch.setattr("lithify.manifest.list_layout.INLINE_MAX", inline_max)
    world, quick, warm = new_partition(), PartitionFiles(KEYS), PartitionFiles(KEYS)
    epoch = world.alone(claim(quick))
    world.alone(appends(quick, 3))
    world.alone(compact(quick, epoch))
    seen = world.alone(warm.head()).id
    world.alone(appends(quick, 1))
    key = KEYS.manifest.key(seen + 1)
    whole, modified_ms = world.objects[key]
    assert (b'"lists":[' in whole) == (not inline_max)
    mended = unsealed(whole).replace(b'"next_offset":', b'"cleaned_to":1000,"next_offset":', 1)
    assert mended != unsealed(whole) != whole
    world.objects[key] = (mended, modified_ms)
    with pytest.raises(Corrupt):
        world.alone(PartitionFiles(KEYS).head())
    with pytest.raises((CommitUnknown, Corrupt), match="damaged"):
        world.alone(appends(warm, 1))
    assert KEYS.manifest.key(seen + 2) not in world.objects
    world.objects[key] = (whole, modified_ms)
    world.alone(appends(warm, 1))
