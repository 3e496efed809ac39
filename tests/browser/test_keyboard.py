"""The dashboard by its keyboard alone: an order that makes sense, a focus that is seen and not lost."""

from collections.abc import Callable

import pytest
from playwright.sync_api import Page, expect

from tests.browser.pages import Watched
from tests.browser.world import World, records

pytestmark = pytest.mark.soak


@pytest.fixture
def page(here: World, watch: Callable[..., Watched]) -> Page:
    here.topic("orders").append(records(20))
    return watch(here.server.url).open("topic/orders/0")


def focused(page: Page) -> str:
    return str(page.evaluate("document.activeElement.textContent.trim() || document.activeElement.id"))


def test_the_order_of_the_tab_key_is_that_of_the_page(page: Page) -> None:
    page.evaluate("document.activeElement.blur()")
    found = []
    for _ in range(10):
        page.keyboard.press("Tab")
        found.append(focused(page))
    head = ["Skip to the content", "lithify", "Warehouse", "Compactions", "Garbage", "Look up a key"]
    assert found[:6] == head
    assert found[7:10] == ["Submit a compaction", "orders", "Pause topic orders"]


def test_whatever_has_the_focus_shows_it(page: Page) -> None:
    page.evaluate("document.activeElement.blur()")
    seen = set()
    for _ in range(20):
        page.keyboard.press("Tab")
        if page.evaluate("document.activeElement === document.body"):
            break  # it has left the page at its end
        outline = page.evaluate("getComputedStyle(document.activeElement).outline")
        name = focused(page)
        assert "solid" in outline, f"{name}: {outline}"
        assert "2px" in outline, f"{name}: {outline}"
        seen.add(name)
    assert len(seen) > 10


def test_the_content_is_reached_past_the_navigation(page: Page) -> None:
    page.evaluate("document.activeElement.blur()")
    page.keyboard.press("Tab")
    page.keyboard.press("Enter")
    expect(page.locator("main")).to_be_focused()
    page.keyboard.press("Tab")
    assert focused(page) == "Submit a compaction"


def test_a_dialog_keeps_the_focus_and_gives_it_back(page: Page, here: World) -> None:
    opener = page.get_by_role("button", name="Submit a compaction")
    opener.focus()
    page.keyboard.press("Enter")
    dialog = page.get_by_role("dialog")
    expect(dialog.get_by_role("button", name="Leave it")).to_be_focused()  # Enter alone changes nothing
    for _ in range(8):
        page.keyboard.press("Tab")
        assert page.evaluate("document.activeElement === document.body || !!document.activeElement.closest('dialog')")
    page.keyboard.press("Escape")
    expect(dialog).to_be_hidden()
    expect(opener).to_be_focused()
    assert here.admin.readable_compactions("orders").items == ()
    page.keyboard.press("Enter")
    dialog.get_by_role("button", name="Submit it").focus()
    page.keyboard.press("Enter")
    expect(page.get_by_role("status")).to_contain_text("Submitted orders/0/")


def test_looks_leave_the_focus_the_open_details_and_what_was_typed(page: Page, here: World) -> None:
    summary = page.get_by_text("1 segment", exact=True)
    summary.focus()
    page.keyboard.press("Enter")
    table = page.get_by_role("table", name="Live segments")
    expect(table).to_be_visible()
    here.warehouse.topic("orders").append(records(20))
    expect(table.get_by_role("row")).to_have_count(3)
    expect(page.get_by_text("2 segments", exact=True)).to_be_focused()
    expect(table).to_be_visible()


def test_a_view_that_is_gone_to_has_the_focus_on_its_title(page: Page) -> None:
    page.get_by_role("link", name="Garbage").focus()
    page.keyboard.press("Enter")
    expect(page.get_by_role("heading", level=1, name="Garbage")).to_be_focused()
    page.keyboard.press("Tab")
    assert focused(page) == "Dry run"


def test_the_theme_is_chosen_and_kept(page: Page) -> None:
    page.get_by_label("Theme").select_option("dark")
    dark = page.evaluate("getComputedStyle(document.body).backgroundColor")
    page.reload()
    expect(page.get_by_label("Theme")).to_have_value("dark")
    assert page.evaluate("getComputedStyle(document.body).backgroundColor") == dark
    page.get_by_label("Theme").select_option("light")
    assert page.evaluate("getComputedStyle(document.body).backgroundColor") != dark
