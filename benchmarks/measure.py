"""Wall time, CPU time and peak memory of a process and of all that it starts, as the kernel accounts for them.

Each contender lives in a child process of its own, so that nothing of the others is counted with it; the parent asks it
for one run at a time and reads /proc before, while and after. Linux only.
"""

import importlib
import multiprocessing
import os
import threading
import time
from collections.abc import Generator, Mapping
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any, Protocol

import msgspec

from benchmarks.generate import Shape

__all__ = ["Contender", "Remote", "Run", "Settings", "cpu_seconds"]

_TICKS_PER_SECOND = os.sysconf("SC_CLK_TCK")
_SAMPLE_S = 0.02
_RESET_PEAK = "5"  # written to clear_refs: see proc(5)
_GONE = (FileNotFoundError, ProcessLookupError)


class Settings(msgspec.Struct, frozen=True):
    folder: Path  # for everything a benchmark writes
    shape: Shape
    processors: int = 2


class Contender(Protocol):
    """What a contender's module makes by `contender(settings)`, in a child process."""

    def prepare(self) -> None:
        """Make everything ready for `run`: data of its own, warm workers. It is not measured."""
        ...

    def run(self) -> Mapping[str, float]:
        """The work that is measured; answers with what else there is to tell of it, by name."""
        ...

    def close(self) -> None: ...


class Run(msgspec.Struct, frozen=True):
    """`peak_mb` is of all processes together at one moment, sampled (pages that a fork shares count twice).
    `worker_peak_mb` is the kernel's own figure for the largest Python that a JVM started; without such, of all."""

    wall_s: float
    cpu_s: float
    peak_mb: float
    worker_peak_mb: float
    told: dict[str, float]


class Remote:
    """A contender in a child process."""

    def __init__(self, module: str, settings: Settings) -> None:
        context = multiprocessing.get_context("spawn")
        self._connection, theirs = context.Pipe()
        self._process = context.Process(target=_serve, args=(theirs, module, settings), name=module)
        self._process.start()
        theirs.close()

    def measure(self) -> Run:
        """One run. Raises what the contender raised."""
        self._ask("prepare")
        assert self._process.pid is not None
        tree = _Tree(self._process.pid)
        tree.forget_peaks()
        cpu_before, begin = tree.cpu_seconds(), time.perf_counter()
        with tree.sampled():
            told = self._ask("run")
        wall_s, cpu_s = time.perf_counter() - begin, tree.cpu_seconds() - cpu_before
        least_s = 1 / _TICKS_PER_SECOND  # less than one tick shows as none, and ratios are taken of it
        return Run(wall_s, max(cpu_s, least_s), tree.peak_bytes / 1e6, tree.worker_peak_bytes() / 1e6, dict(told))

    def close(self) -> None:
        with suppress(BrokenPipeError, EOFError):  # it may have died, which `measure` told
            self._ask("close")
        self._process.join()

    def _ask(self, what: str) -> Any:
        self._connection.send(what)
        reply = self._connection.recv()
        if isinstance(reply, BaseException):
            raise reply
        return reply


def _serve(connection: Any, module: str, settings: Settings) -> None:
    made: Contender | None = None
    while True:
        asked = connection.recv()
        try:
            made = made or importlib.import_module(module).contender(settings)
            connection.send(getattr(made, asked)())
        except Exception as error:  # noqa: BLE001 - the parent raises it
            connection.send(error)
        if asked == "close":
            return


def cpu_seconds(pid: int) -> float:
    """Of a process and of all that it started, so far."""
    return _Tree(pid).cpu_seconds()


class _Process(msgspec.Struct, frozen=True):
    command: str
    parent: int
    ticks: int  # of CPU time, of its own and of its dead children


class _Tree:
    """A process and its descendants."""

    def __init__(self, root: int) -> None:
        self._root = root
        self._peaks: dict[int, int] = {}
        self._workers: set[int] = set()
        self.peak_bytes = 0

    def cpu_seconds(self) -> float:
        """User and system time so far; of descendants that ended, too, as far as their parents waited for them."""
        return sum(process.ticks for process in self._members().values()) / _TICKS_PER_SECOND

    def forget_peaks(self) -> None:
        for pid in self._members():
            with suppress(*_GONE):
                Path(f"/proc/{pid}/clear_refs").write_text(_RESET_PEAK)

    def worker_peak_bytes(self) -> int:
        return max(peak for pid, peak in self._peaks.items() if pid in self._workers or not self._workers)

    @contextmanager
    def sampled(self) -> Generator[None]:
        """Watch the memory within the block."""
        ended = threading.Event()
        watcher = threading.Thread(target=self._watch, args=(ended,))
        watcher.start()
        try:
            yield
        finally:
            ended.set()
            watcher.join()
            self._sample()

    def _watch(self, ended: threading.Event) -> None:
        while not ended.wait(_SAMPLE_S):
            self._sample()

    def _sample(self) -> None:
        together = 0
        members = self._members()
        for pid in members:
            resident, peak = _memory_bytes(pid)
            together += resident
            self._peaks[pid] = max(peak, self._peaks.get(pid, 0))
        machines = {pid for pid, process in members.items() if process.command == "java"}
        started = _descendants(machines, members)
        self._workers |= {pid for pid in started if members[pid].command.startswith("python")}
        self.peak_bytes = max(self.peak_bytes, together)

    def _members(self) -> dict[int, _Process]:
        everybody = {pid: found for pid in _pids() if (found := _process(pid)) is not None}
        mine = _descendants({self._root}, everybody) | ({self._root} & everybody.keys())
        return {pid: everybody[pid] for pid in mine}


def _descendants(roots: set[int], among: Mapping[int, _Process]) -> set[int]:
    found: set[int] = set()
    while more := {pid for pid, process in among.items() if process.parent in roots | found} - found:
        found |= more
    return found


def _pids() -> list[int]:
    return [int(name) for name in os.listdir("/proc") if name.isdecimal()]


def _process(pid: int) -> _Process | None:
    try:
        head, _, tail = Path(f"/proc/{pid}/stat").read_text().rpartition(")")
    except _GONE:
        return None
    fields = tail.split()
    return _Process(head.partition("(")[2], int(fields[1]), sum(map(int, fields[11:15])))


def _memory_bytes(pid: int) -> tuple[int, int]:
    """Resident now, and at most."""
    try:
        lines = Path(f"/proc/{pid}/status").read_text().splitlines()
    except _GONE:
        return 0, 0
    found = dict(line.split(":", 1) for line in lines)
    if "VmRSS" not in found:
        return 0, 0  # it has ended and was not waited for
    return _bytes(found["VmRSS"]), _bytes(found["VmHWM"])


def _bytes(kibibytes: str) -> int:
    return int(kibibytes.split()[0]) * 1024
