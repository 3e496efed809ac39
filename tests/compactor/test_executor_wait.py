"""A cluster that gives no executor, ranges that are tried again, and messages that name the worker's machine."""

import socket
from collections.abc import Sequence
from pathlib import Path

import pytest

from lithify.compactor.engine import NoWorkers
from lithify.compactor.engines import spark_attempt
from lithify.compactor.engines.executor_wait import ExecutorWait
from lithify.compactor.engines.spark import SparkEngine
from lithify.manifest.categories import Category
from lithify.segment.task import TaskFailure
from lithify.store.homes import HERE, only_here
from lithify.store.opening import open_store
from lithify.store.port import StoreSpec
from lithify.work import order as orders
from lithify.work import worker
from lithify.work.spark_errors import explain
from lithify.work.spark_session import Health
from tests.compactor.engine_tasks import LABEL, appends, failure, gather, results, rows_of, survivors, tasks
from tests.work.connect import Session


class Jobs:
    """A cluster's session with so many executors."""

    workers_share_machine = False

    def __init__(self, executors: int | None) -> None:
        self.count = executors
        self.alone = False

    def executors(self) -> int | None:
        return self.count

    def deserted(self) -> bool:
        return self.alone

    def health(self) -> Health:
        return Health.WORKS

    def run(self, sealed: str, description: str, tags: Sequence[str], *, short: bool = False) -> str:
        raise AssertionError("no order is given here")

    def cancel(self, tag: str) -> None:
        raise AssertionError("nothing is cancelled here")

    def abandon(self) -> None:
        raise AssertionError("nothing is abandoned here")


def test_only_the_time_without_any_executor_counts() -> None:
    clock = [0]
    wait, jobs = ExecutorWait(60_000, LABEL, lambda: clock[0]), Jobs(0)
    for now_ms, count in ((0, 0), (59_999, 0), (60_000, 1), (61_000, 0), (120_999, 0)):
        clock[0], jobs.count = now_ms, count
        wait.look(jobs)
    clock[0] = 121_000
    with pytest.raises(NoWorkers, match=r"no executor for .*spark\.cores\.max"):
        wait.look(jobs)


def test_where_nobody_tells_of_executors_it_never_ends() -> None:
    clock = [0]
    wait = ExecutorWait(0, LABEL, lambda: clock[0])
    wait.look(Jobs(None))
    clock[0] = 10**9
    wait.look(Jobs(None))


def test_a_deserted_session_is_not_waited_for() -> None:
    jobs = Jobs(0)
    jobs.alone = True
    with pytest.raises(NoWorkers, match="opens the session anew"):
        ExecutorWait(60_000, LABEL, lambda: 0).look(jobs)


class Flaky(Session):
    """A Spark Connect session whose first orders fail."""

    def __init__(self, *errors: Exception) -> None:
        super().__init__()
        self._errors = list(errors)

    def carries(self) -> None:
        super().carries()
        if self._errors:
            raise self._errors.pop(0)


Flaky.__module__ = Session.__module__


def test_a_failed_range_is_tried_again_while_others_go_on(tmp_path: Path) -> None:
    store, session = open_store(tmp_path.as_uri()), Flaky(RuntimeError("ExecutorLostFailure"), KeyError("?"))
    engine = SparkEngine(session)  # pyright: ignore[reportArgumentType]
    found = results(engine.start(only_here(store), tasks(appends(store), [50]), LABEL), 2)
    engine.close()
    assert rows_of(store, found) == survivors()
    assert session.carried == 4


@pytest.mark.parametrize(
    ("words", "carried", "category"),
    [
        ("ExecutorLostFailure", 3, Category.ENGINE),
        ("Python worker exited unexpectedly", 1, Category.MEMORY),
        ("Job 7 cancelled", 1, Category.ENGINE),
        ("No module named 'lithify'", 1, Category.INVALID),
    ],
)
def test_what_would_fail_again_is_not_tried_again(tmp_path: Path, words: str, carried: int, category: str) -> None:
    store, session = open_store(tmp_path.as_uri()), Session(fails=RuntimeError(words))
    engine = SparkEngine(session)  # pyright: ignore[reportArgumentType]
    failed = failure(engine.start(only_here(store), tasks(appends(store)), LABEL))
    engine.close()
    assert (failed.category, session.carried) == (category, carried)


def test_tasks_that_nobody_does_end_the_attempt(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(spark_attempt, "_LOOK_MS", 10)
    monkeypatch.setattr("lithify.work.spark_jobs.ConnectJobs.executors", lambda _: 0)
    store, session = open_store(tmp_path.as_uri()), Session(holds_after=0)
    engine = SparkEngine(session, executor_wait_ms=1)  # pyright: ignore[reportArgumentType]
    running = engine.start(only_here(store), tasks(appends(store)), LABEL)
    with pytest.raises(NoWorkers):
        gather(running, 1)
    running.stop()
    engine.close()
    assert session.interrupted


def test_a_worker_elsewhere_names_its_machine(tmp_path: Path) -> None:
    (task,) = tasks(appends(open_store(tmp_path.as_uri())))
    told: dict[bool, str] = {}
    for elsewhere in (False, True):
        spec = StoreSpec(url=(tmp_path / "empty").as_uri())
        order = orders.Order(version=orders.installed_version(), work=task, homes={HERE: spec}, elsewhere=elsewhere)
        reply = orders.unseal(worker.obey(orders.seal(order)))
        assert isinstance(reply, TaskFailure)
        told[elsewhere] = reply.reason
    assert told[True] == f"worker {socket.gethostname()}: {told[False]}"
    order = orders.Order(version="99.1.0", work=task, homes={}, elsewhere=True)
    refused = orders.unseal(worker.obey(orders.seal(order)))
    assert isinstance(refused, orders.Refused)
    assert refused.refused.startswith(f"worker {socket.gethostname()} runs lithify ")


@pytest.mark.parametrize(
    ("words", "reason"),
    [
        (
            "task 0.3 (TID 7) (10.0.0.5 executor 3): Python worker exited unexpectedly",
            "worker 10.0.0.5: ",
        ),
        (
            "task 0.0 (TID 7) (node-1.example executor 12): ExecutorLostFailure",
            "worker node-1.example: ",
        ),
        (
            "task 0.0 (TID 7) (me executor driver): Python worker exited unexpectedly",
            "the Python worker",
        ),
        ("(TID 7) (a secret executor 3): ExecutorLostFailure", "the executor"),
    ],
)
def test_of_sparks_words_only_the_host_is_told(words: str, reason: str) -> None:
    told = explain(RuntimeError(words)).reason
    assert told.startswith(reason)
    assert "secret" not in told
