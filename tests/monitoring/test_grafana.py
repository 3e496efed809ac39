"""The dashboard asks for what /metrics has, and a real Prometheus has an answer to each of its questions."""

import json
import re
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest

import lithify
from lithify.admin.metrics import METRICS
from tests.admin.test_operations import COMPACTED, fill
from tests.monitoring.prometheus import ROOT, Prometheus, eventually, prometheus
from tests.monitoring.scene import Away, Scene, scene

BOARD = json.loads((ROOT / "deploy" / "grafana" / "lithify.json").read_text(encoding="utf-8"))
WIDTH = 24
SCRAPES = 10


def questions() -> Iterator[tuple[str, str]]:
    """Each panel's title and expressions."""
    for panel in BOARD["panels"]:
        for target in panel.get("targets", ()):
            yield panel["title"], target["expr"]


def asked_of(expression: str) -> str:
    """As Grafana sends it, when everything is chosen."""
    return re.sub(r"\$(job|topic)", ".*", expression).replace("$__rate_interval", "30s")


def test_every_metric_of_the_dashboard_exists() -> None:
    ends = {"histogram": ("_bucket", "_sum", "_count")}
    known = {metric.name + end for metric in METRICS for end in ends.get(metric.kind, ("",))}
    texts = [expression for _, expression in questions()]
    texts += [variable["definition"] for variable in BOARD["templating"]["list"] if "definition" in variable]
    assert set(re.findall(r"\blithify_\w+", " ".join(texts))) <= known
    assert all('job=~"$job"' in expression for _, expression in questions())


def test_the_panels_have_names_and_do_not_overlap() -> None:
    panels: list[dict[str, Any]] = BOARD["panels"]
    assert len({panel["id"] for panel in panels}) == len({panel["title"] for panel in panels}) == len(panels)
    taken: set[tuple[int, int]] = set()
    for panel in panels:
        grid = panel["gridPos"]
        cells = {
            (x, y) for x in range(grid["x"], grid["x"] + grid["w"]) for y in range(grid["y"], grid["y"] + grid["h"])
        }
        assert not cells & taken, panel["title"]
        assert max(x for x, _ in cells) < WIDTH
        taken |= cells


@pytest.mark.soak
def test_a_prometheus_has_series_for_every_question(tmp_path: Path) -> None:
    with scene(tmp_path / "scene") as place, prometheus(tmp_path / "prometheus", place.urls) as asked:
        _interrupted_job(place)
        lithify.Admin(place.near).submit("clicks", 0)
        eventually("the servers are scraped", lambda: _scraped(asked), place.use)
        _interrupted_job(place)
        for title, expression in questions():
            anything = asked_of(expression).removesuffix(" > 0")
            eventually(f"{title}: {expression}", lambda anything=anything: asked.query(anything), place.use)
            asked.query(asked_of(expression))


def _scraped(asked: Prometheus) -> bool:
    counts = asked.query("min(count_over_time(up[1h])) and on () count(up == 1) == 4")
    return bool(counts) and counts[0][1] >= SCRAPES


def _interrupted_job(place: Scene) -> None:
    """An attempt that fails, and another that resumes its job."""
    topic = place.near.create_topic(f"again-{len(place.near.topics())}", 1, COMPACTED, probe=False)
    fill(topic)
    for engine in (Away(1), lithify.LocalEngine(1)):
        place.ahead_ms += 60_000  # beyond the pause after a failure
        with closing(lithify.Compactor(place.near, engine=engine, events=place.server.sink)) as compactor:
            compactor.run_once(take_over=True)
