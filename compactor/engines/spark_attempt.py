"""One attempt on Spark: its tasks, each a Spark job, and how they are stopped."""

import logging
import weakref
from collections.abc import Callable, Sequence
from concurrent.futures import Future

import structlog

from lithify.compactor.engine import STOP_MAX_MS
from lithify.compactor.engines.executor_wait import ExecutorWait
from lithify.compactor.engines.underway import Threads, Underway
from lithify.manifest.categories import Category
from lithify.manifest.words import counted
from lithify.segment.execute import TaskCancelled
from lithify.segment.task import JobTask, MergeTask, MoveTask, TaskFailure, TaskResult
from lithify.store.driver import new_id
from lithify.store.errors import LithifyError
from lithify.store.homes import Homes
from lithify.work.held_session import Opened
from lithify.work.order import Cancelled, Checked, Refused, Reply
from lithify.work.outcome import failure_of
from lithify.work.spark import SparkWorkers, carry, withdraw
from lithify.work.spark_errors import Lost
from lithify.work.spark_jobs import SparkJobs
from lithify.work.spark_session import Health
from lithify.work.stop_file import StopFile

__all__ = ["SparkAttempt"]

log = structlog.wrap_logger(logging.getLogger("lithify.compactor"))

_ASKED_MS = 2_000  # time for workers of this machine to stop by themselves before Spark is told to cancel
_CANCEL_AGAIN_MS = 500
_KILLED_MS = 15_000  # by then Spark has killed the workers of cancelled jobs on this machine
_LOOK_MS = 5_000
# How often a range is tried in one attempt, on workers of other machines. What kills its worker was tried again by
# Spark itself (spark.task.maxFailures), and what is damaged stays so.
_TRIES = 3
_TRIED_AGAIN = frozenset({Category.ENGINE, Category.UNAVAILABLE})
_NO_STOP_FILE = "a worker did not find the file that would tell it to stop: is something removing temporary files?"


class SparkAttempt:
    """The tasks of one attempt; the jobs of Spark are tagged `lithify-<job>-<attempt>`, and with topic, partition and
    range."""

    def __init__(
        self,
        threads: Threads,
        workers: SparkWorkers,
        opening: Future[Opened],
        homes: Homes,
        tasks: Sequence[JobTask],
        label: str,
        executor_wait_ms: int,
    ) -> None:
        self._opening = opening
        self._workers = workers
        self._homes = homes
        self._label = label
        self._tags = {_tag(task) for task in tasks}
        self._wait = ExecutorWait(executor_wait_ms, label)
        self._stop_file = StopFile(workers.private.create(f"attempt-{new_id()}"))
        weakref.finalize(self, self._stop_file.close)  # threads at work hold on to `self`
        self._underway = Underway(threads, tasks, self._run)

    def results(self, timeout_ms: int) -> Sequence[TaskResult | TaskFailure]:
        """See `Running`."""
        left_ms = timeout_ms
        while True:
            found = self._underway.results(min(_LOOK_MS, left_ms))
            left_ms -= _LOOK_MS
            if found or self._underway.ended(0):
                return found
            if (jobs := self._jobs()) is not None:
                if jobs.health() is not Health.WORKS:
                    jobs.abandon()  # the next call of `results` gets what became of the tasks
                    return found
                self._wait.look(jobs)
            if left_ms <= 0:
                return found

    def stop(self) -> None:
        """Workers of this machine stop at their next block; none writes any more when this returns.

        Elsewhere Spark cancels the jobs, and this returns within about a second. Spark kills their Python workers 3 to
        4 seconds after that (`spark.python.task.killTimeout`); until then they may still write, under names of this
        attempt, which nobody else uses.
        """
        self._underway.withdraw()
        self._stop_file.order()
        jobs = self._jobs()
        if jobs is None or jobs.workers_share_machine:
            self._underway.ended(_ASKED_MS)
        for _ in range(STOP_MAX_MS // _CANCEL_AGAIN_MS):
            if self._underway.ended(0):
                break
            # Repeat it: a job may be on its way to Spark, after its last check whether it was withdrawn.
            if (jobs := self._jobs()) is not None:
                withdraw(jobs, self._tags)
            self._underway.ended(_CANCEL_AGAIN_MS)
        self._underway.give_up_after(0)
        self._stop_file.obeyed(_KILLED_MS)

    def _jobs(self) -> SparkJobs | None:
        if self._opening.done() and self._opening.exception() is None:
            return self._opening.result().jobs
        return None

    def _run(self, task: JobTask, cancelled: Callable[[], bool]) -> TaskResult | TaskFailure:
        try:
            jobs = self._opening.result().jobs
            order = self._workers.order(jobs, task, self._homes, self._stop_file)
        except LithifyError as error:
            return TaskFailure(task.range_index, Category.of(error, "engine"), str(error))
        except Exception as error:  # noqa: BLE001 - told as data, like every failure of a task
            return failure_of(task, error)
        if cancelled():
            raise _cancelled(task)
        for tries_left in reversed(range(1 if jobs.workers_share_machine else _TRIES)):
            reply = carry(jobs, order, self._told(task), _tags(task), short=task.short)
            if isinstance(reply, Lost | Cancelled) and cancelled():
                break
            outcome = _outcome(task, reply)
            if not tries_left or cancelled() or not _worth_another_try(reply):
                return outcome
            assert isinstance(outcome, TaskFailure)
            log.warning("a key range is tried again", work=self._told(task), reason=outcome.reason)
        raise _cancelled(task)

    def _told(self, task: JobTask) -> str:
        return f"{self._label} range {task.range_index}, {_inputs(task)}"


def _inputs(task: JobTask) -> str:
    match task:
        case MergeTask():
            return counted(len(task.sources), "source")
        case MoveTask(segment=segment):
            return f"segment {segment.id}"


def _outcome(task: JobTask, reply: Reply | Lost) -> TaskResult | TaskFailure:
    match reply:
        case TaskResult() | TaskFailure():
            return reply
        case Refused(reason):
            return TaskFailure(task.range_index, Category.INVALID, reason)
        case Lost(category, reason):
            return TaskFailure(task.range_index, category, reason)
        case Cancelled():
            return TaskFailure(task.range_index, Category.ENGINE_LOST, _NO_STOP_FILE)
        case Checked():
            raise AssertionError("a merge was ordered")


def _worth_another_try(reply: Reply | Lost) -> bool:
    """Whether the same range may succeed on another worker, or a little later."""
    match reply:
        case TaskFailure():
            return reply.category in _TRIED_AGAIN
        case Lost():
            return reply.category in _TRIED_AGAIN and not reply.cancelled
        case _:
            return False


def _cancelled(task: JobTask) -> TaskCancelled:
    return TaskCancelled(f"job {task.job}, range {task.range_index}")


def _tag(task: JobTask) -> str:
    return f"lithify-{task.job}-{task.attempt}"


def _tags(task: JobTask) -> tuple[str, ...]:
    """For people, and for `withdraw`. Spark's tags hold no comma, nor do names of topics."""
    keys = task.keys
    return (_tag(task), f"lithify-topic-{keys.topic}-{keys.partition}", f"lithify-range-{task.range_index}")
