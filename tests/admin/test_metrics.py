"""/metrics: its values are what describe and explain say, its labels are bounded, and scrapes share one survey."""

import re
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing
from pathlib import Path

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st
from prometheus_client.parser import text_string_to_metric_families

import lithify
from lithify.admin.counters import BUCKETS_S, COUNTERS
from lithify.admin.gauges import GAUGES, OTHER
from lithify.admin.metrics import METRICS, Metrics
from lithify.admin.survey import Overview
from lithify.admin.surveyor import SURVEY_MS
from lithify.events.notices import Lost
from lithify.events.types import Amount, AttemptBegan, Claimed, JobEnded, RangesRecorded
from lithify.manifest.jobs import MergeCounts
from lithify.store.apart import Fault
from lithify.store.driver import Driver, new_id
from lithify.store.errors import ErrorKind, Unavailable
from lithify.store.opening import open_store
from lithify.store.prices import PRICES_USD
from lithify.store.request_counts import RequestCounts
from tests.admin.test_operations import COMPACTED, damage_head, fill
from tests.clock import HandClock

PAGE = Path(__file__).resolve().parents[2] / "docs" / "metrics.md"


class Scrape:
    """The samples of one answer."""

    def __init__(self, text: bytes) -> None:
        self.families = list(text_string_to_metric_families(text.decode()))
        self._samples = {
            (sample.name, frozenset(sample.labels.items())): sample.value
            for family in self.families
            for sample in family.samples
        }
        assert len(self._samples) == sum(len(family.samples) for family in self.families), "no series twice"

    def value(self, name: str, **labels: str) -> float | None:
        return self._samples.get((f"lithify_{name}", frozenset(labels.items())))

    def topics(self) -> set[str]:
        return {dict(labels)["topic"] for _, labels in self._samples if "topic" in dict(labels)}


def away() -> Overview:
    raise Unavailable("away")


@pytest.fixture
def warehouse(clock: HandClock) -> Iterator[lithify.Warehouse]:
    driver = Driver(open_store(f"memory://{new_id()}"), clock)
    driver.monotonic_ms = clock
    with lithify.Warehouse(driver) as opened:
        yield opened


@pytest.fixture
def metrics(warehouse: lithify.Warehouse, admin: lithify.Admin) -> Metrics:
    return Metrics(admin.overview, warehouse.store.requests)


def test_gauges_are_what_describe_and_explain_say(
    warehouse: lithify.Warehouse, admin: lithify.Admin, metrics: Metrics, clock: HandClock
) -> None:
    users = warehouse.create_topic("users", 3, COMPACTED | {"l0.segments.max": "8"})
    for _ in range(3):
        fill(users)
        clock.now_ms += 1000
    with closing(lithify.Compactor(warehouse, engine="local")) as compactor:
        compactor.run_once()
    fill(users)
    users.partition(2).append([lithify.Record(b"k", b"v")] * 5)
    users.consumer("slow", partitions=[1]).close()
    admin.create_checkpoint("users", "c")
    admin.submit("users", 0)
    clock.now_ms += 5000
    warehouse.create_topic("empty", 2)
    found = Scrape(metrics.text())
    told = admin.describe_topic("users").partitions
    whys = admin.explain_topic("users").items
    sums = {
        "partitions": 3,
        "stored_records": sum(each.rows for each in told),
        "stored_bytes": sum(each.bytes for each in told),
        "readable_records": sum(each.logical_rows for each in told),
        "readable_bytes": sum(each.logical_bytes for each in told),
        "log_end_offset": sum(each.next_offset for each in told),
        "l0_segments": sum(len(each.l0) for each in told),
        "runs": sum(len(each.runs) for each in told),
        "partition_l0_segments": 2,
        "l0_limit_used_ratio": 2 / 8,
        "dirty_ratio": max(each.dirty_ratio for each in told),
        "oldest_dirty_age_seconds": 5,
        "last_compacted_age_seconds": 5,
        "garbage_segments": 9,
        "consumers": 1,
        "consumer_lag_offsets": told[1].consumers[0].lag,
        "quarantined_partitions": 0,
    }
    assert {name: found.value(name, topic="users") for name in sums} == sums
    assert found.value("cleaned_bytes", topic="users", kind="dirty") == sum(each.owed.dirty_bytes for each in whys)
    assert found.value("cleaned_bytes", topic="users", kind="clean") == sum(each.owed.clean_bytes for each in whys)
    assert found.value("debt_partitions", topic="users", kind="dirty") == sum(
        any(due.what == "clean dirty records" for due in each.passed) or each.debt == "dirty" for each in whys
    )
    assert found.value("debt_age_seconds", topic="users", kind="dirty") == 5
    assert found.value("jobs", topic="users", kind="undecided", outcome="submitted") == 1
    assert found.value("checkpoints", topic="users", kind="user") == 3
    assert found.value("partitions", topic="empty") == 2
    assert found.value("oldest_dirty_age_seconds", topic="empty") is None
    assert (found.value("survey_success"), found.value("survey_age_seconds")) == (1, 0)


