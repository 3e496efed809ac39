"""What this process asked of the homes besides the warehouse, as metrics (docs/metrics.md)."""

from collections.abc import Iterable
from typing import NamedTuple

from lithify.admin.gauges import HOMES_MAX, OTHER, Metric, home_label
from lithify.store.home_prices import prices_of
from lithify.store.port import HERE, Store
from lithify.store.prices import GB, REQUESTS, request_usd

__all__ = ["HOME_METRICS", "by_home"]

_REQUESTS = Metric(
    "lithify_home_requests_total",
    "counter",
    ("home", "request"),
    "requests of this process to each home besides the warehouse",
)
_DOLLARS = Metric(
    "lithify_home_request_dollars_total",
    "counter",
    ("home", "request"),
    "those requests at S3's list prices for the home's storage class; retrieval: what was read there, or copied from "
    "there",
)
_BYTES = Metric(
    "lithify_home_request_bytes_total", "counter", ("home", "kind"), "bytes that they have read and written"
)
_FAILURES = Metric(
    "lithify_home_request_failures_total",
    "counter",
    ("home", "reason"),
    "requests to the home that failed, by the kind of error",
)
HOME_METRICS = (_REQUESTS, _DOLLARS, _BYTES, _FAILURES)

_RETRIEVAL = "retrieval"


class _Sums(NamedTuple):
    series: dict[tuple[str, ...], float]

    def add(self, labels: tuple[str, ...], amount: float) -> None:
        self.series[labels] = self.series.get(labels, 0.0) + amount


def by_home(homes: Iterable[tuple[str, Store]]) -> list[tuple[Metric, dict[tuple[str, ...], float]]]:
    """The series of each metric. Of the homes that are open: nothing was asked of others. The first HOMES_MAX have
    series of their own for as long as the process lives, so that no counter ever falls; the others are summed."""
    found = {metric.name: _Sums({}) for metric in HOME_METRICS}
    others = [(home, store) for home, store in homes if home != HERE]
    for at, (home, store) in enumerate(others):
        label = home_label(home) if at < HOMES_MAX else OTHER
        counts, prices = store.requests(), prices_of(home)
        for request in REQUESTS:
            made: int = getattr(counts, request)
            found[_REQUESTS.name].add((label, request), made)
            found[_DOLLARS.name].add((label, request), made * request_usd(prices, request))
        retrieved = counts.bytes_read + counts.bytes_copied
        found[_DOLLARS.name].add((label, _RETRIEVAL), retrieved / GB * prices.retrieved_gb)
        found[_BYTES.name].add((label, "read"), counts.bytes_read)
        found[_BYTES.name].add((label, "written"), counts.bytes_written)
        for (_, reason), failed in store.request_times().failures.items():
            found[_FAILURES.name].add((label, reason), failed)
    return [(metric, found[metric.name].series) for metric in HOME_METRICS]
