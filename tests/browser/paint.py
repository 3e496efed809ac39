"""How long the first page of a thousand partitions takes to be seen.

python -m tests.browser.paint       medians of five new profiles, in ms from the navigation on
"""

import statistics

import lithify
from benchmarks.surveys import fill
from tests.browser.pages import chromium
from tests.browser.world import world

RUNS = 5
SEEN = """() => new Promise(resolve => {
  const look = () => document.querySelector("[data-key=Topics] tbody tr")
    ? requestAnimationFrame(() => requestAnimationFrame(() => resolve(performance.now())))
    : requestAnimationFrame(look);
  look();
})"""
PAINTED = "performance.getEntriesByName('first-contentful-paint')[0].startTime"


def main() -> None:
    with world(survey_ms=3_600_000) as here, chromium() as browser:
        fill(here.warehouse)
        assert len(lithify.Admin(here.server.url).overview().partitions) == 1_000
        found: list[tuple[float, float]] = []
        for _ in range(RUNS):
            context = browser.new_context(viewport={"width": 1280, "height": 900})
            page = context.new_page()
            page.goto(here.server.url)
            seen = page.evaluate(SEEN)
            found.append((page.evaluate(PAINTED), seen))
            context.close()
        first, whole = (statistics.median(each) for each in zip(*found, strict=True))
        print(f"first contentful paint: {first:.0f} ms; all of the page drawn: {whole:.0f} ms")


if __name__ == "__main__":
    main()
