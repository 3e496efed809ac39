"""One warehouse owns what a topic has in a home, and no other deletes there: neither one of another URL, nor a copy."""

from collections.abc import Callable, Iterator, Mapping
from contextlib import suppress
from itertools import product
from pathlib import Path

import pytest

from lithify.store.errors import Corrupt, InvalidRequest, LithifyError, Unavailable
from lithify.store.fsspec_store import FsspecStore
from lithify.store.memory import MemoryStore
from lithify.store.metered import Metered
from lithify.store.owners import (
    HomeOwner,
    adopt_home,
    claim_home,
    owner_key,
    owner_of_home,
    owns_home,
    require_owner,
    witnesses,
)
from lithify.store.port import Object, Outcome, Store
from lithify.store.wrapped import Wrapped
from lithify.testing.faults import Fault, FaultyStore

KEY = owner_key("users", "0123456789abcdef")
FIRST = witnesses("users", "0123456789abcdef") + "first"
OF_AN_EARLIER_RELEASE = b'{"warehouse":"memory://ours","format":1}'  # as 0.1 wrote it: never change it
REFUSED = r"belongs to another warehouse of the same URL \(memory://ours\).*copy.*lithify home adopt users`; otherwise"


def ours() -> MemoryStore:
    return MemoryStore("ours")


def copied(warehouse: Store) -> MemoryStore:
    """A copy under the same URL, object by object."""
    copy = ours()
    for found in warehouse.list("").objects:
        copy.put(found.key, body_of(warehouse, found.key))
    return copy


def body_of(store: Store, key: str) -> bytes:
    found = store.get(key)
    assert found is not None
    return found.body


class Stopped(Exception):
    """The process is gone."""


class Steps(Wrapped):
    """Before and after each request, `step` is called."""

    def __init__(self, inner: Store, step: Callable[[], None]) -> None:
        super().__init__(inner)
        self._step = step

    def get(self, key: str) -> Object | None:
        self._step()
        return self.inner.get(key)

    def create(self, key: str, body: bytes, frees: bool = False) -> Outcome:
        self._step()
        outcome = self.inner.create(key, body, frees)
        self._step()
        return outcome

    def put(self, key: str, body: bytes) -> None:
        self._step()
        self.inner.put(key, body)
        self._step()

    def stamp(self, key: str) -> Mapping[str, str] | None:
        self._step()
        return self.inner.stamp(key)


def stepwise(home: Store, here: Store, at: int, act: Callable[[], None]) -> None:
    """Claim `home`; at step `at` of that, if there is such a step, `act`."""
    left = [at]

    def step() -> None:
        left[0] -= 1
        if left[0] == -1:
            act()

    claim_home(Steps(home, step), KEY, Steps(here, step))


def each_step() -> Iterator[int]:
    """Those of a claim, and one that is none."""
    taken = [0]

    def step() -> None:
        taken[0] += 1

    claim_home(Steps(MemoryStore(), step), KEY, Steps(ours(), step))
    assert taken[0] > 6
    yield from range(taken[0] + 1)


def who_owns(home: Store, *warehouses: Store) -> list[bool | None]:
    return [owns_home(home, KEY, each) for each in warehouses]


def tried(act: Callable[[], None]) -> bool:
    try:
        act()
    except LithifyError:
        return False
    return True


def test_the_first_claim_counts(store: Store) -> None:
    here, other = ours(), MemoryStore("other")
    assert owner_of_home(store, KEY) is None
    assert owns_home(store, KEY, here) is None
    claim_home(store, KEY, here)
    claim_home(store, KEY, here)
    refused = r"belongs to the warehouse memory://ours.*moved to memory://other.*adopt.*another cold"
    with pytest.raises(InvalidRequest, match=refused):
        claim_home(store, KEY, other)
    assert who_owns(store, here, other) == [True, False]


def test_only_the_owner_deletes(store: Store) -> None:
    here, other = ours(), MemoryStore("other")
    with pytest.raises(Unavailable, match="is it mounted"):
        require_owner(store, KEY, here)
    claim_home(store, KEY, here)
    require_owner(store, KEY, here)
    with pytest.raises(InvalidRequest, match="belongs to the warehouse memory://ours"):
        require_owner(store, KEY, other)
    adopt_home(store, KEY, other, "1")
    require_owner(store, KEY, other)
    with pytest.raises(InvalidRequest, match="belongs to the warehouse memory://other"):
        require_owner(store, KEY, here)


