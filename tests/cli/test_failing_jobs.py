"""A job that fails again and again looks like one wherever an operator looks; who has left is not said to compact."""

import pytest

import lithify
from tests.cli.conftest import Lithify, changes
from tests.clock import HandClock

ONCE = ("compactor", "run", "--once", "--engine", "local")
WHY = "attempt 2 failed: the disk is full"


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> HandClock:
    clock = HandClock()
    monkeypatch.setattr("lithify.store.memory.machine_ms", clock)
    return clock


@pytest.fixture
def failing(lithify: Lithify, clock: HandClock, monkeypatch: pytest.MonkeyPatch) -> Lithify:
    """Two attempts of a job have failed, and the pause after the second has passed."""
    lithify.ok("topic", "create", "users", "--config", "cleanup.policy=compact")
    for _ in range(3):
        lithify.ok("append", "users", input=changes(9))
    with monkeypatch.context() as broken:
        broken.setattr("lithify.compactor.engines.local.execute", _fails)
        for _ in range(2):
            assert lithify(*ONCE).exit_code == 1
            clock.now_ms += 5_000
    return lithify


def _fails(*_: object) -> None:
    raise lithify.Unavailable("the disk is full")


def test_a_list_of_compactions_shows_why_the_latest_attempt_failed(failing: Lithify) -> None:
    (line,) = failing.ok("compaction", "list", "users").splitlines()[1:]
    assert " in_progress " in line
    assert line.endswith(WHY)
    (job,) = failing.json("compaction", "list", "users", "--active")
    assert job["reason"].startswith("dirty ratio"), "why it was chosen"
    failing.ok(*ONCE)
    assert WHY not in failing.ok("compaction", "list", "users"), "it has overcome that"


def test_explain_does_not_say_of_a_job_that_failed_that_it_runs(failing: Lithify, clock: HandClock) -> None:
    told = failing.ok("compaction", "explain", "users")
    (job,) = failing.json("compaction", "list", "users")
    assert told.startswith(f"users/0: continue a job: job {job['id'][8:]}: {WHY}; its next attempt is due\n")
    clock.now_ms -= 4_000
    assert "the disk is full); next attempt in 1.0 s" in failing.ok("compaction", "explain", "users")


def test_a_description_and_a_doctor_name_the_job_that_failed(failing: Lithify) -> None:
    for shown in (("--partition", "0"), ()):
        told = failing.ok("topic", "describe", "users", *shown)
        assert "the next attempt of a job that failed\n" in told
        assert f": {WHY}; 'lithify compaction explain users --partition 0' says when it is tried again\n" in told
    (part,) = failing.json("topic", "describe", "users")["partitions"]
    assert part["failing"].endswith(WHY)
    told = " ".join(failing("doctor", "--rounds", "1").stdout.split())
    assert f": {WHY}; 'lithify compaction explain" in told
    failing.ok(*ONCE)
    assert "! " not in failing.ok("topic", "describe", "users")


def test_nobody_is_said_to_compact_where_the_last_one_has_left(failing: Lithify) -> None:
    told = failing.ok("compaction", "explain", "users")
    assert "compactor: none now; " in told
    assert " left, its latest claim or job 5.0 s ago\n" in told
    assert "a standby takes over" not in told
