"""A mutant, tried in a process of its own: first simulated histories, then the quick tests that reach its function.

The parent imports nothing of the product: its children import it, with the fault in it. No file is touched.
"""

import importlib.abc
import importlib.machinery
import importlib.util
import math
import multiprocessing
import os
import resource
import sys
import time
from collections.abc import Iterator, Sequence
from contextlib import redirect_stderr, redirect_stdout
from multiprocessing.connection import Connection, wait
from multiprocessing.process import BaseProcess
from pathlib import Path
from types import ModuleType
from typing import Any, NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from tools.mutants.operators import mutated

__all__ = ["ROOT", "Trial", "Verdict", "tried"]

ROOT = Path(__file__).resolve().parents[2]
PRELOADED = (np, pa, pq)  # what is slow to import and none of ours: the children find it there
WAITS_MAX = 5
MEMORY_BYTES_MAX = 6 << 30  # of address space: a fault that grows a list for ever ends as a killed mutant
QUICK = "not slow and not spark and not soak"


class Trial(NamedTuple):
    file: str
    number: int  # which of the file's mutants, from 0
    seeds: int  # of simulated histories
    tests: tuple[str, ...]  # ids, those that end first before the others
    seconds_max: float  # of CPU; what only waits may do so for WAITS_MAX times as long


class Verdict(NamedTuple):
    trial: Trial
    killed_by: str  # "simulation", "tests", "no end", "" where it survived
    detail: str  # what noticed


class _Loader(importlib.machinery.SourceFileLoader):
    def __init__(self, name: str, path: str, index: int) -> None:
        super().__init__(name, path)
        self._index = index

    def get_code(self, fullname: str) -> Any:
        return compile(mutated(Path(self.path).read_text(encoding="utf-8"), self._index), self.path, "exec")


class _Finder(importlib.abc.MetaPathFinder):
    def __init__(self, file: str, index: int) -> None:
        self._file, self._index = str(ROOT / file), index
        self._module = "lithify." + file.removesuffix(".py").replace("/", ".")

    def find_spec(
        self, fullname: str, path: Sequence[str] | None, target: ModuleType | None = None
    ) -> importlib.machinery.ModuleSpec | None:
        if fullname != self._module:
            return None
        loader = _Loader(fullname, self._file, self._index)
        return importlib.util.spec_from_file_location(fullname, self._file, loader=loader)


def _try(trial: Trial, answer: Connection) -> None:
    """In the child."""
    resource.setrlimit(resource.RLIMIT_AS, (MEMORY_BYTES_MAX, MEMORY_BYTES_MAX))
    cpu_s = math.ceil(trial.seconds_max)
    resource.setrlimit(resource.RLIMIT_CPU, (cpu_s, cpu_s))
    assert not any(module.startswith("lithify") for module in sys.modules), "the product must be imported mutated"
    sys.meta_path.insert(0, _Finder(trial.file, trial.number))
    with open(os.devnull, "w") as nothing, redirect_stdout(nothing), redirect_stderr(nothing):
        killed_by, detail = "simulation", _histories(trial.seeds)
        if not detail:
            killed_by, detail = "tests", _tests(trial.tests)
    answer.send((killed_by if detail else "", detail))
    answer.close()
    os._exit(0)  # threads that a mutant left behind do not hold the process


def _histories(seeds: int) -> str:
    """What the first history that fails has found; "" where none does."""
    try:
        from tests.sim.history import play

        for seed in range(seeds):
            found = play(seed)
            if found.violation is not None:
                return f"seed {seed}: {found.violation}"
    except Exception as error:  # noqa: BLE001 - whatever a fault raises, the simulation has noticed it
        return f"{type(error).__name__}: {error}"
    return ""


def _tests(ids: Sequence[str]) -> str:
    """The first test that fails; "" where none does."""
    if not ids:
        return ""
    noticed = _FirstFailure()
    code = pytest.main(["-x", "-q", "-p", "no:cacheprovider", "-m", QUICK, *ids], [noticed])
    return "" if code == 0 else noticed.test or f"pytest ended with {code}"


class _FirstFailure:
    def __init__(self) -> None:
        self.test = ""

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        if report.failed and not self.test:
            self.test = report.nodeid

    def pytest_collectreport(self, report: pytest.CollectReport) -> None:
        if report.failed and not self.test:
            self.test = report.nodeid


def tried(trials: Sequence[Trial], processes: int) -> Iterator[Verdict]:
    """Each of `trials`, in any order. One that comes to no end in its time is killed in both senses."""
    context = multiprocessing.get_context("fork")
    waiting, running = [*reversed(trials)], dict[Connection, tuple[Trial, BaseProcess, float]]()
    try:
        while waiting or running:
            while waiting and len(running) < processes:
                trial = waiting.pop()
                here, there = context.Pipe(duplex=False)
                child = context.Process(target=_try, args=(trial, there))
                child.start()
                there.close()
                running[here] = trial, child, time.monotonic() + WAITS_MAX * trial.seconds_max
            ready = wait([*running], max(min(end for _, _, end in running.values()) - time.monotonic(), 0))
            now = time.monotonic()
            for here in [*running]:
                trial, child, end = running[here]
                if here in ready:
                    yield Verdict(trial, *_answer(here, child))
                elif now >= end:
                    yield Verdict(trial, "no end", f"not over after {WAITS_MAX * trial.seconds_max:.0f} s")
                else:
                    continue
                child.kill()
                child.join()
                here.close()
                del running[here]
    finally:
        for _, child, _ in running.values():
            child.kill()


def _answer(here: Connection, child: BaseProcess) -> tuple[str, str]:
    try:
        return here.recv()
    except EOFError:
        child.join()
        return "no end", f"its process died with {child.exitcode}"
