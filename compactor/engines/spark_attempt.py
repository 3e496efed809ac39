"""One attempt on Spark: its tasks, each a Spark job, and how they are stopped."""

import logging
import weakref
from collections.abc import Callable, Sequence
from concurrent.futures import Future

import structlog

from lithify.compactor.engine import STOP_MAX_MS, TaskFailure
from lithify.compactor.engines.held_session import Opened
from lithify.compactor.engines.outcome import failure_of
from lithify.compactor.engines.private_files import PrivateFiles
from lithify.compactor.engines.spark_jobs import SparkJobs, explain
from lithify.compactor.engines.spark_session import Health
from lithify.compactor.engines.stop_file import StopFile
from lithify.compactor.engines.underway import Threads, Underway
from lithify.compactor.engines.worker import Order, installed_version, seal, unseal
from lithify.manifest.categories import Category
from lithify.segment.execute import TaskCancelled
from lithify.segment.task import MergeTask, TaskResult
from lithify.store.driver import new_id
from lithify.store.errors import Unavailable
from lithify.store.homes import Homes

__all__ = ["SparkAttempt"]

log = structlog.wrap_logger(logging.getLogger("lithify.compactor.engines"))

_ASKED_MS = 2_000  # time for workers of this machine to stop by themselves before Spark is told to cancel
_CANCEL_AGAIN_MS = 500
_KILLED_MS = 15_000  # by then Spark has killed the workers of cancelled jobs on this machine


class SparkAttempt:
    """The tasks of one attempt; the jobs of Spark are tagged `lithify-<job>-<attempt>`."""

    def __init__(
        self,
        threads: Threads,
        opening: Future[Opened],
        private: PrivateFiles,
        homes: Homes,
        tasks: Sequence[MergeTask],
        label: str,
    ) -> None:
        self._opening = opening
        self._private = private
        self._homes = homes
        self._label = label
        self._tags = {_tag(task) for task in tasks}
        self._stop_file = StopFile(private.create(f"attempt-{new_id()}"))
        weakref.finalize(self, self._stop_file.close)  # threads at work hold on to `self`
        self._underway = Underway(threads, tasks, self._run)

    def results(self, timeout_ms: int) -> Sequence[TaskResult | TaskFailure]:
        """See `Running`."""
        found = self._underway.results(timeout_ms)
        if not found and (jobs := self._jobs()) is not None and jobs.health() is not Health.WORKS:
            jobs.abandon()  # the next call of `results` gets what became of the tasks
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
                self._cancel(jobs)
            self._underway.ended(_CANCEL_AGAIN_MS)
        self._underway.give_up_after(0)
        self._stop_file.obeyed(_KILLED_MS)

    def _cancel(self, jobs: SparkJobs) -> None:
        if jobs.health() is not Health.WORKS:
            jobs.abandon()
            return
        try:
            for tag in self._tags:
                jobs.cancel(tag)
        except Exception as error:  # noqa: BLE001 - py4j's or gRPC's: the session is gone, and its jobs with it
            log.debug("Spark's jobs could not be cancelled", error=type(error).__name__)

    def _jobs(self) -> SparkJobs | None:
        if self._opening.done() and self._opening.exception() is None:
            return self._opening.result().jobs
        return None

    def _run(self, task: MergeTask, cancelled: Callable[[], bool]) -> TaskResult | TaskFailure:
        try:
            jobs = self._opening.result().jobs
        except Unavailable as error:
            return TaskFailure(task.range_index, Category.ENGINE_DOWN, str(error))
        except Exception as error:  # noqa: BLE001 - told as data, like every failure of a task
            return failure_of(task, error)
        if cancelled():
            raise TaskCancelled(f"job {task.job}, range {task.range_index}")
        described = f"{self._label} range {task.range_index}, {len(task.sources)} sources"
        try:
            reply = unseal(jobs.run(seal(self._order(task, jobs)), described, _tag(task), short=task.short))
        except Exception as error:  # noqa: BLE001 - py4j's, PySpark's or gRPC's, depending on the session
            if cancelled():
                raise TaskCancelled(f"job {task.job}, range {task.range_index}") from None
            return explain(task, error, jobs.health())
        if reply.refused:
            return TaskFailure(task.range_index, Category.INVALID, reply.refused)
        if outcome := reply.result or reply.failure:
            return outcome
        if cancelled():
            raise TaskCancelled(f"job {task.job}, range {task.range_index}")
        reason = "a worker did not find the file that would tell it to stop: is something removing temporary files?"
        return TaskFailure(task.range_index, Category.ENGINE_LOST, reason)

    def _order(self, task: MergeTask, jobs: SparkJobs) -> Order:
        here = jobs.workers_share_machine
        specs = {home: self._private.spec(store) if here else store.spec() for home, store in self._homes}
        return Order(
            version=installed_version(),
            work=task,
            homes=specs,
            stop_file=self._stop_file.path if here else None,
        )


def _tag(task: MergeTask) -> str:
    return f"lithify-{task.job}-{task.attempt}"
