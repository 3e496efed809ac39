"""Every rule of Kafka's that is kept here, as a scenario: through the public face, over both engines, in every layout
that the data can lie in."""

import re
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from lithify.compactor.engine import Engine
from lithify.compactor.engines.local import LocalEngine
from lithify.compactor.engines.spark import SparkEngine
from lithify.store.driver import new_id
from tests.scenarios.scenario import Scenario, load
from tests.scenarios.stage import Stage

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

ALL = load()
RULES = (
    *(f"C{number}" for number in (1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 13, 14, 16)),
    *(f"D{number}" for number in (1, 2, 3, 4, 5, 7, 8, 9)),
    *(f"R{number}" for number in range(1, 7)),
    *(f"S{number}" for number in range(1, 15)),  # the scenarios of the log cleaner's own tests
)
PLAYS = [
    pytest.param(
        scenario,
        layout,
        id=f"{scenario.name}-{layout}",
        marks=() if layout in (scenario.layouts[0], scenario.layouts[-1]) else pytest.mark.slow,
    )
    for scenario in ALL
    for layout in scenario.layouts
]


@pytest.fixture(scope="module")
def local() -> Iterator[Engine]:
    engine = LocalEngine(2)
    yield engine
    engine.close()


def test_every_rule_has_its_scenario() -> None:
    named = {rule for scenario in ALL for rule in scenario.rules}
    assert named == set(RULES)


@pytest.mark.parametrize("scenario", ALL, ids=lambda scenario: scenario.name)
def test_a_file_is_named_for_its_first_rule(scenario: Scenario) -> None:
    assert re.fullmatch(rf"{scenario.rules[0]}-[a-z0-9-]+", scenario.name)
    assert scenario.title


@pytest.mark.parametrize(("scenario", "layout"), PLAYS)
def test_local(scenario: Scenario, layout: str, local: Engine) -> None:
    Stage(scenario, layout, local, f"memory://{new_id()}").play()


@pytest.mark.parametrize("scenario", ALL, ids=lambda scenario: scenario.name)
def test_spark(scenario: Scenario, spark_session: "SparkSession", tmp_path: Path) -> None:
    """In the layout with most to merge: the engines share the kernel, and test_local holds the others."""
    Stage(scenario, scenario.layouts[-1], SparkEngine(spark_session), tmp_path.as_uri()).play()
