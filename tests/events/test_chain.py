"""One chain, followed and read back, request by request."""

import pytest
from msgspec.structs import replace

import lithify
from lithify.events import chain as chain_module
from lithify.events.chain import FollowedChain, followed, partitions_since
from lithify.events.notices import Gap
from lithify.events.types import Change, Event
from lithify.gc.collect import collect
from lithify.manifest.catalog import topic_lineage
from lithify.manifest.codec import LaterFormat, encode
from lithify.manifest.keys import TopicKeys
from lithify.manifest.lifetime import Touch
from lithify.manifest.partition import PartitionFiles
from lithify.store.driver import new_id
from lithify.store.errors import Corrupt, InvalidRequest, LithifyError, Unavailable
from lithify.store.port import Get, Head
from tests.interleave import World
from tests.protocol.scene import KEYS, Held, append, appends, claim, compact, new_partition
from tests.unreadable import UNREADABLE, Rewrite, later, rewrite, rewrite_in

HOUR_MS = 3_600_000


def numbers(events: list[Event]) -> list[int]:
    return [event.number for event in events if isinstance(event, Change)]


def begun(world: World) -> FollowedChain:
    chain, _ = followed(KEYS, world.now_ms)
    world.now_ms += 1
    assert world.alone(chain.look()) == []
    return chain


def collected(world: World, files: PartitionFiles) -> int:
    """Some manifests, and a collection of all but the last."""
    epoch = world.alone(claim(files))
    world.alone(appends(files, 3))
    world.alone(compact(files, epoch))
    for _ in range(3):
        world.alone(collect(files, HOUR_MS))
        world.now_ms += HOUR_MS
    boundary = world.alone(files.boundary.refresh()).value
    assert boundary is not None
    assert boundary.manifest > 4
    return boundary.manifest


def test_an_unchanged_chain_costs_one_get_and_each_change_comes_once() -> None:
    world = new_partition()
    chain, files = begun(world), PartitionFiles(KEYS)
    held = Held(world, chain.look())
    assert (held.end(), held.asked_for(Get, Head)) == ([], [Get(KEYS.manifest.key(2))])
    world.alone(appends(files, 3))
    assert numbers(world.alone(chain.look())) == [2, 3, 4]
    assert world.alone(chain.look()) == []


def test_after_a_minute_the_boundary_is_read_too() -> None:
    world = new_partition()
    chain = begun(world)
    world.now_ms += 60_000
    held = Held(world, chain.look())
    assert held.end() == []
    assert held.asked_for(Get) == [Get(KEYS.manifest.key(2)), Get(KEYS.boundary.key(1))]


def test_who_was_away_while_files_were_collected_is_told_of_a_gap() -> None:
    """The next number is gone, and so are those after it: it must not wait for it."""
    world = new_partition()
    chain, files = begun(world), PartitionFiles(KEYS)
    dead = collected(world, files)
    world.alone(append(files))
    head = files.manifest.seen
    told = world.alone(chain.look())
    assert isinstance(told[0], Gap)
    assert (told[0].chain, told[0].number) == ("manifest", dead + 1)
    assert set(numbers(told)) == set(range(dead + 2, head.number + 1))


def test_a_dead_number_that_was_created_again_tells_nothing() -> None:
    """A stalled writer can do that (P4): what it wrote is not what the next file was made from."""
    world = new_partition()
    files = PartitionFiles(KEYS)
    first = world.alone(files.manifest.refresh()).value
    assert first is not None
    chain = begun(world)
    dead = collected(world, files)
    late = replace(first, id=dead, nonce="late")
    world.objects[KEYS.manifest.key(dead)] = (encode(late), world.now_ms)
    head = world.alone(files.manifest.refresh()).number
    for told in (world.alone(chain.look()), world.alone(chain.back(0))):
        assert isinstance(told[0], Gap)
        assert (told[0].number, set(numbers(told))) == (dead + 1, set(range(dead + 2, head + 1)))


