"""What every engine owes: the same records, failures by category, and a stop after which nothing is written."""

from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from lithify.compactor.engine import Engine
from lithify.compactor.engines.local import LocalEngine
from lithify.compactor.engines.spark import SparkEngine
from lithify.segment.task import TaskFailure, TaskResult
from lithify.store.errors import InvalidRequest
from lithify.store.homes import only_here
from lithify.store.opening import open_store
from lithify.store.port import Store
from tests.compactor.engine_tasks import (
    KEYS,
    LABEL,
    appends,
    failure,
    gather,
    results,
    rows_of,
    segments,
    survivors,
    tasks,
)

MakeEngine = Callable[[], Engine]
BOTH = [pytest.param("local", id="local"), pytest.param("spark", id="spark", marks=pytest.mark.spark)]


@pytest.fixture(params=BOTH)
def make_engine(request: pytest.FixtureRequest) -> MakeEngine:
    if request.param == "local":
        return lambda: LocalEngine(parallelism=2)
    session = request.getfixturevalue("spark_session")
    return lambda: SparkEngine(session)


@pytest.fixture
def engine(make_engine: MakeEngine) -> Iterator[Engine]:
    made = make_engine()
    yield made
    made.close()


@pytest.fixture
def store(tmp_path: Path) -> Store:
    return open_store(tmp_path.as_uri())


def damage(store: Store, segment_id: str) -> None:
    found = store.get(KEYS.segment(segment_id))
    assert found is not None
    body = bytearray(found.body)
    body[100] ^= 0xFF
    store.put(KEYS.segment(segment_id), bytes(body))


def test_every_engine_leaves_the_latest_record_of_each_key(engine: Engine, store: Store) -> None:
    planned = tasks(appends(store), [30, 70, 71], output_bytes=1 << 12)
    found = results(engine.start(only_here(store), planned, LABEL), len(planned))
    assert rows_of(store, found) == survivors()
    assert [result.range_index for result in found] == [0, 1, 2, 3]
    assert sum(result.counts.rows_in for result in found) == 600
    assert min(result.peak_memory_bytes for result in found) > 1 << 20
    assert all(ref.id.startswith(f"{planned[0].job}-1-") for result in found for ref in result.outputs)


def test_attempts_of_several_partitions_are_under_way_at_once(engine: Engine, store: Store) -> None:
    planned = [tasks(appends(store), [50]) for _ in range(3)]
    running = [engine.start(only_here(store), each, LABEL) for each in planned]
    for each in reversed(running):
        assert rows_of(store, results(each, 2)) == survivors()


def test_when_all_has_ended_results_do_not_wait(engine: Engine, store: Store) -> None:
    running = engine.start(only_here(store), tasks(appends(store)), LABEL)
    results(running, 1)
    running.stop()
    assert running.results(10**9) == []  # eleven days, were it to wait


def test_a_corrupt_source_is_named(engine: Engine, store: Store) -> None:
    refs = appends(store)
    damage(store, refs[1].id)
    failed = failure(engine.start(only_here(store), tasks(refs), LABEL))
    assert (failed.category, failed.segment, failed.range_index) == ("corrupt", refs[1].id, 0)
    assert refs[1].id in failed.reason


def test_a_missing_source_is_named(engine: Engine, store: Store) -> None:
    refs = appends(store)
    store.delete([KEYS.segment(refs[2].id)])
    failed = failure(engine.start(only_here(store), tasks(refs), LABEL))
    assert (failed.category, failed.segment) == ("missing", refs[2].id)


def test_one_failure_leaves_other_tasks_alone(engine: Engine, store: Store) -> None:
    refs = appends(store)
    other = appends(store, keys=20)
    damage(store, refs[0].id)
    both = [*tasks(refs)[:1], *tasks(other, [10])[1:]]
    found = sorted(gather(engine.start(only_here(store), both, LABEL), 2), key=lambda outcome: outcome.range_index)
    assert isinstance(found[0], TaskFailure)
    assert isinstance(found[1], TaskResult)


def test_an_unreachable_store_is_unavailable(engine: Engine, store: Store) -> None:
    refs = appends(store)
    options = {
        "key": "test",
        "secret": "test",
        "endpoint_url": "http://127.0.0.1:9",  # nobody listens on the discard port
        "client_kwargs": {"region_name": "us-east-1"},
        "config_kwargs": {"retries": {"total_max_attempts": 1}},
    }
    failed = failure(engine.start(only_here(open_store("s3://nowhere/x", options)), tasks(refs), LABEL))
    assert failed.category == "unavailable"
    assert "s3://nowhere/x" in failed.reason


def test_stopped_nothing_more_is_written_and_what_landed_can_be_had(engine: Engine, store: Store) -> None:
    many = list(range(0, 60_000, 6_000))
    refs = appends(store, segments=2, rows=60_000, keys=60_000)
    planned = tasks(refs, many[1:], output_bytes=1 << 16)
    running = engine.start(only_here(store), planned, LABEL)
    landed = gather(running, 1)
    running.stop()
    left = segments(store, planned[0].job)
    landed += running.results(0)
    running.stop()
    assert 1 <= len(landed) < len(planned)
    assert {ref.id for result in landed if isinstance(result, TaskResult) for ref in result.outputs} <= left
    # Something else of the same kind takes its time now, in which a straggler would show.
    results(engine.start(only_here(store), tasks(refs, many[5:]), LABEL), len(many[5:]) + 1)
    assert segments(store, planned[0].job) == left


def test_a_closed_engine_says_so(make_engine: MakeEngine, store: Store) -> None:
    engine = make_engine()
    running = engine.start(only_here(store), tasks(appends(store), list(range(1, 60))), LABEL)
    engine.close()
    engine.close()
    assert len(running.results(10**9)) <= 60
    with pytest.raises(InvalidRequest, match="closed"):
        engine.start(only_here(store), [], LABEL)


@pytest.mark.parametrize("kind", [LocalEngine, SparkEngine])
def test_parallelism_is_at_least_one(kind: type[LocalEngine] | type[SparkEngine]) -> None:
    with pytest.raises(InvalidRequest, match="parallelism"):
        kind(parallelism=0)
