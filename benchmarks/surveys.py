"""What it costs to show a whole warehouse: the time, requests and memory of a survey, and of an answer of /metrics.

python -m benchmarks.surveys        1,000 partitions, in memory and with a store that takes 15 ms for a request
"""

import gc
import statistics
import time
import tracemalloc
from collections.abc import Callable

import msgspec
from msgspec.structs import replace

import lithify
from benchmarks.deciding import _manifest  # pyright: ignore[reportPrivateUsage]
from lithify.admin.metrics import Metrics
from lithify.manifest.catalog import live_topic, partition_keys, topic_lineage
from lithify.manifest.codec import encode
from lithify.store.driver import Driver, new_id
from lithify.store.memory import MemoryStore
from lithify.store.metered import Metered
from lithify.store.port import Object

__all__ = ["Surveys", "fill", "surveys"]

_TOPICS, _PARTITIONS = 50, 20
_L0, _RUNS = 20, 4  # of a partition; a run has eight segments
_SCRAPES = 21
_MORE_SCRAPES = 10
_REQUEST_MS = 15
_CONFIG = {"cleanup.policy": "compact"}


class Surveys(msgspec.Struct, frozen=True):
    partitions: int
    request_ms: int  # of the store
    manifest_bytes: int
    first_s: float  # a survey that knows nothing yet
    first_requests: int
    next_s: float  # one that finds nothing changed
    next_cpu_s: float
    next_requests: int
    metrics_ms: float  # an answer of /metrics from a survey that is fresh: the median
    metrics_cpu_ms: float
    metrics_bytes: int
    overview_bytes: int  # of GET /v1/overview
    survey_kept_bytes: int  # in memory, of the last survey
    known_kept_bytes: int  # and of the newest files
    scrapes_kept_bytes: int  # after many more answers of /metrics


class _Distant(MemoryStore):
    request_ms = 0

    def get(self, key: str) -> Object | None:
        if self.request_ms:
            time.sleep(self.request_ms / 1000)
        return super().get(key)


def surveys(request_ms: int = 0) -> Surveys:
    inner = _Distant(f"memory://{new_id()}")
    store = Metered(inner)
    warehouse = lithify.Warehouse(Driver(store))
    size = fill(warehouse)
    inner.request_ms = request_ms
    admin = lithify.Admin(warehouse, survey_ms=0)
    first_requests, first_s, _ = _measured(store, admin.overview)
    next_requests, next_s, next_cpu_s = _measured(store, admin.overview)
    survey_bytes, known_bytes = _kept(warehouse)
    fresh = lithify.Admin(warehouse)
    metrics = Metrics(fresh.overview, store.requests)
    text = metrics.text()
    scrapes_bytes = _left_by(metrics.text)
    taken = [_measured(store, metrics.text) for _ in range(_SCRAPES)]
    assert not any(requests for requests, _, _ in taken)
    return Surveys(
        partitions=_TOPICS * _PARTITIONS,
        request_ms=request_ms,
        manifest_bytes=size,
        first_s=first_s,
        first_requests=first_requests,
        next_s=next_s,
        next_cpu_s=next_cpu_s,
        next_requests=next_requests,
        metrics_ms=1000 * statistics.median(seconds for _, seconds, _ in taken),
        metrics_cpu_ms=1000 * statistics.median(cpu_s for _, _, cpu_s in taken),
        metrics_bytes=len(text),
        overview_bytes=len(msgspec.json.encode(fresh.overview())),
        survey_kept_bytes=survey_bytes,
        known_kept_bytes=known_bytes,
        scrapes_kept_bytes=scrapes_bytes,
    )


def _measured(store: Metered, call: Callable[[], object]) -> tuple[int, float, float]:
    """Requests, seconds, and seconds of the processor."""
    before, began, began_cpu = store.requests().total, time.perf_counter(), time.process_time()
    call()
    seconds, cpu_s = time.perf_counter() - began, time.process_time() - began_cpu
    return store.requests().total - before, seconds, cpu_s


def _kept(warehouse: lithify.Warehouse) -> tuple[int, int]:
    tracemalloc.start()
    admin = lithify.Admin(warehouse)
    before, _ = tracemalloc.get_traced_memory()
    admin.overview()
    gc.collect()
    both, _ = tracemalloc.get_traced_memory()
    admin._known.keep(())  # pyright: ignore[reportPrivateUsage]
    gc.collect()
    survey, _ = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    return survey - before, both - survey


def _left_by(scrape: Callable[[], object]) -> int:
    """In memory, by `_MORE_SCRAPES` of them after as many that came first."""
    tracemalloc.start()
    sizes: list[int] = []
    for _ in range(2):
        for _ in range(_MORE_SCRAPES):
            scrape()
        gc.collect()
        sizes.append(tracemalloc.get_traced_memory()[0])
    tracemalloc.stop()
    return sizes[1] - sizes[0]


def fill(warehouse: lithify.Warehouse, topics: int = _TOPICS, partitions: int = _PARTITIONS) -> int:
    """Every partition has the same manifest, as its second. Returns its bytes."""
    template, now_ms = _manifest(_L0, _RUNS)
    size = 0
    for number in range(topics):
        name = f"topic-{number:02d}"
        warehouse.create_topic(name, partitions, _CONFIG, probe=False)
        for keys in partition_keys(warehouse.driver.run(live_topic(topic_lineage(name), name))):
            manifest = replace(
                template, id=2, topic=name, topic_id=keys.topic_id, partition=keys.partition, committed_at_ms=now_ms
            )
            body = encode(manifest)
            warehouse.store.put(keys.manifest.key(2), body)
            size = len(body)
    return size


if __name__ == "__main__":
    for each_ms in (0, _REQUEST_MS):
        print(msgspec.json.format(msgspec.json.encode(surveys(each_ms))).decode())
