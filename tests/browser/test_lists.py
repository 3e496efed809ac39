"""A warehouse of a thousand partitions: one request for its first page, and no more rows than a person can look at."""

from collections.abc import Callable, Iterator

import pytest
from playwright.sync_api import expect

from benchmarks.surveys import fill
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
    watched = watch(many.server.url)
    page = watched.open()
    expect(page.get_by_role("list").nth(1)).to_contain_text("1,000 partitions")
    assert [asked for asked in watched.asked if "/v1/" in asked] == ["GET /v1/overview"]


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
