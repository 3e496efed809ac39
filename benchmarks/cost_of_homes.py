"""docs/cost-of-homes.md: what 1 TB of a changelog costs in hot and cold homes, from counted bytes and requests.

python -m benchmarks.cost_of_homes            the page and its picture again, from the counts that are kept
python -m benchmarks.cost_of_homes --count    count first: a year at each rate, some minutes
"""

import argparse
import tempfile
from collections.abc import Iterator, Sequence
from html import escape
from pathlib import Path
from typing import NamedTuple

import msgspec

from benchmarks.cost_counts import YEAR_DAYS, HomeCounts, YearCounts, counted
from lithify.store.prices import CLASSES, MONTH_DAYS, STANDARD, Prices

__all__ = ["COUNTS", "PAGE", "PICTURE", "Cost", "chart", "costs", "kept_counts", "price_table", "renewed", "table"]

ROOT = Path(__file__).resolve().parents[1]
COUNTS = ROOT / "benchmarks/cost_of_homes.json"
PAGE = ROOT / "docs/cost-of-homes.md"
PICTURE = ROOT / "docs/pictures/cost-of-homes.svg"

TB_GB = 1024
SEGMENT_GB = 0.25  # compaction.output.bytes
PART_GB = 16 / 1024  # of an upload
FETCH_GB = 4 / 1024  # of a read
COLD = ("STANDARD_IA", "GLACIER_IR")
_MONTHS = YEAR_DAYS / MONTH_DAYS


class Cost(NamedTuple):
    """Dollars a month."""

    rate: float
    layout: str
    cold_class: str  # "": none
    stored: float
    retrieved: float
    early: float
    requests: float

    @property
    def whole(self) -> float:
        return self.stored + self.retrieved + self.early + self.requests

    @property
    def name(self) -> str:
        return f"{self.layout}, {self.cold_class}" if self.cold_class else self.layout


def costs(years: Sequence[YearCounts]) -> list[Cost]:
    return [_cost(year, name) for year in years for name in (COLD if year.cold is not None else ("",))]


def _cost(year: YearCounts, name: str) -> Cost:
    homes = [(year.hot, STANDARD)]
    if year.cold is not None:
        homes.append((year.cold, CLASSES[name]))
    return Cost(
        rate=year.rate,
        layout=year.layout,
        cold_class=name,
        stored=sum(each.stored * TB_GB * prices.stored_gb_month for each, prices in homes),
        retrieved=sum(each.taken * TB_GB * prices.retrieved_gb for each, prices in homes) / _MONTHS,
        early=sum(_early_gb_months(each, prices) * prices.stored_gb_month for each, prices in homes) / _MONTHS,
        requests=sum(_requests_usd(each, prices) for each, prices in homes) / _MONTHS,
    )


def _early_gb_months(counts: HomeCounts, prices: Prices) -> float:
    days = {0: 0.0, 30: counts.early_30, 90: counts.early_90}[prices.days_min]
    return days * TB_GB / MONTH_DAYS


def _requests_usd(counts: HomeCounts, prices: Prices) -> float:
    """As counted, for as many segments as 1 TB has; and larger segments take more parts."""
    segments = TB_GB / SEGMENT_GB
    puts = counts.segment_puts * segments + counts.own_puts + counts.written * TB_GB / PART_GB
    gets = counts.segment_gets * segments + counts.own_gets + counts.taken * TB_GB / FETCH_GB
    return puts * prices.put + gets * prices.get


def table(found: Sequence[Cost]) -> str:
    head = "| updated each day | homes | stored | retrieval | deleted early | requests | a month |"
    lines = [head, "|---|---|---:|---:|---:|---:|---:|"]
    for each in found:
        cells = (each.stored, each.retrieved, each.early, each.requests, each.whole)
        lines.append(f"| {each.rate:.1%} | {each.name} | " + " | ".join(f"{usd:,.2f}" for usd in cells) + " |")
    return "\n".join(lines)


def price_table() -> str:
    lines = [
        "| class | a GB stored for a month | 1,000 PUT | 1,000 GET | a GB read | days at least |",
        "|---|---:|---:|---:|---:|---:|",
    ]
    for name, it in CLASSES.items():
        figures = (it.stored_gb_month, it.put * 1000, it.get * 1000, it.retrieved_gb)
        lines.append(f"| `{name}` | " + " | ".join(f"{usd:.6g}" for usd in figures) + f" | {it.days_min} |")
    return "\n".join(lines)


