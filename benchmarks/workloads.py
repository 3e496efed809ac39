"""What is appended, and how the compactor is at work meanwhile, in the simulated partition (benchmarks.simulation)."""

import math
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from benchmarks.simulation import Figures, Simulation
from lithify.manifest.config import Setting, parse, validate
from lithify.manifest.debt import SOON_CLEANED_PARTS
from lithify.manifest.steps import SIMILAR_SIZE_RATIO

__all__ = ["WORKLOADS", "Outcome", "Workload", "run"]

APPENDS = 10_000
_ROWS = 20  # of an append, unless the workload says otherwise
_ROW_BYTES = 1_000
_HOUR_MS = 3_600_000
_WEEK_MS = 7 * 24 * _HOUR_MS  # what all appends take, however many there are

Random = np.random.Generator
Keys = Callable[[Random, int, int], Any]  # (randomness, number of the append, rows) -> keys


def uniform(keys: int) -> Keys:
    return lambda random, _, rows: random.integers(0, keys, rows)


def fresh(_: Random, number: int, rows: int) -> Any:
    """Keys that never come again."""
    return number * 1_000_000 + np.arange(rows)


def zipf(random: Random, _: int, rows: int) -> Any:
    """A few keys have most of the updates, of some hundred thousand keys."""
    return random.zipf(1.3, rows) % 200_000


@dataclass(frozen=True, slots=True)
class Workload:
    keys: Keys
    config: dict[str, Setting] = field(default_factory=lambda: {"cleanup.policy": "compact"})
    deletes: float = 0  # part of the records that are tombstones
    skew_ms: int = 0  # records are stamped up to so long before the append
    away: int = 1  # the compactor comes by after so many appends
    rows: Callable[[int], int] = lambda number: _ROWS  # of an append, by its number
    row_bytes: int = _ROW_BYTES


def _compact(**settings: Setting) -> dict[str, Setting]:
    return {"cleanup.policy": "compact", **{name.replace("_", "."): value for name, value in settings.items()}}


def _delete(**settings: Setting) -> dict[str, Setting]:
    return {**_compact(**settings), "cleanup.policy": "delete"}


def _both(**settings: Setting) -> dict[str, Setting]:
    return {**_compact(**settings), "cleanup.policy": "compact,delete"}


WORKLOADS: dict[str, Workload] = {
    "uniform, 200 keys": Workload(uniform(200)),
    "uniform, 2 k keys": Workload(uniform(2_000)),
    "uniform, 20 k keys": Workload(uniform(20_000)),
    "uniform, 200 k keys": Workload(uniform(200_000)),
    "uniform, 600 k keys": Workload(uniform(600_000)),
    "uniform, 2 M keys": Workload(uniform(2_000_000)),
    "fresh keys": Workload(fresh),
    "hot keys": Workload(zipf),
    "a fifth deletes": Workload(uniform(20_000), deletes=0.2),
    "a fifth deletes, forgotten at once": Workload(uniform(20_000), _compact(delete_retention_ms=0), deletes=0.2),
    "skewed by a day": Workload(uniform(20_000), skew_ms=24 * _HOUR_MS),
    "skewed, six hours' lag": Workload(
        uniform(20_000), _compact(min_compaction_lag_ms=6 * _HOUR_MS), skew_ms=24 * _HOUR_MS
    ),
    "lag of a day": Workload(uniform(20_000), _compact(min_compaction_lag_ms=24 * _HOUR_MS)),
    "lag of a day, few L0 allowed": Workload(
        uniform(20_000), _compact(min_compaction_lag_ms=24 * _HOUR_MS, l0_segments_max=64)
    ),
    "at the latest after six hours": Workload(
        uniform(20_000), _compact(max_compaction_lag_ms=6 * _HOUR_MS, min_cleanable_dirty_ratio=1)
    ),
    "never cleaned": Workload(uniform(20_000), _compact(min_cleanable_dirty_ratio=1)),
    "the compactor away, 300 appends": Workload(uniform(20_000), away=300),
    "the compactor away, 5,000 appends": Workload(uniform(20_000), away=5_000),
    "large and small in turn": Workload(
        uniform(2_000_000), _compact(min_cleanable_dirty_ratio=1), rows=lambda number: 100 if number // 8 % 2 else 2
    ),
    "large records": Workload(uniform(20_000), row_bytes=200_000),
    "delete, for a day": Workload(fresh, _delete(retention_ms=24 * _HOUR_MS)),
    "delete, 20 MB": Workload(fresh, _delete(retention_bytes=20_000_000)),
    "delete, 20 k records": Workload(fresh, _delete(retention_records=20_000)),
    "delete, large records": Workload(fresh, _delete(retention_ms=24 * _HOUR_MS), row_bytes=200_000),
    "delete, nothing": Workload(fresh, _delete(retention_ms=-1)),
    "compact,delete, for a day": Workload(uniform(200_000), _both(retention_ms=24 * _HOUR_MS)),
    "compact,delete, 20 MB": Workload(uniform(200_000), _both(retention_bytes=20_000_000)),
}


@dataclass(frozen=True, slots=True)
class Outcome:
    simulation: Simulation
    settled: bool  # without appends and with every lag past, nothing is due any more
    l0_limit: int
    runs_limit: int

    @property
    def figures(self) -> Figures:
        return self.simulation.figures


def run(workload: Workload, appends: int = APPENDS, seed: int = 0) -> Outcome:
    random = np.random.default_rng(seed)
    simulation = Simulation(parse(validate(workload.config)), workload.row_bytes)
    for number in range(appends):
        rows = workload.rows(number)
        simulation.now_ms += _WEEK_MS // appends
        stamps = None if not workload.skew_ms else simulation.now_ms - random.integers(0, workload.skew_ms, rows)
        deleted = random.random(rows) < workload.deletes
        simulation.append(workload.keys(random, number, rows), deleted, stamps)
        if number % workload.away == workload.away - 1:
            simulation.compact()
    simulation.compact()
    l0_limit, runs_limit = _limits(workload, appends, simulation)
    return Outcome(simulation, simulation.settle(), l0_limit, runs_limit)


def _limits(workload: Workload, appends: int, simulation: Simulation) -> tuple[int, int]:
    """How many L0 segments and runs there may be at once.

    L0: what is appended between two visits and what the lag keeps from being merged, but no more than slows appends
    down. Runs: less than runs.tier of each size, and the clean one; as many of equal size as wait for the clean; of an
    offset-ordered topic those that are full.
    """
    config, size = simulation.config, simulation.figures.bytes_appended
    young = 0
    if config.compacted and config.min_compaction_lag_ms:
        young = (config.min_compaction_lag_ms + workload.skew_ms) * appends // _WEEK_MS
    slow = config.l0_segments_max - config.l0_segments_max // 4
    l0 = max(min(config.l0_segments_tier + young, slow), min(workload.away, config.l0_segments_max)) + 1
    smallest = min(workload.rows(0), workload.rows(8)) * workload.row_bytes
    steps = math.ceil(math.log(max(size / smallest, 1), SIMILAR_SIZE_RATIO)) + 1
    runs = 1 + steps * (config.runs_tier - 1)
    if not config.compacted:
        return l0, runs + size // config.output_bytes
    # The young are merged among themselves.
    waiting = 0 if config.min_cleanable_dirty_ratio == 1 else SOON_CLEANED_PARTS * config.runs_tier
    return l0, runs + waiting + bool(young) * steps * (config.runs_tier - 1)