def test_any_store_of_a_warehouse_has_its_stamps_or_none(store: Store) -> None:
    home = MemoryStore()
    claim_home(home, KEY, store)
    require_owner(home, KEY, store)
    owner = owner_of_home(home, KEY)
    assert owner is not None
    assert (owner.format == 2) == bool(store.stamp(FIRST))


def test_a_copy_of_the_same_url_is_not_the_owner() -> None:
    home, original = MemoryStore(), ours()
    claim_home(home, KEY, original)
    copy = copied(original)
    for refused in (
        lambda: require_owner(home, KEY, copy),
        lambda: require_owner(home, KEY, copy, renews=True),
        lambda: claim_home(home, KEY, copy),
        lambda: require_owner(home, KEY, ours()),  # one without any witness: it was restored from long ago
    ):
        with pytest.raises(InvalidRequest, match=REFUSED):
            refused()
    require_owner(home, KEY, original)
    assert who_owns(home, original, copy) == [True, False]


def test_a_copy_of_before_the_claim_comes_first_or_is_refused() -> None:
    original = ours()
    copy = copied(original)
    for first, second in ((original, copy), (copy, original)):
        home = MemoryStore()
        claim_home(home, KEY, first)
        with pytest.raises(InvalidRequest, match=REFUSED):
            claim_home(home, KEY, second)
        assert who_owns(home, first, second) == [True, False]


def test_the_copy_that_adopts_is_the_owner_from_then_on() -> None:
    home, original = MemoryStore(), ours()
    claim_home(home, KEY, original)
    copy = copied(original)
    adopt_home(home, KEY, copy, "1")
    assert who_owns(home, original, copy) == [False, True]
    adopt_home(home, KEY, original, "2")
    assert who_owns(home, original, copy) == [True, False]


class Clone(MemoryStore):
    """Its objects have the stamps of the original's: an image of a disk."""

    def __init__(self, original: MemoryStore) -> None:
        super().__init__("ours")
        for found in original.list("").objects:
            self.put(found.key, body_of(original, found.key))
        self._cloned = {found.key: original.stamp(found.key) for found in original.list("").objects}

    def stamp(self, key: str) -> Mapping[str, str] | None:
        return self._cloned.get(key) or super().stamp(key)


def test_an_adoption_locks_out_a_clone_that_cannot_be_told_apart() -> None:
    home, original = MemoryStore(), ours()
    claim_home(home, KEY, original)
    clone = Clone(original)
    assert who_owns(home, original, clone) == [True, True], "this is not protected, see RFC 0032"
    adopt_home(home, KEY, clone, "1")
    assert who_owns(home, original, clone) == [False, True]


@pytest.mark.parametrize("at", each_step())
@pytest.mark.parametrize("first", ["original", "copy"])
def test_a_claim_that_is_killed_at_a_step_and_a_copy_of_then(at: int, first: str) -> None:
    """The original goes on, unless the copy claimed the home while it had no owner."""
    home, original = MemoryStore(), ours()

    def stop() -> None:
        raise Stopped

    with suppress(Stopped):
        stepwise(home, original, at, stop)
    copy, claimed = copied(original), owner_of_home(home, KEY) is not None
    order = {"original": (original, copy), "copy": (copy, original)}[first]
    done = [tried(lambda each=each: claim_home(home, KEY, each)) for each in order]
    owner = original if claimed else order[0]
    assert done == [each is owner for each in order]
    assert who_owns(home, original, copy) == [owner is original, owner is copy]


@pytest.mark.parametrize("at", each_step())
def test_two_claims_of_one_warehouse_at_once(at: int) -> None:
    home, here = MemoryStore(), ours()
    stepwise(home, here, at, lambda: claim_home(home, KEY, here))
    assert who_owns(home, here) == [True]
    assert [found.key for found in here.list("").objects] == [FIRST]


@pytest.mark.parametrize("at", each_step())
def test_two_claims_of_an_original_and_its_copy_at_once(at: int) -> None:
    home, original = MemoryStore(), ours()
    copy = copied(original)
    done: dict[str, bool] = {}

    def rival() -> None:
        done["copy"] = tried(lambda: claim_home(home, KEY, copy))

    done["original"] = tried(lambda: stepwise(home, original, at, rival))
    if "copy" not in done:
        rival()
    assert who_owns(home, original, copy) == [done["original"], done["copy"]]
    assert sorted(done.values()) == [False, True]


