"""Pictures of the dashboard for the documentation, of the warehouse in `story`.

python -m tests.browser.shots docs/pictures
"""

import sys
from pathlib import Path
from typing import Literal

from playwright.sync_api import Browser, Page, Route, expect

from tests.browser.pages import Watched, chromium
from tests.browser.story import Story, story
from tests.browser.views import shown

DESKTOP, PHONE = {"width": 1280, "height": 900}, {"width": 390, "height": 844}
Scheme = Literal["light", "dark"]
SCHEMES: tuple[Scheme, ...] = ("light", "dark")
SIZES = {"desktop": DESKTOP, "phone": PHONE}
# The name of the file, the view, and the first section that is shown (none: the whole view). Each in both schemes, for
# both sizes.
PICTURES: tuple[tuple[str, str, str], ...] = (
    ("overview", "overview", ""),
    ("homes", "overview", "Homes"),
    ("partition", "partition", ""),
    ("shape", "partition", "Shape"),
    ("work", "partition", "Bytes and work"),
    ("compactions", "compactions", ""),
    ("quarantined", "quarantined", ""),
    ("garbage", "garbage", ""),
    ("key", "key", ""),
)
HEIGHT_MAX = 1_000
SECTION = """title => {
  const found = [...document.querySelectorAll("main section h2")].find((each) => each.textContent === title);
  return found.closest("section").getBoundingClientRect().top + scrollY - 12;
}"""


def pictures(browser: Browser, made: Story, folder: Path, which: tuple[str, str, str], size: str) -> None:
    """One in each scheme, of the same moment."""
    name, view, start = which
    width, height = SIZES[size]["width"], SIZES[size]["height"]
    context = browser.new_context(viewport={"width": width, "height": height}, reduced_motion="reduce")
    page = context.new_page()
    page.clock.set_fixed_time(made.clock.now_ms / 1000)
    page.route("**/v1/**", undated)
    shown(Watched(page, made.server.url), view)
    if name == "overview":
        look_on(page, made)
    page.evaluate("document.querySelectorAll('main details').forEach((each) => { each.open = false; })")
    page.locator("h1").evaluate("node => node.blur()")
    top = float(page.evaluate(SECTION, start)) if start else 0.0
    whole = float(page.evaluate("document.querySelector('main').lastElementChild.getBoundingClientRect().bottom")) + 16
    clip = {"x": 0, "y": top, "width": width, "height": min(whole - top, HEIGHT_MAX)}
    for scheme in SCHEMES:
        page.emulate_media(color_scheme=scheme)
        path = folder / f"{name}-{size}-{scheme}.png"
        page.screenshot(path=path, full_page=True, clip=clip)  # type: ignore[arg-type]
        print(path)
    page.unroute_all(behavior="ignoreErrors")
    context.close()


def undated(route: Route) -> None:
    """The page then takes its own time for the server's."""
    if "events" in route.request.url:
        route.continue_()
        return
    answer = route.fetch()
    headers = {name: value for name, value in answer.headers.items() if name.lower() != "date"}
    route.fulfill(response=answer, headers=headers)


def look_on(page: Page, made: Story) -> None:
    """Several surveys, so that there is a line to draw."""
    survey = page.locator("[data-key=survey]")
    for number in range(6):
        before = survey.inner_text()
        made.pass_(4_000)
        made.append("sessions", number % 2, 40 if number % 3 else 160)
        page.clock.set_fixed_time(made.clock.now_ms / 1000)
        expect(survey).not_to_have_text(before)


def main(folder: Path) -> None:
    folder.mkdir(parents=True, exist_ok=True)
    with story() as made, chromium() as browser:
        for which in PICTURES:
            for size in SIZES:
                pictures(browser, made, folder, which, size)


if __name__ == "__main__":
    main(Path(sys.argv[1]))
