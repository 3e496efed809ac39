"""Stored files as docs/formats.md has them: where they lie, and what their JSON says. A field that is not there has its
documented default."""

from collections.abc import Sequence
from typing import Any, NamedTuple

import msgspec

__all__ = [
    "Json",
    "Place",
    "Unit",
    "as_unit",
    "cleaned_to",
    "index_of",
    "live",
    "load",
    "place_of",
    "segments_of",
    "units_of",
]

Json = dict[str, Any]

load = msgspec.json.Decoder().decode  # of no type: plain dicts and lists
CHAINS = ("manifest", "compactor", "boundary")


class Place(NamedTuple):
    """Where an object of a partition lies: `<topic>/<topic id>/<partition>/<folder>/<name>`."""

    root: str  # of the partition, with its last slash
    topic_id: str
    folder: str
    name: str

    @property
    def number(self) -> int | None:
        """Of a numbered file."""
        digits, _, kind = self.name.partition(".")
        return int(digits) if self.folder in CHAINS and kind == self.folder and len(digits) == 20 else None

    @property
    def run_list(self) -> str | None:
        """The id of a run list."""
        return self.name.removesuffix(".runs") if self.folder == "manifest" and self.name.endswith(".runs") else None

    @property
    def segment(self) -> str | None:
        """The id of a segment, whatever it looks like."""
        return self.name.removesuffix(".parquet") if self.folder == "segments" else None


def place_of(key: str) -> Place | None:
    """None where it is no object of a partition."""
    parts = key.split("/", 4)
    if len(parts) != 5 or key.startswith("@"):
        return None
    return Place(key[: len(key) - len(parts[3]) - len(parts[4]) - 1], parts[1], parts[3], parts[4])


class Unit(NamedTuple):
    """What a compaction takes or leaves: an L0 segment, or a whole run."""

    id: str
    is_run: bool
    segments: Sequence[Json]
    bytes: int
    min_offset: int
    max_offset: int
    min_timestamp_ms: int
    max_timestamp_ms: int


def as_unit(unit_id: str, segments: Sequence[Json], *, is_run: bool) -> Unit:
    return Unit(
        unit_id,
        is_run,
        segments,
        sum(each["bytes"] for each in segments),
        min(each["min_offset"] for each in segments),
        max(each["max_offset"] for each in segments),
        min(each["min_ts_ms"] for each in segments),
        max(each["max_ts_ms"] for each in segments),
    )


def units_of(manifest: Json) -> list[Unit]:
    """By smallest offset."""
    found = [as_unit(run["id"], run["segments"], is_run=True) for run in manifest.get("runs", ())]
    found += [as_unit(each["id"], (each,), is_run=False) for each in manifest.get("l0", ())]
    return sorted(found, key=lambda unit: unit.min_offset)


def segments_of(manifest: Json) -> list[Json]:
    """Every live one."""
    return [*manifest.get("l0", ()), *(each for run in manifest.get("runs", ()) for each in run["segments"])]


def live(manifest: Json) -> set[str]:
    return {each["id"] for each in segments_of(manifest)}


def index_of(manifest: Json) -> list[list[int]]:
    """The time index: [start, latest timestamp, rows, bytes, raw bytes] of each bucket."""
    return manifest.get("time_index", [])


def cleaned_to(manifest: Json) -> int:
    return manifest.get("cleaned_to", 0)
