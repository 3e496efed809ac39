"""The metrics through OpenTelemetry are those of /metrics."""

from contextlib import closing

from opentelemetry.sdk.metrics import MeterProvider
from opentelemetry.sdk.metrics.export import InMemoryMetricReader, Sum

import lithify
from lithify.admin.metrics import METRICS, Metrics
from lithify.admin.otel import observe
from tests.admin.test_operations import COMPACTED, fill

Values = dict[tuple[str, frozenset[tuple[str, object]]], float]


def exported(reader: InMemoryMetricReader) -> Values:
    data = reader.get_metrics_data()
    assert data is not None
    return {
        (metric.name, frozenset((point.attributes or {}).items())): point.value
        for resource in data.resource_metrics
        for scope in resource.scope_metrics
        for metric in scope.metrics
        for point in metric.data.data_points
    }


def scraped(metrics: Metrics) -> Values:
    return {
        (sample.name.removesuffix("_total"), frozenset(sample.labels.items())): sample.value
        for family in metrics.collect()
        for sample in family.samples
        if not sample.name.endswith("_bucket")
    }


def test_an_export_has_what_a_scrape_has() -> None:
    """Two surveys, a moment apart: so the clock stands still, and no age differs."""
    warehouse = lithify.open("memory://export-and-scrape", clock=lambda: 1_800_000_000_000)
    reader = InMemoryMetricReader()
    provider = MeterProvider([reader])
    sink = observe(warehouse, provider)
    admin = lithify.Admin(warehouse)
    beside = Metrics(admin.overview, warehouse.store.requests, times=warehouse.store.request_times)
    users = warehouse.create_topic("users", 2, COMPACTED)
    fill(users)
    fill(users)
    with closing(lithify.Compactor(warehouse, engine="local", events=lambda e: (sink(e), beside.sink(e)))) as compactor:
        compactor.run_once()
    found = exported(reader)
    told = scraped(beside)
    ours = {"lithify_survey_duration_seconds", "lithify_survey_age_seconds", "lithify_clock_skew_seconds"}
    asks = {name for name, _ in told if name.startswith("lithify_request")}  # each survey asks the store
    assert found.keys() == told.keys()
    for place, value in told.items():
        if place[0] not in ours | asks:
            assert found[place] == value, place
    users_now = frozenset({"topic": "users"}.items())
    assert found["lithify_partitions", users_now] == 2
    assert found["lithify_attempts", users_now] == 2
    provider.shutdown()
    warehouse.close()


def test_counters_are_monotonic_and_an_export_makes_one_survey(warehouse: lithify.Warehouse) -> None:
    reader = InMemoryMetricReader()
    provider = MeterProvider([reader])
    observe(warehouse, provider, survey_ms=0)
    fill(warehouse.create_topic("users", 1))
    before = warehouse.store.requests().total
    lithify.Admin(warehouse).overview()
    one = warehouse.store.requests().total - before
    exported(reader)
    assert warehouse.store.requests().total - before == 2 * one
    data = reader.get_metrics_data()
    assert data is not None
    metrics = {each.name: each for each in data.resource_metrics[0].scope_metrics[0].metrics}
    for metric in METRICS:
        if metric.kind == "counter" and (sent := metrics.get(metric.name.removesuffix("_total"))) is not None:
            assert isinstance(sent.data, Sum), metric.name
            assert sent.data.is_monotonic, metric.name
    provider.shutdown()
