"""Topic configuration: Kafka's names and defaults, their validation, and what each one means here.

Values are stored as strings, as Kafka does; `TopicConfig` is the parsed form. Times are in milliseconds, sizes in
bytes. Names of Kafka that mean nothing here are refused with the name to use instead (docs/from-kafka.md).
"""

import difflib
import re
from collections.abc import Callable, Mapping
from typing import Any

import msgspec

from lithify.manifest.config_kafka import INSTEAD, instead
from lithify.manifest.quantities import unit_hint
from lithify.store.errors import InvalidRequest
from lithify.store.home_names import CLASS, check_home_name, spelled
from lithify.store.urls import shown

__all__ = [
    "LONG_MAX",
    "Setting",
    "TopicConfig",
    "config_table",
    "parse",
    "slows_from",
    "spell",
    "spell_changes",
    "truth",
    "validate",
    "whole_number",
]

Setting = str | int | float | bool
"""A value as users give it; it is stored as a string."""

MIB = 1024 * 1024
LONG_MAX = 2**63 - 1
_WHOLE = re.compile(r"-?[0-9]{1,19}")


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
    message_timestamp_before_max_ms: int
    message_timestamp_after_max_ms: int
    transactional_id_expiration_ms: int
    l0_segments_max: int
    l0_segments_tier: int
    runs_tier: int
    compaction_output_bytes: int
    compaction_attempts_max: int
    compaction_paused: bool
    compaction_priority: int  # larger first
    compaction_throttle_bytes_per_second: int  # -1: no bound
    cold_location: str  # URL; "": none
    cold_storage_class: str  # "": none
    local_retention_ms: int  # -2: not a criterion
    local_retention_bytes: int  # -2: not a criterion
    hot_retain_segments: int

    @property
    def cold_home(self) -> str:
        """The home to which old segments go (lithify.manifest.homes); "": they stay."""
        return self.cold_location or (f"{CLASS}{self.cold_storage_class}" if self.cold_storage_class else "")

    @property
    def order(self) -> str:
        """The sort order of this topic's segments: by key if it is compacted, by offset otherwise."""
        return "key" if self.compacted else "offset"

    @property
    def output_bytes(self) -> int:
        """The size at which a compaction cuts its outputs (R5)."""
        return min(self.compaction_output_bytes, self.segment_bytes)


def slows_from(l0_segments_max: int) -> int:
    """The number of L0 segments from which appends are slowed down: three quarters of the limit."""
    return l0_segments_max - l0_segments_max // 4


def whole_number(low: int, high: int = LONG_MAX, *, none: int | None = None) -> Callable[[str], int]:
    """A check for a whole number in [low, high], or `none`, which means no bound."""
    asked = f"between {low} and {high}" if high != LONG_MAX else f"of at least {low} (and at most {LONG_MAX})"
    if none is not None:
        asked += f", or {none} for no bound"

    def check(text: str) -> int:
        if not _WHOLE.fullmatch(text):
            raise ValueError("a whole number")
        value = int(text)
        if value != none and not low <= value <= high:
            raise ValueError(f"a whole number {asked}")
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
    """A list, as Kafka reads it: spaces and repetitions are ignored; the empty list keeps everything (KIP-1161)."""
    parts = frozenset(part.strip() for part in text.split(",")) if text else frozenset[str]()
    if not parts <= {"compact", "delete"}:
        raise ValueError("'compact', 'delete', 'compact,delete', or nothing at all to keep everything")
    return parts


def truth(text: str) -> bool:
    if text.lower() not in ("true", "false"):
        raise ValueError("true or false")
    return text.lower() == "true"


def _timestamp_type(text: str) -> str:
    if text not in ("CreateTime", "LogAppendTime"):
        raise ValueError("'CreateTime' or 'LogAppendTime'")
    return text


def _location(text: str) -> str:
    if text.startswith(CLASS):
        raise ValueError("a URL; a storage class belongs into cold.storage.class")
    return _home(text)


def _storage_class(text: str) -> str:
    _home(f"{CLASS}{text}" if text else "")
    return text


