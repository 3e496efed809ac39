"""A topic's configuration, read by the table of docs/configuration.md: its defaults are the documented ones."""

import re
from collections.abc import Mapping
from pathlib import Path
from typing import NamedTuple

__all__ = ["KEEP_ALL", "LARGEST", "Bounds", "Settings", "settings"]

TABLE = Path(__file__).resolve().parents[3] / "docs/configuration.md"
LARGEST = 2**63 - 1


def _documented() -> dict[str, str]:
    text, _, _ = TABLE.read_text(encoding="utf-8").partition("# Warehouse settings")
    return dict(re.findall(r"^\| `([a-z0-9.]+)` \| `([^`]*)` \|", text, re.MULTILINE))


OF_HOMES = {"cold.location": "", "cold.storage.class": "", "hot.retain.segments": "4"} | dict.fromkeys(
    ("local.retention.ms", "local.retention.bytes"), "-2"
)  # RFC 0031
DEFAULTS = OF_HOMES | _documented()


class Bounds(NamedTuple):
    """How much of a partition stays; -1: no bound."""

    ms: int = -1
    bytes: int = -1
    records: int = -1


KEEP_ALL = Bounds()


class Settings(NamedTuple):
    version: int  # number of the `.topic` file
    compacted: bool
    deleting: bool
    bounds: Bounds
    dirty_ratio: float
    lag_ms: int
    longest_lag_ms: int
    tombstones_ms: int
    output_bytes: int
    l0_tier: int
    l0_max: int
    runs_tier: int
    attempts_max: int
    paused: bool
    application_ms: int  # how long an idle one is remembered, at least
    cold_home: str = ""
    local_ms: int = -2
    local_bytes: int = -2
    hot_segments: int = 4

    @property
    def order(self) -> str:
        return "key" if self.compacted else "offset"


def settings(version: int, config: Mapping[str, str]) -> Settings:
    values = DEFAULTS | dict(config)
    policy = {part.strip() for part in values["cleanup.policy"].split(",")}
    bounds = Bounds(*(int(values[f"retention.{name}"]) for name in Bounds._fields))
    return Settings(
        version=version,
        compacted="compact" in policy,
        deleting="delete" in policy,
        bounds=bounds if "delete" in policy else KEEP_ALL,  # compact alone bounds nothing (D7)
        dirty_ratio=float(values["min.cleanable.dirty.ratio"]),
        lag_ms=int(values["min.compaction.lag.ms"]),
        longest_lag_ms=int(values["max.compaction.lag.ms"]),
        tombstones_ms=int(values["delete.retention.ms"]),
        output_bytes=min(int(values["compaction.output.bytes"]), int(values["segment.bytes"])),
        l0_tier=int(values["l0.segments.tier"]),
        l0_max=int(values["l0.segments.max"]),
        runs_tier=int(values["runs.tier"]),
        attempts_max=int(values["compaction.attempts.max"]),
        application_ms=int(values["transactional.id.expiration.ms"]),
        paused=values["compaction.paused"].lower() == "true",
        cold_home=values["cold.location"] or (values["cold.storage.class"] and f"class:{values['cold.storage.class']}"),
        local_ms=int(values["local.retention.ms"]),
        local_bytes=int(values["local.retention.bytes"]),
        hot_segments=int(values["hot.retain.segments"]),
    )
