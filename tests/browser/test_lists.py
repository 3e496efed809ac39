"""A warehouse of a thousand partitions: one request for its first page, and no more rows than a person can look at."""

from collections.abc import Callable, Iterator

import pytest
from msgspec.structs import replace
from playwright.sync_api import expect

import lithify
from benchmarks.surveys import fill
from lithify.admin.http.streams import Streams
from lithify.admin.survey import Overview
from lithify.events.feed import Feed
from lithify.store.driver import new_id
from tests.admin.served import served
from tests.browser.pages import Watched
from tests.browser.world import World, world

pytestmark = pytest.mark.soak

TOPICS, PARTITIONS = 100, 10


@pytest.fixture(scope="module")
def many() -> Iterator[World]:
    with world(survey_ms=3_600_000) as made:
        fill(made.warehouse, TOPICS, PARTITIONS)
        yield made


def test_the_first_page_takes_one_request_however_many_partitions_there_are(
    many: World, watch: Callable[..., Watched]
) -> None:
    admin = lithify.Admin(many.server.url)
    while not admin.overview(wait_ms=1_000).whole:
        pass  # the server's first survey of them is what another test is about
    watched = watch(many.server.url)
    page = watched.open()
    expect(page.get_by_role("list").nth(1)).to_contain_text("1,000 partitions")
    assert [asked for asked in watched.asked if "/v1/" in asked] == ["GET /v1/overview?wait_ms=1000"]


class FirstLook(lithify.Admin):
    """Its first survey has read some partitions, until `go`."""

    read, go = 3, False

    def overview(self, *, wait_ms: int | None = None) -> Overview:
        found = super().overview()
        return found if self.go else replace(found, partitions=found.partitions[: self.read], whole=False)


def test_a_first_page_shows_what_has_been_read_so_far_and_says_so(watch: Callable[..., Watched]) -> None:
    with lithify.open(f"memory://{new_id()}") as warehouse:
        fill(warehouse, 2, 4)
        admin = FirstLook(warehouse)
        with served(admin, streams=Streams(Feed(warehouse.driver))) as server:
            page = watch(server.url).open()
            told = page.locator("[data-key=survey]")
            expect(told).to_contain_text("not all yet")
            expect(told).to_contain_text("has read 3 partitions so far")
            expect(page.get_by_role("list").nth(1)).to_contain_text("3 partitions")
            admin.read = 0
            expect(told).to_contain_text("has read 0 partitions so far")
            expect(page.get_by_role("region", name="Needs a person")).to_contain_text("Nothing so far.")
            expect(page.get_by_role("region", name="Topics")).to_contain_text("None has been read yet.")
            admin.go = True
            expect(told).to_contain_text("Survey of")
            expect(page.get_by_role("list").nth(1)).to_contain_text("8 partitions")


def test_long_lists_show_some_rows_say_how_many_more_and_are_filtered(
    many: World, watch: Callable[..., Watched]
) -> None:
    page = watch(many.server.url).open()
    topics = page.get_by_role("region", name="Topics")
    rows = topics.get_by_role("table", name="All topics").get_by_role("row")
    expect(rows).to_have_count(1 + 50)
    expect(topics).to_contain_text("and 50 more")
    topics.get_by_role("button", name="Show more of: All topics").click()
    expect(rows).to_have_count(1 + TOPICS)
    expect(topics).not_to_contain_text("and 50 more")
    topics.get_by_label("Filter").press_sequentially("topic-9")
    expect(rows).to_have_count(1 + 10)
    expect(topics).to_contain_text("10 of 100")
    expect(topics.get_by_label("Filter")).to_be_focused()
    topics.get_by_label("Filter").fill("nobody")
    expect(topics).to_contain_text("None has this in its name.")
    assert page.locator("main *").count() < 3_000


def test_the_order_of_topics_is_chosen(many: World, watch: Callable[..., Watched]) -> None:
    page = watch(many.server.url).open()
    topics = page.get_by_role("region", name="Topics")
    topics.get_by_label("Order").select_option("largest first")
    expect(topics.get_by_role("rowheader").first).to_have_text("topic-00")  # all are as large


def test_a_topic_of_many_partitions_shows_some_of_them(watch: Callable[..., Watched]) -> None:
    with world() as here:
        fill(here.warehouse, 1, 120)
        page = watch(here.server.url).open("topic/topic-00")
        table = page.get_by_role("table", name="Partitions")
        expect(table.get_by_role("row")).to_have_count(1 + 50)
        page.get_by_role("button", name="Show more of: Partitions").click()
        expect(table.get_by_role("row")).to_have_count(1 + 120)
        page.get_by_role("region", name="Partitions").get_by_label("Filter").fill("partition 7")
        expect(table.get_by_role("row")).to_have_count(1 + 11)
