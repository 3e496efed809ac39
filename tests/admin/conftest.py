"""A warehouse with a clock of its own, and the operations on it."""

from collections.abc import Iterator

import pytest

import lithify
from lithify.store.driver import new_id
from tests.clock import HandClock


@pytest.fixture
def clock() -> HandClock:
    return HandClock()


@pytest.fixture
def warehouse(clock: HandClock) -> Iterator[lithify.Warehouse]:
    with lithify.open(f"memory://{new_id()}", clock=clock) as opened:
        yield opened


@pytest.fixture
def admin(warehouse: lithify.Warehouse) -> lithify.Admin:
    return lithify.Admin(warehouse)
