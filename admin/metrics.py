"""Metrics for Prometheus: what the survey says, what this process did, and what it asked of the store
(docs/metrics.md)."""

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import Any

from prometheus_client import CONTENT_TYPE_LATEST, CollectorRegistry, generate_latest
from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, HistogramMetricFamily

from lithify.admin.counters import BUCKETS_S, COUNTERS, DURATION, Tally
from lithify.admin.gauges import AWAY, GAUGES, TOPICS_MAX, UNREADABLE, Metric, Series, gauged
from lithify.admin.home_metrics import HOME_METRICS, by_home
from lithify.admin.survey import Overview
from lithify.events.types import Event
from lithify.store.disk_cache_counts import DiskCacheCounts
from lithify.store.errors import LithifyError
from lithify.store.port import Store
from lithify.store.prices import PRICES_USD
from lithify.store.request_counts import RequestCounts
from lithify.store.timings import REQUEST_BOUNDS_S, RequestTimes, Spans

__all__ = ["MEDIA_TYPE", "METRICS", "Metrics"]

MEDIA_TYPE = CONTENT_TYPE_LATEST

_SUCCESS = Metric("lithify_survey_success", "gauge", (), "1 if the survey could list the topics, else 0")
_COMPLETE = Metric(
    "lithify_survey_complete",
    "gauge",
    (),
    "1 if a survey has ended; 0 while the first one of the process is being made, without which there are no gauges",
)
_AGE = Metric("lithify_survey_age_seconds", "gauge", (), "age of the survey that the gauges are from")
_TOOK = Metric("lithify_survey_duration_seconds", "gauge", (), "how long that survey took")
_SKEW = Metric("lithify_clock_skew_seconds", "gauge", (), "how far this machine's clock is ahead of the store's")
_REQUESTS = Metric("lithify_requests_total", "counter", ("request",), "requests of this process to the store")
_DOLLARS = Metric("lithify_request_dollars_total", "counter", ("request",), "those requests at S3's list prices")
_BYTES = Metric("lithify_request_bytes_total", "counter", ("kind",), "bytes that they have read and written")
_OF_SURVEY = (_SUCCESS, _COMPLETE, _AGE, _TOOK, _SKEW, UNREADABLE, AWAY)
_CONFLICTS = Metric(
    "lithify_commit_conflicts_total",
    "counter",
    (),
    "commits that found their number taken by another writer, and went on from there",
)
_FAILURES = Metric(
    "lithify_request_failures_total",
    "counter",
    ("request", "reason"),
    "requests that failed, by the kind of error: Unavailable, AccessDenied, CommitUnknown (it may have been done), …",
)
_TIMES = Metric(
    "lithify_request_duration_seconds",
    "histogram",
    ("request",),
    "how long a request took, repetitions by its client and failures included; not of output_requests",
)
_OF_STORE = (_REQUESTS, _DOLLARS, _BYTES, _CONFLICTS, _FAILURES, _TIMES)
_CACHE_READS = Metric(
    "lithify_disk_cache_reads_total",
    "counter",
    ("kind",),
    "reads of segments by way of the cache on disk: hit; miss; of the misses, damaged ones found an entry with a wrong "
    "checksum",
)
_CACHE_BYTES = Metric(
    "lithify_disk_cache_bytes_total",
    "counter",
    ("kind",),
    "bytes of those reads: hit from the cache, miss from a store",
)
_CACHE_FAILURES = Metric(
    "lithify_disk_cache_failures_total",
    "counter",
    (),
    "times that the folder of the cache could not be read or written",
)
_OF_CACHE = (_CACHE_READS, _CACHE_BYTES, _CACHE_FAILURES)

_OF_PROCESS = (*COUNTERS, DURATION, *_OF_STORE, *HOME_METRICS, *_OF_CACHE)

METRICS: tuple[Metric, ...] = (*(gauge.metric for gauge in GAUGES), *_OF_SURVEY, *_OF_PROCESS)


