"""P20: each owner of pins has its own names, its own bound, and lets nothing go but its own (docs/rfcs/0016)."""

import shlex
from typing import Any

import msgspec
import pytest
from msgspec.structs import replace

from lithify.gc.collect import collect
from lithify.log import checkpoints
from lithify.manifest.codec import decode, encode
from lithify.manifest.edits import Next, Refused
from lithify.manifest.invariants import check_manifest, manifest_problems
from lithify.manifest.model import PINS_MAX, SCAN_TTL_MS_MAX, Checkpoint, Manifest, PinOwner
from lithify.manifest.partition import PartitionFiles
from lithify.manifest.pins import CreateCheckpoint, DeleteCheckpoint, RefreshCheckpoint, let_go_text, pin_text
from lithify.store.errors import InvalidRequest, LithifyError, NotFound, Unavailable
from tests.protocol.scene import FIRST, GRACE_MS, KEYS, after, appends, at, claim, compact, new_partition

HEAD = replace(at(FIRST, 5_000), orphan_floor=4_000)
OWNERS: tuple[PinOwner, ...] = ("user", "scan", "view")
NOW_MS = 1_000
LONG_MS = SCAN_TTL_MS_MAX


def pins(owner: PinOwner, count: int, first: int = 1, expires_at_ms: int | None = None) -> tuple[Checkpoint, ...]:
    """On manifests one after the other, the oldest last: their place in the list tells nothing."""
    numbers = range(first + count - 1, first - 1, -1)
    expiry = {"expires_at_ms": expires_at_ms}
    return tuple(
        Checkpoint(id=f"{owner}{n}", owner=owner, name=f"{owner}{n}", manifest=n, created_at_ms=0, **expiry)
        for n in numbers
    )


FULL = replace(
    HEAD,
    checkpoints=(
        *pins("user", PINS_MAX["user"], 1_000),
        *pins("scan", PINS_MAX["scan"], 2_000, NOW_MS + 1),
        *pins("view", PINS_MAX["view"], 3_000),
    ),
)


def one_more(owner: PinOwner) -> CreateCheckpoint:
    return CreateCheckpoint("new", "new", LONG_MS if owner == "scan" else None, owner=owner)


def following(head: Manifest, edit: Any, now_ms: int = NOW_MS) -> Manifest:
    verdict = edit.apply(head, head.id + 1, now_ms)
    assert isinstance(verdict, Next), verdict
    value = at(verdict.value, head.id + 1)
    check_manifest(head, value)
    return value


def refused(head: Manifest, edit: Any) -> LithifyError:
    verdict = edit.apply(head, head.id + 1, NOW_MS)
    assert isinstance(verdict, Refused), verdict
    return verdict.error


def ids(head: Manifest, owner: PinOwner) -> set[str]:
    return {pin.id for pin in head.checkpoints if pin.owner == owner}


@pytest.mark.parametrize("owner", OWNERS)
def test_an_owner_has_room_whatever_the_others_pin(owner: PinOwner) -> None:
    others = tuple(pin for pin in FULL.checkpoints if pin.owner != owner)
    room = replace(FULL, checkpoints=others + pins(owner, PINS_MAX[owner] - 1, expires_at_ms=NOW_MS + 1))
    made = following(room, one_more(owner))
    assert set(made.checkpoints) > set(room.checkpoints)
    assert made.checkpoints[-1].owner == owner


def test_users_at_their_bound_are_refused_and_told_of_the_oldest_that_is_theirs() -> None:
    error = refused(FULL, one_more("user"))
    assert isinstance(error, Unavailable)
    assert "has 256 checkpoints" in str(error)
    assert f"lithify checkpoint delete {HEAD.topic} user1000" in str(error)


def test_scans_at_their_bound_are_refused_while_none_has_expired() -> None:
    error = refused(FULL, one_more("scan"))
    assert isinstance(error, Unavailable)
    assert "scans" in str(error)
    assert "checkpoint delete" not in str(error), "nobody deletes what a scan reads"


