"""What every test shares: Hypothesis profiles, one Spark session and one RGW for the whole run.

Without the slow tests, properties have half of their examples. Both play the same examples in every run, so that a
change is judged by what it changed. `pytest --hypothesis-profile=wide` searches on, elsewhere each time; a failure
prints the blob that reproduces it.
"""

import gc
import logging
import os
import signal
import sys
from collections.abc import Iterator
from typing import TYPE_CHECKING

import pytest
import structlog
from hypothesis import HealthCheck, settings

from lithify.store.disk import Disk
from lithify.work.java import use_java
from tests.jvm_archive import jvm_options
from tests.rgw import Rgw, running_rgw

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

# Slow machines are no failure: neither deadlines nor the speed of generation are judged.
_UNTIMED = settings(deadline=None, print_blob=True, suppress_health_check=[HealthCheck.too_slow])
settings.register_profile("everyday", _UNTIMED, max_examples=15, derandomize=True)
settings.register_profile("whole", _UNTIMED, max_examples=30, derandomize=True)
settings.register_profile("wide", _UNTIMED, max_examples=500, derandomize=False)


SYNC = Disk.sync

# For the JVMs of all Sparks that tests begin, in their processes, too.
os.environ.setdefault("SPARK_SUBMIT_OPTS", f"{jvm_options()} -XX:+UseSerialGC")


def pytest_configure(config: pytest.Config) -> None:
    if not config.getoption("--hypothesis-profile"):
        settings.load_profile("everyday" if _everyday(config) else "whole")


def _everyday(config: pytest.Config) -> bool:
    return "not slow" in config.getoption("markexpr")


@pytest.hookimpl(tryfirst=True)
def pytest_runtest_setup(item: pytest.Item) -> None:
    """Tests wait for no disk, which was half of their time where it is slow. In the whole run those of tests/store do,
    and all processes that tests start. Tests of lost power have a disk of their own (tests/store/disks.py)."""
    waits = item.path.parent.name == "store" and not _everyday(item.config)
    Disk.sync = SYNC if waits else _not_waiting_for_the_disk


def _not_waiting_for_the_disk(_: Disk, descriptor: int) -> None:
    os.fstat(descriptor)  # refuses what fsync would refuse


def pytest_collection_finish() -> None:
    """What was imported and collected stays until the end, so the garbage collector need not look at it again."""
    gc.freeze()


@pytest.hookimpl(tryfirst=True)
def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """All Spark tests go to one worker of pytest-xdist: a session costs ten seconds and a gigabyte. And what takes
    longest begins first, so that no worker is left alone with it at the end."""
    for item in items:
        if "spark_session" in getattr(item, "fixturenames", ()):
            item.add_marker(pytest.mark.spark)
        if item.get_closest_marker("spark"):
            item.add_marker(pytest.mark.xdist_group("spark"))
            item.add_marker(pytest.mark.slow)
        if "rgw" in getattr(item, "fixturenames", ()):
            item.add_marker(pytest.mark.xdist_group("rgw"))
            item.add_marker(pytest.mark.soak)
    items.sort(key=lambda item: [item.get_closest_marker(name) is None for name in ("xdist_group", "long")])


def pytest_sessionstart() -> None:
    """Whoever starts the tests in the background may have Ctrl-C and hangups ignored, and each process that they start
    would inherit that."""
    for number, usual in ((signal.SIGINT, signal.default_int_handler), (signal.SIGHUP, signal.SIG_DFL)):
        if signal.getsignal(number) is signal.SIG_IGN:
            signal.signal(number, usual)


@pytest.fixture(autouse=True)
def _signals_as_given() -> Iterator[None]:
    """A service that was told to leave ignores hangups from then on, and so would the processes of later tests."""
    numbers = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)
    before = {number: signal.getsignal(number) for number in numbers}
    yield
    for number, handler in before.items():
        signal.signal(number, handler)


@pytest.fixture(autouse=True)
def _logs_as_given() -> Iterator[None]:
    """A command sets up logging for its process. The tests after it expect what a library's user has."""
    yield
    structlog.reset_defaults()
    package = logging.getLogger("lithify")
    package.handlers, package.propagate = [], True
    package.setLevel(logging.NOTSET)


@pytest.fixture(scope="session")
def spark_session(tmp_path_factory: pytest.TempPathFactory) -> Iterator["SparkSession"]:
    """local[2], on loopback, without UI; stopped at the end of the run."""
    from pyspark.sql import SparkSession

    use_java()

    folder = tmp_path_factory.mktemp("spark")
    settings_by_name = {
        "spark.default.parallelism": "2",
        "spark.driver.bindAddress": "127.0.0.1",
        "spark.driver.host": "127.0.0.1",
        "spark.local.dir": str(folder / "local"),
        "spark.scheduler.mode": "FAIR",
        "spark.sql.shuffle.partitions": "2",
        "spark.sql.warehouse.dir": str(folder / "warehouse"),
        "spark.ui.enabled": "false",
        "spark.ui.showConsoleProgress": "false",
    }
    builder = SparkSession.builder.master("local[2]").appName("lithify-tests")
    with pytest.MonkeyPatch.context() as patch:
        # PySpark starts its workers with this, else with whatever python3 comes first on PATH.
        patch.setenv("PYSPARK_PYTHON", sys.executable)
        session = builder.config(map=settings_by_name).getOrCreate()
        yield session
        session.stop()


@pytest.fixture(scope="session")
def rgw(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Rgw]:
    """A real S3 server with users and bucket policies (tests/rgw.py). Tests that use it are soak."""
    with running_rgw(tmp_path_factory.mktemp("rgw")) as gateway:
        yield gateway
