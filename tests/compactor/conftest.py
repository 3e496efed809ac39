"""A warehouse in memory whose clock the test sets."""

from collections.abc import Iterator

import pytest

import lithify
from lithify.store.driver import new_id
from tests.compactor.serving import Clock


@pytest.fixture
def clock() -> Clock:
    return Clock()


@pytest.fixture
def warehouse(clock: Clock) -> Iterator[lithify.Warehouse]:
    with lithify.open(f"memory://{new_id()}", clock=clock) as opened:
        yield opened
