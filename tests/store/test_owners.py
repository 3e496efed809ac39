"""One warehouse owns what a topic has in a home, and no other deletes there: neither one of another URL, nor a copy."""

from collections.abc import Callable, Mapping
from contextlib import suppress
from itertools import product
from pathlib import Path

import pytest

from lithify.store.errors import InvalidRequest, LithifyError, Unavailable
from lithify.store.fsspec_store import FsspecStore
from lithify.store.memory import MemoryStore
from lithify.store.owners import (
    adopt_home,
    claim_home,
    owner_of_home,
    owns_home,
    require_owner,
)
from lithify.store.port import Object, Outcome, Store
from lithify.store.wrapped import Wrapped
from lithify.testing.faults import Fault, FaultyStore
from tests.store.claiming import FIRST, KEY, REFUSED, body_of, copied, ours, who_owns

STEPS = 7  # of a claim
EACH_STEP = range(STEPS + 1)  # and none


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


def test_a_claim_has_these_steps() -> None:
    taken: list[None] = []
    claim_home(Steps(MemoryStore(), lambda: taken.append(None)), KEY, Steps(ours(), lambda: taken.append(None)))
    assert len(taken) == STEPS


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


@pytest.mark.parametrize("at", EACH_STEP)
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


@pytest.mark.parametrize("at", EACH_STEP)
def test_two_claims_of_one_warehouse_at_once(at: int) -> None:
    home, here = MemoryStore(), ours()
    stepwise(home, here, at, lambda: claim_home(home, KEY, here))
    assert who_owns(home, here) == [True]
    assert [found.key for found in here.list("").objects] == [FIRST]


@pytest.mark.parametrize("at", EACH_STEP)
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


LOST = (Fault.NONE, Fault.LOST_REPLY, Fault.TWICE, Fault.LOST_REQUEST, Fault.LATE)


@pytest.mark.parametrize(("of_witness", "of_home"), product(LOST, LOST))
def test_a_claim_whose_replies_were_lost(of_witness: Fault, of_home: Fault) -> None:
    home, here = FaultyStore(MemoryStore(), [of_home]), FaultyStore(ours(), [of_witness])
    clear = (Fault.NONE, Fault.LOST_REPLY, Fault.TWICE)
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
