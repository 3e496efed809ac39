"""`lithify top`: partitions by debt, jobs with progress and rate."""

import os
import pty
import subprocess
import sys
from typing import Any

import msgspec
import pytest

import lithify as face
from lithify.admin.survey import JobNow, PartitionSurvey
from lithify.cli.output import Output
from lithify.cli.top import Rates, _show
from tests.cli.conftest import Lithify, changes


def job(recorded: int, **more: Any) -> JobNow:
    blank = {"id": "users/0/7", "kind": "clean", "status": "in_progress", "origin": "scheduler", "running": True}
    blank |= {"attempt": 1, "failed_attempts": 0, "ranges": 4, "recorded": recorded, "input_bytes": 4 << 20}
    return JobNow(**(blank | {"created_at_ms": 0, "started_at_ms": 1_000} | more))


def partition(at_ms: int, *jobs: JobNow) -> PartitionSurvey:
    blank = dict.fromkeys(PartitionSurvey.__struct_fields__, 0)
    return PartitionSurvey(**(blank | {"at_ms": at_ms, "jobs": jobs}))


def test_a_rate_is_of_what_was_recorded_since_it_was_seen_before() -> None:
    rates = Rates()
    assert rates.look([partition(1_000, job(0))]) == {}
    assert rates.look([partition(3_000, job(1))]) == {"users/0/7": (1 << 20) / 2}
    assert rates.look([partition(4_000, job(1))]) == {"users/0/7": (1 << 20) / 2}, "a range is under way"
    assert rates.look([partition(7_000, job(3))]) == {"users/0/7": (2 << 20) / 4}
    assert rates.look([partition(8_000)]) == {}


def test_a_job_that_was_running_before_has_its_average() -> None:
    assert Rates().look([partition(9_000, job(2))]) == {"users/0/7": (2 << 20) / 8}
    assert Rates().look([partition(9_000, job(2, started_at_ms=None))]) == {}


@pytest.fixture
def indebted(on_files: Lithify) -> Lithify:
    for name, count in (("users", 20), ("others", 2_000)):
        on_files.ok("topic", "create", name, "--config", "cleanup.policy=compact")
        on_files.ok("append", name, input=changes(count, keys=count))
    return on_files


def test_those_that_owe_most_come_first(indebted: Lithify) -> None:
    first, heads, *rows = indebted.ok("top").splitlines()
    assert ": 2 partitions, " in first
    assert " to compact, 0 jobs" in first
    assert heads.split()[:2] == ["partition", "debt"]
    assert [row.split()[0] for row in rows] == ["others/0", "users/0"]
    assert {each["topic"] for each in indebted.json("top")["partitions"]} == {"users", "others"}


def test_jobs_are_shown_with_their_progress(indebted: Lithify, capsys: pytest.CaptureFixture[str]) -> None:
    with face.open(indebted.url) as warehouse:
        overview = face.Admin(warehouse).overview()
    changed = msgspec.structs.replace(overview.partitions[0], jobs=(job(2),), at_ms=9_000)
    _show(Output(as_json=False), msgspec.structs.replace(overview, partitions=(changed,)), Rates())
    *_, heads, row = capsys.readouterr().out.splitlines()
    assert heads.split() == ["job", "kind", "progress", "rate", "left", "attempt", "status"]
    assert row.split() == [
        "users/0/7",
        "clean",
        "[#####.....]",
        "50",
        "%",
        "256.0",
        "KiB/s",
        "8.0",
        "s",
        "1",
        "running",
    ]


@pytest.mark.slow
def test_a_terminal_is_drawn_again_until_ctrl_c(indebted: Lithify) -> None:
    ours, theirs = pty.openpty()
    environment = os.environ | {"LITHIFY_WAREHOUSE": indebted.url, "TERM": "xterm-256color"}
    command = [sys.executable, "-m", "lithify.cli", "top", "--refresh-ms", "100"]
    with subprocess.Popen(command, env=environment, stdin=theirs, stdout=theirs, stderr=subprocess.PIPE) as running:
        os.close(theirs)
        seen = b""
        while seen.count(b"others/0") < 3:
            seen += os.read(ours, 1 << 16)
        running.send_signal(2)
        while True:
            try:
                seen += os.read(ours, 1 << 16)
            except OSError:  # it has closed the terminal
                break
        assert running.wait(60) == 0
    os.close(ours)
    assert seen.startswith(b"\x1b[?1049h"), "a screen of its own"
    assert b"\x1b[?1049l" in seen, "and the former one comes back"