_WIDTH, _LEFT, _RIGHT, _TOP = 860, 230, 90, 62
_BAR, _GAP, _BETWEEN = 14, 8, 22
_PARTS = ("stored", "retrieved", "early", "requests")
_NAMES = ("storage", "retrieval", "deleted early", "requests")
_STYLE = """
  text { font: 12px system-ui, sans-serif; fill: #1f2328 }
  .title { font-size: 15px; font-weight: 600 }
  .small { font-size: 11px; fill: #59636e }
  .stored { fill: #0969da } .retrieved { fill: #bf8700 } .early { fill: #cf222e } .requests { fill: #8250df }
  @media (prefers-color-scheme: dark) {
    text { fill: #f0f6fc } .small { fill: #9198a1 }
    .stored { fill: #4493f8 } .retrieved { fill: #d29922 } .early { fill: #f85149 } .requests { fill: #ab7df8 }
  }
"""


def chart(found: Sequence[Cost]) -> str:
    """A bar for each row of the table, light and dark. Each rate has a scale of its own."""
    rates = list(dict.fromkeys(each.rate for each in found))
    height = _TOP + len(found) * (_BAR + _GAP) + len(rates) * (_BETWEEN + 10)
    return "\n".join(
        (
            f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {_WIDTH} {height}" role="img">',
            "<title>What 1 TB of a changelog costs a month in hot and cold homes</title>",
            f"<style>{_STYLE}</style>",
            '<text class="title" x="12" y="24">1 TB of a changelog, dollars a month</text>',
            *_legend(),
            *_bars(found, rates),
            "</svg>\n",
        )
    )


def _legend() -> Iterator[str]:
    for at, (part, name) in enumerate(zip(_PARTS, _NAMES, strict=True)):
        x = 12 + 120 * at
        yield f'<rect class="{part}" x="{x}" y="38" width="12" height="9" rx="2"/>'
        yield f'<text x="{x + 18}" y="47">{name}</text>'


def _bars(found: Sequence[Cost], rates: Sequence[float]) -> Iterator[str]:
    y = _TOP
    for rate in rates:
        mine = [each for each in found if each.rate == rate]
        most = max(each.whole for each in mine)
        yield f'<text class="small" x="12" y="{y + 16}">{rate:.1%} updated each day</text>'
        y += _BETWEEN
        for each in mine:
            yield f'<text x="{_LEFT - 10}" y="{y + 11}" text-anchor="end">{escape(each.name)}</text>'
            x = float(_LEFT)
            for part in _PARTS:
                width = getattr(each, part) / most * (_WIDTH - _LEFT - _RIGHT)
                yield f'<rect class="{part}" x="{x:.1f}" y="{y}" width="{width:.1f}" height="{_BAR}"/>'
                x += width
            yield f'<text class="small" x="{x + 6:.0f}" y="{y + 11}">{each.whole:,.0f} USD</text>'
            y += _BAR + _GAP
        y += 10


def kept_counts() -> list[YearCounts]:
    return msgspec.json.decode(COUNTS.read_bytes(), type=list[YearCounts])


def renewed(page: str, found: Sequence[Cost]) -> str:
    """The page with its tables as they are now."""
    for name, lines in (("costs", table(found)), ("prices", price_table())):
        before, mark, rest = page.partition(f"<!-- {name} -->\n")
        _, end, after = rest.partition(f"\n<!-- end of {name} -->")
        assert mark
        assert end, f"{PAGE.name} has no place for {name}"
        page = f"{before}{mark}{lines}{end}{after}"
    return page


def main() -> int:
    parser = argparse.ArgumentParser(
        "python -m benchmarks.cost_of_homes",
        description=__doc__,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("--count", action="store_true", help="count again, which takes some minutes")
    if parser.parse_args().count:
        with tempfile.TemporaryDirectory() as folder:
            COUNTS.write_bytes(msgspec.json.format(msgspec.json.encode(counted(Path(folder) / "year"))) + b"\n")
    found = costs(kept_counts())
    PAGE.write_text(renewed(PAGE.read_text(encoding="utf-8"), found), encoding="utf-8")
    PICTURE.write_text(chart(found), encoding="utf-8")
    print(table(found))
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
