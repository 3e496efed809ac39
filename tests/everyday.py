"""What of a search belongs to the everyday part of the tests, and what to the slow one."""

from collections.abc import Iterable
from typing import Any

import pytest

__all__ = ["everyday_and_slow", "seeds"]


def everyday_and_slow(everyday: Iterable[Any], slow: Iterable[Any]) -> list[Any]:
    return [*everyday, *(pytest.param(each, marks=pytest.mark.slow) for each in slow)]


def seeds(everyday: int, every: int) -> list[Any]:
    """As many, of which the first so many are played every day."""
    return everyday_and_slow(range(everyday), range(everyday, every))
