"""Rows of `far` in which nothing is due: passes of a compactor and of a collector over many partitions."""

import statistics
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor

import lithify
from benchmarks.far_rows import FarRow
from benchmarks.far_site import Place, Site, timed
from lithify.compactor.compactor import IDLE_MS
from lithify.compactor.compactor import REST_MS as COMPACTOR_REST_MS
from lithify.gc.collector import INTERVAL_MS
from lithify.gc.collector import REST_MS as COLLECTOR_REST_MS
from lithify.store.metered import Metered
from lithify.store.request_counts import RequestCounts

__all__ = ["idle"]

_OF_A_TOPIC = 20  # partitions
_PARTITIONS = 1_000
_ROUNDS = 28  # of a compactor until looks are as rare as they get, and spread
_PASSES = 8  # of a collector


def idle(site: Site) -> Iterator[FarRow]:
    """As services have it when everything has rested for long; and where every partition is looked at."""
    partitions = _OF_A_TOPIC if site.quick else _PARTITIONS
    url = site.fresh_url()
    _fill(site.near.open(url), partitions)
    rests = {place.name: _Resting(place, url) for place in site.places}
    yield _row(site, f"idle pass over {partitions} partitions", lambda place: rests[place.name].run())
    anew = {place.name: _Restless(place, url) for place in site.places}
    yield _row(site, f"idle pass that looks at all {partitions}", lambda place: anew[place.name].run())


def _row(site: Site, what: str, run: Callable[[Place], tuple[float, int]]) -> FarRow:
    asked: list[int] = []

    def timed_run(place: Place) -> float:
        took, requests = run(place)
        asked.append(requests)
        return took

    found = site.alternately(3, timed_run)
    return FarRow.of("idle", what, "s", found, requests=round(statistics.median(asked[2:])))


class _Process:
    """Opens a warehouse with a clock that can be put forward: rest is measured by it."""

    def __init__(self, place: Place, url: str) -> None:
        self.ahead_ms = 0
        self.warehouse = lithify.open(url, clock=self._now_ms, storage_options=place.endpoint.options)

    def _now_ms(self) -> int:
        return int(time.time() * 1_000) + self.ahead_ms

    def requests(self) -> RequestCounts:
        store = self.warehouse.driver.store
        assert isinstance(store, Metered)
        return store.requests()


class _Resting:
    """A round of a compactor and a pass of a collector, as their services come to them."""

    def __init__(self, place: Place, url: str) -> None:
        self._for_compactor, self._for_collector = _Process(place, url), _Process(place, url)
        self._compactor = lithify.Compactor(self._for_compactor.warehouse, engine="local", rest_ms=COMPACTOR_REST_MS)
        self._collector = lithify.Collector(self._for_collector.warehouse, rest_ms=COLLECTOR_REST_MS)
        for _ in range(_ROUNDS):
            self._round()
        for _ in range(_PASSES):
            self._pass()

    def run(self) -> tuple[float, int]:
        before = self._for_compactor.requests(), self._for_collector.requests()
        took = timed(self._round) + timed(self._pass)
        after = self._for_compactor.requests(), self._for_collector.requests()
        return took, sum(_count(later - earlier) for earlier, later in zip(before, after, strict=True))

    def _round(self) -> None:
        self._compactor.run_once()
        self._for_compactor.ahead_ms += IDLE_MS

    def _pass(self) -> None:
        self._collector.run_once()
        self._for_collector.ahead_ms += INTERVAL_MS


class _Restless:
    def __init__(self, place: Place, url: str) -> None:
        self._process = _Process(place, url)
        self._compactor = lithify.Compactor(self._process.warehouse, engine="local", rest_ms=0)
        self._collector = lithify.Collector(self._process.warehouse, rest_ms=0)

    def run(self) -> tuple[float, int]:
        before = self._process.requests()
        took = timed(lambda: (self._compactor.run_once(), self._collector.run_once()))
        return took, _count(self._process.requests() - before)


def _count(counts: RequestCounts) -> int:
    kinds = (counts.creates, counts.gets, counts.reads, counts.puts, counts.heads, counts.lists, counts.deletes)
    return sum(kinds) + counts.output_requests


def _fill(warehouse: lithify.Warehouse, partitions: int) -> None:
    """With topics in which an append makes nothing due for days."""

    def fill(number: int) -> None:
        config = {"cleanup.policy": "delete"}
        topic = warehouse.create_topic(f"topic-{number:02}", _OF_A_TOPIC, config, probe=False)
        topic.partition(0).append([lithify.Record(b"key", b"value")])

    with ThreadPoolExecutor(8) as pool:
        list(pool.map(fill, range(partitions // _OF_A_TOPIC)))
