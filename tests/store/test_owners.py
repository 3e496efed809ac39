"""One warehouse owns what a topic has in a home, and no other deletes there."""

from pathlib import Path

import pytest

from lithify.store.errors import Corrupt, InvalidRequest, Unavailable
from lithify.store.fsspec_store import FsspecStore
from lithify.store.memory import MemoryStore
from lithify.store.owners import adopt_home, claim_home, owner_key, owner_of_home, require_owner
from lithify.store.port import Store
from lithify.testing.faults import Fault, FaultyStore

KEY = owner_key("users", "0123456789abcdef")
OURS, COPY = "s3://bucket/warehouse", "s3://bucket/copy"


def test_the_first_claim_counts(store: Store) -> None:
    assert owner_of_home(store, KEY) is None
    claim_home(store, KEY, OURS)
    claim_home(store, KEY, OURS)
    with pytest.raises(InvalidRequest, match=f"belongs to the warehouse {OURS}.*moved to {COPY}.*adopt.*another cold"):
        claim_home(store, KEY, COPY)
    assert owner_of_home(store, KEY) == OURS


def test_only_the_owner_deletes(store: Store) -> None:
    with pytest.raises(Unavailable, match="is it mounted"):
        require_owner(store, KEY, OURS)
    claim_home(store, KEY, OURS)
    require_owner(store, KEY, OURS)
    with pytest.raises(InvalidRequest, match=f"belongs to the warehouse {OURS}"):
        require_owner(store, KEY, COPY)
    adopt_home(store, KEY, COPY)
    require_owner(store, KEY, COPY)
    with pytest.raises(InvalidRequest, match=f"belongs to the warehouse {COPY}"):
        require_owner(store, KEY, OURS)


@pytest.mark.parametrize("fault", [Fault.LOST_REPLY, Fault.LOST_REQUEST])
def test_a_claim_whose_reply_was_lost(fault: Fault) -> None:
    store = FaultyStore(MemoryStore(), [fault])
    if fault is Fault.LOST_REQUEST:
        with pytest.raises(Unavailable, match="nothing is known of the claim"):
            claim_home(store, KEY, OURS)
    claim_home(store, KEY, OURS)
    assert owner_of_home(store, KEY) == OURS


def test_any_filesystem_takes_a_claim(tmp_path: Path) -> None:
    """Of two at the same moment the later one stays; here, they come one after the other."""
    store = FsspecStore(f"file://{tmp_path}")
    assert not store.creates
    claim_home(store, KEY, OURS)
    with pytest.raises(InvalidRequest, match="belongs to"):
        claim_home(store, KEY, COPY)


def test_files_that_say_nothing() -> None:
    store = MemoryStore()
    for body in (b"", b"{}", b'"s3://b"', b"\xff"):
        store.put(KEY, body)
        with pytest.raises(Corrupt, match=r"home.json does not name a warehouse.*adopt"):
            owner_of_home(store, KEY)
        with pytest.raises(Corrupt):
            claim_home(store, KEY, OURS)
    store.put(KEY, b'{"format": 2, "warehouse": "s3://b", "more": 1}')
    with pytest.raises(InvalidRequest, match="upgrade lithify"):
        owner_of_home(store, KEY)


def test_what_is_stored() -> None:
    store = MemoryStore()
    claim_home(store, KEY, OURS)
    found = store.get(KEY)
    assert found is not None
    assert found.body == b'{"warehouse":"s3://bucket/warehouse","format":1}'
    assert KEY == "users/0123456789abcdef/home.json"
