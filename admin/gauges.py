"""What a survey says as metrics: one table of gauges, and how the partitions of a topic add up. Pure
(docs/metrics.md)."""

from collections import defaultdict
from collections.abc import Callable, Iterable, Mapping
from typing import Literal, NamedTuple

from lithify.admin.home_watch import HOMES_MAX
from lithify.admin.homes import HomeUse
from lithify.admin.survey import Overview, PartitionSurvey
from lithify.store.port import HERE
from lithify.store.urls import shown

__all__ = [
    "AWAY",
    "GAUGES",
    "HOMES_MAX",
    "OTHER",
    "TOPICS_MAX",
    "UNREADABLE",
    "Gauge",
    "Metric",
    "Series",
    "gauged",
    "home_label",
    "topics_shown",
]

TOPICS_MAX = 200
OTHER = "_other"  # the topic under which those beyond the bound are summed

Values = Iterable[tuple[tuple[str, ...], float]]
Series = Mapping[tuple[str, ...], float]  # a value for each combination of label values, in the order of the labels


class Metric(NamedTuple):
    """As in docs/metrics.md."""

    name: str
    kind: Literal["gauge", "counter", "histogram"]
    labels: tuple[str, ...]
    meaning: str


class Gauge(NamedTuple):
    """The label `topic` comes first; `values` gives the others. A topic has the sum over its partitions, or the
    largest."""

    metric: Metric
    values: Callable[[PartitionSurvey, int], Values]  # of a partition, and the time now
    folds: Literal["sum", "largest"]

    def fold(self, one: float, other: float) -> float:
        return one + other if self.folds == "sum" else max(one, other)


def topics_shown(overview: Overview, topics_max: int) -> frozenset[str]:
    """The topics that have series of their own: those with the largest debts, then the largest ones."""
    debts: dict[str, tuple[int, int]] = {failed.topic: (0, 0) for failed in overview.failed}
    for each in overview.partitions:
        debt, size = debts.get(each.topic, (0, 0))
        debts[each.topic] = debt + each.debt_bytes, size + each.bytes
    ranked = sorted(debts, key=lambda topic: (debts[topic], topic), reverse=True)
    return frozenset(ranked[:topics_max]) - {OTHER}


def _homes_shown(overview: Overview) -> frozenset[str]:
    """The labels of the warehouse and of the largest other homes: topics may name ever new ones."""
    sizes: defaultdict[str, int] = defaultdict(int)
    for each in overview.partitions:
        for use in each.homes:
            sizes[home_label(use.home)] += use.bytes
    ours = home_label(HERE)
    others = sorted((home for home in sizes if home != ours), key=lambda home: (sizes[home], home), reverse=True)
    return frozenset((ours, *others[:HOMES_MAX]))


def gauged(overview: Overview, topics_max: int) -> dict[str, Series]:
    """The series of each gauge, by its name."""
    shown, now_ms = topics_shown(overview, topics_max), overview.at_ms + overview.age_ms
    homes = _homes_shown(overview)
    found: dict[str, Series] = {}
    for gauge in GAUGES:
        series: dict[tuple[str, ...], float] = {}
        for each in overview.partitions:
            topic = each.topic if each.topic in shown else OTHER
            for labels, value in gauge.values(each, now_ms):
                by_home = gauge.metric.labels[-1] == "home" and labels[0] not in homes
                place = (topic, OTHER) if by_home else (topic, *labels)
                series[place] = gauge.fold(series[place], value) if place in series else value
        found[gauge.metric.name] = series
    unreadable: defaultdict[tuple[str, ...], float] = defaultdict(float)
    for failed in overview.failed:
        unreadable[failed.topic if failed.topic in shown else OTHER,] += 1
    away = {(home_label(state.home),): float(bool(state.away)) for state in overview.homes}
    return found | {UNREADABLE.name: unreadable, AWAY.name: away}


UNREADABLE = Metric(
    "lithify_unreadable_partitions",
    "gauge",
    ("topic",),
    "partitions that the survey could not read; a topic whose configuration cannot be read counts as one",
)


AWAY = Metric(
    "lithify_home_away",
    "gauge",
    ("home",),
    "1 if a home besides the warehouse does not answer, refuses, or is not mounted, else 0; at most 16 of them",
)


