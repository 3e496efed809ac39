"""What a move costs, by the way that its bytes take (RFC 0031). Pure."""

import pytest
from msgspec.structs import replace

from lithify.compactor.estimate import estimate_relocation
from lithify.manifest.model import SegmentRef
from lithify.manifest.move_price import COPY_BYTES, PART_BYTES, MovePrice, copying, move_price
from lithify.manifest.units import unit_of
from lithify.store import copying as copies
from lithify.store import s3_copies, s3_output
from lithify.store.port import HERE
from lithify.store.prices import CLASSES, DAY_MS, GB, STANDARD
from tests.compactor.test_policy import NOW_MS, config, segment

IA, ARCHIVE, BUCKET, FOLDER = "class:STANDARD_IA", "class:GLACIER_IR", "s3://other/p", "file:///mnt/cold"


def in_home(home: str, age_days: float = 500, size: int = GB) -> SegmentRef:
    return replace(segment(10, size), home=home, max_timestamp_ms=NOW_MS - round(age_days * DAY_MS))


def price(source: str, target: str, age_days: float = 500) -> MovePrice:
    return move_price([in_home(source, age_days)], target, config(), NOW_MS)


def test_what_goes_to_a_cold_class_pays_its_copy_at_that_class() -> None:
    found, prices = price(HERE, ARCHIVE), CLASSES["GLACIER_IR"]
    assert found.requests_usd == pytest.approx(STANDARD.get + 4 * prices.get + prices.put)
    assert (found.retrieval_usd, found.early_usd) == (0, 0)
    assert (found.segments, found.bytes) == (1, GB)


@pytest.mark.parametrize("target", [HERE, IA, BUCKET, FOLDER])
def test_what_leaves_a_cold_class_pays_its_retrieval_whoever_copies_it(target: str) -> None:
    """Only the requests differ: the store's own copy is retrieved, too."""
    assert price(ARCHIVE, target).retrieval_usd == pytest.approx(0.03)
    assert price(ARCHIVE, target, age_days=0).early_usd == pytest.approx(0.004 * 3)
    assert price(ARCHIVE, target).early_usd == 0


def test_bytes_that_pass_through_a_worker_take_a_request_for_each_part() -> None:
    own, streamed = price(ARCHIVE, HERE), price(ARCHIVE, BUCKET)
    assert copying(GB, by_the_store=True) == (1, 4, 1)
    assert copying(GB, by_the_store=False) == (128, 3, 130)
    assert copying(GB + 1, by_the_store=True) == (1, 4, 4)
    assert copying(1, by_the_store=False) == (1, 3, 1)
    assert own.requests_usd < streamed.requests_usd
    assert own.usd == pytest.approx(own.requests_usd + 0.03)


def test_a_disk_of_ones_own_costs_what_is_asked_of_the_warehouse() -> None:
    assert price(HERE, FOLDER).requests_usd == pytest.approx(128 * STANDARD.get)
    assert price(FOLDER, FOLDER + "er").usd == 0


def test_parts_are_as_large_as_those_that_are_made() -> None:
    assert COPY_BYTES == s3_copies.COPY_BYTES_MAX
    assert PART_BYTES == s3_output.PART_BYTES == copies._PIECE_BYTES


def test_it_is_told_in_dollars() -> None:
    assert price(ARCHIVE, HERE).text == ("0.030017 USD at S3's list prices (0.000017 requests, 0.030000 retrieval)")
    assert price(ARCHIVE, HERE, age_days=0).text.endswith("0.012000 for the minimum storage duration)")
    assert price(FOLDER, FOLDER + "er").text == "less than 0.000001 USD at S3's list prices"


@pytest.mark.parametrize(("target", "gets", "puts"), [(IA, 10, 2), (BUCKET, 262, 260)])
def test_the_estimate_of_a_job_counts_the_same_requests(target: str, gets: int, puts: int) -> None:
    units = [unit_of("run", True, (in_home(HERE),)) for _ in range(2)]
    found = estimate_relocation(units, target)
    assert (found.gets, found.puts) == (gets, puts)
