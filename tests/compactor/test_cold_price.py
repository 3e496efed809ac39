"""A clean for the dirty ratio alone waits while its cold sources cost more than it can save (RFC 0031). Pure."""

import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec.structs import replace

from lithify.manifest.cold_price import PAYBACK_DAYS, cold_price, kept_usd
from lithify.manifest.debt import assess
from lithify.manifest.model import Manifest, SortedRun
from lithify.manifest.reading import Reading
from lithify.manifest.units import units
from lithify.store.prices import CLASSES, DAY_MS, GB
from tests.compactor.test_policy import HOUR_MS, NOW_MS, config, due, head, segment

IA, ARCHIVE = "class:STANDARD_IA", "class:GLACIER_IR"
LOW = "0.05"


def part(dirty: int, home: str, clean: int = GB, age_ms: int = 9 * HOUR_MS) -> Manifest:
    """`clean` bytes in `home`, `dirty` ones hot."""
    made = head(segment(10, dirty), clean=clean)
    (run,) = made.runs
    moved = replace(run.segments[0], home=home, max_timestamp_ms=NOW_MS - age_ms)
    return replace(made, runs=(replace(run, segments=(moved,)),), homes=(home,))


def test_it_waits_until_what_is_dirty_is_worth_it() -> None:
    low = config(min_cleanable_dirty_ratio=LOW)
    assert due(part(GB // 10, ""), low) == "clean: dirty ratio 0.09 is above 0.05"
    assert due(part(GB // 10, IA), low) is None
    assert due(part(GB // 10, ARCHIVE), low) is None
    assert due(part(GB // 2, IA), low) is not None
    assert due(part(GB // 2, ARCHIVE), low) is None
    assert due(part(GB * 2 // 3, ARCHIVE), low) is not None


def test_explain_says_it_in_dollars() -> None:
    reading = Reading.of(part(GB // 10, ARCHIVE), None, config(min_cleanable_dirty_ratio=LOW), NOW_MS)
    told = next(each.reason for each in assess(reading).weighed if "dirty ratio" in each.reason)
    assert "would cost 0.041950 USD (0.030000 retrieval, 0.011950 for their minimum storage duration)" in told
    assert "what is dirty at most 0.006900 USD in 90 days" in told


@pytest.mark.parametrize("home", ["file:///mnt/cold", "s3://other/p", "memory://cold", "class:STANDARD"])
def test_a_home_that_costs_nothing_to_read_changes_nothing(home: str) -> None:
    assert due(part(GB // 10, home), config(min_cleanable_dirty_ratio=LOW)) is not None


def test_the_default_ratio_never_waits() -> None:
    for home in (f"class:{name}" for name in CLASSES):
        assert due(part(GB + 1, home), config()) == "clean: dirty ratio 0.50 is above 0.5"


def test_nothing_else_waits() -> None:
    dear = part(GB // 10, ARCHIVE)
    overdue = config(min_cleanable_dirty_ratio=LOW, max_compaction_lag_ms="1")
    late = replace(dear, l0=(segment(10, GB // 10, HOUR_MS),))
    assert (due(late, overdue) or "").startswith("clean: max.compaction.lag.ms")
    expired = part(0, ARCHIVE)
    (run,) = expired.runs
    stamped = replace(run.segments[0], min_horizon_ms=1, max_horizon_ms=1)
    expired = replace(expired, l0=(), runs=(replace(run, segments=(stamped,)),))
    assert (due(expired, config()) or "").startswith("clean: tombstones expired")


def test_a_minimum_duration_runs_out() -> None:
    settings = config(local_retention_ms=str(DAY_MS), cold_storage_class="GLACIER_IR")
    prices = CLASSES["GLACIER_IR"]

    def early(age_days: float) -> float:
        found = part(1, ARCHIVE, age_ms=round(age_days * DAY_MS))
        return cold_price(found.runs[0].segments, settings, NOW_MS).early_usd

    whole = prices.stored_gb_month * prices.days_min / 30
    assert early(0) == early(1) == pytest.approx(whole), "it was moved after a day at the earliest"
    assert early(46) == pytest.approx(whole / 2)
    assert early(91) == early(500) == 0
    assert early(-5) == pytest.approx(whole), "records from the future"


def test_the_age_of_a_copy_counts_from_its_own_writing() -> None:
    """What size moves may hold old records, and be a day old."""
    settings = config(local_retention_bytes="0", cold_storage_class="GLACIER_IR")
    prices = CLASSES["GLACIER_IR"]

    def early(moved_days_ago: float) -> float:
        found = part(1, ARCHIVE, age_ms=500 * DAY_MS).runs[0].segments[0]
        moved = replace(found, moved_ms=NOW_MS - round(moved_days_ago * DAY_MS))
        return cold_price([moved], settings, NOW_MS).early_usd

    whole = prices.stored_gb_month * prices.days_min / 30
    assert early(0) == pytest.approx(whole)
    assert early(45) == pytest.approx(whole / 2)
    assert early(91) == 0


def test_no_class_has_a_longer_minimum_than_the_payback() -> None:
    assert max(prices.days_min for prices in CLASSES.values()) == PAYBACK_DAYS


@given(st.integers(1, 1 << 50), st.integers(1, 1 << 50), st.sampled_from([IA, ARCHIVE]), st.integers(0, 10**13))
def test_it_ends_before_two_thirds_of_what_is_cold_is_dirty(dirty: int, clean: int, home: str, age_ms: int) -> None:
    found = part(dirty, home, clean, age_ms)
    segments = [segment for unit in units(found) for segment in unit.segments]
    price = cold_price(segments, config(), NOW_MS)
    assert (price.segments, price.bytes) == (1, clean)
    if dirty * 3 >= clean * 2:
        assert price.usd <= kept_usd(dirty)


def test_runs_are_merged_while_a_clean_waits_for_its_price() -> None:
    """It will not rewrite them soon."""
    low = config(min_cleanable_dirty_ratio=LOW)
    for home, work in (("", "clean"), (ARCHIVE, "tier")):
        made = part(0, home)
        small = tuple(
            SortedRun(id=f"run {at}", segments=(replace(segment(10 + at, GB // 20), base_offset=None),))
            for at in range(low.runs_tier)
        )
        found = due(replace(made, l0=(), runs=(*made.runs, *small), next_offset=10_000), low)
        assert (found or "").startswith(work), found
