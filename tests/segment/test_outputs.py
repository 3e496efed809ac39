"""Outputs of a far store are completed beside the merge, one at a time (docs/rfcs/0028)."""

import random
import threading
from collections.abc import Callable
from typing import Any

import pytest

from lithify.manifest.jobs import MergeRules
from lithify.manifest.model import SegmentRef
from lithify.segment.execute import TaskCancelled, execute
from lithify.segment.outputs import _Ending
from lithify.store.errors import Unavailable
from lithify.store.homes import only_here
from lithify.store.port import OutputFile
from tests.far import FarStore, fetching_threads
from tests.segment.test_execute import append, rows, task

HERE = threading.current_thread()


class Output(OutputFile):
    def __init__(self, inner: OutputFile, closing: Callable[[], None]) -> None:
        self._inner = inner
        self._closing = closing
        self.state = "open"

    def write(self, data: Any, /) -> int:
        return self._inner.write(data)

    def close(self) -> None:
        self._closing()
        self._inner.close()
        self.state = "closed"

    def abort(self) -> None:
        self._inner.abort()
        self.state = "aborted"


class Outputs(FarStore):
    def __init__(self) -> None:
        super().__init__()
        self.made: list[Output] = []
        self.closing: Callable[[int], None] = lambda _: None

    def output(self, key: str) -> Any:
        number = len(self.made)
        self.made.append(Output(super().output(key), lambda: self.closing(number)))
        return self.made[-1]


def source(store: FarStore, count: int = 3_000) -> SegmentRef:
    dice = random.Random(0)
    return append(store, [(b"%06d" % i, dice.randbytes(1_000)) for i in range(count)], 0)


def test_an_output_is_completed_while_the_next_is_written() -> None:
    store = Outputs()
    next_begun = threading.Event()

    def closing(number: int) -> None:
        assert threading.current_thread() is not HERE
        if number == 0:
            assert next_begun.wait(60)

    store.closing = closing
    made = store.output

    def output(key: str) -> Any:
        if len(store.made) == 1:
            next_begun.set()
        return made(key)

    store.output = output
    ref = source(store)
    result = execute(task([[ref]], rules=MergeRules(), output_bytes=1 << 20), only_here(store))
    assert len(result.outputs) > 1
    assert [row[0] for row in rows(store, result.outputs)] == list(range(3_000))
    assert {each.state for each in store.made} == {"closed"}


@pytest.mark.parametrize("fails", [0, 1, 2])
def test_an_output_that_cannot_be_completed_ends_the_task_and_is_given_up(fails: int) -> None:
    store = Outputs()
    ref = source(store)

    def closing(number: int) -> None:
        if number == fails:
            raise Unavailable("the store does not answer")

    store.closing = closing
    with pytest.raises(Unavailable, match="does not answer"):
        execute(task([[ref]], rules=MergeRules(), output_bytes=1 << 20), only_here(store))
    assert store.made[fails].state == "aborted"
    assert all(each.state in ("closed", "aborted") for each in store.made)


@pytest.mark.parametrize("fault", [None, OSError("no space")])
def test_who_leaves_early_waits_for_an_output_that_is_being_completed(
    monkeypatch: pytest.MonkeyPatch, fault: Exception | None
) -> None:
    """Even if the open one cannot be discarded."""
    store = Outputs()
    ref = source(store, 14_000)
    closing, go, settle = threading.Event(), threading.Event(), _Ending.settle

    def close(_: int) -> None:
        closing.set()
        assert go.wait(60)

    def settled(ending: _Ending) -> SegmentRef:
        go.set()
        return settle(ending)

    def abort(output: Output) -> None:
        output.state = "aborted"
        if fault is not None:
            raise fault

    store.closing = close
    monkeypatch.setattr(_Ending, "settle", settled)
    monkeypatch.setattr(Output, "abort", abort)
    with pytest.raises(OSError if fault else TaskCancelled):
        execute(task([[ref]], rules=MergeRules(), output_bytes=3 << 20), only_here(store), closing.is_set)
    assert store.made[0].state == "closed"
    assert all(each.state in ("closed", "aborted") for each in store.made)
    for thread in fetching_threads():
        thread.join(20)
