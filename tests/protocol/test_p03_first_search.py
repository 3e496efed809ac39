"""P3, and a client that has seen nothing yet: a listing says where it begins, and proves nothing (RFC 0034)."""

from collections.abc import Callable

import pytest
from msgspec.structs import replace

from lithify.gc.collect import collect
from lithify.manifest.catalog import topic_lineage
from lithify.manifest.codec import decode, encode
from lithify.manifest.model import Manifest
from lithify.manifest.partition import PartitionFiles
from lithify.manifest.pins import CreateCheckpoint
from lithify.store.errors import Corrupt
from lithify.store.port import UNKNOWN_PAGE, Glimpse, Now, ObjectInfo, Page
from tests.interleave import World
from tests.protocol.scene import GRACE_MS, KEYS, Held, appends, claim, compact, keys_of, new_partition
from tests.unreadable import UNREADABLE, Rewrite, rewrite_in

LISTS = Glimpse(KEYS.manifest.prefix)


def superseded(world: World, files: PartitionFiles, epoch: int) -> None:
    """Something to collect."""
    world.alone(appends(files, 2))
    done = world.alone(files.head()).completed_jobs
    world.alone(compact(files, epoch, forget=tuple(job.id for job in done)))


def collected(world: World, files: PartitionFiles, epoch: int, times: int = 1) -> int:
    """Each time there is one more boundary; answers with the number of the newest."""
    for _ in range(times):
        superseded(world, files, epoch)
        world.alone(appends(files, 1))
        for _ in range(2):
            world.now_ms += GRACE_MS
            world.alone(collect(files, GRACE_MS))
    return files.boundary.seen.number


def page(world: World) -> Page:
    shown: Page = world._answer(LISTS)  # pyright: ignore[reportPrivateUsage]
    return shown


def rounds(held: Held) -> list[list[str]]:
    """What was listed or read in each round."""
    return [
        [request.prefix] if isinstance(request, Glimpse) else keys
        for request in held.asked
        if (keys := keys_of(request)) or isinstance(request, Glimpse)
    ]


@pytest.mark.parametrize("times", [0, 1, 3, 20, 60])
@pytest.mark.parametrize("appended", [0, 1, 30])
def test_a_partition_of_any_age_is_found_in_three_rounds_and_seven_requests(times: int, appended: int) -> None:
    """If nothing is appended, a pass has begun to collect since, and nobody has committed: the newest manifest names
    the boundary before the last."""
    world, files = new_partition(), PartitionFiles(KEYS)
    epoch = world.alone(claim(files))
    assert collected(world, files, epoch, times) >= times
    world.alone(appends(files, appended))
    if not appended:
        superseded(world, files, epoch)
        world.now_ms += GRACE_MS
        world.alone(collect(files, GRACE_MS))
    named = world.alone(files.head()).boundary_seen
    assert files.boundary.seen.number - named == (0 if appended else 1)
    world.page_keys = 1_000
    held = Held(world, PartitionFiles(KEYS).head())
    assert held.end() == world.alone(files.head())
    number = files.manifest.seen.number
    listed, looked, proved = rounds(held)
    assert listed == [KEYS.manifest.prefix]
    assert set(looked) == {KEYS.manifest.key(number), KEYS.manifest.key(number + 1)}
    assert set(proved) == {KEYS.boundary.key(max(named, 1) + ahead) for ahead in range(4)}


def test_both_heads_are_found_in_three_rounds() -> None:
    world, files = new_partition(), PartitionFiles(KEYS)
    epoch = world.alone(claim(files))
    collected(world, files, epoch, 3)
    world.alone(appends(files, 1))
    world.page_keys = 1_000
    held = Held(world, PartitionFiles(KEYS).heads())
    assert held.end() == world.alone(files.heads())
    assert len([request for request in held.asked if not isinstance(request, Now)]) == 3


def test_a_manifest_names_a_boundary_that_its_writer_had_seen_and_never_an_earlier_one() -> None:
    world, files, other = new_partition(), PartitionFiles(KEYS), PartitionFiles(KEYS)
    epoch = world.alone(claim(files))
    named: list[int] = []
    for _ in range(3):
        boundary = collected(world, files, epoch)
        world.alone(appends(files, 1))
        named.append(world.alone(files.head()).boundary_seen)
        assert named[-1] == boundary
        world.alone(other.head())
        world.alone(appends(other, 1))
        assert world.alone(files.head()).boundary_seen == boundary
    assert named == sorted(set(named))
    state = world.alone(files.compactor_state())
    assert state.boundary_seen <= named[-1]


def test_a_page_of_long_ago_hides_nothing() -> None:
    """History 2: what it shows has been collected, and much has come since."""
    world, files = new_partition(), PartitionFiles(KEYS)
    epoch = world.alone(claim(files))
    world.alone(appends(files, 3))
    pages = [page(world)]
    for _ in range(4):
        collected(world, files, epoch)
        pages.append(page(world))
    world.alone(appends(files, 3))
    for old in pages:
        held = Held(world, PartitionFiles(KEYS).head())
        held.reply(old)
        assert held.end() == world.alone(files.head())


