"""/metrics of a server: what its store and its own collector did."""

import gc
import tracemalloc

import pytest
import urllib3

import lithify
from lithify.admin.gauges import OTHER
from lithify.admin.http.server import serving
from lithify.admin.metrics import MEDIA_TYPE, Metrics
from lithify.admin.survey import Overview
from lithify.store.errors import AccessDenied, LithifyError, NotFound, Unavailable
from lithify.store.memory import MemoryStore
from lithify.store.metered import Metered
from lithify.store.port import Object
from tests.admin.hanging import Hanging
from tests.admin.served import running
from tests.admin.test_metrics import Scrape
from tests.admin.test_operations import fill


def away() -> Overview:
    raise Unavailable("away")


def test_a_server_answers_with_them(warehouse: lithify.Warehouse) -> None:
    fill(warehouse.create_topic("users", 2))
    server = serving(warehouse, "127.0.0.1:0", tokens=f"read:{'r' * 32}", topics_max=0)
    with running(server):
        assert server.started.wait(60)
        known = {"Authorization": f"Bearer {'r' * 32}"}
        assert urllib3.request("GET", f"{server.url}/metrics").status == 401
        answer = urllib3.request("GET", f"{server.url}/metrics", headers=known)
        assert (answer.status, answer.headers["content-type"]) == (200, MEDIA_TYPE)
        lithify.Admin(server.url, token="r" * 32).overview()
        answer = urllib3.request("GET", f"{server.url}/metrics", headers=known)
        assert Scrape(answer.data).value("partitions", topic=OTHER) == 2
        told = lithify.Admin(server.url, token="r" * 32).overview()
        assert told.partitions == lithify.Admin(warehouse).overview().partitions


def test_a_cold_server_answers_a_scrape_while_it_makes_its_first_survey(
    one_hangs: tuple[lithify.Warehouse, Hanging],
) -> None:
    """The first scrape of a thousand partitions took as long as their survey: Prometheus gave up before."""
    warehouse, store = one_hangs
    store.go.clear()
    server = serving(warehouse, "127.0.0.1:0")
    with running(server):
        assert server.started.wait(60)
        told = Scrape(urllib3.request("GET", f"{server.url}/metrics", timeout=60).data)
        assert (told.value("survey_complete"), told.topics()) == (0, set())
        store.go.set()
        assert lithify.Admin(server.url).overview().whole
        told = Scrape(urllib3.request("GET", f"{server.url}/metrics", timeout=60).data)
        assert (told.value("survey_complete"), told.value("partitions", topic="users")) == (1, 4)


class Failing(MemoryStore):
    error: LithifyError | None = None

    def get(self, key: str) -> Object | None:
        if self.error is not None:
            raise self.error
        return super().get(key)


def test_requests_that_fail_and_how_long_all_take() -> None:
    inner = Failing()
    store = Metered(inner)
    metrics = Metrics(away, store.requests, times=store.request_times)
    assert store.get("nothing") is None
    with pytest.raises(NotFound):
        store.read("nothing", 0, 1)
    assert Scrape(metrics.text()).value("request_failures_total", request="gets", reason="Unavailable") == 0
    for inner.error in (Unavailable("away"), AccessDenied("no")):
        for asked in (store, store.hasty()):
            with pytest.raises(type(inner.error)):
                asked.get("nothing")
    found = Scrape(metrics.text())
    assert found.value("request_failures_total", request="gets", reason="Unavailable") == 2
    assert found.value("request_failures_total", request="gets", reason="AccessDenied") == 2
    assert found.value("request_failures_total", request="reads", reason="NotFound") is None, "an answer, no failure"
    assert found.value("request_duration_seconds_count", request="gets") == 5
    assert found.value("request_duration_seconds_bucket", request="reads", le="+Inf") == 1
    assert found.value("request_duration_seconds_count", request="output_requests") is None


def test_what_a_server_is_told_to_collect_is_counted(warehouse: lithify.Warehouse) -> None:
    fill(warehouse.create_topic("users", 1))
    server = serving(warehouse, "127.0.0.1:0")
    with running(server):
        assert server.started.wait(60)
        lithify.Admin(server.url).gc(dry_run=True)
        lithify.Admin(server.url).gc()
        told = Scrape(urllib3.request("GET", f"{server.url}/metrics").data)
    assert told.value("collections_total", outcome="done") == 1
    assert told.value("request_duration_seconds_count", request="creates") > 0


@pytest.mark.slow
def test_scrapes_leave_nothing_behind(warehouse: lithify.Warehouse) -> None:
    for number in range(4):
        fill(warehouse.create_topic(f"topic-{number}", 2, probe=False))
    admin = lithify.Admin(warehouse, survey_ms=0)
    metrics = Metrics(admin.overview, warehouse.store.requests, times=warehouse.store.request_times)

    def kept_after(scrapes: int) -> int:
        for _ in range(scrapes):
            metrics.text()
        gc.collect()
        return tracemalloc.get_traced_memory()[0]

    tracemalloc.start()
    try:
        before = kept_after(10)
        assert kept_after(50) - before < 50_000, "each scrape makes a survey of 8 partitions, 10 kB"
    finally:
        tracemalloc.stop()