def test_reading_back_ends_at_the_first_older_file() -> None:
    world = new_partition()
    files, times = PartitionFiles(KEYS), [world.now_ms]
    for _ in range(6):
        world.now_ms += 1_000
        times.append(world.now_ms)
        world.alone(files.manifest.commit(Touch()))
        world.alone(append(files))
    chain = begun(world)
    whole = numbers(world.alone(chain.back(0)))
    assert whole == [1, *range(3, 14, 2)]
    held = Held(world, chain.back(times[5]))
    assert numbers(held.end()) == [11, 13]
    assert len(held.asked_for(Get)) == 5  # four older files, the last of which is too old, and the boundary
    assert numbers(world.alone(chain.back(world.now_ms + 1))) == []


def test_an_idle_partition_whose_past_is_collected_has_no_gap() -> None:
    world = new_partition()
    files = PartitionFiles(KEYS)
    collected(world, files)
    world.now_ms += HOUR_MS
    chain = begun(world)
    assert world.alone(chain.back(world.now_ms - 60_000)) == []
    assert [type(event) for event in world.alone(chain.back(0))[:1]] == [Gap]


def test_more_files_than_are_read_at_once_are_a_gap(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(chain_module, "FILES_MAX", 3)
    world = new_partition()
    world.alone(appends(PartitionFiles(KEYS), 6))
    told = world.alone(begun(world).back(0))
    assert isinstance(told[0], Gap)
    assert (told[0].number, numbers(told)) == (4, [5, 6, 7])


def test_a_file_of_a_later_release_is_a_gap() -> None:
    world = new_partition()
    chain, files = begun(world), PartitionFiles(KEYS)
    world.alone(appends(files, 3))
    rewrite_in(world, KEYS.manifest.key(3), later)
    told = world.alone(chain.look())
    assert [type(event) for event in told] == [Gap]
    world.alone(appends(files, 1))
    assert numbers(world.alone(chain.look())) == [5]


@pytest.mark.parametrize("change", UNREADABLE)
def test_an_older_version_of_a_topic_that_nobody_can_read_is_told_of(change: Rewrite) -> None:
    """Nobody knows which partitions it announced."""
    warehouse = lithify.open(f"memory://{new_id()}")
    topic = warehouse.create_topic("t", 1, probe=False)
    topic.alter(partitions=2)
    warehouse.delete_topic("t")
    warehouse.create_topic("t", 1, probe=False)
    key = TopicKeys("t").config.key(2)
    found = rewrite(warehouse.store, key, change)
    since = warehouse.driver.run(partitions_since(topic_lineage("t"), 0))
    assert (sorted(keys.partition for keys in since.partitions), since.unreadable) == ([0, 0], 2)
    warehouse.store.put(key, found)
    since = warehouse.driver.run(partitions_since(topic_lineage("t"), 0))
    assert (sorted(keys.partition for keys in since.partitions), since.unreadable) == ([0, 0, 1], 0)
    rewrite(warehouse.store, TopicKeys("t").config.key(4), change)
    with pytest.raises((Corrupt, LaterFormat)):
        warehouse.driver.run(partitions_since(topic_lineage("t"), 0))


@pytest.mark.parametrize("lasting", [False, True])
def test_a_damaged_file_is_a_gap_and_a_damaged_reply_is_not(lasting: bool) -> None:
    world = new_partition()
    chain, files = begun(world), PartitionFiles(KEYS)
    world.alone(appends(files, 3))
    key, replies = KEYS.manifest.key(3), 0
    held = Held(world, chain.look())
    while held.request is not None:
        if held.request == Get(key) and (lasting or not replies):
            replies += 1
            held.reply(replace(world._answer(held.request), body=b"{"))
        else:
            held.go()
    gaps = [event.number for event in held.result if isinstance(event, Gap)]
    assert (gaps, numbers(held.result)) == (([4], []) if lasting else ([], [2, 3, 4]))


@pytest.mark.parametrize("error", [Unavailable("away"), InvalidRequest("refused with 400")])
def test_a_look_that_fails_anywhere_loses_nothing(error: LithifyError) -> None:
    for failing in range(12):
        world = new_partition()
        chain, files = begun(world), PartitionFiles(KEYS)
        world.alone(appends(files, 3))
        before = chain.looked_ms
        held = Held(world, chain.look())
        for _ in range(failing):
            if held.request is not None:
                held.go()
        if held.request is not None:
            with pytest.raises(type(error)):
                held.fail(error)
            assert chain.looked_ms == before
            assert numbers(world.alone(chain.look())) == [2, 3, 4]
