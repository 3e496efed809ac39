"""Standard streams that are closed or full, and signals that the caller had ignored: as a shell starts a command."""

import os
import re
import shlex
import signal
import subprocess
import sys
from collections.abc import Callable

import pytest

from tests.cli.conftest import Lithify, lines
from tests.cli.test_process import Process

PROGRAM = shlex.join([sys.executable, "-m", "lithify.cli.main"])


@pytest.fixture
def users(on_files: Lithify) -> Lithify:
    on_files.ok("topic", "create", "users")
    on_files.ok("append", "users", input=lines({"key": "a", "value": "1"}))
    return on_files


def shell(users: Lithify, text: str) -> "subprocess.CompletedProcess[str]":
    variables = {**os.environ, "LITHIFY_WAREHOUSE": users.url}
    return subprocess.run(
        text.replace("lithify", PROGRAM, 1), shell=True, env=variables, capture_output=True, text=True, check=False
    )


@pytest.mark.slow
@pytest.mark.parametrize(
    ("text", "code", "saying"),
    [
        ("lithify append users <&-", 2, "standard input is closed"),
        ("lithify read users >&-", 2, "standard output is closed"),
        ("lithify topic list >&-", 2, "standard output is closed"),
        ("lithify export users --to - >&-", 2, "standard output is closed"),
        ("lithify read users >/dev/full", 7, "standard output: No space left on device"),
        ("lithify topic list --json >/dev/full", 7, "standard output: No space left on device"),
        ("lithify read users --follow >/dev/full", 7, "standard output: No space left on device"),
        ("lithify read users --consumer c >/dev/full", 7, "standard output: No space left on device"),
        ("lithify get users nobody 2>&-", 3, ""),
        ("lithify get users nobody 2>/dev/full", 3, ""),
        ("lithify append users --from /nowhere <&- >&- 2>&-", 3, ""),
    ],
)
def test_the_exit_code_and_one_line_say_what_it_was(users: Lithify, text: str, code: int, saying: str) -> None:
    told = shell(users, text)
    assert told.returncode == code, told.stderr
    assert saying in told.stderr
    assert len(told.stderr.splitlines()) == bool(saying)


@pytest.mark.slow
def test_an_append_whose_answer_cannot_be_said_says_how_far_it_came(users: Lithify) -> None:
    told = shell(users, """printf '{"key": "a", "value": "2"}' | { lithify append users >/dev/full; }""")
    assert told.returncode == 7
    assert "1 record was appended; to append the rest without duplicates, run the command again with" in told.stderr
    assert len(users.records("read", "users")) == 2


@pytest.mark.slow
def test_nothing_that_is_printed_gets_into_a_file_that_took_the_number_of_a_closed_stream(users: Lithify) -> None:
    shell(users, """printf '{"key": "a", "value": "2"}' | { lithify append users --log-level debug >&- 2>&-; }""")
    assert [line["value"] for line in users.records("read", "users")] == ["1", "2"]
    users.ok("verify", "users", "--engine", "local")


@pytest.mark.slow
def test_a_terminal_that_goes_away_is_as_being_told_to_end(users: Lithify) -> None:
    with Process(users.url, "append", "users", "--batch-size", "1", feeds=True) as process:
        feed(process, "2")
        while len(users.records("read", "users")) < 2:
            assert process.of.poll() is None
        process.of.send_signal(signal.SIGHUP)
        assert process.end() == 129
    # It is there for others a moment before who appends it is told so.
    told = r"the terminal went away\. (1 record was appended|0 records were appended, 1 possibly appended); to append"
    assert re.search(told, process.said[-1])


@pytest.mark.slow
def test_a_terminal_that_is_gone_is_a_reader_that_is_gone(users: Lithify) -> None:
    """Without a signal, as for what runs in the background: writing fails with EIO, and no disk is full."""
    ours, terminal = os.openpty()
    with subprocess.Popen(
        [*shlex.split(PROGRAM), "read", "users", "--follow"],
        env={**os.environ, "LITHIFY_WAREHOUSE": users.url},
        stdout=terminal,
        stderr=subprocess.PIPE,
        text=True,
    ) as process:
        os.close(terminal)
        assert os.read(ours, 1)  # it has begun to show what is there
        os.close(ours)
        users.ok("append", "users", input=lines({"key": "a", "value": "2"}))
        assert process.stderr is not None
        assert (process.wait(), process.stderr.read()) == (141, "")


@pytest.mark.slow
@pytest.mark.parametrize("opens", [os.openpty, os.pipe])
def test_an_append_whose_output_nobody_reads_says_how_far_it_came(
    users: Lithify, opens: Callable[[], tuple[int, int]]
) -> None:
    ours, theirs = opens()
    with subprocess.Popen(
        [*shlex.split(PROGRAM), "append", "users"],
        env={**os.environ, "LITHIFY_WAREHOUSE": users.url},
        stdin=subprocess.PIPE,
        stdout=theirs,
        stderr=subprocess.PIPE,
        text=True,
    ) as process:
        os.close(theirs)
        assert process.stdin is not None
        process.stdin.write(lines({"key": "a", "value": "2"}))
        process.stdin.flush()
        while len(users.records("read", "users")) < 2:  # it appends what has come before it waits for more
            assert process.poll() is None
        os.close(ours)
        process.stdin.close()
        process.stdin = None
        _, told = process.communicate(timeout=60)
    assert process.returncode == 141, told
    assert "nobody reads the output any more" in told
    assert "1 record was appended; to append the rest without duplicates, run the command again with" in told


@pytest.mark.slow
@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGHUP])
@pytest.mark.parametrize("words", [("append", "users", "--batch-size", "1"), ("read", "users", "--follow")])
def test_a_signal_that_the_caller_had_ignored_stays_so(
    users: Lithify, number: signal.Signals, words: tuple[str, ...]
) -> None:
    """As nohup does, and a script for what it starts with &."""
    before = signal.signal(number, signal.SIG_IGN)
    try:
        process = Process(users.url, *words, feeds=True)
    finally:
        signal.signal(number, before)
    with process:
        if words[0] == "append":
            feed(process, "2")
            while len(users.records("read", "users")) < 2:
                assert process.of.poll() is None
        else:
            assert process.of.stdout is not None
            assert process.of.stdout.readline()
        process.of.send_signal(number)
        if words[0] == "append":
            feed(process, "3")
            assert process.of.stdin is not None
            process.of.stdin.close()
            process.of.stdin = None
            assert process.end() == 0
            assert len(users.records("read", "users")) == 3
        else:
            users.ok("append", "users", input=lines({"key": "a", "value": "2"}))
            assert process.of.stdout is not None
            assert process.of.stdout.readline()
            process.of.send_signal(signal.SIGTERM)
            assert process.end() == 0


def feed(process: Process, value: str) -> None:
    assert process.of.stdin is not None
    process.of.stdin.write(lines({"key": "a", "value": value}))
    process.of.stdin.flush()
