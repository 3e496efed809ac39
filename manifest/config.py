"""Topic configuration: Kafka's names and defaults, their validation, and what each one means here.

Values are stored as strings, as Kafka does; `TopicConfig` is the parsed form. Times are in milliseconds, sizes in
bytes. Names of Kafka that mean nothing here are refused with the name to use instead (docs/from-kafka.md).
"""

import difflib
from collections.abc import Callable, Mapping
from typing import Any

import msgspec

from lithify.store.errors import InvalidRequest

__all__ = ["TopicConfig", "config_table", "parse", "validate"]

MIB = 1024 * 1024
LONG_MAX = 2**63 - 1


class TopicConfig(msgspec.Struct, frozen=True, kw_only=True):
    """The parsed configuration of a topic."""

    compacted: bool
    deleting: bool
    retention_ms: int  # -1: no bound
    retention_bytes: int  # -1: no bound
    retention_records: int  # -1: no bound
    min_cleanable_dirty_ratio: float
    min_compaction_lag_ms: int
    max_compaction_lag_ms: int
    delete_retention_ms: int
    segment_bytes: int
    segment_ms: int
    max_message_bytes: int
    message_timestamp_type: str
    l0_segments_max: int
    l0_segments_tier: int
    runs_tier: int
    compaction_output_bytes: int
    compaction_attempts_max: int

    @property
    def order(self) -> str:
        """How segments of this topic are sorted: by key where it is compacted, by offset otherwise."""
        return "key" if self.compacted else "offset"

    @property
    def output_bytes(self) -> int:
        """Where a compaction cuts its outputs (R5)."""
        return min(self.compaction_output_bytes, self.segment_bytes)


def _integer(low: int, high: int = LONG_MAX) -> Callable[[str], int]:
    def check(text: str) -> int:
        try:
            value = int(text)
        except ValueError:
            raise ValueError("a whole number") from None
        if not low <= value <= high:
            raise ValueError(f"a whole number of at least {low}" if high == LONG_MAX else f"between {low} and {high}")
        return value

    return check


def _ratio(text: str) -> float:
    try:
        value = float(text)
    except ValueError:
        raise ValueError("a number between 0 and 1") from None
    if not 0 <= value <= 1:
        raise ValueError("a number between 0 and 1")
    return value


def _policy(text: str) -> frozenset[str]:
    parts = frozenset(part.strip() for part in text.split(","))
    if not parts <= {"compact", "delete"}:
        raise ValueError("'compact', 'delete' or 'compact,delete'")
    return parts


def _timestamp_type(text: str) -> str:
    if text not in ("CreateTime", "LogAppendTime"):
        raise ValueError("'CreateTime' or 'LogAppendTime'")
    return text


# name -> (default, check, meaning). Kafka's names come first and bear Kafka's defaults.
_TABLE: dict[str, tuple[str, Callable[[str], Any], str]] = {
    "cleanup.policy": ("delete", _policy, "compact, delete, or both: what becomes of old records"),
    "retention.ms": ("604800000", _integer(-1), "delete: how long records stay; -1 for ever"),
    "retention.bytes": ("-1", _integer(-1), "delete: how many bytes of a partition stay; -1 all"),
    "retention.records": ("-1", _integer(-1), "delete: how many records of a partition stay; -1 all"),
    "min.cleanable.dirty.ratio": ("0.5", _ratio, "compact: clean when more than this part of the bytes is uncleaned"),
    "min.compaction.lag.ms": ("0", _integer(0), "compact: younger records are left alone"),
    "max.compaction.lag.ms": (str(LONG_MAX), _integer(1), "compact: clean at the latest when a record is this old"),
    "delete.retention.ms": ("86400000", _integer(0), "compact: how long a tombstone outlives its first clean"),
    "segment.bytes": ("1073741824", _integer(14), "outputs of compaction are no larger"),
    "segment.ms": ("604800000", _integer(1), "the span of one bucket of the time index"),
    "max.message.bytes": (str(MIB), _integer(1, 64 * MIB), "the largest record: key, value and headers together"),
    "message.timestamp.type": ("CreateTime", _timestamp_type, "whose clock stamps a record"),
    "l0.segments.max": ("4096", _integer(1, 65_536), "appends wait, then are refused, beyond so many L0 segments"),
    "l0.segments.tier": ("8", _integer(2, 4_096), "merge L0 segments when there are so many"),
    "runs.tier": ("4", _integer(2, 256), "merge sorted runs when so many are of similar size"),
    "compaction.output.bytes": (str(256 * MIB), _integer(1024), "where a compaction cuts its output segments"),
    "compaction.attempts.max": ("10", _integer(1, 1_000), "attempts without progress before a job is given up"),
}