@pytest.mark.parametrize("owner", OWNERS)
def test_expired_scans_leave_in_the_commit_that_makes_another_at_the_bound(owner: PinOwner) -> None:
    alive, over = pins("scan", 500, 2_000, NOW_MS + 1), pins("scan", 12, 2_600, NOW_MS)
    head = replace(HEAD, checkpoints=(*alive, *over, *pins("user", 3, 1_000, NOW_MS), *pins("view", 3, 3_000, NOW_MS)))
    made = following(head, one_more(owner))
    if owner == "scan":
        assert ids(made, "scan") == {pin.id for pin in alive} | {"new"}
        assert made.unpinned == tuple(range(2_600, 2_612)), "what only they kept is found there"
    else:
        assert ids(made, "scan") == ids(head, "scan")
    for other in ("user", "view"):
        assert ids(made, other) - {"new"} == ids(head, other), "theirs have expired, too, and wait for a collection"


def test_a_scan_refreshed_meanwhile_stays() -> None:
    head = replace(HEAD, checkpoints=pins("scan", PINS_MAX["scan"], 2_000, NOW_MS))
    head = following(head, RefreshCheckpoint("scan2000", LONG_MS), NOW_MS - 1)
    assert ids(following(head, one_more("scan")), "scan") == {"scan2000", "new"}


def test_the_oldest_view_leaves_in_the_commit_that_pins_one_more() -> None:
    made = following(FULL, one_more("view"))
    assert ids(made, "view") == ids(FULL, "view") - {"view3000"} | {"new"}
    assert made.unpinned == (3_000,)
    assert [pin for pin in made.checkpoints if pin.owner != "view"] == [
        pin for pin in FULL.checkpoints if pin.owner != "view"
    ]


@pytest.mark.parametrize("most", [1, 2, 16])
def test_a_lower_bound_of_a_later_release_is_come_to(monkeypatch: pytest.MonkeyPatch, most: int) -> None:
    monkeypatch.setitem(PINS_MAX, "view", most)
    verdict = one_more("view").apply(FULL, FULL.id + 1, NOW_MS)
    assert isinstance(verdict, Next)
    assert ids(verdict.value, "view") == {f"view{n}" for n in range(3_016 - most + 1, 3_016)} | {"new"}


@pytest.mark.parametrize("ttl_ms", [None, SCAN_TTL_MS_MAX + 1])
def test_a_scan_pins_for_an_hour_at_most(ttl_ms: int | None) -> None:
    with pytest.raises(InvalidRequest, match=r"at most 1\.0 h"):
        CreateCheckpoint("new", "new", ttl_ms, owner="scan")
    head = following(HEAD, one_more("scan"))
    error = refused(head, RefreshCheckpoint("new", ttl_ms))
    assert isinstance(error, InvalidRequest)
    assert isinstance(RefreshCheckpoint("new", SCAN_TTL_MS_MAX).apply(head, 9_999, NOW_MS), Next)


@pytest.mark.parametrize("owner", OWNERS)
def test_a_name_is_one_owners(owner: PinOwner) -> None:
    """Each opens, and deletes, its own."""
    world, files = new_partition(), PartitionFiles(KEYS)
    made = {each: world.alone(checkpoints.pin(files, "same", LONG_MS, each))[1] for each in OWNERS}
    assert [made[each].owner for each in OWNERS] == [*OWNERS]
    assert world.alone(checkpoints.pin(files, "same", LONG_MS, owner))[1] == made[owner]
    assert world.alone(checkpoints.pinned(files, "same", owner))[1] == made[owner]
    assert world.alone(checkpoints.refresh(files, "same", 7, owner)).id == made[owner].id
    world.alone(checkpoints.delete(files, "same", owner))
    left = world.alone(files.head()).checkpoints
    assert {pin.owner for pin in left} == {*OWNERS} - {owner}
    with pytest.raises(NotFound, match="same"):
        world.alone(checkpoints.find(files, "same", owner))