LOST = (Fault.NONE, Fault.LOST_REPLY, Fault.LOST_REQUEST, Fault.LATE)


@pytest.mark.parametrize(("of_witness", "of_home"), product(LOST, LOST))
def test_a_claim_whose_replies_were_lost(of_witness: Fault, of_home: Fault) -> None:
    home, here = FaultyStore(MemoryStore(), [of_home]), FaultyStore(ours(), [of_witness])
    clear = (Fault.NONE, Fault.LOST_REPLY)
    if of_witness not in clear:
        with pytest.raises(Unavailable, match="not known whether it was stored"):
            claim_home(home, KEY, here)
        assert owner_of_home(home, KEY) is None, "the witness comes first"
    if of_home not in clear:
        with pytest.raises(Unavailable, match="nothing is known of the claim"):
            claim_home(home, KEY, here)
    claim_home(home, KEY, here)
    assert who_owns(home, here) == [True]
    for late in (home, here):
        late.deliver()
    assert who_owns(home, here) == [True]
    assert len(here.list("").objects) == 1


def test_an_adoption_that_arrives_after_the_next_one_is_harmless() -> None:
    home, here = MemoryStore(), ours()
    claim_home(home, KEY, here)
    adopt_home(home, KEY, here, "1")
    late = body_of(home, KEY)
    adopt_home(home, KEY, here, "2")
    home.put(KEY, late)
    require_owner(home, KEY, here)


def test_an_adoption_that_stops_before_the_home_changes_nothing() -> None:
    home, here = MemoryStore(), ours()
    claim_home(home, KEY, here)

    def stop() -> None:
        raise Stopped

    with pytest.raises(Stopped):
        adopt_home(Steps(home, stop), KEY, here, "1")
    assert len(here.list("").objects) == 2
    require_owner(home, KEY, here)


def test_any_filesystem_takes_a_claim(tmp_path: Path) -> None:
    """Of two at the same moment the later one stays; here, they come one after the other."""
    store = FsspecStore(f"file://{tmp_path}")
    assert not store.creates
    original = ours()
    claim_home(store, KEY, original)
    claim_home(store, KEY, original)
    for other in (MemoryStore("other"), copied(original)):
        with pytest.raises(InvalidRequest, match="belongs to"):
            claim_home(store, KEY, other)


def test_what_an_earlier_release_wrote_counts_by_its_url_until_its_owner_writes() -> None:
    home, original = MemoryStore(), ours()
    home.put(KEY, OF_AN_EARLIER_RELEASE)
    copy = copied(original)
    require_owner(home, KEY, original)
    require_owner(home, KEY, copy)
    assert who_owns(home, original, copy, MemoryStore("other")) == [True, True, False]
    assert (body_of(home, KEY), not original.list("").objects) == (OF_AN_EARLIER_RELEASE, True), (
        "asking changes nothing"
    )
    require_owner(home, KEY, original, renews=True)
    assert who_owns(home, original, copy) == [True, False]


def test_another_warehouse_does_not_renew_it() -> None:
    home, other = MemoryStore(), MemoryStore("other")
    home.put(KEY, OF_AN_EARLIER_RELEASE)
    for refused in (lambda: claim_home(home, KEY, other), lambda: require_owner(home, KEY, other, renews=True)):
        with pytest.raises(InvalidRequest, match="belongs to the warehouse memory://ours"):
            refused()
    assert body_of(home, KEY) == OF_AN_EARLIER_RELEASE


class Unstamped(MemoryStore):
    """As most filesystems of fsspec, or a folder whose filesystem does not note when a file was born."""

    def stamp(self, key: str) -> Mapping[str, str] | None:
        return super().stamp(key) and {}


def test_where_no_stamp_is_known_the_url_alone_counts() -> None:
    home, here = MemoryStore(), Unstamped("ours")
    for _ in range(2):
        claim_home(home, KEY, here)
        require_owner(home, KEY, here, renews=True)
    assert body_of(home, KEY) == OF_AN_EARLIER_RELEASE, "what every release can read"
    require_owner(home, KEY, ours())


def test_a_stamp_that_is_not_known_any_more_locks_nobody_out() -> None:
    """As of a folder that a machine with an older system mounts, too."""
    home, here = MemoryStore(), Unstamped("ours")
    home.put(KEY, b'{"warehouse":"memory://ours","format":2,"witness":"first","stamp":{"born_ns":"7"}}')
    with pytest.raises(InvalidRequest, match=REFUSED):
        require_owner(home, KEY, here)
    here.put(FIRST, b"")
    require_owner(home, KEY, here)