def _home(name: str) -> str:
    try:
        check_home_name(name)
    except InvalidRequest as error:
        raise ValueError(f"a place that lithify can open: {error}") from None
    return name


# name -> (default, check, meaning). Kafka's names come first, with Kafka's defaults.
_TABLE: dict[str, tuple[str, Callable[[str], Any], str]] = {
    "cleanup.policy": ("delete", _policy, "compact, delete, or both: what happens to old records"),
    "retention.ms": ("604800000", whole_number(-1), "delete: how long records are kept; -1: for ever"),
    "retention.bytes": ("-1", whole_number(-1), "delete: how many bytes of a partition are kept; -1: all"),
    "retention.records": ("-1", whole_number(-1), "delete: how many records of a partition are kept; -1: all"),
    "min.cleanable.dirty.ratio": ("0.5", _ratio, "compact: clean when more than this share of the bytes is uncleaned"),
    "min.compaction.lag.ms": ("0", whole_number(0), "compact: leave records younger than this alone"),
    "max.compaction.lag.ms": (
        str(LONG_MAX),
        whole_number(1),
        "compact: clean at the latest when an uncleaned record is this old",
    ),
    "delete.retention.ms": ("86400000", whole_number(0), "compact: how long a tombstone is kept after its first clean"),
    "segment.bytes": (
        "1073741824",
        whole_number(14),
        "upper limit for compaction.output.bytes (the smaller of the two cuts output segments)",
    ),
    "segment.ms": (
        "604800000",
        whole_number(1),
        "no effect: every append is a closed segment, and nothing waits to be rolled",
    ),
    "max.message.bytes": (str(MIB), whole_number(1, 64 * MIB), "the largest record: key, value and headers together"),
    "message.timestamp.type": (
        "CreateTime",
        _timestamp_type,
        "whether records keep the producer's timestamp or get the append's",
    ),
    "message.timestamp.before.max.ms": (
        str(LONG_MAX),
        whole_number(0),
        "CreateTime: an append with a record older than this is refused",
    ),
    "message.timestamp.after.max.ms": (
        str(LONG_MAX),
        whole_number(0),
        "CreateTime: an append with a record further in the future is refused",
    ),
    "transactional.id.expiration.ms": (
        "604800000",
        whole_number(1),
        "minimum time that an idle application's txn is remembered",
    ),
    "l0.segments.max": (
        "4096",
        whole_number(1, 65_536),
        "limit of L0 segments: appends are slowed down near it, and refused at it",
    ),
    "l0.segments.tier": ("8", whole_number(2, 4_096), "merge L0 segments when there are this many"),
    "runs.tier": ("3", whole_number(2, 256), "merge sorted runs when this many are of similar size"),
    "compaction.output.bytes": (
        str(256 * MIB),
        whole_number(1024),
        "a compaction begins another output segment after about this many bytes, the last 4 MiB counted before "
        "compression; each key range ends one, too",
    ),
    "compaction.attempts.max": (
        "10",
        whole_number(1, 1_000),
        "attempts without progress before a job is given up for a day; attempts ended by the engine or the store do "
        "not count",
    ),
    "compaction.paused": ("false", truth, "true: no compaction runs; appends and retention continue"),
    "compaction.priority": (
        "0",
        whole_number(-100, 100),
        "for work of the same kind, topics with a larger value go first",
    ),
    "compaction.throttle.bytes.per.second": (
        "-1",
        whole_number(1, none=-1),
        "the most that a compaction reads; -1: no limit",
    ),
    "cold.location": ("", _location, "URL of a second home, to which old segments move; empty: none"),
    "cold.storage.class": (
        "",
        _storage_class,
        "or a storage class of the warehouse's own bucket for old segments; empty: none",
    ),
    "local.retention.ms": (
        "-2",
        whole_number(0, none=-2),
        "with a cold home: segments whose newest record is older than this move there; -2: age does not matter",
    ),
    "local.retention.bytes": (
        "-2",
        whole_number(0, none=-2),
        "with a cold home: the oldest segments beyond this many bytes of a partition move; -2: size does not matter",
    ),
    "hot.retain.segments": ("4", whole_number(0, 65_536), "this many of the newest segments never move"),
}


