"""Each view of the dashboard, brought to where it shows the most."""

import re
from collections.abc import Callable

from playwright.sync_api import Page, expect

from tests.browser.pages import Watched

__all__ = ["VIEWS", "shown"]


def nothing(page: Page) -> None:
    expect(page.locator("#heard")).to_contain_text("Last answer")


def warehouse(page: Page) -> None:
    expect(page.get_by_text(re.compile(r"^\d of \d\d key ranges"))).to_be_visible()


def happened(page: Page) -> None:
    warehouse(page)
    page.get_by_label("The last", exact=True).select_option("week")
    page.get_by_role("button", name="Read what happened").click()
    expect(page.get_by_role("table", name="What happened, the latest first")).to_be_visible()
    page.evaluate("document.querySelectorAll('main details').forEach((each) => { each.open = true; })")


def all_jobs(page: Page) -> None:
    page.get_by_label("Show").select_option("all that are remembered")
    expect(page.get_by_role("table", name="Compactions").get_by_text("completed").first).to_be_visible()


def dry_run(page: Page) -> None:
    page.get_by_role("button", name="Dry run").click()
    expect(page.locator(".answer")).to_contain_text("would delete")
    page.evaluate("document.querySelectorAll('main details').forEach((each) => { each.open = true; })")


def looked_up(page: Page) -> None:
    page.get_by_label("Key", exact=True).fill("flag-000017")
    page.get_by_label(re.compile("show values")).check()
    page.get_by_role("button", name="Look up").click()
    expect(page.get_by_role("region", name="Versions of flag-000017")).to_be_visible()


def question(page: Page) -> None:
    page.get_by_role("button", name="Submit a compaction").click()
    page.get_by_text("Only some of them").click()


VIEWS: dict[str, tuple[str, Callable[[Page], None]]] = {
    "overview": ("", warehouse),
    "topic": ("topic/orders", nothing),
    "partition": ("topic/orders/0", happened),
    "quarantined": ("topic/payments/1", nothing),
    "compactions": ("compactions", all_jobs),
    "garbage": ("garbage", dry_run),
    "key": ("key/feature-flags", looked_up),
    "question": ("topic/users/0", question),
    "unknown": ("nonsense", lambda page: expect(page.locator("main p")).to_be_visible()),
}


def shown(watched: Watched, view: str) -> Page:
    route, bring = VIEWS[view]
    page = watched.page
    page.goto(f"{watched.origin}/#/{route}")
    page.locator("main :is(section, form, p)").first.wait_for()
    bring(page)
    return page