def test_ages_grow_while_the_survey_stays(warehouse: lithify.Warehouse, metrics: Metrics, clock: HandClock) -> None:
    fill(warehouse.create_topic("users", 1, COMPACTED))
    assert Scrape(metrics.text()).value("oldest_dirty_age_seconds", topic="users") == 0
    clock.now_ms += SURVEY_MS - 1000
    found = Scrape(metrics.text())
    assert (found.value("survey_age_seconds"), found.value("oldest_dirty_age_seconds", topic="users")) == (59, 59)


def test_a_damaged_partition_is_counted_and_the_rest_is_told(warehouse: lithify.Warehouse, metrics: Metrics) -> None:
    fill(warehouse.create_topic("users", 2))
    damage_head(warehouse, "users", 1)
    found = Scrape(metrics.text())
    assert found.value("partitions", topic="users") == found.value("unreadable_partitions", topic="users") == 1


def test_without_a_survey_there_are_the_metrics_of_the_process() -> None:
    found = Scrape(Metrics(away, lambda: RequestCounts(gets=3)).text())
    assert (found.value("survey_success"), found.value("requests_total", request="gets")) == (0, 3)
    assert found.topics() == set()


def test_while_the_first_survey_is_made_a_scrape_has_no_gauges(
    warehouse: lithify.Warehouse, admin: lithify.Admin
) -> None:
    """Sums of the partitions read so far would look like a loss of all others."""
    warehouse.create_topic("users", 3)
    partly = msgspec.structs.replace(admin.overview(), whole=False)
    found = Scrape(Metrics(lambda: partly, lambda: RequestCounts(gets=3)).text())
    assert (found.value("survey_complete"), found.value("requests_total", request="gets")) == (0, 3)
    assert found.value("survey_success") is None, "that is not known yet"
    assert found.topics() == set()
    assert Scrape(Metrics(admin.overview, RequestCounts).text()).value("survey_complete") == 1


@pytest.mark.slow
def test_topics_beyond_the_bound_are_summed(warehouse: lithify.Warehouse, admin: lithify.Admin) -> None:
    for number in range(500):
        topic = warehouse.create_topic(f"topic-{number:03d}", 1, COMPACTED, probe=False)
        if number % 5 == 0:
            fill(topic)
    metrics = Metrics(admin.overview, warehouse.store.requests, 20)
    for number in range(500):
        metrics.sink(Claimed(topic=f"topic-{number:03d}", partition=0, epoch=1, owner="me", former="", index=1))
    found = Scrape(metrics.text())
    own = found.topics() - {OTHER}
    gauged = {each for each in own if found.value("partitions", topic=each)}
    assert gauged == {f"topic-{number:03d}" for number in range(400, 500, 5)}, "those that owe something"
    assert found.value("partitions", topic=OTHER) == 480
    assert found.value("stored_records", topic=OTHER) == 80 * 2
    assert found.value("debt_partitions", topic=OTHER, kind="dirty") == 80
    assert found.value("claims_total", topic="topic-019", kind="first") == 1
    assert found.value("claims_total", topic=OTHER, kind="first") == 480
    assert len(own) == 40, "counters have the first 20 topics, so that they never fall"
    allowed = {"topic", "home", "kind", "outcome", "reason", "request", "le"}
    assert {name for family in found.families for sample in family.samples for name in sample.labels} <= allowed