class Versioned(MemoryStore):
    def __init__(self, **found: str) -> None:
        super().__init__("ours")
        self.found = found

    def stamp(self, key: str) -> Mapping[str, str] | None:
        return self.found


@pytest.mark.parametrize(
    ("recorded", "found", "owns"),
    [
        ({"modified_ms": "1"}, {"modified_ms": "1"}, True),
        ({"modified_ms": "1"}, {"modified_ms": "2"}, False),
        ({"modified_ms": "1"}, {"modified_ms": "1", "version": "v"}, True),
        ({"modified_ms": "1", "version": "v"}, {"modified_ms": "1", "version": "w"}, False),
        ({"modified_ms": "1", "version": "v"}, {"modified_ms": "2", "version": "v"}, False),
        ({"modified_ms": "1", "version": "v"}, {"modified_ms": "1"}, True),
        ({"later_kind": "1"}, {"modified_ms": "1"}, True),
    ],
)
def test_what_can_be_compared_must_agree(recorded: dict[str, str], found: dict[str, str], owns: bool) -> None:
    home = MemoryStore()
    claim_home(home, KEY, Versioned(**recorded))
    assert owns_home(home, KEY, Versioned(**found)) is owns


@pytest.mark.parametrize(
    "body",
    [
        b"",
        b"{}",
        b'"s3://b"',
        b"\xff",
        b'{"warehouse":"memory://ours","format":2,"witness":"../../../x","stamp":{}}',
        b'{"warehouse":"memory://ours","format":2,"witness":"","stamp":{}}',
        b'{"warehouse":"memory://ours","format":2,"witness":"first\\n","stamp":{}}',
        b'{"warehouse":"memory://ours","format":2,"witness":"first","stamp":{"born_ns":7}}',
    ],
)
def test_files_that_say_nothing(body: bytes) -> None:
    store = MemoryStore()
    store.put(KEY, body)
    with pytest.raises(Corrupt, match=r"home.json does not name a warehouse.*adopt"):
        owner_of_home(store, KEY)
    with pytest.raises(Corrupt):
        claim_home(store, KEY, ours())


def test_a_later_format_is_refused() -> None:
    store = MemoryStore()
    store.put(KEY, b'{"format": 3, "warehouse": "memory://ours", "more": 1}')
    for refused in (lambda: owner_of_home(store, KEY), lambda: require_owner(store, KEY, ours())):
        with pytest.raises(InvalidRequest, match="upgrade lithify"):
            refused()


def test_what_is_stored() -> None:
    home, here = MemoryStore(), Versioned(modified_ms="1700000000000", version="v1")
    claim_home(home, KEY, here)
    assert body_of(home, KEY) == (
        b'{"warehouse":"memory://ours","format":2,"witness":"first",'
        b'"stamp":{"modified_ms":"1700000000000","version":"v1"}}'
    )
    assert owner_of_home(home, KEY) == HomeOwner("memory://ours", 2, "first", here.found)
    assert KEY == "users/0123456789abcdef/home.json"
    assert FIRST == "users/0123456789abcdef/witness/first"


def test_requests_are_counted() -> None:
    """Of each store: at a claim, at the next one, and at each question before something is written or deleted."""
    home, here = Metered(MemoryStore()), Metered(ours())

    def asked(act: Callable[[], None]) -> tuple[dict[str, int], dict[str, int]]:
        before = home.requests(), here.requests()
        act()
        made = home.requests() - before[0], here.requests() - before[1]
        names = ("creates", "gets", "puts", "heads")
        of_home, of_here = ({name: getattr(each, name) for name in names if getattr(each, name)} for each in made)
        return of_home, of_here

    assert asked(lambda: claim_home(home, KEY, here)) == ({"creates": 1, "gets": 1}, {"creates": 1, "heads": 2})
    assert asked(lambda: claim_home(home, KEY, here)) == ({"gets": 1}, {"heads": 1})
    assert asked(lambda: require_owner(home, KEY, here, renews=True)) == ({"gets": 1}, {"heads": 1})
    assert asked(lambda: adopt_home(home, KEY, here, "1")) == ({"puts": 1}, {"creates": 1, "heads": 2})
