"""Ages by a clock that may have been wrong when it was read."""

__all__ = ["time_left_ms", "young"]


def young(since_ms: int, now_ms: int, age_ms: int) -> bool:
    """Whether `since_ms` lies less than `age_ms` before `now_ms`.

    What lies after `now_ms` was read from a clock that was ahead. It is not young: nobody waits until the right clock
    has come as far.
    """
    return 0 <= now_ms - since_ms < age_ms


def time_left_ms(until_ms: int, now_ms: int, wait_ms_max: int) -> int:
    """How long to wait until `until_ms`, where nothing waits longer than `wait_ms_max`: 0 where it lies further ahead,
    since then it was reckoned by a clock that was ahead."""
    left_ms = until_ms - now_ms
    return left_ms if 0 < left_ms <= wait_ms_max else 0
