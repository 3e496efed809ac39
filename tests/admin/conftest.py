"""A warehouse with a clock of its own, and the operations on it."""

from collections.abc import Iterator

import pytest

import lithify
from lithify.store.driver import Driver, new_id
from lithify.store.metered import Metered
from tests.admin.hanging import Hanging
from tests.admin.served import served
from tests.admin.test_operations import fill
from tests.clock import HandClock


@pytest.fixture
def clock() -> HandClock:
    return HandClock()


@pytest.fixture
def warehouse(clock: HandClock) -> Iterator[lithify.Warehouse]:
    with lithify.open(f"memory://{new_id()}", clock=clock) as opened:
        yield opened


@pytest.fixture(params=["python", pytest.param("http", marks=pytest.mark.slow)])
def admin(request: pytest.FixtureRequest, warehouse: lithify.Warehouse) -> Iterator[lithify.Admin]:
    """Through either face, a test must say the same."""
    if request.param == "python":
        yield lithify.Admin(warehouse)
        return
    with served(lithify.Admin(warehouse)) as server:
        yield lithify.Admin(server.url)


@pytest.fixture
def near(warehouse: lithify.Warehouse) -> lithify.Admin:
    """For what a server does not offer."""
    return lithify.Admin(warehouse)


@pytest.fixture
def one_hangs(clock: HandClock) -> Iterator[tuple[lithify.Warehouse, Hanging]]:
    """Its topic `users` has four partitions."""
    store = Hanging()
    driver = Driver(Metered(store), clock)
    driver.monotonic_ms = clock
    with lithify.Warehouse(driver) as opened:
        fill(opened.create_topic("users", 4))
        store.asked.clear()
        yield opened, store
        store.go.set()
