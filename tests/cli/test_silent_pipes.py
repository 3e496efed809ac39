"""`lithify append` from a pipe that has gone silent ends on a signal, whatever the format, and does not abort on a
second one. Tried, and caught: no `waking`; an end of the file instead of an error."""

import fcntl
import os
import signal
import struct
import termios
from collections.abc import Iterator
from pathlib import Path

import pyarrow as pa
import pytest

from tests.cli.conftest import Lithify, lines
from tests.cli.test_process import Process

LINES = lines({"key": "a", "value": "1"}).encode()
SOME = pa.compress(
    lines(*({"key": os.urandom(9).hex(), "value": "v"} for _ in range(9_000))).encode(), "zstd", asbytes=True
)

KINDS: dict[str, tuple[bytes, list[str]]] = {
    "in.csv": (b"key,value\na,1\n", []),
    "in.tsv": (b"key\tvalue\na\t1\n", []),
    "header.csv": (b"key,value\n", []),
    "table.csv": (b"id,plan\na,1\n", ["--key-column", "id"]),
    "in.jsonl": (LINES, []),
    "in": (b"a:1\n", ["-K:"]),
    "in.jsonl.zst": (SOME[:1_000], []),
    "in.csv.gz": (b"\x1f\x8b\x08\x00", []),
}


@pytest.fixture(params=KINDS)
def silent(request: pytest.FixtureRequest, on_files: Lithify, tmp_path: Path) -> Iterator[Process]:
    """It has read all that the pipe gave, and waits for more."""
    on_files.ok("topic", "create", "users")
    content, flags = KINDS[request.param]
    path = tmp_path / request.param
    os.mkfifo(path)
    with Process(on_files.url, "append", "users", "--from", str(path), *flags) as process:
        feeding = os.open(path, os.O_RDWR)
        try:
            os.write(feeding, content)
            while unread(feeding):
                assert process.of.poll() is None
            yield process
        finally:
            os.close(feeding)


def unread(pipe: int) -> int:
    return struct.unpack("i", fcntl.ioctl(pipe, termios.FIONREAD, b"\0\0\0\0"))[0]


@pytest.mark.slow
@pytest.mark.parametrize(("number", "code"), [(signal.SIGTERM, 143), (signal.SIGINT, 130)])
def test_it_ends(silent: Process, number: signal.Signals, code: int) -> None:
    silent.of.send_signal(number)
    assert silent.end() == code
    (told,) = filter(None, silent.said)
    assert ("told to end" if code == 143 else "interrupted") in told


@pytest.mark.slow
def test_a_second_signal_is_no_abort(silent: Process) -> None:
    """It may meet the process anywhere on its way out, where the shell's own rule holds again."""
    for _ in range(2):
        silent.of.send_signal(signal.SIGTERM)
    assert silent.end() in (143, -signal.SIGTERM)
    assert "Fatal" not in "".join(silent.said)
    assert "Traceback" not in "".join(silent.said)
