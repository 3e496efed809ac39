"""Pictures of the dashboard for the documentation, of the warehouse in `story`.

python -m tests.browser.shots docs/pictures
"""

import re
import sys
from datetime import UTC, datetime
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
HEIGHTS_MAX = {"desktop": 1_000, "phone": 1_500}
HEIGHT_MIN = 300
# Where the picture begins, and the ends of what follows, in pixels from the top of the page.
PLACES = """title => {
  const named = (each) => each.textContent === title;
  const all = [...document.querySelectorAll("main > *, main section")];
  const found = [...document.querySelectorAll("main section h2")].find(named)?.closest("section");
  const top = found ? found.getBoundingClientRect().top + scrollY - 12 : 0;
  return [top, all.map((each) => each.getBoundingClientRect().bottom + scrollY)];
}"""


def height(top: float, ends: list[float], most: float) -> float:
    """Of a picture from `top` on: to the last end of a section for which there is room. Raises ValueError if that is
    not worth a picture."""
    room = [end - top + 8 for end in ends if HEIGHT_MIN <= end - top + 8 <= most]
    found = max(room, default=min(max(ends) - top, most))
    if found < HEIGHT_MIN:
        raise ValueError(f"a picture of {found:.0f} pixels in height is too low")
    return found


def opened(browser: Browser, made: Story, view: str, size: str) -> Page:
    context = browser.new_context(viewport=SIZES[size], reduced_motion="reduce")  # type: ignore[arg-type]
    page = context.new_page()
    page.clock.set_fixed_time(made.clock.now_ms / 1000)
    page.route("**/v1/**", undated)
    return shown(Watched(page, made.server.url), view)


def take(page: Page, folder: Path, name: str, start: str, size: str) -> None:
    """One picture in each scheme."""
    page.evaluate("document.querySelectorAll('main details').forEach((each) => { each.open = false; })")
    page.locator("h1").evaluate("node => node.blur()")
    top, ends = page.evaluate(PLACES, start)
    clip = {"x": 0, "y": top, "width": SIZES[size]["width"], "height": height(top, ends, HEIGHTS_MAX[size])}
    for scheme in SCHEMES:
        page.emulate_media(color_scheme=scheme)
        path = folder / f"{name}-{size}-{scheme}.png"
        page.screenshot(path=path, full_page=True, clip=clip)  # type: ignore[arg-type]
        print(path)


def undated(route: Route) -> None:
    """The page then takes its own time for the server's."""
    if "events" in route.request.url:
        route.continue_()
        return
    answer = route.fetch()
    headers = {name: value for name, value in answer.headers.items() if name.lower() != "date"}
    route.fulfill(response=answer, headers=headers)


def look_on(pages: list[Page], made: Story) -> None:
    """Several surveys, so that there is a line to draw. From then on time stands still."""
    for number in range(6):
        before = [page.locator("[data-key=survey]").inner_text() for page in pages]
        made.append("sessions", number % 2, 40 if number % 3 else 160)
        made.next_range()
        for page, survey in zip(pages, before, strict=True):
            page.clock.set_fixed_time(made.clock.now_ms / 1000)
            expect(page.locator("[data-key=survey]")).not_to_have_text(survey)
            expect(page.get_by_text(re.compile(rf"^{number + 4} of \d+ key ranges"))).to_be_visible()
    for page in pages:
        expect(page.locator("#heard")).to_have_text(f"Last answer {utc(made.clock.now_ms)}")
        page.route("**/v1/**", lambda _: None)  # nothing is answered any more


def main(folder: Path) -> None:
    folder.mkdir(parents=True, exist_ok=True)
    with story() as made, chromium() as browser:
        first = {size: opened(browser, made, "overview", size) for size in SIZES}
        look_on(list(first.values()), made)
        for name, view, start in PICTURES:
            for size in SIZES:
                page = first[size] if view == "overview" else opened(browser, made, view, size)
                take(page, folder, name, start, size)
                if view != "overview":
                    closed(page)
        for page in first.values():
            closed(page)


def utc(ms: int) -> str:
    return datetime.fromtimestamp(ms / 1000, UTC).strftime("%Y-%m-%d %H:%M:%SZ")


def closed(page: Page) -> None:
    page.unroute_all(behavior="ignoreErrors")
    page.context.close()


if __name__ == "__main__":
    main(Path(sys.argv[1]))
