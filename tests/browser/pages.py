"""A browser's pages, which fail their test if they ask another server, or if anything is wrong with their code."""

import os
import re
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from playwright.sync_api import Browser, ConsoleMessage, Page, Request, expect, sync_playwright

from tests.debian import program

__all__ = ["Watched", "chromium"]

WAIT_MS = 60_000
expect.set_options(timeout=WAIT_MS)


@contextmanager
def chromium() -> Iterator[Browser]:
    found = program("chromium")
    # Its sandbox refuses root, and a container has little shared memory.
    arguments = ["--disable-dev-shm-usage", *(["--no-sandbox"] if os.geteuid() == 0 else [])]
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=found.path, env=dict(found.environment), args=arguments)
        try:
            yield browser
        finally:
            browser.close()


class Watched:
    """One page, with what it said and asked."""

    def __init__(self, page: Page, origin: str) -> None:
        self.page = page
        self.origin = origin
        self.asked: list[str] = []  # method and path
        self.strange: list[str] = []  # requests that left the origin
        self.wrong: list[str] = []  # errors and warnings of the console, and exceptions
        page.set_default_timeout(WAIT_MS)
        page.on("console", self._said)
        page.on("pageerror", lambda error: self.wrong.append(f"exception: {error}"))
        page.on("dialog", self._dialog)
        page.on("request", self._request)

    def open(self, route: str = "") -> Page:
        self.page.goto(f"{self.origin}/#/{route}")
        self.page.locator("main :is(section, form, .problem, .tools, .row)").first.wait_for()
        return self.page

    def check(self, allowed: str | None = None) -> None:
        """`allowed`: a pattern of what the test has brought about."""
        wrong = [each for each in self.wrong if allowed is None or not re.search(allowed, each)]
        assert not self.strange + wrong, f"requests elsewhere: {self.strange}; errors: {wrong}"

    def _said(self, message: ConsoleMessage) -> None:
        if message.type in ("error", "warning", "assert"):
            self.wrong.append(f"{message.type}: {message.text}")

    def _dialog(self, dialog: Any) -> None:
        self.wrong.append(f"dialog: {dialog.message}")
        dialog.dismiss()

    def _request(self, request: Request) -> None:
        if not request.url.startswith(f"{self.origin}/"):
            self.strange.append(request.url)
        self.asked.append(f"{request.method} {request.url.removeprefix(self.origin)}")
