"""A clock that is read now and then: however long the machine slept, it is a second behind at most."""

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from lithify.store.driver import machine_ms
from lithify.store.file import FileStore
from lithify.store.followed_clock import FollowedClock
from lithify.store.fsspec_store import FsspecStore

KEPT_MS = 60_000
HOURS_MS = 8 * 3_600_000


@dataclass
class Machine:
    awake_ms: int = 0
    slept_ms: int = 0
    reads: int = 0

    def __post_init__(self) -> None:
        machine = lambda: self.awake_ms + self.slept_ms + 3_600_000  # noqa: E731 - it is set wrongly
        self.clock = FollowedClock(self._read, KEPT_MS, lambda: self.awake_ms, machine)

    def _read(self) -> int:
        self.reads += 1
        return self.awake_ms + self.slept_ms

    @property
    def error_ms(self) -> int:
        return self.clock.now() - self.awake_ms - self.slept_ms


@given(
    st.lists(st.tuples(st.booleans(), st.sampled_from([1, 400, 999, 1_001, 59_999, 60_000]) | st.integers(0, 10**9)))
)
def test_it_is_a_second_behind_at_most(steps: list[tuple[bool, int]]) -> None:
    machine = Machine()
    for sleeps, ms in steps:
        if sleeps:
            machine.slept_ms += ms
        else:
            machine.awake_ms += ms
        assert -1_000 <= machine.error_ms <= 0


def test_it_is_not_read_while_the_machine_is_awake() -> None:
    machine = Machine()
    for _ in range(KEPT_MS // 1_000):
        assert machine.error_ms == 0
        machine.awake_ms += 1_000
    assert machine.reads == 1
    assert machine.error_ms == 0
    assert machine.reads == 2


@pytest.fixture(params=[FileStore, lambda path: FsspecStore(f"local://{path}", proven=True)], ids=["file", "fsspec"])
def store(request: pytest.FixtureRequest, tmp_path: Path) -> FileStore | FsspecStore:
    return request.param(tmp_path)


def test_a_store_s_clock_is_read_anew_after_a_sleep(store: FileStore | FsspecStore) -> None:
    """Its monotonic clock stood still: what it told was hours old, for a second in a folder, for a minute elsewhere."""
    store.put("k", b"")  # or a folder is not asked for its time
    reads: list[int] = []
    read: Callable[[], int] = store._clock._read
    store._clock._read = lambda: reads.append(0) or read()
    store.now()
    store._clock._machine = lambda: machine_ms() + HOURS_MS
    store.now()
    assert len(reads) == 2
