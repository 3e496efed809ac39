"""Asking while it is seen, and no longer; a server that is gone and comes back; `lithify serve` as a process."""

import re
import signal
from collections.abc import Callable
from pathlib import Path

import pytest
from playwright.sync_api import Page, expect

import lithify
from lithify.admin.http.streams import Streams
from lithify.events.feed import Feed
from tests.admin.served import served
from tests.browser.pages import Watched
from tests.browser.world import COMPACTED, World, records
from tests.cli.test_process import Process

pytestmark = pytest.mark.soak

HIDDEN = """hidden => {
  Object.defineProperty(document, "hidden", { configurable: true, get: () => hidden });
  document.dispatchEvent(new Event("visibilitychange"));
}"""


def asks_again(page: Page) -> bool:
    """Whether it asks within 30 s of its own clock."""
    asked: list[str] = []
    page.on("request", lambda request: asked.append(request.url))
    page.clock.run_for(30_000)
    page.evaluate("1")
    return bool(asked)


@pytest.mark.parametrize("route", ["", "topic/orders", "topic/orders/0", "compactions"])
def test_nothing_is_asked_while_nobody_looks(here: World, watch: Callable[..., Watched], route: str) -> None:
    here.topic("orders").append(records(5))
    watched = watch(here.server.url)
    watched.page.clock.install()
    page = watched.open(route)
    expect(page.locator("#heard")).to_contain_text("Last answer")
    page.evaluate(HIDDEN, True)
    page.clock.run_for(100)
    page.wait_for_load_state("networkidle")
    assert not asks_again(page)
    with page.expect_response("**/v1/**"):
        page.evaluate(HIDDEN, False)


def test_a_server_that_is_gone_is_told_and_found_again(watch: Callable[..., Watched], tmp_path: Path) -> None:
    with lithify.open(str(tmp_path)) as warehouse:
        warehouse.create_topic("orders", 1, COMPACTED).append(records(5))
        admin = lithify.Admin(warehouse, survey_ms=0)

        def serve(port: int = 0):  # type: ignore[no-untyped-def]
            return served(admin, streams=Streams(Feed(warehouse.driver)), port=port)

        with serve() as first:
            watched = watch(first.url, allowed="ERR_")
            page = watched.open()
            expect(page.get_by_role("link", name="orders", exact=True)).to_be_visible()
            port = int(first.authority.rpartition(":")[2])
        expect(page.get_by_text(re.compile(r"does not answer\. Last answer .* ago\. Next try in"))).to_be_visible()
        expect(page.get_by_role("link", name="orders", exact=True)).to_be_visible()  # the last that is known stays
        with serve(port):
            page.get_by_role("button", name="Ask now").click()
            expect(page.get_by_role("status")).to_contain_text("The server answers again")
            expect(page.get_by_role("button", name="Ask now")).to_be_hidden()


def test_an_answer_that_is_not_lithifys(here: World, watch: Callable[..., Watched]) -> None:
    watched = watch(here.server.url)
    watched.page.route("**/v1/**", lambda route: route.fulfill(body="<html>a proxy's page"))
    watched.page.goto(here.server.url)
    expect(watched.page.locator("main .problem")).to_contain_text("is this lithify's server?")


def test_the_server_that_is_a_process_of_its_own(watch: Callable[..., Watched], tmp_path: Path) -> None:
    with lithify.open(str(tmp_path)) as warehouse:
        warehouse.create_topic("orders", 1, COMPACTED).append(records(5))
    words = ("--http", "127.0.0.1:0", "--http-survey-ms", "1", "--log-format", "json")
    with Process(str(tmp_path), "serve", *words) as process:
        assert process.of.stdout is not None
        page = watch(process.of.stdout.readline().strip()).open()
        expect(page.get_by_role("table", name="All topics")).to_contain_text("orders")
        page.get_by_role("link", name="orders", exact=True).click()
        expect(page.get_by_role("table", name="Partitions")).to_contain_text("partition 0")
        process.of.send_signal(signal.SIGTERM)
        assert process.end() == 0, process.said
        page.close()