def test_a_topic_that_has_the_name_of_the_rest_is_of_the_rest(warehouse: lithify.Warehouse, metrics: Metrics) -> None:
    for name in (OTHER, "users"):
        warehouse.create_topic(name, 2)
    found = Scrape(metrics.text())
    assert (found.value("partitions", topic=OTHER), found.value("partitions", topic="users")) == (2, 2)


def test_fifty_scrapes_share_one_survey(warehouse: lithify.Warehouse) -> None:
    fill(warehouse.create_topic("users", 3))
    before = warehouse.store.requests().total
    lithify.Admin(warehouse).overview()
    one = warehouse.store.requests().total - before
    admin = lithify.Admin(warehouse)
    metrics = Metrics(admin.overview, warehouse.store.requests)
    with ThreadPoolExecutor(50) as pool:
        texts = list(pool.map(lambda _: metrics.text(), range(50)))
    assert warehouse.store.requests().total - before == 2 * one
    assert {Scrape(text).value("partitions", topic="users") for text in texts} == {3}


def test_what_a_compactor_and_a_collector_did_is_counted(
    warehouse: lithify.Warehouse, metrics: Metrics, clock: HandClock, admin: lithify.Admin
) -> None:
    users = warehouse.create_topic("users", 2, COMPACTED)
    for _ in range(3):
        fill(users)
    bytes_before = sum(each.bytes for each in users.describe().partitions)
    with closing(lithify.Compactor(warehouse, engine="local", events=metrics.sink)) as compactor:
        report = compactor.run_once()
    collector = lithify.Collector(warehouse, grace_ms=0, events=metrics.sink)
    collected = [collector.run_once() for _ in range(3)]
    found = Scrape(metrics.text())
    counts = sum((job.counts for job in report.jobs), start=MergeCounts())
    users_clean = {"topic": "users", "kind": "clean"}
    assert found.value("compactions_total", outcome="completed", **users_clean) == len(report.jobs) == 2
    assert found.value("compaction_read_records_total", **users_clean) == counts.rows_in == 12
    assert found.value("compaction_written_records_total", **users_clean) == counts.rows_out == 4
    assert found.value("compaction_read_bytes_total", **users_clean) == counts.bytes_read
    assert found.value("compaction_written_bytes_total", **users_clean) == counts.bytes_written
    assert found.value("compaction_dropped_records_total", topic="users", reason="superseded") == 8
    assert found.value("reclaimed_records_total", topic="users", reason="compacted") == 8
    left = sum(each.bytes for each in users.describe().partitions)
    assert found.value("reclaimed_bytes_total", topic="users", reason="compacted") == bytes_before - left
    assert found.value("claims_total", topic="users", kind="first") == 2
    assert found.value("attempts_total", topic="users") == 2
    assert found.value("resumes_total", topic="users") is None
    assert found.value("compaction_duration_seconds_count", kind="clean", outcome="completed") == 2
    deleted = [garbage for each in collected for garbage in each.deleted]
    assert deleted
    for cause in ("replaced", "number"):
        mine = [garbage for garbage in deleted if garbage.cause == cause]
        assert found.value("collected_objects_total", topic="users", reason=cause) == len(mine) > 0
        assert found.value("collected_bytes_total", topic="users", reason=cause) == sum(each.bytes for each in mine)
    assert {garbage.cause for garbage in deleted} == {"replaced", "number"}
    assert found.value("collections_total", outcome="done") == 3
    assert admin.overview().failed == ()


