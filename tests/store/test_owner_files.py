"""What `home.json` says, in each format, and what counts where little is known of a stamp (docs/rfcs/0032)."""

from collections.abc import Callable, Mapping

import pytest

from lithify.store.errors import Corrupt, InvalidRequest
from lithify.store.memory import MemoryStore
from lithify.store.metered import Metered
from lithify.store.owners import HomeOwner, adopt_home, claim_home, owner_of_home, owns_home, require_owner
from tests.store.claiming import FIRST, KEY, OF_AN_EARLIER_RELEASE, REFUSED, body_of, copied, ours, who_owns


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
    assert FIRST == "users/0123456789abcdef/witness/first.witness"


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
