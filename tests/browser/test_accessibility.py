"""axe-core finds nothing in any view, light or dark, on a desktop or a phone; nothing is wider than a phone, and
no texts of a drawing lie upon each other."""

from collections.abc import Callable, Iterator
from typing import Literal

import pytest
from axe_playwright_python.sync_playwright import Axe

from tests.admin.served import TOKENS
from tests.browser.pages import Watched
from tests.browser.shots import undated
from tests.browser.story import Story, story
from tests.browser.views import VIEWS, shown
from tests.browser.world import world

pytestmark = pytest.mark.soak

SIZES = {"phone": {"width": 360, "height": 740}, "desktop": {"width": 1280, "height": 800}}
TOO_WIDE = """() => {
  const wide = document.documentElement.scrollWidth > innerWidth;
  const meant = ".wide, pre, .skip, thead"; // these scroll, or are not seen
  const outside = (node) => node.getBoundingClientRect().right > innerWidth + 1 && !node.closest(meant);
  return [wide, [...document.querySelectorAll("body *")].filter(outside).map((node) => node.outerHTML.slice(0, 120))];
}"""

CROSSED = """() => [...document.querySelectorAll("main svg")].flatMap((drawing) => {
  const boxes = (what) => [...drawing.querySelectorAll(what)].map((node) => [node, node.getBoundingClientRect()]);
  const crosses = ([one, a], [other, b]) => one !== other
    && a.left + 2 < b.right && b.left < a.right - 2
    && Math.min(a.bottom, b.bottom) - Math.max(a.top, b.top) > 3;
  const others = [...boxes("text"), ...boxes("line.pin, line.floor, line.cleaned, line.end")];
  return boxes("text").flatMap((text) => others.filter((each) => crosses(text, each))
    .map(([node]) => `${text[0].textContent} and ${node.textContent || node.getAttribute("class")}`));
})"""


@pytest.fixture(scope="module")
def told() -> Iterator[Story]:
    with story() as made:
        yield made


@pytest.mark.parametrize("view", VIEWS)
@pytest.mark.parametrize("scheme", ["light", "dark"])
@pytest.mark.parametrize("size", SIZES)
def test_a_view_can_be_used_by_everybody(
    told: Story, watch: Callable[..., Watched], view: str, scheme: Literal["light", "dark"], size: str
) -> None:
    watched = watch(told.server.url, viewport=SIZES[size], color_scheme=scheme, reduced_motion="reduce")
    watched.page.clock.set_fixed_time(told.clock.now_ms / 1000)
    watched.page.route("**/v1/**", undated)
    page = shown(watched, view)
    page.unroute_all(behavior="ignoreErrors")
    found = Axe().run(page, options={"resultTypes": ["violations"]})
    assert found.violations_count == 0, found.generate_report()
    assert page.evaluate(TOO_WIDE) == [False, []]
    assert page.evaluate(CROSSED) == [], "texts that lie upon others, or upon lines"


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_the_question_for_a_token_can_be_answered_by_everybody(
    watch: Callable[..., Watched], scheme: Literal["light", "dark"]
) -> None:
    with world(tokens=TOKENS) as here:
        page = watch(here.server.url, "status of 401", viewport=SIZES["phone"], color_scheme=scheme).page
        page.goto(here.server.url)
        page.get_by_role("dialog").wait_for()
        found = Axe().run(page, options={"resultTypes": ["violations"]})
        assert found.violations_count == 0, found.generate_report()
        assert page.evaluate(TOO_WIDE) == [False, []]
