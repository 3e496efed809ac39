"""A clock that tests set, and a second store."""

import pytest

from lithify.store.memory import MemoryStore
from tests.clock import HandClock


@pytest.fixture
def clock() -> HandClock:
    return HandClock()


@pytest.fixture
def cold() -> MemoryStore:
    return MemoryStore()