def _sum(name: str, meaning: str, of: Callable[[PartitionSurvey], float]) -> Gauge:
    return Gauge(Metric(name, "gauge", ("topic",), meaning), lambda each, _: [((), of(each))], "sum")


def _largest(name: str, meaning: str, of: Callable[[PartitionSurvey], float]) -> Gauge:
    told = f"{meaning}; of a topic the largest of its partitions"
    return Gauge(Metric(name, "gauge", ("topic",), told), lambda each, _: [((), of(each))], "largest")


def _age(name: str, meaning: str, since_ms: Callable[[PartitionSurvey], int | None]) -> Gauge:
    def values(each: PartitionSurvey, now_ms: int) -> Values:
        began_ms = since_ms(each)
        return [] if began_ms is None else [((), _seconds(now_ms - began_ms))]

    told = f"{meaning}; of a topic the largest of its partitions"
    return Gauge(Metric(name, "gauge", ("topic",), told), values, "largest")


def _by(labels: str, name: str, meaning: str, values: Callable[[PartitionSurvey], Values]) -> Gauge:
    return Gauge(Metric(name, "gauge", ("topic", *labels.split()), meaning), lambda each, _: values(each), "sum")


def _seconds(ms: int) -> float:
    return max(0, ms) / 1000


def _debt_ages(each: PartitionSurvey, now_ms: int) -> Values:
    return [((debt.debt,), _seconds(now_ms - debt.since_ms)) for debt in each.debts]


def _by_home(each: PartitionSurvey, of: Callable[[HomeUse], float]) -> Values:
    return [((home_label(use.home),), of(use)) for use in each.homes]


def home_label(home: str) -> str:
    return "warehouse" if home == HERE else shown(home)


