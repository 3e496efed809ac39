"""An upload to a home that does not answer leaves nothing behind: no object, no temporary file, nothing open."""

import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from lithify.store.cold import Cold
from lithify.store.deadline import Deadline, LeftBehind
from lithify.store.disk import Disk
from lithify.store.errors import Unavailable
from lithify.store.file import FileStore
from lithify.store.memory import MemoryStore
from lithify.store.port import OutputFile
from lithify.store.wrapped import Wrapped
from tests.store.hanging import Gate, until

KEY = "users/0123456789abcdef/00000/segments/1.parquet"


@pytest.fixture
def gate() -> Iterator[Gate]:
    made = Gate()
    yield made
    made.open()


def test_an_upload_that_arrives_late_is_deleted(gate: Gate) -> None:
    class Slow(Wrapped):
        def output(self, key: str) -> OutputFile:
            return SlowOutput(super().output(key))

    class SlowOutput(OutputFile):
        def __init__(self, inner: OutputFile) -> None:
            self.write, self.abort, self._inner = inner.write, inner.abort, inner

        def close(self) -> None:
            gate.passed()
            self._inner.close()
            closed.set()

    store, closed = Slow(MemoryStore()), threading.Event()
    cold = Cold("hang://far", store, Deadline(wait=gate.wait))
    output = cold.output(KEY)
    output.write(b"xy")
    gate.close()
    with pytest.raises(LeftBehind):
        output.close()
    output.abort()
    with pytest.raises(Unavailable, match="given up"):
        output.write(b"z")
    assert not closed.is_set(), "the thread that closes it is left alone"
    gate.open()
    assert closed.wait(60)
    until(lambda: store.inner.head(KEY) is None)


class NetworkDisk(Disk):
    """Writes and removals wait at the gate."""

    def __init__(self, gate: Gate) -> None:
        self._gate = gate

    def write(self, descriptor: int, data: memoryview) -> int:
        self._gate.passed()
        return super().write(descriptor, data)

    def unlink(self, path: Path) -> None:
        self._gate.passed()
        super().unlink(path)

    def stat(self, path: Path) -> Any:
        self._gate.passed()
        return super().stat(path)


def temporaries(folder: Path) -> list[Path]:
    return [each for each in folder.glob(".lithify-tmp/*") if each.name != "reserve"]


def test_an_upload_whose_write_hangs_leaves_nothing_once_that_ends(gate: Gate, tmp_path: Path) -> None:
    cold = Cold("file:///far", FileStore(tmp_path, disk=NetworkDisk(gate)), Deadline(wait=gate.wait))
    output = cold.output(KEY)
    gate.close()
    with pytest.raises(LeftBehind):
        output.write(bytes(2 << 20))
    output.abort()
    assert temporaries(tmp_path)
    gate.open()
    until(lambda: not temporaries(tmp_path))


def test_an_upload_that_is_aborted_while_the_home_is_away_leaves_nothing(gate: Gate, tmp_path: Path) -> None:
    """Nobody waits for that, either."""
    cold = Cold("file:///far", FileStore(tmp_path, disk=NetworkDisk(gate)), Deadline(wait=gate.wait))
    outputs = [cold.output(f"{KEY}.{number}") for number in range(20)]
    for output in outputs:
        output.write(bytes(2 << 20))
    gate.close()
    with pytest.raises(LeftBehind):
        cold.head(KEY)
    for output in outputs:
        with pytest.raises(Unavailable, match="it does not answer"):
            output.write(b"more")
        output.abort()
        with pytest.raises(Unavailable, match="given up"):
            output.close()
    until(lambda: gate.standing == 21)
    assert len(temporaries(tmp_path)) == 20
    gate.open()
    until(lambda: not temporaries(tmp_path))


def test_an_upload_that_was_begun_late_leaves_nothing(gate: Gate, tmp_path: Path) -> None:
    class Slow(Wrapped):
        def output(self, key: str) -> OutputFile:
            gate.passed()
            made.append(super().output(key))
            return made[0]

    made: list[Any] = []
    cold = Cold("file:///far", Slow(FileStore(tmp_path)), Deadline(wait=gate.wait))
    gate.close()
    with pytest.raises(LeftBehind):
        cold.output(KEY)
    gate.open()
    until(lambda: bool(made) and made[0].closed)
    assert not temporaries(tmp_path)


@pytest.mark.parametrize("step", ["write", "close"])
def test_an_upload_that_fails_late_is_aborted(gate: Gate, step: str) -> None:
    class Failing(OutputFile):
        def write(self, data: Any, /) -> int:
            return self.fail()

        def close(self) -> None:
            self.fail()

        def abort(self) -> None:
            aborted.set()

        def fail(self) -> int:
            gate.passed()
            raise Unavailable("broken")

    class Begins(Wrapped):
        def output(self, key: str) -> OutputFile:
            return Failing()

    aborted = threading.Event()
    output: Any = Cold("hang://far", Begins(MemoryStore()), Deadline(wait=gate.wait)).output(KEY)
    gate.close()
    with pytest.raises(LeftBehind):
        output.write(b"x") if step == "write" else output.close()
    output.abort()
    assert not aborted.is_set(), "a thread is still at work in it"
    gate.open()
    assert aborted.wait(60)
