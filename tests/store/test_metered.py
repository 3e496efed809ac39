"""Requests and bytes are counted as they are billed."""

import pytest

from lithify.store.errors import NotFound
from lithify.store.memory import MemoryStore
from lithify.store.metered import Metered
from lithify.store.port import Store
from lithify.store.prices import PRICES_USD
from lithify.store.request_counts import RequestCounts
from lithify.store.s3 import S3Store
from lithify.store.s3_output import PART_BYTES
from tests.processes import exit_codes, forked


def test_every_kind_of_request_is_counted() -> None:
    store = Metered(MemoryStore())
    assert store.requests() == RequestCounts()
    store.create("a", b"12345")
    store.create("a", b"123")
    store.get("a")
    store.get("nothing")
    store.read("a", 1, 3)
    store.put("b", b"1234567")
    store.head("a")
    store.list("")
    store.folders("")
    store.now()
    output = store.output("c")
    output.write(b"12")
    output.close()
    output.close()
    store.delete(["a", "b"])
    store.delete([])
    store.delete([f"k{number}" for number in range(1001)])
    assert store.requests() == RequestCounts(
        creates=2,
        gets=2,
        reads=1,
        puts=1,
        output_requests=1,
        heads=1,
        lists=2,
        deletes=3,
        bytes_read=5 + 3,
        bytes_written=5 + 3 + 7 + 2,
        conflicts=1,
    )


def test_a_failed_request_is_counted_too() -> None:
    store = Metered(MemoryStore())
    with pytest.raises(NotFound):
        store.read("nothing", 0, 1)
    assert store.requests() == RequestCounts(reads=1)


def test_the_difference_of_two_snapshots_is_what_happened_between() -> None:
    store = Metered(MemoryStore())
    store.put("a", b"1")
    before = store.requests()
    store.get("a")
    assert store.requests() - before == RequestCounts(gets=1, bytes_read=1)


def test_cost_is_by_the_list_prices() -> None:
    """1,000 PUT or LIST 0.005 USD, 1,000 GET or HEAD 0.0004, deletions free."""
    writes = RequestCounts(creates=250, puts=250, output_requests=250, lists=250)
    assert writes.cost_usd == pytest.approx(0.005)
    assert RequestCounts(gets=500, reads=300, heads=200).cost_usd == pytest.approx(0.0004)
    others = {"bytes_read", "bytes_written", "bytes_copied", "conflicts"}
    assert others == {*RequestCounts.__struct_fields__} - {*PRICES_USD}
    assert RequestCounts(deletes=1000, bytes_read=1 << 40, bytes_written=1 << 40).cost_usd == 0


def test_where_no_deadline_can_be_shorter_requests_are_counted_as_ever(s3_store: S3Store) -> None:
    store = Metered(MemoryStore())
    assert store.hasty() is store
    hasty = Metered(s3_store).hasty()
    assert isinstance(hasty, Metered)
    assert hasty.inner is s3_store.hasty()


def test_parts_of_an_upload_are_counted_as_requests(s3_store: S3Store) -> None:
    store = Metered(s3_store)
    output = store.output("big")
    output.write(bytes(PART_BYTES + 1))
    output.close()
    assert store.requests() == RequestCounts(output_requests=4, bytes_written=PART_BYTES + 1)


def test_counting_goes_on_in_a_forked_child() -> None:
    store = Metered(MemoryStore())
    store.put("a", b"1")

    def child() -> int:
        store.put("b", b"1")
        return store.requests().puts

    assert exit_codes([forked(child)]) == [2]
    assert store.requests().puts == 1


class Patient(MemoryStore):
    """A store that has shorter deadlines, too."""

    def hasty(self) -> Store:
        return MemoryStore()


def test_what_is_asked_in_haste_is_counted_too() -> None:
    store = Metered(Patient())
    store.hasty().put("a", b"1")
    store.put("b", b"1")
    assert store.requests().puts == 2


def test_a_store_that_does_not_count_says_zero() -> None:
    store = MemoryStore()
    store.put("a", b"1")
    assert (store.requests(), RequestCounts(gets=2, bytes_read=9).total) == (RequestCounts(), 2)
