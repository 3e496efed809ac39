"""Every alert fires when its fault is there, and none while all is well: real servers, a real daemon, a real
Prometheus, whose time runs faster."""

import re
import subprocess
from collections.abc import Iterable
from pathlib import Path

import pytest

from lithify.admin.metrics import METRICS
from tests.debian import program
from tests.monitoring.prometheus import RULES, Prometheus, eventually, faster, prometheus
from tests.monitoring.scene import FAULTS, Scene, also, scene

FASTER = 300  # an hour is twelve seconds, and a scrape is made every five minutes
HEALTHY_SCRAPES = 50  # four hours
ALERT = re.compile(r"- alert: (\w+)\n(.*?)(?=\n      - alert: |\n\n|\Z)", re.DOTALL)


def alerts() -> dict[str, str]:
    """The text of each alert, by its name."""
    return dict(ALERT.findall(RULES.read_text(encoding="utf-8")))


def test_every_alert_has_a_fault_that_provokes_it() -> None:
    assert alerts().keys() == FAULTS.keys()
    assert len(alerts()) == RULES.read_text(encoding="utf-8").count("alert:")


def test_every_alert_says_what_to_do() -> None:
    for name, text in alerts().items():
        assert re.fullmatch(r"Lithify[A-Z]\w+", name)
        assert re.search(r"labels: \{severity: (critical|warning)\}", text), name
        assert re.search(r'summary: ".+"', text), name
        assert re.search(r"description: >-\n +\S", text), name
        assert re.search(r"\b(lithify [a-z]+|curl|chronyc)\b", text), name
        assert f"runbook: docs/runbook.md#{name.lower()}\n" in f"{text}\n", name


def test_the_runbook_has_every_alert() -> None:
    page = (RULES.parents[2] / "docs/runbook.md").read_text(encoding="utf-8")
    assert sorted(re.findall(r"^## (Lithify\w+)$", page, re.MULTILINE)) == sorted(alerts())


def test_every_metric_of_a_rule_exists() -> None:
    ends = {"histogram": ("_bucket", "_sum", "_count")}
    known = {metric.name + end for metric in METRICS for end in ends.get(metric.kind, ("",))}
    used = set(re.findall(r"\blithify_\w+", RULES.read_text(encoding="utf-8")))
    assert used
    assert used <= known


def test_durations_are_divided_and_bounds_are_not() -> None:
    rule = "expr: increase(a[1h] offset 30m) > 6 * 3600\nfor: 15m\n# for a while"
    assert faster(rule, 600) == "expr: increase(a[6000ms] offset 3000ms) > 6 * 3600\nfor: 1500ms\n# for a while"


@pytest.mark.soak
def test_prometheus_accepts_the_rules() -> None:
    path, environment = program("promtool")
    command = [path, "check", "rules", "--lint=all", "--lint-fatal", str(RULES)]
    checked = subprocess.run(command, env=environment, capture_output=True, text=True, check=False)
    assert checked.returncode == 0, checked.stdout + checked.stderr


@pytest.mark.soak
@pytest.mark.long
def test_each_alert_fires_at_its_fault_and_none_before(tmp_path: Path) -> None:
    with scene(tmp_path / "scene") as place, prometheus(tmp_path / "prometheus", place.urls, FASTER) as asked:
        _healthy(asked, place)
        provoked: list[str] = []
        for name, fault in FAULTS.items():
            assert fault.provoke is also or not _fires(asked, name), f"{name} before its fault"
            if fault.ends_others:
                _all_fire(asked, provoked)
            meanwhile = fault.provoke(place)
            if meanwhile is not None:
                eventually(name, lambda name=name: _fires(asked, name), meanwhile)
            provoked.append(name)
        _all_fire(asked, provoked)
        assert asked.rules().keys() == FAULTS.keys()


def _fires(asked: Prometheus, name: str) -> bool:
    return bool(asked.ever("firing", name, **FAULTS[name].labels))


def _all_fire(asked: Prometheus, names: Iterable[str]) -> None:
    for name in names:
        eventually(name, lambda name=name: _fires(asked, name))


def _healthy(asked: Prometheus, place: Scene) -> None:
    """All is scraped, appended to, compacted and collected for hours, and no alert ever fires."""

    def scraped() -> bool:
        counts = asked.query("min(count_over_time(up[1h])) and on () count(up == 1) == 4")
        return bool(counts) and counts[0][1] >= HEALTHY_SCRAPES

    eventually("all servers are found", lambda: asked.query("count(up == 1) == 4"))
    asked.begin()
    eventually("they are scraped", scraped, place.use)
    for expression in ('lithify_compactions_total{outcome="completed"} > 3', "lithify_collected_objects_total > 3"):
        assert asked.query(expression), f"nothing happened: {expression}"
    assert asked.ever("firing") == set()
    rules = asked.rules()
    assert {name: rule["health"] for name, rule in rules.items()} == dict.fromkeys(FAULTS, "ok")
