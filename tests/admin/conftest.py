"""A warehouse with a clock of its own, and the operations on it."""

from collections.abc import Iterator

import pytest

import lithify
from lithify.store.driver import new_id
from tests.admin.served import served
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
