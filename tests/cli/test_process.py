"""The command line as a process: signals, pipes, exit codes, and what others see of it."""

import json
import os
import signal
import subprocess
import sys
from pathlib import Path
from typing import IO

import pytest

import lithify
from lithify.testing.server import S3Server
from tests.cli.conftest import Lithify, changes, lines

PROGRAM = [sys.executable, "-m", "lithify.cli.main"]
SERVICE = ["compactor", "run", "--engine", "local", "--no-probe", "--log-format", "json"]
TIMEOUT_S = 120


class Process:
    """`lithify` with these words; ended, whatever the test does."""

    def __init__(self, url: str, *words: str, feeds: bool = False, **env: str) -> None:
        variables = {**os.environ, "LITHIFY_WAREHOUSE": url, **env}
        pipe = subprocess.PIPE
        given = pipe if feeds else None
        self.of = subprocess.Popen([*PROGRAM, *words], env=variables, stdin=given, stdout=pipe, stderr=pipe, text=True)
        self.said: list[str] = []

    def __enter__(self) -> "Process":
        return self

    def __exit__(self, *_: object) -> None:
        self.of.kill()
        self.of.communicate()

    @property
    def err(self) -> IO[str]:
        assert self.of.stderr is not None
        return self.of.stderr

    def until(self, event: str) -> None:
        """Read its log until `event`."""
        for line in self.err:
            self.said.append(line)
            if json.loads(line)["event"] == event:
                return
        raise AssertionError(f"it ended without {event!r}: {self.said}")

    def end(self) -> int:
        self.said += self.of.communicate(timeout=TIMEOUT_S)[1].splitlines()
        return self.of.returncode


@pytest.fixture
def users(on_files: Lithify) -> Lithify:
    on_files.ok("topic", "create", "users", "--config", "cleanup.policy=compact")
    return on_files


@pytest.mark.slow
def test_a_service_that_is_told_to_leave_records_and_leaves(users: Lithify) -> None:
    """Many key ranges, so that the signal comes while some are done and others are not; either way it is recorded."""
    users.ok("topic", "alter", "users", "--config", "compaction.output.bytes=2048")
    for letter in "abcdefghijklmnop":
        records = [{"key": f"{letter}{n:05d}", "value": "v" * 20} for n in range(2_000)]
        users.ok("append", "users", input=lines(*records))
    with Process(users.url, *SERVICE, "--no-gc") as service:
        service.until("started")
        while not any(job["attempts"] for job in users.json("compaction", "list")):
            pass
        service.of.send_signal(signal.SIGTERM)
        assert service.end() == 0
    assert json.loads(service.said[-1])["event"] == "left"
    (job,) = users.json("compaction", "list")
    (attempt,) = job["attempts"]
    assert attempt["ended_at_ms"] is not None
    assert users.json("compactor", "run", "--once", "--engine", "local")["more_work"] is False
    done = users.json("compaction", "status", job["id"])
    assert done["status"] == "completed"
    assert len(users.records("scan", "users")) == 32_000


STAYS: dict[str, tuple[str, ...]] = {
    "compactor run": tuple(SERVICE),
    "gc run": ("gc", "run", "--log-format", "json"),
    "serve": ("serve", "--http", "127.0.0.1:0", "--log-format", "json"),
}


@pytest.mark.slow
@pytest.mark.parametrize("numbers", [[signal.SIGHUP], [signal.SIGTERM, signal.SIGHUP]])
@pytest.mark.parametrize("command", STAYS)
def test_a_service_leaves_when_its_terminal_goes_away(
    users: Lithify, command: str, numbers: list[signal.Signals]
) -> None:
    """A session that ends sends one signal or both."""
    with Process(users.url, *STAYS[command]) as service:
        service.until("started")
        for number in numbers:
            service.of.send_signal(number)
        assert service.end() == 0
    assert json.loads(service.said[-1])["event"] == "left"


@pytest.mark.slow
def test_a_second_signal_ends_it_at_once(users: Lithify) -> None:
    with Process(users.url, *SERVICE, "--initial-delay-ms", "0", "--no-gc") as service:
        service.until("started")
        service.of.send_signal(signal.SIGINT)
        service.of.send_signal(signal.SIGTERM)
        ends = {0, 128 + signal.SIGINT, 128 + signal.SIGTERM}  # it may have left by the first; either may come first
        assert service.end() in ends


