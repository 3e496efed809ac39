"""Every rule of Kafka's that is kept here, as a scenario: through the public face, over both engines, in every layout
that the data can lie in; and again with all but L0 in a cold home."""

import re
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from lithify.compactor.engine import Engine
from lithify.compactor.engines.local import LocalEngine
from lithify.compactor.engines.spark import SparkEngine
from lithify.store.driver import new_id
from tests.endpoint import Endpoint
from tests.rgw import Rgw
from tests.scenarios.place import Place
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
COMPACTS = frozenset({"compact", "clean", "tier"})


def in_runs(scenario: Scenario) -> list[str]:
    """The layouts in which something can be cold: L0 segments stay where they are."""
    compacted = any(step.keys() & COMPACTS for step in scenario.steps)
    return [layout for layout in scenario.layouts if compacted or layout != "l0"]


def plays() -> Iterator[Any]:
    """Every day each scenario in its first and last layout, and cold in its last."""
    for scenario in ALL:
        for temperature, layouts in (("hot", scenario.layouts), ("cold", in_runs(scenario))):
            everyday = {*layouts[-1:], *(layouts[:1] if temperature == "hot" else ())}
            for layout in layouts:
                marks = () if layout in everyday else pytest.mark.slow
                yield pytest.param(
                    scenario, layout, temperature, id=f"{scenario.name}-{layout}-{temperature}", marks=marks
                )


SCENARIOS = pytest.mark.parametrize("scenario", ALL, ids=lambda scenario: scenario.name)
COLD = pytest.mark.parametrize("scenario", list(filter(in_runs, ALL)), ids=lambda scenario: scenario.name)


@pytest.fixture(scope="module")
def local() -> Iterator[Engine]:
    engine = LocalEngine(2)
    yield engine
    engine.close()


def test_every_rule_has_its_scenario() -> None:
    named = {rule for scenario in ALL for rule in scenario.rules}
    assert named == set(RULES)


@SCENARIOS
def test_a_file_is_named_for_its_first_rule(scenario: Scenario) -> None:
    assert re.fullmatch(rf"{scenario.rules[0]}-[a-z0-9-]+", scenario.name)
    assert scenario.title


def play(scenario: Scenario, layout: str, engine: Engine, place: Place) -> None:
    stage = Stage(scenario, layout, engine, place)
    stage.play()
    if place.cold and layout == scenario.layouts[-1] != "l0":  # in others there may be no run
        assert stage.moved


@pytest.mark.parametrize(("scenario", "layout", "temperature"), plays())
def test_local(scenario: Scenario, layout: str, temperature: str, local: Engine) -> None:
    name = new_id()
    play(scenario, layout, local, Place(f"memory://{name}", f"memory://{name}-cold" if temperature == "cold" else ""))


@SCENARIOS
def test_spark(scenario: Scenario, spark_session: "SparkSession", tmp_path: Path) -> None:
    """In the layout with most to merge: the engines share the kernel, and test_local holds the others."""
    play(scenario, scenario.layouts[-1], SparkEngine(spark_session), Place(tmp_path.as_uri()))


@COLD
def test_spark_with_a_cold_home(scenario: Scenario, spark_session: "SparkSession", tmp_path: Path) -> None:
    place = Place((tmp_path / "hot").as_uri(), (tmp_path / "cold").as_uri())
    play(scenario, scenario.layouts[-1], SparkEngine(spark_session), place)


@pytest.fixture(scope="module")
def user(rgw: Rgw) -> Iterator[Endpoint]:
    made = rgw.user(f"scenarios-{new_id()}")
    yield made
    made.close()


@pytest.fixture(scope="module")
def buckets(user: Endpoint) -> Iterator[tuple[str, str]]:
    made = user.create_bucket(), user.create_bucket()
    yield made
    for name in made:
        user.delete_bucket(name)


@pytest.fixture
def beside_a_bucket(request: pytest.FixtureRequest, user: Endpoint, buckets: tuple[str, str], tmp_path: Path) -> Place:
    """A warehouse in a folder or a bucket, whose cold home is another bucket."""
    hot, cold = (f"s3://{bucket}/{new_id()}" for bucket in buckets)
    if request.param == "bucket":
        return Place(hot, cold, user.options)
    return Place(tmp_path.as_uri(), cold, {"homes": {cold: user.options}})


@COLD
@pytest.mark.parametrize("beside_a_bucket", ["folder"], indirect=True)
def test_local_beside_a_bucket(scenario: Scenario, local: Engine, beside_a_bucket: Place) -> None:
    play(scenario, scenario.layouts[-1], local, beside_a_bucket)


@COLD
@pytest.mark.parametrize("beside_a_bucket", ["bucket"], indirect=True)
def test_spark_beside_a_bucket(scenario: Scenario, spark_session: "SparkSession", beside_a_bucket: Place) -> None:
    play(scenario, scenario.layouts[-1], SparkEngine(spark_session), beside_a_bucket)
