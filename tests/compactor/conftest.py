"""A warehouse in memory whose clock the test sets."""

from collections.abc import Iterator

import pytest

import lithify
from lithify.store.driver import new_id
from tests.clock import HandClock


@pytest.fixture
def clock() -> HandClock:
    return HandClock(1_795_000_000_000)


@pytest.fixture
def warehouse(clock: HandClock) -> Iterator[lithify.Warehouse]:
    with lithify.open(f"memory://{new_id()}", clock=clock) as opened:
        yield opened
