"""What comes from outside stays text, tokens stay with who gave them, and nothing is loaded or sent elsewhere."""

import re
from collections.abc import Callable

import pytest
from playwright.sync_api import expect

import lithify
from tests.admin.served import OPERATE, READ, TOKENS, WRONG
from tests.browser.pages import Watched
from tests.browser.world import World, records, world

pytestmark = pytest.mark.soak

HOSTILE = '<img src=x onerror="alert(1)"><script>alert(2)</script>'
REFUSED = r"status of 40[13]"


@pytest.fixture
def hostile(here: World) -> World:
    """Wherever a name or content may be chosen freely."""
    topic = here.topic("orders")
    topic.append([lithify.Record(HOSTILE.encode(), HOSTILE.encode(), headers=[(HOSTILE, HOSTILE.encode())])])
    topic.append(records(5))
    here.admin.create_checkpoint("orders", HOSTILE[:60])
    with topic.partition(0).consumer(HOSTILE[:60]) as consumer:
        consumer.poll(timeout_ms=0)
        consumer.commit()
    here.compact("<b onclick=alert(3)>:1")
    return here


def test_hostile_names_keys_and_values_are_text(hostile: World, watch: Callable[..., Watched]) -> None:
    watched = watch(hostile.server.url)
    for route in ("", "topic/orders", "topic/orders/0", "compactions", f"key/{HOSTILE.replace('/', '%2F')}"):
        page = watched.open(route)
        assert page.locator("main :is(img, script, b[onclick])").count() == 0
    page = watched.open("topic/orders/0")
    expect(page.get_by_role("table", name="Pins")).to_contain_text(HOSTILE[:60])
    expect(page.get_by_role("table", name="Consumers")).to_contain_text(HOSTILE[:60])
    page = watched.open("key/orders")
    page.get_by_label("Key", exact=True).fill(HOSTILE)
    page.get_by_label(re.compile("show values")).check()
    page.get_by_role("button", name="Look up").click()
    expect(page.locator("main pre").first).to_have_text(HOSTILE)
    expect(page.get_by_text(f"{HOSTILE}: {HOSTILE}")).to_be_visible()


@pytest.mark.parametrize(
    "route", ["topic/<img src=x onerror=alert(1)>", "topic/%ff/0", "nonsense", "topic/..%2f..%2fx"]
)
def test_hostile_addresses_are_told_as_they_are(here: World, watch: Callable[..., Watched], route: str) -> None:
    watched = watch(here.server.url, allowed=r"status of 4\d\d")
    page = watched.page
    page.goto(f"{here.server.url}/#/{route}")
    expect(page.locator("main :is(.problem, p)").first).to_be_visible()
    assert page.locator("main :is(img, script)").count() == 0


def test_the_policy_of_the_page_lets_no_foreign_code_run(here: World, watch: Callable[..., Watched]) -> None:
    """And a violation is an error of the console, which fails every test here that does not expect it."""
    watched = watch(here.server.url, allowed="Content Security Policy")
    page = watched.open()
    page.evaluate(
        """() => {
          document.body.insertAdjacentHTML("beforeend", "<i id=bait onclick='window.ran = 1'></i>");
          document.getElementById("bait").click();
          const script = document.createElement("script");
          script.textContent = "window.ran = 2";
          document.head.append(script);
          const style = document.createElement("style");
          style.textContent = "body { display: none }";
          document.head.append(style);
        }"""
    )
    assert page.evaluate("window.ran") is None
    assert page.evaluate("fetch('http://127.0.0.1:9/').then(() => 'sent', () => 'refused')") == "refused"
    expect(page.get_by_role("heading", name="Warehouse")).to_be_visible()
    assert sum("Content Security Policy" in said for said in watched.wrong) >= 4


def test_a_token_is_asked_for_used_and_forgotten(watch: Callable[..., Watched]) -> None:
    with world(tokens=TOKENS) as here:
        here.topic("orders").append(records(5))
        watched = watch(here.server.url, allowed=REFUSED)
        page = watched.page
        page.goto(here.server.url)
        dialog = page.get_by_role("dialog", name="This server asks for a token")
        field = dialog.get_by_label("Token")
        expect(field).to_be_focused()
        expect(field).to_have_attribute("type", "password")
        field.fill(WRONG)
        field.press("Enter")
        expect(dialog.locator("#token-why")).to_contain_text("The server says")
        expect(field).to_have_value("")
        field.fill(READ)
        dialog.get_by_role("button", name="Use it").click()
        expect(page.get_by_role("link", name="orders", exact=True)).to_be_visible()
        page.reload()  # it is kept in this tab
        expect(page.get_by_role("link", name="orders", exact=True)).to_be_visible()
        assert page.evaluate("[Object.keys(localStorage), document.cookie, location.href.length < 60]") == [
            [],
            "",
            True,
        ]
        assert not any(READ in asked for asked in watched.asked)  # never in an address
        page.get_by_role("button", name="Forget the token").click()
        expect(dialog).to_be_visible()
        page.keyboard.press("Escape")
        expect(page.locator("main .problem")).to_be_visible()
        assert page.evaluate("Object.keys(sessionStorage)") == []


def test_who_may_only_read_is_told_that_a_change_is_refused(watch: Callable[..., Watched]) -> None:
    with world(tokens=TOKENS) as here:
        here.topic("orders").append(records(5))
        page = watch(here.server.url, allowed=REFUSED).page
        page.goto(f"{here.server.url}/#/topic/orders")
        page.locator("#token").fill(READ)
        page.keyboard.press("Enter")
        page.get_by_role("button", name="Pause topic orders").click()
        dialog = page.get_by_role("dialog", name="Pause orders?")
        dialog.get_by_role("button", name="Pause").click()
        expect(dialog.get_by_role("alert")).to_contain_text("operate")
        assert "compaction.paused" not in here.admin.topic("orders").config
        page.keyboard.press("Escape")
        page.get_by_role("button", name="Forget the token").click()
        page.locator("#token").fill(OPERATE)
        page.keyboard.press("Enter")
        page.get_by_role("button", name="Pause topic orders").click()
        dialog.get_by_role("button", name="Pause").click()
        expect(page.get_by_role("status")).to_contain_text("orders is paused")
