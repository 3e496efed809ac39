"""P20: a checkpoint pins the manifest that its own commit creates."""

import pytest

from lithify.gc.collect import collect
from lithify.gc.reachable import pinned_manifests
from lithify.manifest.edits import Already, Next, Refused
from lithify.manifest.homes import ONLY_HERE
from lithify.manifest.partition import PartitionFiles
from lithify.manifest.pins import Collect, CreateCheckpoint, DeleteCheckpoint, RefreshCheckpoint
from lithify.store.errors import AlreadyExists, NotFound
from lithify.store.port import Create
from tests.protocol.scene import FIRST, GRACE_MS, KEYS, Held, after, appends, at, claim, compact, new_partition

HEAD = at(FIRST, 5)


def test_it_pins_the_manifest_that_its_own_commit_creates() -> None:
    """Between the head it was made on and its commit, what only that head named may have been collected."""
    world, slow, quick = new_partition(), PartitionFiles(KEYS), PartitionFiles(KEYS)
    epoch = world.alone(claim(quick))
    world.alone(appends(quick, 2))
    world.alone(slow.head())
    held = Held(world, slow.manifest.commit(CreateCheckpoint("c", "c", None)))
    held.until(lambda r: isinstance(r, Create))
    world.alone(compact(quick, epoch))
    for _ in range(4):
        world.alone(collect(quick, GRACE_MS))
        world.now_ms += GRACE_MS
    made = held.end()
    assert made.result.manifest == made.version.number
    named = world.alone(slow.manifest.read(made.result.manifest)).value.segments()
    assert named
    assert all(KEYS.segment(s.id) in world.objects for s in named)


def test_expired_it_still_pins_until_a_commit_removes_it() -> None:
    world, files = new_partition(), PartitionFiles(KEYS)
    world.alone(appends(files, 2))
    pin = world.alone(files.manifest.commit(CreateCheckpoint("c", "c", 1))).version.value
    epoch = world.alone(claim(files))
    world.alone(compact(files, epoch))
    world.now_ms += 10 * GRACE_MS
    assert pinned_manifests(world.alone(files.head())) == {pin.id}
    first = world.alone(collect(files, GRACE_MS))
    assert first.checkpoints_expired == 1
    assert all(KEYS.segment(s.id) in world.objects for s in pin.segments())
    assert pinned_manifests(world.alone(files.head())) == frozenset()
    for _ in range(3):
        world.now_ms += GRACE_MS
        world.alone(collect(files, GRACE_MS))
    assert not any(KEYS.segment(s.id) in world.objects for s in pin.segments())


def test_refresh_fails_if_it_is_gone_though_another_bears_its_name() -> None:
    head = after(HEAD, CreateCheckpoint("one", "name", 10))
    head = after(head, DeleteCheckpoint("one"))
    head = after(head, CreateCheckpoint("two", "name", 10))
    verdict = RefreshCheckpoint("one", 50).apply(head, 9, 0)
    assert isinstance(verdict, Refused)
    assert isinstance(verdict.error, NotFound)


@pytest.mark.parametrize("ttl_ms", [50, None])
def test_refresh_fails_from_the_moment_at_which_it_expires(ttl_ms: int | None) -> None:
    """Nobody could count on it any more: a collection may have let go of what it pinned at the same time."""
    head = after(HEAD, CreateCheckpoint("c", "c", 10), now_ms=0)
    assert isinstance(RefreshCheckpoint("c", ttl_ms).apply(head, 9, 9), Next)
    verdict = RefreshCheckpoint("c", ttl_ms).apply(head, 9, 10)
    assert isinstance(verdict, Refused)
    assert isinstance(verdict.error, NotFound)


def test_a_checkpoint_refreshed_meanwhile_is_not_removed_as_expired() -> None:
    head = after(HEAD, CreateCheckpoint("c", "c", 10), now_ms=0)
    head = after(head, RefreshCheckpoint("c", 1_000), now_ms=5)
    assert isinstance(Collect(0, frozenset(), frozenset({"c"}), homes=ONLY_HERE).apply(head, 9, 20), Already)
    later = Collect(0, frozenset(), frozenset({"c"}), homes=ONLY_HERE).apply(head, 9, 1_005)
    assert isinstance(later, Next)
    assert later.value.checkpoints == ()


def test_refresh_changes_the_expiry_and_nothing_else() -> None:
    head = after(HEAD, CreateCheckpoint("c", "c", 10), now_ms=3)
    before = head.checkpoints[0]
    fresh = after(head, RefreshCheckpoint("c", 100), now_ms=7).checkpoints[0]
    assert (before.expires_at_ms, fresh.expires_at_ms) == (13, 107)
    assert (fresh.manifest, fresh.created_at_ms, fresh.name) == (before.manifest, 3, "c")
    assert after(head, RefreshCheckpoint("c", None)).checkpoints[0].expires_at_ms is None


@pytest.mark.parametrize("checkpoint_id", ["one", "two"])
def test_names_are_unique_and_ids_make_a_repeat_harmless(checkpoint_id: str) -> None:
    head = after(HEAD, CreateCheckpoint("one", "name", None))
    verdict = CreateCheckpoint(checkpoint_id, "name", None).apply(head, 9, 0)
    if checkpoint_id == "one":
        assert verdict == Already(head.checkpoints[0])
    else:
        assert isinstance(verdict, Refused)
        assert isinstance(verdict.error, AlreadyExists)
