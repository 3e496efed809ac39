"""Over Spark Connect, which knows no SparkContext: compaction and verification carry their orders in the same way."""

import threading
from pathlib import Path
from typing import Any

import pytest

import lithify
from lithify.admin import verify as verify_module
from lithify.admin.verify import Verifier, spark_checks
from lithify.compactor.engines.spark import SparkEngine
from lithify.segment.task import TaskResult
from lithify.store.errors import InvalidRequest, Unavailable
from lithify.store.homes import only_here
from lithify.store.opening import open_store
from lithify.work import spark
from tests.compactor.engine_tasks import LABEL, appends, failure, results, rows_of, survivors, tasks
from tests.work.connect import Session

SECRET = "a-value-of-a-record"


@pytest.fixture
def users(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> lithify.Warehouse:
    """Five segments, and so five tasks."""
    monkeypatch.setattr(verify_module, "TASK_SEGMENTS_MAX", 1)
    warehouse = lithify.open(tmp_path.as_uri())
    part = warehouse.create_topic("users", config={"cleanup.policy": "compact"}).partition(0)
    for at in range(5):
        part.append([lithify.Record(b"k%d" % at, SECRET.encode())])
    return warehouse


def checked(warehouse: lithify.Warehouse, session: Any) -> list[tuple[str, str]]:
    report = Verifier(warehouse.driver, spark_checks(session)).verify("users")
    return [(Path(each.object).name, each.kind) for each in report.findings]


def test_verification_runs_on_the_workers_of_a_connect_session(users: lithify.Warehouse, tmp_path: Path) -> None:
    session = Session()
    assert checked(users, session) == []
    assert session.carried == 5
    damaged, lost, *_ = sorted(tmp_path.rglob("*.parquet"))
    damaged.write_bytes(damaged.read_bytes()[:40] + b"\0" + damaged.read_bytes()[41:])
    lost.unlink()
    assert sorted(checked(users, session)) == sorted([(damaged.name, "corrupt"), (lost.name, "missing")])
    assert session.interrupted == []


def test_compaction_runs_there_too(tmp_path: Path) -> None:
    store, session = open_store(tmp_path.as_uri()), Session()
    engine = SparkEngine(session)  # pyright: ignore[reportArgumentType]
    found = results(engine.start(only_here(store), tasks(appends(store), [50]), LABEL), 2)
    engine.close()
    assert all(isinstance(each, TaskResult) for each in found)
    assert rows_of(store, found) == survivors()
    assert session.carried == 2


def test_workers_of_another_release_are_told_in_the_same_words(
    users: lithify.Warehouse, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(spark, "installed_version", lambda: "99.1.0")
    report = Verifier(users.driver, spark_checks(Session())).verify("users")  # pyright: ignore[reportArgumentType]
    (said,) = {finding.message for finding in report.findings}
    assert {finding.kind for finding in report.findings} == {"unreadable"}
    store = open_store((tmp_path / "other").as_uri())
    engine = SparkEngine(Session())  # pyright: ignore[reportArgumentType]
    assert failure(engine.start(only_here(store), tasks(appends(store)), LABEL)).reason == said
    engine.close()


@pytest.mark.parametrize(
    ("error", "why"),
    [
        (RuntimeError(f"status = StatusCode.UNAVAILABLE {SECRET}"), "the Spark Connect server cannot be reached"),
        (RuntimeError(f"No module named 'lithify' {SECRET}"), "install the same wheel"),
        (KeyError(SECRET), r"Spark could not run the task \(KeyError\)"),
    ],
)
def test_what_spark_says_is_understood_and_never_repeated(users: lithify.Warehouse, error: Exception, why: str) -> None:
    session = Session(fails=error)
    with pytest.raises(Unavailable, match=why) as raised:
        checked(users, session)
    assert SECRET not in str(raised.value)


def test_a_session_that_was_stopped_is_refused(users: lithify.Warehouse) -> None:
    session = Session()
    session.is_stopped = True
    with pytest.raises(Unavailable, match="the given Spark session was stopped"):
        checked(users, session)
    assert session.carried == 0


def test_who_stops_looking_leaves_nothing_running(users: lithify.Warehouse) -> None:
    session = Session(holds_after=1)
    seen: list[int] = []

    def enough(count: int) -> None:
        seen.append(count)
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        Verifier(users.driver, spark_checks(session), ended=enough).verify()  # pyright: ignore[reportArgumentType]
    assert seen == [1]
    (tag,) = session.interrupted
    assert set(session.tags) == {tag}
    assert [thread.name for thread in threading.enumerate() if thread.name.startswith("lithify-verify")] == []


def test_memory_is_no_place_for_spark() -> None:
    warehouse = lithify.open("memory://verified-over-connect")
    warehouse.create_topic("users").partition(0).append([lithify.Record(b"k", b"v")])
    with pytest.raises(InvalidRequest, match="--engine local"):
        checked(warehouse, Session())
