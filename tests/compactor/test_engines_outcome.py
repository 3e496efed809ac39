"""Errors as failures: the right category, and never a word of a record."""

import errno
from collections.abc import Callable
from typing import Any

import pyarrow as pa
import pytest
import structlog
from structlog.testing import LogCapture

from lithify.manifest.keys import SegmentId
from lithify.segment.execute import TaskCancelled
from lithify.segment.task import MergeTask, TaskResult
from lithify.store.errors import Corrupt, InvalidRequest, NotFound, Unavailable
from lithify.store.memory import MemoryStore
from lithify.work.outcome import failure_of, outcome_of
from tests.compactor.engine_tasks import KEYS, appends, tasks

CONTENTS = "the-value-of-a-record"


@pytest.fixture
def task() -> MergeTask:
    (made,) = tasks(appends(MemoryStore("outcome")))
    return made


def raising(error: BaseException) -> Callable[[], TaskResult]:
    def work() -> TaskResult:
        value = CONTENTS  # a local, as a merge has them
        assert value
        raise error

    return work


@pytest.mark.parametrize(
    ("error", "category"),
    [
        (Unavailable("s3://b/k: try again"), "unavailable"),
        (InvalidRequest("s3://b/k: no such bucket"), "invalid"),
        (MemoryError(CONTENTS), "memory"),
        (pa.ArrowMemoryError(CONTENTS), "memory"),
        (pa.ArrowInvalid(CONTENTS), "engine"),
        (KeyError(CONTENTS), "engine"),
    ],
)
def test_each_error_has_its_category_and_contents_stay_out(task: MergeTask, error: Exception, category: str) -> None:
    failed = failure_of(task, error)
    assert (failed.category, failed.range_index, failed.segment) == (category, 0, "")
    assert CONTENTS not in failed.reason


@pytest.mark.parametrize(("kind", "category"), [(Corrupt, "corrupt"), (NotFound, "missing")])
def test_a_damaged_source_is_named(task: MergeTask, kind: Any, category: str) -> None:
    source = task.sources[1][0].id
    failed = failure_of(task, kind("what is wrong", KEYS.segment(source), source))
    assert (failed.category, failed.segment) == (category, source)


@pytest.mark.parametrize("kind", [Corrupt, NotFound])
def test_a_damaged_output_quarantines_nothing(task: MergeTask, kind: Any) -> None:
    output = SegmentId.for_output(task.job, task.attempt, task.range_index, "cafe0000")
    failed = failure_of(task, kind("has the wrong size", KEYS.segment(output), output))
    assert (failed.category, failed.segment) == ("engine", "")


@pytest.mark.parametrize("kind", [Corrupt, NotFound])
def test_another_object_of_the_same_name_is_no_source(task: MergeTask, kind: Any) -> None:
    """A key is one of its store's: in another home it names another object."""
    failed = failure_of(task, kind("what is wrong", KEYS.segment(task.sources[1][0].id)))
    assert (failed.category, failed.segment) == ("engine", "")


def test_a_full_disk_is_told_by_name(task: MergeTask) -> None:
    failed = failure_of(task, OSError(errno.ENOSPC, "No space left on device", f"/spill/{CONTENTS}"))
    assert failed.category == "engine"
    assert "No space left on device" in failed.reason
    assert CONTENTS not in failed.reason


def test_a_bug_is_traced_in_the_debug_log_without_contents(task: MergeTask) -> None:
    captured = LogCapture()
    structlog.configure(processors=[captured])
    try:
        outcome = outcome_of(task, raising(ValueError(CONTENTS)))
    finally:
        structlog.reset_defaults()
    assert not isinstance(outcome, TaskResult)
    (entry,) = captured.entries
    assert (entry["log_level"], entry["error"], entry["job"]) == ("debug", "ValueError", task.job)
    assert "in work" in entry["traceback"]
    assert CONTENTS not in repr(entry)
    assert CONTENTS not in repr(outcome)


def test_cancelled_is_no_failure(task: MergeTask) -> None:
    with pytest.raises(TaskCancelled):
        outcome_of(task, raising(TaskCancelled("told to")))
