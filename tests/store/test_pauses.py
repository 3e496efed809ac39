"""Any pause that is asked for can be made: a system refuses to sleep for longer than it can count."""

import pytest

from lithify.store import driver

SECONDS_MAX = ((1 << 63) - 1) // 10**9  # of a clock that counts nanoseconds in 64 bits
UPTIME_MAX = 100 * 366 * 86_400


@pytest.mark.parametrize("ms", [0, 1_000, 2**63 - 1, 10**400])
def test_a_pause_is_no_longer_than_a_system_sleeps(ms: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """Tried on store/driver.py, and caught: no bound."""
    slept: list[float] = []
    monkeypatch.setattr("lithify.store.driver.time.sleep", slept.append)
    driver.pause(ms)
    assert len(slept) == 1
    assert min(ms, 10_000) / 2_000 <= slept[0] < SECONDS_MAX - UPTIME_MAX