class Metrics:
    """Thread-safe. `overview`: of `Admin`; `requests`, `times`: of the store that it asks; `disk_cache`: of its
    `Homes`, which are `homes`. `sink`: for a compactor and the collectors of this process."""

    def __init__(
        self,
        overview: Callable[[], Overview],
        requests: Callable[[], RequestCounts],
        topics_max: int = TOPICS_MAX,
        times: Callable[[], RequestTimes] = RequestTimes,
        disk_cache: Callable[[], DiskCacheCounts] = DiskCacheCounts,
        homes: Iterable[tuple[str, Store]] = (),
    ) -> None:
        self._overview = overview
        self._requests = requests
        self._times = times
        self._disk_cache = disk_cache
        self._homes = homes
        self._topics_max = topics_max
        self._tally = Tally(topics_max)
        self._registry = CollectorRegistry(auto_describe=False)
        self._registry.register(self)

    def sink(self, event: Event) -> None:
        self._tally.sink(event)

    def text(self) -> bytes:
        """All metrics, in Prometheus' text format. If there can be no survey, those of this process alone."""
        return generate_latest(self._registry)

    def collect(self) -> Iterator[Any]:
        """Of prometheus_client's collectors."""
        yield from self._of_survey()
        counted = self._tally.series()
        yield from (_family(metric, counted[metric.name]) for metric in COUNTERS)
        yield _histogram(DURATION, self._tally.durations(), BUCKETS_S)
        yield from self._of_store()
        yield from (_family(metric, series) for metric, series in by_home(self._homes))
        yield from self._of_disk_cache()

    def _of_survey(self) -> Iterator[Any]:
        try:
            overview = self._overview()
        except LithifyError:
            yield _family(_SUCCESS, {(): 0})
            return
        yield _family(_COMPLETE, {(): int(overview.whole)})
        if not overview.whole:
            return  # sums of some partitions would look like a loss of the others
        yield _family(_SUCCESS, {(): 1})
        yield _family(_AGE, {(): overview.age_ms / 1000})
        yield _family(_TOOK, {(): overview.took_ms / 1000})
        yield _family(_SKEW, {(): overview.clock_skew_ms / 1000})
        found = gauged(overview, self._topics_max)
        yield from (_family(metric, found[metric.name]) for metric in (UNREADABLE, AWAY))
        yield from (_family(gauge.metric, found[gauge.metric.name]) for gauge in GAUGES)

    def _of_store(self) -> Iterator[Any]:
        counts = self._requests()
        made = {name: getattr(counts, name) for name in PRICES_USD}
        yield _family(_REQUESTS, {(name,): count for name, count in made.items()})
        yield _family(_DOLLARS, {(name,): count * PRICES_USD[name] for name, count in made.items()})
        yield _family(_BYTES, {("read",): counts.bytes_read, ("written",): counts.bytes_written})
        yield _family(_CONFLICTS, {(): counts.conflicts})
        times = self._times()
        yield _family(_FAILURES, times.failures)
        yield _histogram(_TIMES, {(request,): spans for request, spans in times.spans.items()}, REQUEST_BOUNDS_S)

    def _of_disk_cache(self) -> Iterator[Any]:
        counts = self._disk_cache()
        reads = {("hit",): counts.hits, ("miss",): counts.misses, ("damaged",): counts.damaged}
        yield _family(_CACHE_READS, reads)
        yield _family(_CACHE_BYTES, {("hit",): counts.hit_bytes, ("miss",): counts.missed_bytes})
        yield _family(_CACHE_FAILURES, {(): counts.failures})


def _family(metric: Metric, series: Series) -> Any:
    kind = CounterMetricFamily if metric.kind == "counter" else GaugeMetricFamily
    family = kind(metric.name, metric.meaning, labels=metric.labels)
    for labels, value in series.items():
        family.add_metric(labels, value)
    return family


def _histogram(metric: Metric, series: Mapping[tuple[str, ...], Spans], bounds_s: Sequence[float]) -> Any:
    family = HistogramMetricFamily(metric.name, metric.meaning, labels=metric.labels)
    bounds = [*(str(float(each)) for each in bounds_s), "+Inf"]
    for labels, (counts, sum_s) in series.items():
        family.add_metric(labels, [*zip(bounds, counts, strict=True)], sum_s)
    return family
