"""What a partition owes, by the table of RFC 0008 and Kafka's rules C1 to C5 and C10 (docs/protocol.md)."""

from collections.abc import Iterator, Sequence
from typing import NamedTuple

from tests.sim.judge.floors import log_start
from tests.sim.judge.homes import HOMES_MAX, owes_cold, too_dear
from tests.sim.judge.layout import Json, Unit, cleaned_to, segments_of, units_of
from tests.sim.judge.settings import Settings

__all__ = ["cleanable", "dues_of_cleaning", "is_old", "owed"]


def is_old(unit: Unit, config: Settings, now_ms: int) -> bool:
    """Past min.compaction.lag.ms. Where there is no lag, a record from the future is no reason to wait."""
    return config.lag_ms == 0 or unit.max_timestamp_ms <= now_ms - config.lag_ms


def cleanable(units: Sequence[Unit], config: Settings, now_ms: int) -> list[Unit]:
    """C4: what lies wholly below the first unit that is young; one that reaches across draws that down."""
    edge = min((unit.min_offset for unit in units if not is_old(unit, config, now_ms)), default=None)
    if edge is None:
        return [*units]
    while any(unit.min_offset < edge <= unit.max_offset for unit in units):
        edge = min(unit.min_offset for unit in units if unit.min_offset < edge <= unit.max_offset)
    return [unit for unit in units if unit.max_offset < edge]


class Weights(NamedTuple):
    clean: int
    dirty: int
    oldest_dirty_ms: int


def _weights(manifest: Json, units: Sequence[Unit], old: Sequence[Unit]) -> Weights:
    to = cleaned_to(manifest)
    dirty = [unit for unit in old if unit.max_offset >= to]
    clean = sum(unit.bytes for unit in units if unit.max_offset < to)
    oldest_ms = min((unit.min_timestamp_ms for unit in dirty), default=0)
    return Weights(clean, sum(unit.bytes for unit in dirty), oldest_ms)


def dues_of_cleaning(manifest: Json, config: Settings, now_ms: int) -> Iterator[str]:
    """Why a clean is due."""
    units = units_of(manifest)
    old = cleanable(units, config, now_ms)
    clean, dirty, oldest_ms = _weights(manifest, units, old)
    if dirty and now_ms - oldest_ms > config.longest_lag_ms:
        yield f"the oldest uncleaned record is {now_ms - oldest_ms} ms old, {config.longest_lag_ms} are allowed (C5)"
    sources = [each for unit in old for each in unit.segments]
    if dirty and dirty / (clean + dirty) > config.dirty_ratio and not too_dear(sources, dirty, config, now_ms):
        yield f"{dirty} of {clean + dirty} bytes are dirty, more than {config.dirty_ratio} of them (C1)"
    stamped = [each for unit in old for each in unit.segments if each.get("horizon_ms") is not None]
    if stamped:
        first_ms = min(each["horizon_ms"] for each in stamped)
        last_ms = max(each["last_horizon_ms"] for each in stamped)
        if now_ms >= min(last_ms, first_ms + config.tombstones_ms):
            yield f"tombstones expired at {last_ms}, it is {now_ms} (C10)"


def owed(manifest: Json, config: Settings, now_ms: int, homes_max: int = HOMES_MAX) -> Iterator[str]:
    """Nothing, where everything has come to rest. Tiers of runs are left out: which of them pay is a choice."""
    floor = log_start(manifest, now_ms)
    below = [each["id"] for each in segments_of(manifest) if each["max_offset"] < floor]
    if below:
        yield f"segment {below[0]} lies below the floor {floor}, and is not retired (R3)"
    units = units_of(manifest)
    old = cleanable(units, config, now_ms) if config.compacted else units
    loose = [unit for unit in old if not unit.is_run]
    if len(loose) >= config.l0_tier:
        yield f"{len(loose)} L0 segments are left, tiered at {config.l0_tier} (RFC 0008)"
    if config.compacted:
        yield from dues_of_cleaning(manifest, config, now_ms)
    yield from owes_cold(manifest, config, now_ms, homes_max)
