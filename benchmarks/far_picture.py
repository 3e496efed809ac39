"""The rows of `far` as a picture for the README: SVG, on light and dark ground."""

import math
from collections.abc import Iterator
from html import escape

from benchmarks.far_rows import FarRow, FarStore

__all__ = ["picture"]

_WIDTH, _LEFT, _RIGHT = 860, 330, 120
_BAR, _GAP, _TOP, _FOOT = 9, 12, 62, 30
_STYLE = """
  text { font: 12px system-ui, sans-serif; fill: #1f2328 }
  .title { font-size: 15px; font-weight: 600 }
  .small { font-size: 11px; fill: #59636e }
  .near { fill: #2da44e } .far { fill: #0969da } .axis { stroke: #d1d9e0 }
  @media (prefers-color-scheme: dark) {
    text { fill: #f0f6fc } .small { fill: #9198a1 }
    .near { fill: #3fb950 } .far { fill: #4493f8 } .axis { stroke: #3d444d }
  }
"""


def picture(found: FarStore) -> str:
    """Times of all rows but those that count per second, on a logarithmic scale."""
    rows = [row for row in found.rows if row.unit != "/s"]
    times_ms = [ms for row in rows for ms in _times_ms(row)]
    least, most = math.floor(math.log10(min(times_ms))), math.ceil(math.log10(max(times_ms)))
    height = _TOP + len(rows) * (2 * _BAR + _GAP) + _FOOT
    return "\n".join(
        (
            f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {_WIDTH} {height}" role="img">',
            "<title>How long lithify takes on an S3 server beside it, and over a link of 30 ms</title>",
            f"<style>{_STYLE}</style>",
            '<text class="title" x="12" y="24">An S3 server near, and 30 ms away (logarithmic scale)</text>',
            '<rect class="near" x="12" y="38" width="12" height="9" rx="2"/><text x="30" y="47">near</text>',
            '<rect class="far" x="110" y="38" width="12" height="9" rx="2"/><text x="128" y="47">far</text>',
            *_axis(least, most, height),
            *(line for number, row in enumerate(rows) for line in _row(row, number, least, most)),
            "</svg>\n",
        )
    )


def _times_ms(row: FarRow) -> tuple[float, float]:
    scale = 1_000 if row.unit == "s" else 1
    return scale * row.near, scale * row.far


def _x(ms: float, least: int, most: int) -> float:
    share = (math.log10(ms) - least) / max(most - least, 1)
    return _LEFT + max(share, 0) * (_WIDTH - _LEFT - _RIGHT)


def _axis(least: int, most: int, height: int) -> Iterator[str]:
    for decade in range(least, most + 1):
        x = _x(10**decade, least, most)
        yield f'<line class="axis" x1="{x:.0f}" x2="{x:.0f}" y1="{_TOP - 6}" y2="{height - _FOOT}"/>'
        yield f'<text class="small" x="{x:.0f}" y="{height - 10}" text-anchor="middle">{_told(10**decade)}</text>'


def _row(row: FarRow, number: int, least: int, most: int) -> Iterator[str]:
    y = _TOP + number * (2 * _BAR + _GAP)
    yield f'<text x="{_LEFT - 10}" y="{y + _BAR + 4}" text-anchor="end">{escape(row.what)}</text>'
    for place, ms in zip(("near", "far"), _times_ms(row), strict=True):
        width = _x(ms, least, most) - _LEFT
        yield f'<rect class="{place}" x="{_LEFT}" y="{y}" width="{width:.1f}" height="{_BAR}" rx="2"/>'
        yield f'<text class="small" x="{_LEFT + width + 6:.0f}" y="{y + _BAR}">{_told(ms)}</text>'
        y += _BAR + 1


def _told(ms: float) -> str:
    return f"{ms:.3g} ms" if ms < 1_000 else f"{ms / 1_000:.3g} s"
