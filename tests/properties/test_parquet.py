"""The histories of test_rows.py over real Parquet, through the public face and both engines."""

import random
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from lithify.compactor.engine import Engine
from lithify.compactor.engines.local import LocalEngine
from lithify.compactor.engines.spark import SparkEngine
from lithify.store.driver import new_id
from tests.clock import HandClock
from tests.properties.history import History, config_of, play
from tests.properties.parquet import ParquetLog

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

CHUNK = 10  # histories of one test
EVERYDAY, ALL = 3, 30  # chunks on the local engine
SPARK_EVERYDAY, SPARK_ALL = 1, 20  # and on Spark
STEPS_MIN = 12


def parquet_history(seed: int, engine: Engine, url: str) -> History:
    clock, dice = HandClock(), random.Random(seed)
    return History(seed, ParquetLog(clock, config_of(dice, ParquetLog.row_bytes), engine, url), clock)


def play_chunk(chunk: int, engine: Engine, root: str) -> None:
    for seed in range(chunk * CHUNK, (chunk + 1) * CHUNK):
        play(parquet_history(seed, engine, f"{root}-{seed}"), STEPS_MIN + seed % 7)


@pytest.fixture(scope="module")
def local() -> Iterator[Engine]:
    engine = LocalEngine(2)
    yield engine
    engine.close()


@pytest.fixture
def memory() -> str:
    return f"memory://{new_id()}"


@pytest.mark.slow
@pytest.mark.parametrize("chunk", range(EVERYDAY))
def test_parquet_is_the_models(chunk: int, local: Engine, memory: str) -> None:
    play_chunk(chunk, local, memory)


@pytest.mark.soak
@pytest.mark.parametrize("chunk", range(EVERYDAY, ALL))
def test_parquet_is_the_models_at_length(chunk: int, local: Engine, memory: str) -> None:
    play_chunk(chunk, local, memory)


@pytest.mark.slow
@pytest.mark.parametrize("chunk", range(SPARK_EVERYDAY))
def test_spark_is_the_models(chunk: int, spark_session: "SparkSession", tmp_path: Path) -> None:
    play_chunk(chunk, SparkEngine(spark_session), (tmp_path / "log").as_uri())


@pytest.mark.soak
@pytest.mark.parametrize("chunk", range(SPARK_EVERYDAY, SPARK_ALL))
def test_spark_is_the_models_at_length(chunk: int, spark_session: "SparkSession", tmp_path: Path) -> None:
    play_chunk(chunk, SparkEngine(spark_session), (tmp_path / "log").as_uri())