_FIELDS = {name: name.replace(".", "_") for name in _TABLE}
_DEFAULTS = {_FIELDS[name]: check(default) for name, (default, check, _) in _TABLE.items()}


def validate(config: Mapping[str, Setting]) -> dict[str, str]:
    """The configuration as stored: known names, valid values, as strings. Raises InvalidRequest with the remedy."""
    stored = {_known(name): spell(name, value) for name, value in config.items()}
    for name, text in stored.items():
        try:
            _TABLE[name][1](text)
        except ValueError as error:
            raise InvalidRequest(f"{name} is {shown(text)[:80]!r}; it must be {error}{unit_hint(name, text)}") from None
    if "cold.location" in stored:
        stored["cold.location"] = spelled(stored["cold.location"])
    parsed = parse(stored)
    if parsed.min_compaction_lag_ms > parsed.max_compaction_lag_ms:
        raise InvalidRequest(
            "min.compaction.lag.ms must not exceed max.compaction.lag.ms: lower it, or raise the other"
        )
    _check_homes(parsed)
    return stored


def _check_homes(config: TopicConfig) -> None:
    if config.cold_location and config.cold_storage_class:
        raise InvalidRequest("set cold.location or cold.storage.class, not both: a topic has one cold home at a time")
    for what, local, total in (
        ("ms", config.local_retention_ms, config.retention_ms),
        ("bytes", config.local_retention_bytes, config.retention_bytes),
    ):
        if config.deleting and 0 <= total < local:
            raise InvalidRequest(
                f"local.retention.{what} must not exceed retention.{what} ({total}): what is older is deleted"
            )


def spell_changes(changes: Mapping[str, Setting | None]) -> dict[str, str | None]:
    """Changes of a configuration, each value as a string; None: back to the default. Raises InvalidRequest for an
    unknown name. Values are checked later, together with those that stay."""
    return {_known(name): None if value is None else spell(name, value) for name, value in changes.items()}


def spell(name: str, value: Setting) -> str:
    """`value` as it is stored. Raises InvalidRequest if it is neither text nor a number nor a bool."""
    if not isinstance(value, str | int | float):  # pyright: ignore[reportUnnecessaryIsInstance] - users give anything
        raise InvalidRequest(f"{name} must be a string, a number, True or False, not a {type(value).__name__}")
    return value.strip() if isinstance(value, str) else str(value).lower() if isinstance(value, bool) else str(value)


def _known(name: str) -> str:
    if name in _TABLE:
        return name
    if name in INSTEAD:
        raise InvalidRequest(f"{name} is not a topic configuration of lithify{instead(name)}")
    near = difflib.get_close_matches(str(name), _TABLE, n=1)
    told = f"did you mean {near[0]}?" if near else "see docs/configuration.md"
    raise InvalidRequest(f"unknown configuration {str(name)[:80]!r}; {told}")


def parse(config: Mapping[str, str]) -> TopicConfig:
    """A stored configuration with its defaults filled in. Raises InvalidRequest for a value that this lithify does not
    know: this one checks what it stores, so a later one must have stored it."""
    fields = _DEFAULTS | {field: _parsed(name, config[name]) for name, field in _FIELDS.items() if name in config}
    policy = fields.pop("cleanup_policy")
    return TopicConfig(compacted="compact" in policy, deleting="delete" in policy, **fields)


def _parsed(name: str, text: str) -> Any:
    try:
        return _TABLE[name][1](text)
    except ValueError as error:
        raise InvalidRequest(
            f"{name} is stored as {shown(text)[:80]!r}, but must be {error}: upgrade lithify, or alter the topic"
        ) from None


def config_table() -> list[tuple[str, str, str]]:
    """(name, default, meaning) of every configuration, in documentation order."""
    return [(name, default, meaning) for name, (default, _, meaning) in _TABLE.items()]
