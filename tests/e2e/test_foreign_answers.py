"""A load balancer without backends answers 404, in HTML; a server of static pages 200, with an ETag and a date; a
portal the same to a PUT. That is no absence, no object and no success: nothing is quarantined, nothing deleted, nobody
is told that a record is missing, or that one is there."""

from collections.abc import Callable, Iterator
from contextlib import suppress
from dataclasses import replace
from typing import Any

import pytest

import lithify
from lithify.compactor.info import PartitionReport
from lithify.store.errors import Unavailable
from lithify.testing.front import Deed, Front, Seen
from lithify.testing.server import S3Server
from tests.e2e.workload import CONFIG, Workload, partition_files, scanned

pytestmark = pytest.mark.slow

HTML = "<html><head><title>Soon back</title></head></html>"
NO_BACKEND = Deed(forward=False, status=404, kind="text/html", body=HTML)
STATIC = (("ETag", '"65f1-3b"'), ("Last-Modified", "Sat, 21 Nov 2026 10:00:00 GMT"), ("Accept-Ranges", "bytes"))
PAGES = {
    "no backend": NO_BACKEND,
    "static": replace(NO_BACKEND, status=200, headers=STATIC),  # and empty to what is no GET
    "portal": replace(NO_BACKEND, status=200, headers=(("ETag", 'W/"37-m6gX"'), *STATIC[1:])),
}


class Fronted:
    """A warehouse behind a front that answers what `page` picks with a page of its own."""

    def __init__(self, server: S3Server, kind: str) -> None:
        self._kind = kind
        self.page: Callable[[Seen], bool] = lambda _: False
        self.pages = 0
        self._server = server
        self._bucket = server.create_bucket()
        self._front = Front(server.endpoint_url, rule=self._rule)
        self._warehouses: list[lithify.Warehouse] = []
        self.warehouse = self.opened()

    def opened(self) -> lithify.Warehouse:
        """Another handle, as a process of its own would have: it has seen nothing yet."""
        options = self._front.options(self._server.options)
        self._warehouses.append(lithify.open(self._server.url(f"{self._bucket}/w"), storage_options=options))
        return self._warehouses[-1]

    def _rule(self, seen: Seen) -> Deed:
        if not self.page(seen):
            return Deed()
        self.pages += 1
        page = PAGES[self._kind]
        return replace(page, body="") if seen.method not in ("GET", "HEAD") and self._kind == "static" else page

    def keys(self) -> set[str]:
        page = self.warehouse.store.list("")
        assert page.token is None
        return {found.key for found in page.objects}

    def close(self) -> None:
        for warehouse in self._warehouses:
            warehouse.close()
        self._front.__exit__()
        self._server.delete_bucket(self._bucket)


@pytest.fixture(params=PAGES)
def fronted(request: pytest.FixtureRequest, lithify_s3: S3Server, no_pauses: None) -> Iterator[Fronted]:
    made = Fronted(lithify_s3, request.param)
    yield made
    made.close()


@pytest.fixture
def no_pauses(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("lithify.store.s3.driver.pause", lambda _: None)
    monkeypatch.setattr("lithify.store.driver.time.sleep", lambda _: None)


@pytest.fixture
def workload(fronted: Fronted) -> Workload:
    fronted.warehouse.create_topic("users", 1, {**CONFIG, "l0.segments.tier": 4}, probe=False)
    made = Workload(6)
    for _ in range(4):
        made.append(fronted.warehouse.topic("users").partition(0), 50)
    return made


def compacted(warehouse: lithify.Warehouse) -> PartitionReport:
    compactor = lithify.Compactor(warehouse, engine="local")
    (report,) = compactor.run_once(take_over=True).partitions
    compactor.close()
    return report


OF_SEGMENTS = {
    "reads": lambda seen: seen.method == "GET" and "/segments/" in seen.path,
    "anything": lambda seen: "/segments/" in seen.path,
}


@pytest.mark.parametrize("which", OF_SEGMENTS)
def test_a_pass_that_meets_pages_quarantines_nothing(which: str, fronted: Fronted, workload: Workload) -> None:
    fronted.page = OF_SEGMENTS[which]
    report = compacted(fronted.opened())
    assert fronted.pages
    assert report.outcome == "failed"
    fronted.page = lambda _: False
    info = fronted.warehouse.topic("users").describe().partitions[0]
    assert info.quarantine is None
    assert compacted(fronted.opened()).outcome == "worked"
    assert scanned(fronted.warehouse.topic("users").partition(0)) == workload.model


@pytest.mark.parametrize("kind", [".manifest", ".compactor", ".boundary", ".topic"])
def test_a_sweep_that_meets_pages_deletes_nothing(kind: str, fronted: Fronted, workload: Workload) -> None:
    """Were a page an absence, a job's outputs would be nobody's, and a partition's manifests none."""
    uploaded: list[Seen] = []

    def after_the_outputs(seen: Seen) -> bool:
        uploaded.extend([seen] if seen.method == "PUT" and "/segments/" in seen.path else [])
        return bool(uploaded) and seen.method == "PUT" and "/manifest/" in seen.path

    fronted.page = after_the_outputs
    assert compacted(fronted.opened()).outcome == "failed"  # its outputs are recorded, and no manifest names them
    fronted.page = lambda _: False
    files = partition_files(fronted.warehouse, "users")
    state = fronted.warehouse.driver.run(files.compactor_state())
    assert state is not None
    assert any(job.outputs for job in state.jobs)
    before = fronted.keys()
    collector = lithify.Collector(fronted.opened(), grace_ms=0)
    fronted.pages = 0
    fronted.page = lambda seen: seen.method in ("GET", "HEAD") and seen.path.endswith(kind)
    with suppress(Unavailable):
        collector.run_once(sweep=True)
    assert fronted.pages
    fronted.page = lambda _: False
    assert before <= fronted.keys()
    assert compacted(fronted.opened()).outcome == "worked"
    assert scanned(fronted.warehouse.topic("users").partition(0)) == workload.model


def test_readers_are_told_that_the_store_cannot_be_reached(fronted: Fronted, workload: Workload) -> None:
    key = next(iter(workload.model))
    asks: list[Callable[[lithify.Warehouse], Any]] = [
        lambda warehouse: warehouse.topics(),
        lambda warehouse: warehouse.topic("users").describe(),
        lambda warehouse: list(warehouse.topic("users").partition(0).read(0)),
        lambda warehouse: warehouse.topic("users").partition(0).get(key),
        lambda warehouse: scanned(warehouse.topic("users").partition(0)),
        lambda warehouse: warehouse.topic("users").partition(0).snapshot(),
    ]
    for kind in (".topic", ".manifest", ".boundary", ".parquet", ""):
        fronted.page = lambda seen, kind=kind: kind in seen.path and seen.method in ("GET", "HEAD")
        for number, ask in enumerate(asks):
            if kind == ".parquet" and number in (0, 1, 5):
                continue  # these read no segment
            if kind in (".manifest", ".boundary") and number in (0, 1):
                continue  # the names of topics are in their own files; describe names a partition that it cannot read
            with pytest.raises(Unavailable, match="not S3's own"):
                ask(fronted.opened())
    fronted.page = lambda _: False
    assert all(ask(fronted.opened()) for ask in asks)