def test_what_is_collected_after_the_listing_is_not_the_head() -> None:
    """History 1. At each request of a search the rest of the world goes on."""
    stop = 0
    for stop in range(20):
        world, files = new_partition(), PartitionFiles(KEYS)
        epoch = world.alone(claim(files))
        collected(world, files, epoch)
        held = Held(world, PartitionFiles(KEYS).head())
        for _ in range(stop):
            if held.request is not None:
                held.go()
        if held.request is None or isinstance(held.request, Now):  # it is told already
            break
        collected(world, files, epoch, 2)
        newest = world.alone(files.head())
        assert held.end() == newest
    assert stop >= 3


def test_a_number_whose_next_one_is_not_there_is_a_head_only_by_a_boundary_read_after_that() -> None:
    """Both are answered, and then everything that was listed is collected."""
    world, files = new_partition(), PartitionFiles(KEYS)
    epoch = world.alone(claim(files))
    world.alone(appends(files, 3))
    number = files.manifest.seen.number
    held = Held(world, PartitionFiles(KEYS).head())
    held.until(lambda request: KEYS.manifest.key(number + 1) in keys_of(request))
    held.go()
    collected(world, files, epoch, 2)
    assert KEYS.manifest.key(number) not in world.objects
    assert held.end() == world.alone(files.head())


def test_the_boundary_is_never_asked_for_together_with_the_next_number() -> None:
    world, files = new_partition(), PartitionFiles(KEYS)
    epoch = world.alone(claim(files))
    collected(world, files, epoch)
    world.alone(appends(files, 12))
    held = Held(world, PartitionFiles(KEYS).head())
    held.end()
    last = rounds(held)[-1]
    assert any(key.startswith(KEYS.boundary.prefix) for key in last)
    assert KEYS.manifest.key(files.manifest.seen.number + 1) not in last


def info(number: int, of: Callable[[int], str] = KEYS.manifest.key) -> ObjectInfo:
    return ObjectInfo(of(number), 1, None)


ODD: dict[str, Callable[[int], Page]] = {
    "nothing": lambda _: Page((), None),
    "nothing yet": lambda _: UNKNOWN_PAGE,
    "only what is not ours": lambda head: Page((ObjectInfo(KEYS.manifest.prefix + "notes", 1, None),), None),
    "a number of another chain": lambda head: Page((info(head + 9, KEYS.compactor.key),), None),
    "in no order": lambda head: Page((info(head), info(head - 2), info(head - 1)), None),
    "the smaller numbers": lambda head: Page((info(head - 3), info(head - 2)), "more"),
    "what is not there": lambda head: Page((info(head + 1), info(head + 300)), None),
    "what is far away": lambda head: Page((info(10**19),), None),
    "number 0": lambda _: Page((info(0),), None),
}


@pytest.mark.parametrize("what", ODD)
@pytest.mark.parametrize("collections", [0, 2])
def test_whatever_a_page_shows_the_head_is_found(what: str, collections: int) -> None:
    world, files = new_partition(), PartitionFiles(KEYS)
    epoch = world.alone(claim(files))
    collected(world, files, epoch, collections)
    world.alone(appends(files, 5))
    held = Held(world, PartitionFiles(KEYS).head())
    held.reply(ODD[what](files.manifest.seen.number))
    assert held.end() == world.alone(files.head())


def test_a_manifest_that_is_pinned_below_the_boundary_is_not_where_a_search_ends() -> None:
    world, files = new_partition(), PartitionFiles(KEYS)
    epoch = world.alone(claim(files))
    world.alone(appends(files, 5))
    pinned = world.alone(files.manifest.commit(CreateCheckpoint("c" * 16, "kept", None))).version.number
    collected(world, files, epoch, 2)
    assert KEYS.manifest.key(pinned) in world.objects
    assert KEYS.manifest.key(pinned + 1) not in world.objects
    held = Held(world, PartitionFiles(KEYS).head())
    held.reply(Page((info(pinned),), None))
    assert held.end() == world.alone(files.head())


def test_a_chain_that_has_not_begun_is_found_empty_in_three_rounds() -> None:
    world, files = new_partition(), PartitionFiles(KEYS)
    world.alone(appends(files, 3))
    held = Held(world, PartitionFiles(KEYS).compactor_state())
    assert held.end() is None
    assert rounds(held)[:2] == [[KEYS.compactor.prefix], [KEYS.compactor.key(1)]]
    assert len(rounds(held)) == 3


