"""A real Prometheus, with the project's alert rules and time that runs faster."""

import json
import re
import socket
import subprocess
import urllib.error
import urllib.parse
import urllib.request
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from lithify.store.driver import monotonic_ms
from tests.debian import program
from tests.processes import running

__all__ = ["RULES", "Prometheus", "eventually", "faster", "prometheus"]

ROOT = Path(__file__).resolve().parents[2]
RULES = ROOT / "deploy" / "prometheus" / "alerts.yml"
SCRAPE_MS = 1_000
DEADLINE_MS = 300_000
_UNITS_MS = {"s": 1_000, "m": 60_000, "h": 3_600_000, "d": 86_400_000}
_DURATION = re.compile(r"(for: |\[|offset )(\d+)([smhd])\b")


def faster(rules: str, factor: int) -> str:
    """The rules with every `for`, range and offset divided by `factor`. What they compare with stays."""
    return _DURATION.sub(lambda it: f"{it[1]}{int(it[2]) * _UNITS_MS[it[3]] // factor}ms", rules)


def eventually(what: str, found: Callable[[], Any], meanwhile: Callable[[], object] = lambda: None) -> Any:
    """The first of what `found` returns that is true; `meanwhile` runs between two looks."""
    deadline_ms = monotonic_ms() + DEADLINE_MS
    while not (it := found()):
        assert monotonic_ms() < deadline_ms, f"not within {DEADLINE_MS // 1000} s: {what}"
        meanwhile()
    return it


class Prometheus:
    """Asks a running one."""

    def __init__(self, url: str) -> None:
        self.url = url
        self._began_ms = 0

    def begin(self) -> None:
        """What was before does not count."""
        self._began_ms = monotonic_ms()

    def get(self, path: str, **query: str) -> Any:
        """Raises HTTPError if it refuses."""
        with urllib.request.urlopen(f"{self.url}{path}?{urllib.parse.urlencode(query)}", timeout=60) as reply:
            return json.load(reply)["data"]

    def query(self, expression: str) -> list[tuple[dict[str, str], float]]:
        """The series of an instant query."""
        found = self.get("/api/v1/query", query=expression)["result"]
        return [(each["metric"], float(each["value"][1])) for each in found]

    def is_ready(self) -> bool:
        try:
            with urllib.request.urlopen(f"{self.url}/-/ready", timeout=10):
                return True
        except (urllib.error.URLError, ConnectionError):
            return False

    def rules(self) -> dict[str, dict[str, Any]]:
        """Each alert as it is, by its name."""
        groups = self.get("/api/v1/rules")["groups"]
        return {rule["name"]: rule for group in groups for rule in group["rules"]}

    def ever(self, state: str, alert: str | None = None, **labels: str) -> set[str]:
        """The alerts that were in this state at any time since `begin`, with these labels."""
        wanted = {"alertstate": state, **labels} | ({"alertname": alert} if alert else {})
        matched = ",".join(f'{name}="{value}"' for name, value in wanted.items())
        since = f"{monotonic_ms() - self._began_ms + 1}ms"
        return {found["alertname"] for found, _ in self.query(f"last_over_time(ALERTS{{{matched}}}[{since}])")}


@contextmanager
def prometheus(folder: Path, jobs: Mapping[str, list[str]], factor: int = 1) -> Iterator[Prometheus]:
    """Scrapes the servers of each job, by their URLs; what Prometheus calls a minute takes a minute / `factor`."""
    folder.mkdir()
    (folder / "alerts.yml").write_text(faster(RULES.read_text(encoding="utf-8"), factor), encoding="utf-8")
    scrapes = [
        {"job_name": job, "static_configs": [{"targets": [url.removeprefix("http://") for url in urls]}]}
        for job, urls in jobs.items()
    ]
    often = f"{SCRAPE_MS}ms"
    settings = {
        "global": {"scrape_interval": often, "scrape_timeout": often, "evaluation_interval": often},
        "rule_files": ["alerts.yml"],
        "scrape_configs": scrapes,
    }
    (folder / "prometheus.yml").write_text(json.dumps(settings), encoding="utf-8")  # JSON is YAML
    with socket.create_server(("127.0.0.1", 0)) as free:
        address = f"127.0.0.1:{free.getsockname()[1]}"
    path, environment = program("prometheus")
    command = [
        *(path, f"--config.file={folder / 'prometheus.yml'}", f"--storage.tsdb.path={folder / 'data'}"),
        *(f"--web.listen-address={address}", "--query.lookback-delta=10s", "--log.level=warn"),
    ]
    with (folder / "log").open("wb") as log, running(command, env=environment, stdout=log, stderr=log) as process:
        asked = Prometheus(f"http://{address}")
        eventually("Prometheus is ready", asked.is_ready, lambda: _alive(process, folder / "log"))
        yield asked


def _alive(process: "subprocess.Popen[bytes]", log: Path) -> None:
    assert process.poll() is None, log.read_text(encoding="utf-8")
