"""How much of a log to keep, as one value: a shorthand for retention.* in a topic's configuration."""

from collections.abc import Mapping
from typing import Any, TypeVar

import msgspec

from lithify.manifest.config import LONG_MAX, Setting, TopicConfig, parse, validate
from lithify.store.errors import InvalidRequest

__all__ = ["RetentionPolicy", "policy_of", "with_retention"]

V = TypeVar("V", bound=Setting | None)  # a value of a configuration, or None where allowed


class RetentionPolicy(msgspec.Struct, frozen=True):
    """How much of each partition is kept. None: no bound. If several bounds are given, the one that keeps least wins.

    >>> policy = lithify.RetentionPolicy(max_age_seconds=7 * 86_400)
    >>> lithify.open("memory://example").create_topic("events", retention=policy).config["retention.ms"]
    '604800000'

    Readers stop seeing what is beyond the bounds at once; later compactions and collections free the bytes. Raises
    InvalidRequest if a bound is not a whole number from 0.
    """

    max_records: int | None = None
    max_age_seconds: int | float | None = None  # by the timestamps of records, to the millisecond
    max_total_bytes: int | None = None  # as they are stored

    def __post_init__(self) -> None:
        _check("max_records", self.max_records, int, LONG_MAX)
        _check("max_age_seconds", self.max_age_seconds, int | float, LONG_MAX / 1000)
        _check("max_total_bytes", self.max_total_bytes, int, LONG_MAX)


def _check(name: str, bound: Any, kind: Any, most: float) -> None:
    if bound is None or (isinstance(bound, kind) and not isinstance(bound, bool) and 0 <= bound <= most):
        return
    raise InvalidRequest(f"RetentionPolicy: {name} must be a number >= 0, or None for no bound")


def with_retention(
    config: Mapping[str, V], policy: RetentionPolicy | None, cleanup_policy: str
) -> dict[str, V | str | int]:
    """`config`, with the settings for `policy`. Adds delete to the cleanup.policy in `config`, or to `cleanup_policy`.
    Raises InvalidRequest if `config` sets one of the bounds too, or that policy is not valid."""
    if policy is None:
        return dict(config)
    twice = sorted(config.keys() & _bounds(policy).keys())
    if twice:
        raise InvalidRequest(f"{', '.join(twice)}: set it in the configuration or in retention, not in both")
    said = config.get("cleanup.policy", cleanup_policy)
    compacted = parse(validate({} if said is None else {"cleanup.policy": said})).compacted
    return {**config, **_bounds(policy), "cleanup.policy": "compact,delete" if compacted else "delete"}


def _bounds(policy: RetentionPolicy) -> dict[str, int]:
    age_ms = None if policy.max_age_seconds is None else min(round(policy.max_age_seconds * 1000), LONG_MAX)
    bounds = {
        "retention.records": policy.max_records,
        "retention.ms": age_ms,
        "retention.bytes": policy.max_total_bytes,
    }
    return {name: -1 if bound is None else bound for name, bound in bounds.items()}


def policy_of(config: TopicConfig) -> RetentionPolicy:
    """The bounds in a configuration. A topic that deletes nothing by age or size has none."""
    if not config.deleting:
        return RetentionPolicy()
    age_ms = config.retention_ms
    return RetentionPolicy(
        max_records=_bound(config.retention_records),
        max_age_seconds=None if age_ms < 0 else age_ms // 1000 if age_ms % 1000 == 0 else age_ms / 1000,
        max_total_bytes=_bound(config.retention_bytes),
    )


def _bound(value: int) -> int | None:
    return None if value < 0 else value
