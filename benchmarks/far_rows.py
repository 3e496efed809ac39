"""What `far` found: each row near and far, by turns."""

import statistics
from collections.abc import Sequence
from typing import Literal, Self

import msgspec

from benchmarks.slow_link import RTT_MS

__all__ = ["FarRow", "FarStore"]


class FarRow(msgspec.Struct, frozen=True, kw_only=True):
    """Medians of both places, in `unit`. ms: of something short, s: of work, /s: how often."""

    row: str
    what: str
    unit: Literal["ms", "s", "/s"]
    near: float
    far: float
    runs: int  # at each place
    requests: int | None = None

    @classmethod
    def of(
        cls,
        row: str,
        what: str,
        unit: Literal["ms", "s", "/s"],
        found: tuple[Sequence[float], Sequence[float]],
        requests: int | None = None,
    ) -> Self:
        """`found`: near and far, in seconds, or how often in a second."""
        scale = 1_000 if unit == "ms" else 1
        near, far = (scale * statistics.median(each) for each in found)
        return cls(row=row, what=what, unit=unit, near=near, far=far, runs=len(found[0]), requests=requests)

    @property
    def round_trips(self) -> float | None:
        """That something short waits for, one after the other."""
        return (self.far - self.near) / RTT_MS if self.unit == "ms" else None

    @property
    def ratio(self) -> float:
        return self.far / self.near


class FarStore(msgspec.Struct, frozen=True, omit_defaults=True):
    rows: list[FarRow] = []
    not_run: list[str] = []  # what was not measured, and why

    def __getitem__(self, what: str) -> FarRow | None:
        return next((row for row in self.rows if row.what == what), None)