def ended(**more: object) -> JobEnded:
    values = {"job": "j", "kind": "tier", "origin": "scheduler", "status": "failed", "reason": "", "error": None}
    sizes = {"attempts": 1, "ranges": 1, "recorded": 0, "input": Amount(), "made": Amount(), "counts": MergeCounts()}
    times = {"created_at_ms": 0, "started_at_ms": 1000, "peak_memory_bytes": 0, "topic": "t", "partition": 0}
    return JobEnded(**(values | sizes | times | more))  # type: ignore[arg-type]


def test_resumes_fencings_and_durations(metrics: Metrics) -> None:
    place = {"topic": "t", "partition": 0, "index": 1}
    for event in (
        AttemptBegan(job="j", attempt=1, worker="w", recorded=0, ranges=5, **place),  # type: ignore[arg-type]
        RangesRecorded(job="j", fresh=3, recorded=3, ranges=5, made=Amount(), counts=MergeCounts(), **place),  # type: ignore[arg-type]
        AttemptBegan(job="j", attempt=2, worker="w", recorded=3, ranges=5, **place),  # type: ignore[arg-type]
        Lost(topic="t", partition=0, fault=Fault(ErrorKind.FENCED, "taken")),
        Claimed(epoch=3, owner="me", former="you", **place),  # type: ignore[arg-type]
        ended(at_ms=1000 + 15_000, index=1),
        ended(at_ms=0, index=1),
        ended(kind=None, status="cancelled", started_at_ms=None, index=0),
    ):
        metrics.sink(event)
    found = Scrape(metrics.text())
    t = {"topic": "t"}
    assert [found.value(f"{name}_total", **t) for name in ("attempts", "resumes", "resumed_ranges")] == [2, 1, 3]
    assert [found.value(f"{name}_total", **t) for name in ("recorded_ranges", "fencings")] == [3, 1]
    assert found.value("claims_total", kind="takeover", **t) == 1
    assert found.value("commits_total", kind="compactor", **t) == 1, "only the first change of a file"
    assert found.value("compactions_total", kind="undecided", outcome="cancelled", **t) == 1
    tier = {"kind": "tier", "outcome": "failed"}
    buckets = [found.value("compaction_duration_seconds_bucket", le=str(float(le)), **tier) for le in BUCKETS_S]
    assert buckets == [1, 1, 2, 2, 2, 2, 2, 2, 2]
    assert found.value("compaction_duration_seconds_bucket", le="+Inf", **tier) == 2
    assert found.value("compaction_duration_seconds_sum", **tier) == 15


@given(st.builds(RequestCounts, **{name: st.integers(0, 10**9) for name in RequestCounts.__struct_fields__}))
def test_requests_and_their_price_are_those_of_the_store(counts: RequestCounts) -> None:
    found = Scrape(Metrics(away, lambda: counts).text())
    assert sum(found.value("requests_total", request=name) or 0 for name in PRICES_USD) == counts.total
    dollars = sum(found.value("request_dollars_total", request=name) or 0 for name in PRICES_USD)
    assert dollars == pytest.approx(counts.cost_usd)
    assert found.value("request_bytes_total", kind="read") == counts.bytes_read
    assert found.value("commit_conflicts_total") == counts.conflicts


def test_names_are_those_of_prometheus() -> None:
    names = [metric.name for metric in METRICS]
    assert len(set(names)) == len(names)
    assert all(re.fullmatch(r"lithify_[a-z0-9_]+", name) for name in names)
    assert all((metric.kind == "counter") == metric.name.endswith("_total") for metric in METRICS)
    assert all(metric.labels[:1] == ("topic",) for metric in (gauge.metric for gauge in GAUGES))
    assert {len(metric.labels) for metric in COUNTERS} <= {1, 2, 3}


