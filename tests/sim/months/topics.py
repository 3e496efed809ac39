"""The topics of the months: hot, bursty, idle, rare ones, tight and lazy settings, and one so large that its clean
takes hours."""

from collections.abc import Callable, Mapping
from typing import Any, NamedTuple

from tests.sim.months.clock import DAY_MS, HOUR_MS, MINUTE_MS, START_MS

__all__ = ["TOPICS", "Shape", "idle", "many"]

KIB, MIB, GIB = 1 << 10, 1 << 20, 1 << 30
Rest = Callable[[int, Any], float]
"""How long a producer rests, in milliseconds, at a time; it has dice."""


def each(ms: int) -> Rest:
    return lambda _, dice: ms * (0.5 + dice.random())


def _bursts(now_ms: int, dice: Any) -> float:
    """Ten minutes of an append each five seconds, three times a day; one each hour else. A standby takes over within
    two rounds and a lease of when something falls due: in that time they stay below the limit."""
    at_ms = (now_ms - START_MS) % (8 * HOUR_MS)
    if at_ms < 10 * MINUTE_MS:
        return 5_000 * (0.5 + dice.random())
    return min(HOUR_MS * (0.5 + dice.random()), 8 * HOUR_MS - at_ms + 1)


def _first_days(days: int, ms: int) -> Rest:
    return lambda now_ms, dice: each(ms)(now_ms, dice) if now_ms - START_MS < days * DAY_MS else 20 * DAY_MS


def _imported_first(count: int, rest: Rest) -> Rest:
    """So many appends at once, in the first hour."""

    def found(now_ms: int, dice: Any) -> float:
        return HOUR_MS / count / 2 if now_ms - START_MS < HOUR_MS // 2 else rest(now_ms, dice)

    return found


class Shape(NamedTuple):
    name: str
    config: Mapping[str, str]
    rest: Rest
    partitions: int = 1
    keys: int = 1_000
    skew: float = 1.0  # 1: all keys alike; more: a few are written again and again
    rows: int = 40  # of an append
    row_bytes: int = 16 * KIB
    deletes: float = 0.05  # share of tombstones
    first_rows: int | None = None  # of an append of the import


def _config(policy: str, **values: Any) -> dict[str, str]:
    return {"cleanup.policy": policy} | {name.replace("_", "."): str(value) for name, value in values.items()}


HOURS = HOUR_MS

TOPICS = (
    Shape(
        "hot",
        _config(
            "compact", max_compaction_lag_ms=2 * HOURS, min_cleanable_dirty_ratio=0.3, delete_retention_ms=6 * HOURS
        ),
        each(5 * MINUTE_MS),
        partitions=2,
        keys=20_000,
        skew=3,
        row_bytes=64 * KIB,
    ),
    Shape(
        "bursty",
        _config("compact,delete", retention_ms=2 * DAY_MS, l0_segments_max=128, compaction_priority=5),
        _bursts,
        partitions=2,
        keys=5_000,
    ),
    Shape("events", _config("delete", retention_ms=DAY_MS), each(12 * MINUTE_MS), partitions=2, row_bytes=128 * KIB),
    Shape("ring", _config("delete", retention_bytes=2 * GIB, l0_segments_tier=4), each(15 * MINUTE_MS), row_bytes=MIB),
    Shape("idle", _config("compact", max_compaction_lag_ms=DAY_MS), _first_days(1, 30 * MINUTE_MS), deletes=0.3),
    Shape(
        "rare",
        _config("compact", max_compaction_lag_ms=12 * HOURS, min_compaction_lag_ms=HOURS),
        each(6 * HOURS),
        deletes=0.2,
    ),
    Shape(
        "large",
        _config(
            "compact",
            min_cleanable_dirty_ratio=0.15,
            segment_bytes=2 * GIB,
            compaction_output_bytes=2 * GIB,
            max_compaction_lag_ms=3 * DAY_MS,
        ),
        _imported_first(200, each(30 * MINUTE_MS)),
        keys=400_000,
        rows=250,
        row_bytes=4 * MIB,
        deletes=0.01,
        first_rows=600,
    ),
    Shape("kept", _config("", runs_tier=4), each(40 * MINUTE_MS), row_bytes=256 * KIB),
    Shape("fickle", _config("compact", max_compaction_lag_ms=6 * HOURS), each(20 * MINUTE_MS), deletes=0.1),
    Shape("passing", _config("compact", max_compaction_lag_ms=HOURS), each(20 * MINUTE_MS)),
)


def idle(partitions: int, of_a_topic: int = 20) -> tuple[Shape, ...]:
    """A warehouse at rest: so many partitions, each with a few appends in its first minutes, and none after."""
    counts = [min(of_a_topic, partitions - first) for first in range(0, partitions, of_a_topic)]
    config = _config("delete")

    def rest(now_ms: int, dice: Any) -> float:
        return 4 * MINUTE_MS * dice.random() if now_ms - START_MS < 5 * MINUTE_MS else 1_000 * DAY_MS

    return tuple(Shape(f"idle-{number:02}", config, rest, partitions=count) for number, count in enumerate(counts))


def many(partitions: int, of_a_topic: int = 20) -> tuple[Shape, ...]:
    """A wide warehouse: so many partitions, each with an append every ten minutes."""
    counts = [min(of_a_topic, partitions - first) for first in range(0, partitions, of_a_topic)]
    config = _config("compact", max_compaction_lag_ms=HOUR_MS)
    return tuple(
        Shape(f"many-{number:02}", config, each(10 * MINUTE_MS), partitions=count)
        for number, count in enumerate(counts)
    )
