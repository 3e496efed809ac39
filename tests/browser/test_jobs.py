"""Compactions in the dashboard: seen from request to end, submitted, cancelled; a topic paused and resumed."""

import re
from collections.abc import Callable

import pytest
from playwright.sync_api import expect

from tests.browser.pages import Watched
from tests.browser.world import World, records

pytestmark = pytest.mark.soak


@pytest.fixture
def orders(here: World) -> World:
    """One partition that a compaction cuts into several key ranges."""
    topic = here.topic("orders", compaction_output_bytes="2048")
    for number in range(8):
        topic.append(records(300, 300 * number))
    return here


def test_the_progress_of_a_job_moves_until_it_is_completed(orders: World, watch: Callable[..., Watched]) -> None:
    glance = watch(orders.server.url).open()
    partition = watch(orders.server.url).open("topic/orders/0")
    expect(glance.get_by_text("No compaction runs.")).to_be_visible()
    with orders.compacting() as engine:
        for page in (glance, partition):
            expect(page.get_by_text(re.compile(r"^0 of \d+ key ranges, 0 %"))).to_be_visible()
        for done in (1, 2):
            engine.let(1)
            for page in (glance, partition):
                expect(page.get_by_text(re.compile(rf"^{done} of \d+ key ranges, "))).to_be_visible()
        engine.let(1_000)
        expect(partition.locator(".job .badge", has_text="completed").first).to_be_visible()
        expect(glance.get_by_text("No compaction runs.")).to_be_visible()
    expect(partition.get_by_role("img", name=re.compile("read .* wrote|last compaction"))).to_be_visible()


def test_a_compaction_is_submitted_after_a_question_and_cancelled_after_another(
    orders: World, watch: Callable[..., Watched]
) -> None:
    page = watch(orders.server.url).open("topic/orders/0")
    page.get_by_role("button", name="Submit a compaction").click()
    dialog = page.get_by_role("dialog", name="Submit a compaction of orders/0?")
    expect(dialog).to_contain_text("8 segments")
    dialog.get_by_role("button", name="Leave it").click()
    expect(dialog).to_be_hidden()
    assert orders.admin.readable_compactions("orders").items == ()
    page.get_by_role("button", name="Submit a compaction").click()
    dialog.get_by_role("button", name="Submit it").click()
    expect(page.get_by_role("status")).to_contain_text("Submitted orders/0/")
    (job,) = orders.admin.readable_compactions("orders").items
    card = page.get_by_role("article", name=f"Compaction {job.id}")
    expect(card).to_contain_text("requested")
    card.get_by_role("button", name="Cancel").click()
    asked = page.get_by_role("dialog", name="Cancel this compaction?")
    expect(asked).to_contain_text(job.id)
    asked.get_by_role("button", name="Cancel it").click()
    expect(page.get_by_role("status")).to_contain_text(f"Asked to cancel {job.id}")
    orders.admin.pause("orders")  # the request alone is looked at
    orders.compact()
    expect(card.locator(".badge").first).to_contain_text("cancelled")


def test_only_some_of_the_segments_are_submitted(orders: World, watch: Callable[..., Watched]) -> None:
    page = watch(orders.server.url).open("topic/orders/0")
    first, second, *_ = orders.admin.describe("orders", 0).l0
    page.get_by_role("button", name="Submit a compaction").click()
    page.get_by_text("Only some of them").click()
    for each in (first, second):
        page.get_by_role("checkbox", name=re.compile(each.id)).check()
    page.get_by_role("button", name="Submit it").click()
    expect(page.get_by_role("status")).to_contain_text("Submitted")
    (job,) = orders.admin.readable_compactions("orders").items
    assert set(job.sources) == {first.id, second.id}


def test_a_submission_whose_answer_is_lost_is_repeated_as_the_same(
    orders: World, watch: Callable[..., Watched]
) -> None:
    watched = watch(orders.server.url, allowed="ERR_FAILED|ERR_CONNECTION")
    page = watched.open("topic/orders/0")
    lost = []

    def lose(route):  # type: ignore[no-untyped-def]
        if route.request.method == "POST" and not lost:
            lost.append(route.fetch().json()["id"])
            route.abort()
        else:
            route.fallback()

    page.route("**/compactions", lose)
    page.get_by_role("button", name="Submit a compaction").click()
    dialog = page.get_by_role("dialog")
    dialog.get_by_role("button", name="Submit it").click()
    expect(dialog.get_by_role("alert")).to_contain_text("does not answer")
    dialog.get_by_role("button", name="Submit it").click()
    expect(page.get_by_role("status")).to_contain_text(f"Submitted {lost[0]}")
    assert [job.id for job in orders.admin.readable_compactions("orders").items] == lost


def test_a_topic_is_paused_and_resumed(orders: World, watch: Callable[..., Watched]) -> None:
    page = watch(orders.server.url).open("topic/orders")
    page.get_by_role("button", name="Pause topic orders").click()
    page.get_by_role("dialog", name="Pause orders?").get_by_role("button", name="Pause").click()
    expect(page.get_by_role("status")).to_contain_text("orders is paused")
    expect(page.locator("main .badge", has_text="paused").first).to_be_visible()
    assert orders.admin.topic("orders").config["compaction.paused"] == "true"
    page.get_by_role("button", name="Resume topic orders").click()
    page.get_by_role("dialog", name="Resume orders?").get_by_role("button", name="Resume").click()
    expect(page.get_by_role("button", name="Pause topic orders")).to_be_visible()
    assert "compaction.paused" not in orders.admin.topic("orders").config