GAUGES: tuple[Gauge, ...] = (
    _sum("lithify_partitions", "partitions that the survey has read", lambda p: 1),
    _sum("lithify_quarantined_partitions", "partitions that are quarantined", lambda p: p.quarantine is not None),
    _sum("lithify_paused_partitions", "partitions whose compaction is paused", lambda p: p.paused),
    _sum(
        "lithify_overdue_partitions",
        "partitions in which work has waited for a compactor for more than an hour",
        lambda p: p.overdue is not None,
    ),
    _sum("lithify_busy_partitions", "partitions in which a compactor works and shows life", lambda p: p.at_work),
    # What is stored
    _sum("lithify_stored_records", "records in live segments", lambda p: p.rows),
    _sum("lithify_stored_bytes", "bytes of live segments", lambda p: p.bytes),
    _sum("lithify_readable_records", "of the stored records, those from the log start on", lambda p: p.logical_rows),
    _sum("lithify_readable_bytes", "of the stored bytes, those from the log start on", lambda p: p.logical_bytes),
    _sum("lithify_log_start_offset", "sum of the log start offsets", lambda p: p.log_start_offset),
    _sum(
        "lithify_log_end_offset",
        "sum of the next offsets: its growth is what was appended",
        lambda p: p.next_offset,
    ),
    _sum("lithify_segments", "live segments", lambda p: p.segments),
    _sum("lithify_l0_segments", "segments in L0", lambda p: p.l0_segments),
    _sum("lithify_runs", "sorted runs", lambda p: p.runs),
    _largest("lithify_partition_l0_segments", "segments in L0 of a partition", lambda p: p.l0_segments),
    _largest("lithify_partition_runs", "sorted runs of a partition", lambda p: p.runs),
    _largest(
        "lithify_l0_limit_used_ratio",
        "L0 segments of l0.segments.max: appends slow down at 0.75 and stop at 1",
        lambda p: p.l0_segments / p.l0_segments_max,
    ),
    # What is owed
    _by(
        "kind",
        "lithify_cleaned_bytes",
        "stored bytes by whether they are clean, dirty, or too young to be cleaned",
        lambda p: [(("clean",), p.clean_bytes), (("dirty",), p.dirty_bytes), (("young",), p.young_bytes)],
    ),
    _largest("lithify_dirty_ratio", "dirty bytes of clean and dirty ones", lambda p: p.dirty_ratio),
    _age(
        "lithify_oldest_dirty_age_seconds",
        "age of the oldest record not yet cleaned, by its timestamp",
        lambda p: p.oldest_dirty_ms,
    ),
    _age(
        "lithify_last_compacted_age_seconds",
        "time since the last compaction of a partition that had one",
        lambda p: p.last_compacted_at_ms,
    ),
    _by(
        "kind",
        "lithify_debt_partitions",
        "partitions that owe this kind of work",
        lambda p: [((debt.debt,), 1) for debt in p.debts],
    ),
    _by(
        "kind",
        "lithify_debt_bytes",
        "bytes that this kind of work would read or drop; the kinds may share segments",
        lambda p: [((debt.debt,), debt.bytes) for debt in p.debts],
    ),
    Gauge(
        Metric(
            "lithify_debt_age_seconds",
            "gauge",
            ("topic", "kind"),
            "for how long this kind of work has been due, judging by its records, their append and the last "
            "compaction; of a topic the largest of its partitions",
        ),
        _debt_ages,
        "largest",
    ),
    # What is being done
    _by(
        "kind outcome",
        "lithify_jobs",
        "jobs that have not ended: kind tier, clean or undecided; outcome submitted or in_progress",
        lambda p: [((job.kind or "undecided", job.status), 1) for job in p.jobs],
    ),
    _sum("lithify_job_bytes", "bytes that these jobs read", lambda p: sum(job.input_bytes for job in p.jobs)),
    _sum("lithify_job_ranges", "key ranges of these jobs", lambda p: sum(job.ranges for job in p.jobs)),
    _sum(
        "lithify_job_ranges_recorded",
        "of these ranges, those that are done and stay done if the compactor dies",
        lambda p: sum(job.recorded for job in p.jobs),
    ),
    _age(
        "lithify_job_age_seconds",
        "time since the oldest of these jobs was created",
        lambda p: min((job.created_at_ms for job in p.jobs), default=None),
    ),
    _age(
        "lithify_waiting_job_age_seconds",
        "time since the oldest job that no compactor has admitted was submitted",
        lambda p: min((job.created_at_ms for job in p.jobs if job.status == "submitted"), default=None),
    ),
    _sum(
        "lithify_failing_jobs",
        "sets of sources whose latest attempts failed without recording anything",
        lambda p: p.failing,
    ),
    # What is kept and what waits
    _by(
        "kind",
        "lithify_checkpoints",
        "checkpoints by owner: user, scan, view",
        lambda p: [((owner,), count) for owner, count in p.checkpoints.items()],
    ),
    _sum("lithify_uploads", "uploads apart from their commit that stand", lambda p: p.uploads),
    _sum(
        "lithify_garbage_segments",
        "replaced segments that wait for the grace period or for a checkpoint",
        lambda p: p.waiting.segments,
    ),
    _sum("lithify_garbage_bytes", "bytes of these segments", lambda p: p.waiting.bytes),
    _age(
        "lithify_garbage_age_seconds",
        "time since the oldest of these segments that no checkpoint keeps was replaced",
        lambda p: p.waiting.since_ms,
    ),
    _sum(
        "lithify_garbage_manifests",
        "manifests that were pinned, and wait for a collector to look at them",
        lambda p: p.waiting.manifests,
    ),
    # Where it is
    _by("home", "lithify_home_segments", "live segments by home", lambda p: _by_home(p, lambda use: use.segments)),
    _by("home", "lithify_home_bytes", "bytes of live segments by home", lambda p: _by_home(p, lambda use: use.bytes)),
    _by(
        "home",
        "lithify_home_garbage_bytes",
        "bytes of replaced segments by home, which wait for the collector",
        lambda p: _by_home(p, lambda use: use.retired_bytes),
    ),
    # Consumers
    _sum("lithify_consumers", "named consumers, counted in each partition", lambda p: p.consumers.count),
    _largest("lithify_consumer_lag_offsets", "offsets that the slowest consumer is behind", lambda p: p.consumers.lag),
    _by(
        "reason",
        "lithify_consumer_losses",
        "consumers that lost something: expired (records), deletions (missed tombstones)",
        lambda p: [(("expired",), p.consumers.overtaken), (("deletions",), p.consumers.missed)],
    ),
    _largest(
        "lithify_consumer_lost_offsets",
        "offsets that expired before the consumer that lost most had read them",
        lambda p: p.consumers.lost,
    ),
)
