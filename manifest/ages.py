"""Ages, by a clock that may have been wrong when it was read."""

from lithify.manifest.config import LONG_MAX, TopicConfig

__all__ = ["latest_cleanable_ms", "time_left_ms", "young"]


def young(since_ms: int, now_ms: int, age_ms: int) -> bool:
    """Whether `since_ms` lies less than `age_ms` before `now_ms`.

    A time after `now_ms` came from a clock that was ahead. It does not count as young: nobody should wait until the
    right clock gets there.
    """
    return 0 <= now_ms - since_ms < age_ms


def time_left_ms(until_ms: int, now_ms: int, wait_ms_max: int) -> int:
    """How long to wait until `until_ms`, if no wait is longer than `wait_ms_max`. A time further ahead came from a
    clock that was ahead: 0."""
    left_ms = until_ms - now_ms
    return left_ms if 0 < left_ms <= wait_ms_max else 0


def latest_cleanable_ms(config: TopicConfig, now_ms: int) -> int:
    """The largest timestamp that a unit may hold to be compacted now. Without a lag there is no limit: even a record
    from the future does not keep its unit from being compacted (as in Kafka)."""
    return now_ms - config.min_compaction_lag_ms if config.min_compaction_lag_ms else LONG_MAX
