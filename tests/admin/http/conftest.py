"""Servers that end with their test."""

from collections.abc import Callable, Iterator
from contextlib import ExitStack

import pytest

from lithify.admin.http import app as application
from tests.admin.served import Recorder, Served, served


@pytest.fixture(autouse=True)
def pauses(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """How long each wrong token was to wait; nobody waits."""
    found: list[int] = []

    async def pause(wait_ms: int) -> None:
        found.append(wait_ms)

    monkeypatch.setattr(application, "pause", pause)
    return found


@pytest.fixture
def recorder() -> Recorder:
    return Recorder()


@pytest.fixture
def serve() -> Iterator[Callable[..., Served]]:
    """Starts servers that end with the test."""
    with ExitStack() as stack:
        yield lambda *words, **named: stack.enter_context(served(*words, **named))
