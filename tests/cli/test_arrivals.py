"""Records that come through a pipe are appended while it stays open, each with its own time."""

import io
import json
import os
import pty
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from lithify.cli.records.arrivals import Linger, arrives
from lithify.cli.records.batches import How, Passing, batches
from lithify.cli.records.bulk import Source
from tests.cli.conftest import Lithify, lines

LITHIFY = [sys.executable, "-m", "lithify.cli"]


class Pipe:
    """What arrives when; its clock stands still but for waiting."""

    def __init__(self, *arrivals: tuple[int, bytes]) -> None:
        self._arrivals = list(arrivals)
        self.now_ms = 0

    def wait(self, _: Any, timeout_ms: int | None) -> bool:
        at_ms = self._arrivals[0][0] if self._arrivals else self.now_ms
        if timeout_ms is not None and at_ms > self.now_ms + timeout_ms:
            self.now_ms += timeout_ms
            return False
        self.now_ms = max(self.now_ms, at_ms)
        return True

    def read(self, _: int) -> bytes:
        return self._arrivals.pop(0)[1] if self._arrivals else b""


def record(name: str, **more: Any) -> bytes:
    return lines({"value": name, **more}).encode()


def cut(pipe: Pipe, rows_max: int = 100, linger_ms: int = 1_000) -> Iterator[tuple[int, int, list[tuple[Any, Any]]]]:
    linger = Linger(linger_ms, lambda: pipe.now_ms, lambda: 5_000_000 + pipe.now_ms, pipe.wait)
    source: Any = Source(pipe, "the pipe")  # type: ignore[arg-type]
    how = How("json", rows_max, linger=linger)
    for batch in batches(source, how, lambda _: None, Passing(0), 1_000):
        yield pipe.now_ms, batch.first, [(each.value, each.timestamp_ms) for each in batch.records]


def test_a_batch_waits_for_so_long_after_its_first_record() -> None:
    pipe = Pipe((10, record("a")), (900, record("b")), (1_500, record("c")), (9_000, record("d")))
    assert list(cut(pipe)) == [
        (1_010, 1, [(b"a", 5_000_010), (b"b", 5_000_900)]),
        (2_500, 3, [(b"c", 5_001_500)]),
        (9_000, 4, [(b"d", 5_009_000)]),
    ]


def test_a_steady_stream_does_not_put_it_off() -> None:
    pipe = Pipe(*((n * 100, record(str(n))) for n in range(25)))
    sealed = [(at_ms, len(records)) for at_ms, _, records in cut(pipe)]
    assert sealed == [(1_000, 11), (2_100, 11), (2_400, 3)]


def test_a_full_batch_does_not_wait_and_half_a_line_is_none() -> None:
    pipe = Pipe((0, record("a") + record("b") + record("c")[:5]), (3_000, record("c")[5:]))
    assert [(at_ms, first) for at_ms, first, _ in cut(pipe, rows_max=2)] == [(0, 1), (3_000, 3)]


def test_a_record_keeps_the_time_that_it_has() -> None:
    assert list(cut(Pipe((7, record("a", timestamp_ms=3))))) == [(7, 1, [(b"a", 3)])]


def test_what_arrives_and_what_is_there(tmp_path: Path) -> None:
    (tmp_path / "file").write_bytes(b"")
    ours, theirs = os.pipe()
    with open(ours, "rb") as pipe, open(tmp_path / "file", "rb") as file:
        assert arrives(pipe)
        assert arrives(pipe.raw)  # type: ignore[attr-defined]
        assert not arrives(file)
        assert not arrives(io.BytesIO(b""))
    os.close(theirs)


@pytest.mark.slow
@pytest.mark.parametrize("words", [(), ("--from", "/dev/stdin")], ids=["stdin", "a device"])
def test_records_of_an_open_pipe_are_read_elsewhere(on_files: Lithify, words: tuple[str, ...]) -> None:
    on_files.ok("topic", "create", "clicks")
    environment = os.environ | {"LITHIFY_WAREHOUSE": on_files.url}
    command = [*LITHIFY, "append", "clicks", "--linger-ms", "1", *words]
    with subprocess.Popen(command, env=environment, stdin=subprocess.PIPE, stdout=subprocess.PIPE) as appending:
        assert appending.stdin is not None
        for name in ("one", "two"):
            appending.stdin.write(record(name))
            appending.stdin.flush()
            count = {"one": 1, "two": 2}[name]
            follow = [*LITHIFY, "read", "clicks", "--follow", "--limit", str(count)]
            told = subprocess.run(follow, env=environment, capture_output=True, timeout=120, check=True).stdout
            assert json.loads(told.splitlines()[-1])["value"] == name
        appending.stdin.close()
        assert appending.stdout is not None
        assert b"2 records appended to clicks" in appending.stdout.read()
    assert appending.returncode == 0


@pytest.mark.slow
@pytest.mark.parametrize(
    ("words", "typed", "awaited"),
    [
        ((), b'{"key": "k", "value": "v"}\n', "one JSON object per line; Ctrl-D"),
        (("-K:",), b"k:v\n", "a key, the delimiter and a value per line; Ctrl-D"),
        (("--format", "csv"), b"key,value\nk,v\n\x04", "as CSV; Ctrl-D"),
    ],
)
def test_who_types_is_told_what_and_sees_no_bar(
    on_files: Lithify, words: tuple[str, ...], typed: bytes, awaited: str
) -> None:
    on_files.ok("topic", "create", "users")
    ours, theirs = pty.openpty()
    os.write(ours, typed + b"\x04")
    command = [*LITHIFY, "--warehouse", on_files.url, "append", "users", *words]
    env = os.environ | {"TERM": "xterm-256color"}
    assert subprocess.run(command, stdin=theirs, stderr=theirs, env=env, check=False, timeout=60).returncode == 0
    os.close(theirs)
    told = os.read(ours, 1 << 16).decode()
    os.close(ours)
    assert f"waiting for records of users, {awaited}" in told
    assert "appending" not in told
    assert [each["value"] for each in on_files.records("read", "users")] == ["v"]