_INSTEAD = {
    "retention.minutes": "retention.ms",
    "retention.hours": "retention.ms",
    "log.retention.ms": "retention.ms",
    "log.retention.minutes": "retention.ms",
    "log.retention.hours": "retention.ms",
    "log.retention.bytes": "retention.bytes",
    "log.cleanup.policy": "cleanup.policy",
    "log.segment.bytes": "segment.bytes",
    "log.roll.ms": "segment.ms",
    "log.roll.hours": "segment.ms",
    "log.cleaner.min.cleanable.ratio": "min.cleanable.dirty.ratio",
    "log.cleaner.min.compaction.lag.ms": "min.compaction.lag.ms",
    "log.cleaner.max.compaction.lag.ms": "max.compaction.lag.ms",
    "log.cleaner.delete.retention.ms": "delete.retention.ms",
    "log.cleaner.dedupe.buffer.size": "nothing: a merge of sorted segments needs no map of keys",
    "log.cleaner.threads": "the compactor's --concurrency",
    "compression.type": "nothing: segments are Parquet with zstd",
    "min.insync.replicas": "nothing: the object store is the replica set",
    "flush.messages": "nothing: an append is durable when it returns",
    "flush.ms": "nothing: an append is durable when it returns",
    "local.retention.ms": "nothing yet: all segments are in the object store",
    "local.retention.bytes": "nothing yet: all segments are in the object store",
    "remote.storage.enable": "nothing: all segments are in the object store",
}


def validate(config: Mapping[str, str | int | float]) -> dict[str, str]:
    """The configuration as stored: known names, valid values, as strings. Raises InvalidRequest with the remedy."""
    stored = {name: _spell(value) for name, value in config.items()}
    for name, text in stored.items():
        if name not in _TABLE:
            raise InvalidRequest(_unknown(name))
        try:
            _TABLE[name][1](text)
        except ValueError as error:
            raise InvalidRequest(f"{name}={text[:80]!r}: give {error}") from None
    parsed = parse(stored)
    if parsed.min_compaction_lag_ms > parsed.max_compaction_lag_ms:
        raise InvalidRequest("min.compaction.lag.ms is larger than max.compaction.lag.ms: lower it, or raise the other")
    return stored


def _spell(value: str | int | float) -> str:
    return value.strip() if isinstance(value, str) else str(value)


def _unknown(name: str) -> str:
    if name in _INSTEAD:
        return f"{name} has no meaning here; use {_INSTEAD[name]}"

    near = difflib.get_close_matches(name, _TABLE, n=1)
    return f"no configuration is named {name[:80]!r}" + (
        f"; did you mean {near[0]}?" if near else "; see docs/configuration.md"
    )


def parse(config: Mapping[str, str]) -> TopicConfig:
    """A stored configuration with its defaults filled in."""
    value = {name: check(config.get(name, default)) for name, (default, check, _) in _TABLE.items()}
    policy = value.pop("cleanup.policy")
    fields = {name.replace(".", "_"): parsed for name, parsed in value.items()}
    return TopicConfig(compacted="compact" in policy, deleting="delete" in policy, **fields)


def config_table() -> list[tuple[str, str, str]]:
    """(name, default, meaning) of every configuration, in the order of the documentation."""
    return [(name, default, meaning) for name, (default, _, meaning) in _TABLE.items()]
