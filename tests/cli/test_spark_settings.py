"""--spark-conf and --executor-wait-ms: from flag and variable to the engine, and what is refused."""

from collections.abc import Mapping
from typing import Any

import pytest

from lithify.compactor.engines import spark
from lithify.compactor.engines.local import LocalEngine
from tests.cli.conftest import Lithify

ONCE = ("compactor", "run", "--once")


@pytest.fixture
def made(monkeypatch: pytest.MonkeyPatch) -> list[tuple[str | None, Mapping[str, str], int]]:
    """What Spark engines were made of; they do their work in this process."""
    told: list[tuple[str | None, Mapping[str, str], int]] = []

    def engine(master: str | None, *, parallelism: int | None, config: Mapping[str, str], executor_wait_ms: int) -> Any:
        assert parallelism is None
        told.append((master, config, executor_wait_ms))
        return LocalEngine()

    monkeypatch.setattr(spark, "SparkEngine", engine)
    return told


def test_flags_reach_the_engine(lithify: Lithify, made: list[Any]) -> None:
    lithify.ok("topic", "create", "users")
    words = (
        "--master",
        "spark://head",
        "--spark-conf",
        "spark.a=1 2",
        "--spark-conf=spark.b=",
        "--executor-wait-ms",
        "7",
    )
    lithify.ok(*ONCE, *words)
    lithify.ok(*ONCE)
    assert made == [("spark://head", {"spark.a": "1 2", "spark.b": ""}, 7), (None, {}, 60_000)]


def test_so_does_the_variable_which_is_split_as_a_shell_does(lithify: Lithify, made: list[Any]) -> None:
    lithify.ok("topic", "create", "users")
    value = "spark.a=1 'spark.driver.extraJavaOptions=-Da=b -Dc=d'"
    assert lithify(*ONCE, env={"LITHIFY_COMPACTOR_SPARK_CONF": value}).exit_code == 0
    assert made == [(None, {"spark.a": "1", "spark.driver.extraJavaOptions": "-Da=b -Dc=d"}, 60_000)]
    refused = lithify(*ONCE, env={"LITHIFY_COMPACTOR_SPARK_CONF": "spark.a='s3cret"})
    assert refused.exit_code == 2
    assert "quotation mark" in refused.stderr
    assert "s3cret" not in refused.stderr


@pytest.mark.parametrize("command", [ONCE, ("verify", "--engine", "spark"), ("demo",)])
def test_a_wheel_that_spark_would_ignore_is_refused(lithify: Lithify, command: tuple[str, ...]) -> None:
    wheel = "spark.submit.pyFiles=lithify-1.whl"
    lithify.refused(*command, "--spark-conf", wheel, code=2, saying="ends in .zip")


@pytest.mark.parametrize("command", [(*ONCE, "--engine", "local"), ("verify", "--engine", "local")])
def test_they_are_sparks(lithify: Lithify, command: tuple[str, ...]) -> None:
    lithify.refused(*command, "--spark-conf", "spark.a=1", code=2, saying="--spark-conf is Spark's")
