"""The metrics of docs/metrics.md through OpenTelemetry's API, for a program that has a MeterProvider
(docs/rfcs/0018)."""

from collections.abc import Callable, Iterable
from typing import Any

from opentelemetry.metrics import CallbackOptions, MeterProvider, Observation, get_meter_provider

from lithify.admin.client import Admin
from lithify.admin.gauges import TOPICS_MAX
from lithify.admin.metrics import METRICS, Metrics
from lithify.admin.partitions import WarehouseLike
from lithify.admin.surveyor import SURVEY_MS
from lithify.events.types import Sink
from lithify.store.own_lock import OwnLock

__all__ = ["observe"]

_Observed = Callable[[CallbackOptions], Iterable[Observation]]


def observe(
    warehouse: WarehouseLike,
    provider: MeterProvider | None = None,
    *,
    survey_ms: int = SURVEY_MS,
    topics_max: int = TOPICS_MAX,
) -> Sink:
    """Let the readers of `provider` (default: the global one) observe a warehouse, for as long as it is open. Returns
    the sink for a compactor or collector of this process, whose work is counted too.

    Instruments have the names of docs/metrics.md, counters without their `_total`. Of a histogram there are the count
    and the sum: OpenTelemetry observes no histograms of others. An export makes a survey if the last one is older than
    `survey_ms`.
    """
    admin, homes = Admin(warehouse, survey_ms=survey_ms), warehouse.driver.homes
    store = homes.here
    metrics = Metrics(admin.overview, store.requests, topics_max, store.request_times, homes.cache_counts, homes)
    meter = (provider or get_meter_provider()).get_meter("lithify")
    shared = _Shared(metrics)
    for metric in METRICS:
        meaning = metric.meaning
        match metric.kind:
            case "gauge":
                meter.create_observable_gauge(metric.name, [shared.of(metric.name)], description=meaning)
            case "counter":
                name = metric.name.removesuffix("_total")
                meter.create_observable_counter(name, [shared.of(metric.name)], description=meaning)
            case "histogram":
                for name in (f"{metric.name}_count", f"{metric.name}_sum"):
                    meter.create_observable_counter(name, [shared.of(name)], description=meaning)
    return metrics.sink


class _Shared:
    """One collection for all instruments of an export: the first one that asks again begins the next."""

    def __init__(self, metrics: Metrics) -> None:
        self._metrics = metrics
        self._lock = OwnLock()
        self._answered: set[str] = set()
        self._samples: dict[str, list[Observation]] | None = None

    def of(self, name: str) -> _Observed:
        return lambda _: self._ask(name)

    def _ask(self, name: str) -> list[Observation]:
        with self._lock.mine():
            if self._samples is None or name in self._answered:
                self._samples, self._answered = _observations(self._metrics.collect()), set()
            self._answered.add(name)
            return self._samples.get(name, [])


def _observations(families: Iterable[Any]) -> dict[str, list[Observation]]:
    """By the name of the sample."""
    found: dict[str, list[Observation]] = {}
    for family in families:
        for sample in family.samples:
            found.setdefault(sample.name, []).append(Observation(sample.value, dict(sample.labels)))
    return found
