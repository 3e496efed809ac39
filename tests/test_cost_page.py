"""docs/cost-of-homes.md says what the model makes of the kept counts and prices, and the counts are those of a run."""

from pathlib import Path
from xml.etree import ElementTree

import pytest
from msgspec.structs import replace

from benchmarks import cost_counts
from benchmarks.cost_counts import LAYOUTS, RATES, HomeCounts, YearCounts, year
from benchmarks.cost_of_homes import PAGE, PICTURE, chart, costs, kept_counts, renewed
from lithify.store.prices import CLASSES


def test_the_page_and_its_picture_are_the_models() -> None:
    found, page = costs(kept_counts()), PAGE.read_text(encoding="utf-8")
    assert renewed(page, found) == page
    assert PICTURE.read_text(encoding="utf-8") == chart(found)
    assert "pictures/cost-of-homes.svg" in page
    bars = ElementTree.fromstring(chart(found)).iter("{http://www.w3.org/2000/svg}rect")
    assert len(list(bars)) == 4 + 4 * len(found)


def test_every_rate_and_layout_was_counted() -> None:
    assert {(each.rate, each.layout) for each in kept_counts()} == {(rate, name) for rate in RATES for name in LAYOUTS}


HOME = HomeCounts(
    stored=1,
    taken=12,
    written=0,
    early_30=0,
    early_90=0,
    segment_puts=0,
    segment_gets=0,
    own_puts=0,
    own_gets=0,
)  # fmt: skip


def test_a_sum_by_hand() -> None:
    """1 TB in GLACIER_IR, read once a month, half of it deleted after 80 of 90 days: once a year."""
    cold = replace(HOME, early_90=0.5 * 10)
    (_, cost) = costs([YearCounts(rate=0.01, layout="cold", hot=replace(HOME, stored=0, taken=0), cold=cold)])
    assert cost.cold_class == "GLACIER_IR"
    assert cost.stored == pytest.approx(1024 * 0.004)
    assert cost.retrieved == pytest.approx(1024 * 0.03)
    assert cost.early == pytest.approx(0.5 * 1024 * 0.004 * 10 / 30 / 12)
    assert cost.requests == pytest.approx(1024 * 256 * CLASSES["GLACIER_IR"].get)


@pytest.mark.slow
def test_a_year_is_counted(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A short one: what is cold is stored in the cold home and taken from there; nothing is asked of what is not."""
    monkeypatch.setattr(cost_counts, "YEAR_DAYS", 60)
    monkeypatch.setattr(cost_counts, "KEYS", 500)
    hot, mixed = year(tmp_path / "a", 0.01, "hot"), year(tmp_path / "b", 0.01, "mixed")
    assert hot.cold is None
    assert hot.hot.stored == pytest.approx(1, abs=0.01)
    assert mixed.cold is not None
    assert 0 < mixed.cold.stored < 1
    assert mixed.hot.stored + mixed.cold.stored == pytest.approx(1, abs=0.01)
    assert mixed.cold.segment_puts > 0
    assert 0 < mixed.cold.written <= 2
    assert hot == year(tmp_path / "a", 0.01, "hot"), "it is the same each time"
