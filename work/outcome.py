"""How a task ended: its result, or a failure whose text quotes no record. One mapping for every engine."""

import logging
import traceback
from collections.abc import Callable

import structlog

from lithify.manifest.categories import Category
from lithify.segment.execute import TaskCancelled
from lithify.segment.task import JobTask, TaskFailure, TaskResult
from lithify.store.errors import Corrupt, LithifyError, NotFound

__all__ = ["failure_of", "outcome_of"]

log = structlog.wrap_logger(logging.getLogger("lithify.work"))


def outcome_of(task: JobTask, work: Callable[[], TaskResult]) -> TaskResult | TaskFailure:
    """Do `work` for `task`. Raises only TaskCancelled."""
    try:
        return work()
    except TaskCancelled:
        raise
    except Exception as error:  # noqa: BLE001 - a bug in one task must reach the coordinator, as data without contents
        return failure_of(task, error)


def failure_of(task: JobTask, error: Exception) -> TaskFailure:
    """The failure that `error` means for `task`."""
    match error:
        case Corrupt() | NotFound() if error.segment not in {ref.id for ref in task.segments}:
            # Only a source can be damaged or gone for good. Another object is an output just written, which another
            # attempt writes again: that is no reason to quarantine the partition.
            return TaskFailure(task.range_index, Category.ENGINE, str(error))
        case Corrupt() | NotFound():
            return TaskFailure(task.range_index, Category.of(error), str(error), error.segment)
        case LithifyError():
            return TaskFailure(task.range_index, Category.of(error), str(error))
        case MemoryError():
            reason = "the task ran out of memory: give workers more, or run fewer tasks at a time"
            return TaskFailure(task.range_index, Category.of(error), reason)
        case _:
            return _unexpected(task, error)


def _unexpected(task: JobTask, error: Exception) -> TaskFailure:
    """Of an error that nobody foresaw only the type is reported: its message and its locals may quote a record."""
    log.debug(
        "task failed",
        topic=task.keys.topic,
        partition=task.keys.partition,
        job=task.job,
        range_index=task.range_index,
        error=type(error).__name__,
        traceback="".join(traceback.format_tb(error.__traceback__)),
    )
    detail = f": {error.strerror}" if isinstance(error, OSError) and error.strerror else ""
    reason = f"the task failed with {type(error).__name__}{detail}; its traceback is in the worker's debug log"
    return TaskFailure(task.range_index, Category.of(error), reason)