@pytest.mark.parametrize("owner", OWNERS)
def test_a_manifest_beyond_an_owners_bound_is_not_written(owner: PinOwner) -> None:
    beyond = replace(FULL, checkpoints=(*FULL.checkpoints, *pins(owner, 1, 100)))
    assert [*manifest_problems(HEAD, FULL)] == [*manifest_problems(HEAD, HEAD)]
    told = [text for text in manifest_problems(HEAD, beyond) if text.startswith("checkpoints is bounded by")]
    assert told == [f"checkpoints is bounded by {PINS_MAX[owner]} for {owner}s"]


@pytest.mark.parametrize("owner", OWNERS)
def test_what_lets_a_pin_go_is_said_by_owner(owner: PinOwner) -> None:
    (pin,) = pins(owner, 1)
    assert pin_text(pin) == {"user": "checkpoint user1", "scan": "scan scan1", "view": "view view1"}[owner]
    assert ("`lithify checkpoint delete users user1`" in let_go_text("users", pin)) == (owner == "user")


def test_a_command_that_a_reason_gives_can_be_typed_as_it_is() -> None:
    """A name may have spaces: the command named a checkpoint `before`."""
    (pin,) = pins("user", 1)
    said = let_go_text("users", replace(pin, name="before the migration; it's due"))
    command = said[said.index("`") + 1 : said.rindex("`")]
    assert shlex.split(command) == ["lithify", "checkpoint", "delete", "users", "before the migration; it's due"]


def test_what_a_scan_that_died_has_pinned_is_collected() -> None:
    world, files = new_partition(), PartitionFiles(KEYS)
    world.alone(appends(files, 2))
    pinned = world.alone(files.manifest.commit(one_more("scan"))).version.value
    epoch = world.alone(claim(files))
    world.alone(compact(files, epoch))
    world.alone(collect(files, GRACE_MS))
    assert all(KEYS.segment(s.id) in world.objects for s in pinned.segments())
    for _ in range(4):
        world.now_ms += SCAN_TTL_MS_MAX
        world.alone(collect(files, GRACE_MS))
    assert not any(KEYS.segment(s.id) in world.objects for s in pinned.segments())


class OlderCheckpoint(msgspec.Struct, frozen=True, omit_defaults=True, kw_only=True):
    """As lithify knew it before there were owners."""

    id: str
    name: str
    manifest: int
    created_at_ms: int
    expires_at_ms: int | None = None


def by_an_older_lithify(head: Manifest) -> Manifest:
    """What it commits: all fields that it knows."""
    known = [msgspec.to_builtins(msgspec.convert(msgspec.to_builtins(c), OlderCheckpoint)) for c in head.checkpoints]
    raw = msgspec.to_builtins(head) | {"checkpoints": known}
    return msgspec.convert(raw, Manifest)


def test_what_an_older_lithify_makes_of_owners_loses_no_pin() -> None:
    head = replace(HEAD, checkpoints=())
    for edit in (one_more("user"), CreateCheckpoint("s", "new", LONG_MS, owner="scan")):
        head = following(head, edit)
    head = following(head, CreateCheckpoint("v", "new", None, owner="view"))
    older = by_an_older_lithify(head)
    assert {(c.id, c.manifest, c.expires_at_ms) for c in older.checkpoints} == {
        (c.id, c.manifest, c.expires_at_ms) for c in head.checkpoints
    }
    assert {c.owner for c in older.checkpoints} == {"user"}
    assert [*manifest_problems(HEAD, older)] == [*manifest_problems(HEAD, head)]
    older = following(older, RefreshCheckpoint("s", LONG_MS), NOW_MS + 9)
    older = following(older, DeleteCheckpoint("v"))
    assert {c.id: c.expires_at_ms for c in older.checkpoints} == {"new": None, "s": NOW_MS + 9 + LONG_MS}


def test_a_users_pin_is_stored_as_it_always_was() -> None:
    (pin,) = pins("user", 1)
    assert "owner" not in msgspec.to_builtins(pin)
    assert msgspec.to_builtins(pins("scan", 1)[0])["owner"] == "scan"
    stored = replace(FULL, checkpoints=(*pins("scan", 1, expires_at_ms=9), *pins("user", 1)))
    assert decode(Manifest, encode(stored), KEYS.manifest.key(stored.id), stored.id) == stored
    assert after(HEAD, one_more("user")).checkpoints[0].owner == "user"