@pytest.mark.parametrize("collections", [0, 2])
def test_a_chain_that_was_empty_when_it_was_listed_has_begun_since(collections: int) -> None:
    world, files = new_partition(), PartitionFiles(KEYS)
    held = Held(world, PartitionFiles(KEYS).compactor_state())
    held.go()
    epoch = world.alone(claim(files))
    collected(world, files, epoch, collections)
    for _ in range(collections):
        epoch = world.alone(claim(files))
    collected(world, files, epoch, collections)
    assert held.end() == world.alone(files.compactor_state())


@pytest.mark.parametrize("change", UNREADABLE)
def test_a_head_that_cannot_be_read_is_told_and_not_passed_over(change: Rewrite) -> None:
    world, files = new_partition(), PartitionFiles(KEYS)
    epoch = world.alone(claim(files))
    collected(world, files, epoch)
    world.alone(appends(files, 3))
    number = files.manifest.seen.number
    rewrite_in(world, KEYS.manifest.key(number), change)
    for near in (False, True):
        world.near = near
        with pytest.raises(Exception, match=f"{number:020d}") as raised:
            world.alone(PartitionFiles(KEYS).head())
        assert isinstance(raised.value, Corrupt) or "upgrade" in str(raised.value)


def with_boundary(world: World, number: int, seen: int) -> None:
    key = KEYS.manifest.key(number)
    body, at_ms = world.objects[key]
    world.objects[key] = encode(replace(decode(Manifest, body, key, number), boundary_seen=seen)), at_ms


@pytest.mark.parametrize("seen", [0, 1, 2, 3, 4, 400, 10**18])
def test_whatever_boundary_a_manifest_names_the_newest_is_found(seen: int) -> None:
    """An earlier release names none; and somebody may restore a part of the files from a copy."""
    world, files = new_partition(), PartitionFiles(KEYS)
    epoch = world.alone(claim(files))
    collected(world, files, epoch, 3)
    world.alone(appends(files, 2))
    with_boundary(world, files.manifest.seen.number, seen)
    fresh = PartitionFiles(KEYS)
    assert world.alone(fresh.head()).id == files.manifest.seen.number
    assert fresh.boundary.seen.value == files.boundary.seen.value


def others(world: World, number: int) -> list[bytes]:
    """What somebody may have put at a number far above: a copy of the head, another's manifest, junk."""
    copy = world.objects[KEYS.manifest.key(number)][0]
    return [copy, copy.replace(b'"id":%d' % number, b'"id":%d' % (number + 500)), b"junk", b""]


@pytest.mark.parametrize("what", range(4))
@pytest.mark.parametrize("collections", [0, 2])
@pytest.mark.parametrize("page_keys", [3, 1_000])
@pytest.mark.parametrize("far", [600, 9_999])
def test_a_number_above_a_gap_is_nobodys_head(what: int, collections: int, page_keys: int, far: int) -> None:
    """A search that lists nothing does not come upon it: there would be two heads, or none that can be read."""
    world, files = new_partition(), PartitionFiles(KEYS)
    epoch = world.alone(claim(files))
    collected(world, files, epoch, collections)
    world.alone(appends(files, 5))
    head = files.manifest.seen.number
    world.objects[KEYS.manifest.key(head + far)] = others(world, head)[what], world.now_ms
    world.page_keys = page_keys
    found = world.alone(PartitionFiles(KEYS).head())
    assert found == world.alone(files.head())
    assert found.id == head
    world.alone(appends(PartitionFiles(KEYS), 1))
    assert world.alone(PartitionFiles(KEYS).head()).id == head + 1


@pytest.mark.parametrize("more", [0, 1, 2, 30])
@pytest.mark.parametrize("boundaries", [0, 20])
def test_a_page_that_shows_the_oldest_alone_costs_little(more: int, boundaries: int) -> None:
    """Two rounds more than without it, at most; and far fewer requests where there are many boundaries."""
    world, files = new_partition(), PartitionFiles(KEYS)
    epoch = world.alone(claim(files))
    collected(world, files, epoch, boundaries)
    world.alone(appends(files, 10 + more))
    world.page_keys = 10
    asked: list[list[list[str]]] = []
    for world.near in (False, True):
        held = Held(world, PartitionFiles(KEYS).head())
        assert held.end() == world.alone(files.head())
        asked.append([each for each in rounds(held) if not world.near or each[0] != KEYS.manifest.prefix])
    listed, unlisted = asked
    assert len(listed) <= len(unlisted) + 2
    assert sum(map(len, listed)) <= sum(map(len, unlisted)) + 12 - boundaries


def test_a_warm_search_lists_nothing() -> None:
    world, files, other = new_partition(), PartitionFiles(KEYS), PartitionFiles(KEYS)
    world.alone(files.head())
    world.alone(appends(other, 3))
    held = Held(world, files.head())
    held.end()
    assert held.asked_for(Glimpse) == []


def test_topics_and_boundaries_are_not_listed() -> None:
    world, files = new_partition(), PartitionFiles(KEYS)
    for chain in (files.boundary, topic_lineage("t")):
        held = Held(world, chain.refresh())
        held.end()
        assert held.asked_for(Glimpse) == []
