"""Compactors that serve, and jobs that end when a test says."""

import threading
from collections.abc import Callable
from typing import Any

import pytest

import lithify
from lithify.compactor.engines.local import LocalEngine
from lithify.compactor.info import PartitionReport
from lithify.compactor.served import ServedPartition

__all__ = ["HeldEngine", "Running", "append_to", "between_look_and_turn", "eventually"]


class HeldEngine(LocalEngine):
    """Jobs of some topics end when they are let go."""

    def __init__(self, held: set[str]) -> None:
        super().__init__(1)
        self._held = held
        self.began = threading.Event()
        self.let_go = threading.Event()

    def hold(self, topic: str) -> None:
        """The next job of this topic, too. Requires: none runs."""
        self._held.add(topic)
        self.began.clear()

    def start(self, homes: Any, tasks: Any, label: str) -> Any:
        attempt = super().start(homes, tasks, label)
        if tasks[0].keys.topic not in self._held:
            return attempt
        self._held.remove(tasks[0].keys.topic)
        if not self._held:
            self.began.set()
        return Held(attempt, self.let_go)


class Held:
    def __init__(self, inner: Any, let_go: threading.Event) -> None:
        self._inner, self._let_go = inner, let_go

    def results(self, timeout_ms: int) -> Any:
        # Not at once: whoever waits counts looks without a result, and takes some 180 of them for tasks that hang.
        if not self._let_go.wait(min(timeout_ms, 500) / 1000):
            return ()
        return self._inner.results(timeout_ms)

    def stop(self) -> None:
        self._inner.stop()


class Running:
    """A compactor that serves in a thread of its own; at the end it leaves."""

    def __init__(self, compactor: lithify.Compactor) -> None:
        self.compactor = compactor
        self.told: list[PartitionReport] = []
        self.ended: list[BaseException | None] = []  # by what
        self._thread = threading.Thread(target=self._run, daemon=True)

    def _run(self) -> None:
        try:
            self.compactor.run(tell=self.told.append)
        except lithify.LithifyError as error:
            self.ended.append(error)
        else:
            self.ended.append(None)

    def __enter__(self) -> "Running":
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self.compactor.stop()
        self._thread.join(60)
        assert not self._thread.is_alive(), "it leaves soon"
        self.compactor.close()


def eventually(holds: Callable[[], bool], times: int = 600) -> bool:
    pulse = threading.Event()
    return any(holds() or pulse.wait(0.02) for _ in range(times))


def between_look_and_turn(monkeypatch: pytest.MonkeyPatch, do: Callable[[], object]) -> None:
    """Do something between the first look and the turn that it leads to."""
    look, left = ServedPartition.look, [do]

    def looked(self: ServedPartition, answers: Any) -> Any:
        want = look(self, answers)
        while left:
            left.pop()()
        return want

    monkeypatch.setattr(ServedPartition, "look", looked)


def append_to(partition: lithify.Partition, segments: int) -> None:
    for number in range(segments):
        partition.append([lithify.Record(b"%d" % number, b"v")])