def test_the_page_has_every_metric_as_it_is() -> None:
    page = PAGE.read_text(encoding="utf-8")
    rows = [line for line in page.splitlines() if re.match(r"\| `lithify_\w+` \| (gauge|counter|histogram) ", line)]
    expected = [
        f"| `{metric.name}` | {metric.kind} | {', '.join(metric.labels) or '-'} | {metric.meaning} |"
        for metric in METRICS
    ]
    assert rows == expected
    known = {metric.name for metric in METRICS} | {f"{each.name}_{end}" for each in METRICS for end in ("sum", "count")}
    assert set(re.findall(r"lithify_[a-z0-9_]+", page)) <= known


def test_garbage_is_as_old_as_its_replacement_unless_a_checkpoint_keeps_it(
    warehouse: lithify.Warehouse, metrics: Metrics, clock: HandClock, near: lithify.Admin
) -> None:
    users = warehouse.create_topic("users", 1, COMPACTED)
    fill(users)

    def age() -> float | None:
        clock.now_ms += SURVEY_MS
        return Scrape(metrics.text()).value("garbage_age_seconds", topic="users")

    def compact() -> None:
        with closing(lithify.Compactor(warehouse, engine="local")) as compactor:
            compactor.run_once()

    assert age() is None
    fill(users)
    compact()
    assert age() == SURVEY_MS / 1000
    fill(users)
    compact()
    assert age() == 2 * SURVEY_MS / 1000, "it is that of the oldest"
    near.gc(grace_ms=0)
    near.gc(grace_ms=0)
    assert age() is None
    fill(users)
    near.create_checkpoint("users", "c")
    compact()
    assert age() is None
    assert Scrape(metrics.text()).value("garbage_segments", topic="users") == 2


def test_the_oldest_request_that_waits(
    warehouse: lithify.Warehouse, metrics: Metrics, clock: HandClock, near: lithify.Admin
) -> None:
    fill(warehouse.create_topic("users", 2, COMPACTED))
    near.submit("users", 0)
    clock.now_ms += 5000
    near.submit("users", 1)
    clock.now_ms += 1000
    assert Scrape(metrics.text()).value("waiting_job_age_seconds", topic="users") == 6


def test_what_alerts_count_begins_at_zero(metrics: Metrics) -> None:
    """A rate does not see the first event of a series that begins at 1."""
    metrics.sink(Claimed(topic="t", partition=0, epoch=1, owner="me", former="", index=1))
    found = Scrape(metrics.text())
    assert found.value("fencings_total", topic="t") == found.value("quarantines_total", topic="t") == 0
    assert found.value("compactions_total", topic="t", kind="clean", outcome="failed") == 0
    assert found.value("collections_total", outcome="in_part") == 0
    assert found.value("troubles_total", reason="partition failed") == 0


def test_the_cache_on_disk_is_counted(tmp_path: Path) -> None:
    cache = {"dir": tmp_path / "cache", "bytes": 64 << 20, "homes": "all"}
    with lithify.open(tmp_path / "warehouse", storage_options={"cache": cache}) as opened:
        part = opened.create_topic("users", probe=False).partition(0)
        part.append([lithify.Record(b"k", b"v")])
        metrics = Metrics(
            lithify.Admin(opened).overview, opened.store.requests, disk_cache=opened.driver.homes.cache_counts
        )
        for times in (1, 2):
            assert len(list(part.read())) == 1
            found = Scrape(metrics.text())
            assert found.value("disk_cache_reads_total", kind="miss") > 0
            assert (found.value("disk_cache_reads_total", kind="hit") > 0) is (times == 2)
        assert found.value("disk_cache_bytes_total", kind="hit") == found.value("disk_cache_bytes_total", kind="miss")
        assert found.value("disk_cache_failures_total") == 0