@pytest.mark.slow
def test_a_service_that_was_taken_over_ends_and_started_again_it_stands_by(users: Lithify) -> None:
    users.ok("append", "users", input=changes(9))
    with (
        lithify.open(users.url) as warehouse,
        Process(users.url, *SERVICE, "--interval-ms", "700") as service,
    ):
        service.until("compaction completed")
        rival = lithify.Compactor(warehouse, engine="local")  # it is not closed: then it would give the partition up
        for _ in range(200):  # until ours is the faster one
            users.ok("append", "users", input=changes(9))
            rival.run_once(take_over=True)
            if users.json("topic", "describe", "users")["partitions"][0]["compactor_epoch"] > 1:
                break
        for _ in range(3):
            users.ok("append", "users", input=changes(9))
        service.until("fenced")  # the incumbent meets the new epoch at its next write
        assert json.loads(service.said[-1])["topic"] == "users"
        last = list(service.err)[-1]  # up to its end
        assert last.startswith("lithify: users/0: another compactor took over")
        assert service.of.wait(TIMEOUT_S) == 5
    with Process(users.url, *SERVICE, "--interval-ms", "700") as service:
        service.until("partition rests")
        assert "standby" in json.loads(service.said[-1])["reason"]
        service.of.send_signal(signal.SIGTERM)
        assert service.end() == 0


@pytest.mark.slow
def test_a_reader_that_goes_away_is_no_error(users: Lithify) -> None:
    users.ok("append", "users", input=lines(*({"key": str(n), "value": "v" * 5_000} for n in range(1_000))))
    with Process(users.url, "read", "users") as reading:  # more than a pipe holds
        assert reading.of.stdout is not None
        assert reading.of.stdout.readline().startswith("{")
        reading.of.stdout.close()
        reading.of.wait(TIMEOUT_S)
        assert reading.of.returncode == 141
        assert reading.err.read() == ""


@pytest.mark.slow
def test_secrets_show_neither_to_ps_nor_in_logs(lithify_s3: S3Server, tmp_path: Path) -> None:
    bucket = lithify_s3.create_bucket()
    secret = "hidden-5c1f"
    options = f"key=test secret={secret} client_kwargs.endpoint_url={lithify_s3.endpoint_url}"
    s3 = Lithify(f"s3://{bucket}/w", *(word for option in options.split() for word in ("--storage-option", option)))
    s3.ok("topic", "create", "users", "--config", "cleanup.policy=compact")
    s3.ok("append", "users", input=changes(9))
    with Process(s3.url, *SERVICE, "--log-level", "debug", LITHIFY_STORAGE_OPTION=options) as service:
        service.until("compaction completed")
        assert secret.encode() not in Path(f"/proc/{service.of.pid}/cmdline").read_bytes()
        service.of.send_signal(signal.SIGTERM)
        assert service.end() == 0
    assert secret not in "".join(service.said)


@pytest.mark.slow
@pytest.mark.parametrize(
    ("words", "code"),
    [(("--version",), 0), (("read", "nobody"), 3), (("nonsense",), 2), ((), 2), (("manifest", "show", "users"), 0)],
)
def test_exit_codes_reach_the_shell(users: Lithify, words: tuple[str, ...], code: int) -> None:
    with Process(users.url, *words) as process:
        assert process.end() == code
    assert "Traceback" not in "".join(process.said)


READS_AHEAD = r"""
import io
import sys
import time

import pyarrow as pa
from pyarrow import csv

from lithify.cli.main import main


class Rows(io.RawIOBase):
    reads = 0

    def readable(self):
        return True

    def readinto(self, into):
        self.reads += 1
        if self.reads > 1:
            time.sleep(1)
        count = len(into) // 4
        into[: 4 * count] = b"a,1\n" * count
        return 4 * count


reader = csv.open_csv(pa.PythonFile(io.BufferedReader(Rows()), "r"))
sys.argv = ["lithify", *sys.argv[1:]]
main()
"""


@pytest.mark.slow
@pytest.mark.parametrize(("words", "code"), [(["--version"], 0), (["topic", "lits"], 2)])
def test_a_read_that_is_under_way_does_not_abort_it(words: list[str], code: int) -> None:
    """Without `_leave` it ends with -6."""
    done = subprocess.run([sys.executable, "-c", READS_AHEAD, *words], capture_output=True, text=True, check=False)
    assert done.returncode == code, done.stderr
    assert "lithify 0.1.0" in done.stdout if code == 0 else "No such command" in done.stderr
