"""A browser for each file, and pages whose errors fail their test."""

from collections.abc import Callable, Iterator
from contextlib import ExitStack
from typing import Any

import pytest
from playwright.sync_api import Browser

from tests.browser.pages import Watched, chromium
from tests.browser.world import World, world

OpenPage = Callable[..., Watched]


@pytest.fixture(scope="module")
def browser() -> Iterator[Browser]:
    with chromium() as opened:
        yield opened


@pytest.fixture
def here() -> Iterator[World]:
    with world() as made:
        yield made


@pytest.fixture
def watch(browser: Browser) -> Iterator[Callable[..., Watched]]:
    """A page of the server `origin`, in a profile of its own. `allowed`: a pattern of errors that the test makes."""
    with ExitStack() as closing:
        watched: list[tuple[Watched, str | None]] = []

        def one(origin: str, allowed: str | None = None, **options: Any) -> Watched:
            context = browser.new_context(**options)
            closing.callback(context.close)
            found = Watched(context.new_page(), origin)
            watched.append((found, allowed))
            return found

        yield one
        for each, allowed in watched:
            each.check(allowed)
