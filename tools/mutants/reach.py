"""Which quick tests reach which functions of the product, and how long each takes: a mutant meets those alone."""

import json
import multiprocessing
import os
import sys
import threading
import time
from collections import defaultdict
from collections.abc import Generator, Sequence
from pathlib import Path
from types import CodeType, FrameType
from typing import Any

import pytest

from tools.mutants.running import QUICK, ROOT

__all__ = ["OF_CLASSES", "Reach", "measured"]

FOLDERS = ("manifest", "protocol", "compactor", "log", "segment", "properties", "scenarios", "golden")
# Histories that end well may be histories in which nothing happens: this test demands each kind of event.
COUNTS = "tests/sim/test_sim.py::test_more_histories_break_no_rule_and_every_fault_rule_and_kind_of_commit_comes_about"

# What stands in the body of a class runs at import, and so in no test's profile: these tests look at all such classes.
OF_CLASSES = ("tests/manifest/test_stored_fields.py::test_what_a_file", "tests/protocol/test_marks_of_edits.py::")


class Reach:
    """Of a scope of a file: the tests that call into it, those that take least time first."""

    def __init__(self, tests_by_scope: dict[str, list[str]], seconds: dict[str, float]) -> None:
        self._tests = tests_by_scope
        self._seconds = seconds

    def tests(self, file: str, scope: str) -> tuple[str, ...]:
        """A class is reached by whoever reaches a function of it; a nested function by whoever reaches its outer."""
        found: set[str] = set()
        for name, tests in self._tests.items():
            of, _, inside = name.partition("::")
            if of == file and (inside == scope or inside.startswith(f"{scope}.") or scope.startswith(f"{inside}.")):
                found.update(tests)
        if scope.rpartition(".")[2].lstrip("_")[:1].isupper():
            found.update(test for test in self._seconds if test.startswith(OF_CLASSES))
        return tuple(sorted(found, key=lambda test: self._seconds[test]))

    def seconds(self, tests: Sequence[str]) -> float:
        return sum(self._seconds[test] for test in tests)


class _Profile:
    """Notes the functions of `files` that are called while a test runs."""

    def __init__(self, files: Sequence[str]) -> None:
        self._names = {str(ROOT / file): file for file in files}
        self._seen: set[CodeType] = set()
        self.tests: defaultdict[str, list[str]] = defaultdict(list)
        self.seconds: dict[str, float] = {}

    def _called(self, frame: FrameType, event: str, argument: Any) -> None:
        if event == "call":
            self._seen.add(frame.f_code)

    @pytest.hookimpl(wrapper=True)
    def pytest_runtest_protocol(self, item: pytest.Item) -> Generator[None, Any, Any]:
        self._seen.clear()
        began = time.monotonic()
        threading.setprofile(self._called)
        sys.setprofile(self._called)
        try:
            return (yield)
        finally:
            sys.setprofile(None)
            threading.setprofile(None)  # type: ignore[arg-type]
            self.seconds[item.nodeid] = time.monotonic() - began
            for code in [*self._seen]:
                file = self._names.get(code.co_filename)
                if file is not None:
                    self.tests[f"{file}::{code.co_qualname.replace('.<locals>', '')}"].append(item.nodeid)


def _measure(files: Sequence[str], path: Path) -> None:
    profile = _Profile(files)
    folders = [f"tests/{folder}" for folder in FOLDERS]
    code = pytest.main(["-q", "-p", "no:cacheprovider", "-m", QUICK, *folders, COUNTS], [profile])
    if code == 0:
        path.parent.mkdir(exist_ok=True)
        path.write_text(json.dumps({"tests": profile.tests, "seconds": profile.seconds}), encoding="utf-8")
    sys.stdout.flush()
    os._exit(int(code))


def measured(files: Sequence[str], path: Path) -> Reach:
    """Runs the quick tests once, in a process of its own, and keeps what it learned in `path`; a kept one is used."""
    if not path.exists():
        print("which tests reach what: the quick tests run once, under a profile", file=sys.stderr)
        child = multiprocessing.get_context("fork").Process(target=_measure, args=(files, path))
        child.start()
        child.join()
        if child.exitcode != 0:
            raise SystemExit("the quick tests fail as they are: mend them first")
    kept = json.loads(path.read_text(encoding="utf-8"))
    return Reach(kept["tests"], kept["seconds"])
