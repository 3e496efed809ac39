"""What a compactor and a collector of this process have done, counted from their events (docs/metrics.md)."""

import threading
from collections.abc import Iterable, Iterator, Mapping
from typing import get_args

from lithify.admin.gauges import OTHER, TOPICS_MAX, Metric, Series
from lithify.events.notices import Collected, CollectionEnded, Lost, Trouble, What
from lithify.events.types import (
    AttemptBegan,
    AttemptEnded,
    Change,
    Claimed,
    Compacted,
    Event,
    JobEnded,
    Quarantined,
    RangesDiscarded,
    RangesRecorded,
    SegmentsDropped,
)
from lithify.manifest.jobs import Kind
from lithify.store.request_counts import RequestCounts
from lithify.store.timings import Durations, Spans

__all__ = ["BUCKETS_S", "COUNTERS", "DURATION", "Tally"]

_DROPS = ("superseded", "expired_tombstones", "below_floor", "keyless")  # fields of MergeCounts
BUCKETS_S = (1, 5, 15, 60, 300, 900, 3_600, 14_400, 86_400)


def _counter(name: str, labels: str, meaning: str) -> Metric:
    return Metric(f"lithify_{name}_total", "counter", tuple(labels.split()), meaning)


DURATION = Metric(
    "lithify_compaction_duration_seconds",
    "histogram",
    ("kind", "outcome"),
    "from the first attempt of a compaction to its end, pauses between its attempts included",
)

COUNTERS: tuple[Metric, ...] = (
    _counter("commits", "topic kind", "manifest and compactor files written, but for those without an event"),
    _counter("compactions", "topic kind outcome", "compactions that ended: completed, failed, cancelled"),
    _counter("compaction_read_records", "topic kind", "records that these compactions have read"),
    _counter("compaction_written_records", "topic kind", "records that they have written"),
    _counter("compaction_read_bytes", "topic kind", "bytes that they have read"),
    _counter("compaction_written_bytes", "topic kind", "bytes that they have written"),
    _counter("compaction_dropped_records", "topic reason", "records that they have dropped, by reason"),
    _counter("compaction_cpu_seconds", "topic kind", "processor time of their workers"),
    _counter("compaction_requests", "topic request", "requests of their workers: get or put"),
    _counter("compaction_dollars", "topic request", "those requests at S3's list prices"),
    _counter("reclaimed_records", "topic reason", "stored records less, once compacted or dropped"),
    _counter("reclaimed_bytes", "topic reason", "bytes of live segments less, once compacted or dropped"),
    _counter("attempts", "topic", "attempts that began, resumed ones included"),
    _counter("resumes", "topic", "attempts after the first one of their job"),
    _counter("resumed_ranges", "topic", "key ranges that a resumed attempt found done: work preserved"),
    _counter("attempt_ends", "topic reason", "attempts that ended before their job: stopped, or the error's category"),
    _counter("recorded_ranges", "topic", "key ranges that were recorded as done"),
    _counter("discarded_ranges", "topic", "key ranges to do again, because outputs are missing or damaged"),
    _counter("claims", "topic kind", "epochs claimed: first, or takeover from another compactor"),
    _counter("fencings", "topic", "partitions that another compactor took from this one"),
    _counter("quarantines", "topic", "partitions quarantined by this compactor"),
    _counter(
        "collected_objects",
        "topic reason",
        "objects deleted by the collector: replaced, unpinned, number, orphan, unannounced",
    ),
    _counter("collected_bytes", "topic reason", "their bytes; numbered files count as 0 unless a sweep found them"),
    _counter("collections", "outcome", "passes of the collector: done, or in_part if a partition failed"),
    _counter("troubles", "reason", "lasting conditions that began, such as `partition failed`"),
)

_Amounts = Iterator[tuple[str, tuple[str, ...], float]]


class Tally:
    """Thread-safe. `sink` is for a compactor or collector. The first `topics_max` topics that it is told of have series
    of their own for as long as it lives, so that no counter ever falls; the others are summed."""

    def __init__(self, topics_max: int = TOPICS_MAX) -> None:
        self._topics_max = topics_max
        self._topics: set[str] = set()
        self._sums: dict[str, dict[tuple[str, ...], float]] = {metric.name: {} for metric in COUNTERS}
        self._durations: dict[tuple[str, ...], Durations] = {}
        self._lock = threading.Lock()
        self._begin({"collections": [("done",), ("in_part",)], "troubles": [(what,) for what in get_args(What)]})

    def sink(self, event: Event) -> None:
        with self._lock:
            topic = self._label(event.topic) if event.topic else ""
            for name, labels, amount in _amounts(event, topic):
                series = self._sums[f"lithify_{name}_total"]
                series[labels] = series.get(labels, 0) + amount
            if isinstance(event, JobEnded) and event.started_at_ms is not None:
                place = (event.kind or "undecided", event.status)
                self._durations.setdefault(place, Durations(BUCKETS_S)).add((event.at_ms - event.started_at_ms) / 1000)

    def series(self) -> dict[str, Series]:
        """Of each counter, by its name."""
        with self._lock:
            return {name: dict(series) for name, series in self._sums.items()}

    def durations(self) -> dict[tuple[str, ...], Spans]:
        """By kind and outcome; their bounds are BUCKETS_S."""
        with self._lock:
            return {place: each.spans for place, each in self._durations.items()}

    def _label(self, topic: str) -> str:
        if topic not in self._topics and len(self._topics) < self._topics_max:
            self._topics.add(topic)
        label = topic if topic in self._topics else OTHER
        if (label,) not in self._sums["lithify_fencings_total"]:
            failed = [(label, kind, "failed") for kind in (*get_args(Kind), "undecided")]
            self._begin({"fencings": [(label,)], "quarantines": [(label,)], "compactions": failed})
        return label

    def _begin(self, known: Mapping[str, Iterable[tuple[str, ...]]]) -> None:
        """Series that alerts are about begin at 0: a rate does not see the first event of a series that begins at 1."""
        for name, places in known.items():
            self._sums[f"lithify_{name}_total"] |= dict.fromkeys(places, 0)


def _amounts(event: Event, topic: str) -> _Amounts:  # noqa: C901 - one flat table
    """(counter, labels, amount) of an event."""
    if isinstance(event, Change) and event.index == 0:
        yield "commits", (topic, event.chain), 1
    match event:
        case JobEnded():
            yield from _of_job(event, topic)
        case Compacted(replaced=replaced, made=made):
            yield "reclaimed_records", (topic, "compacted"), max(0, replaced.rows - made.rows)
            yield "reclaimed_bytes", (topic, "compacted"), max(0, replaced.bytes - made.bytes)
        case SegmentsDropped(dropped=dropped):
            yield "reclaimed_records", (topic, "dropped"), dropped.rows
            yield "reclaimed_bytes", (topic, "dropped"), dropped.bytes
        case AttemptBegan(attempt=attempt, recorded=recorded):
            yield "attempts", (topic,), 1
            if attempt > 1:
                yield "resumes", (topic,), 1
                yield "resumed_ranges", (topic,), recorded
        case AttemptEnded(error=error):
            yield "attempt_ends", (topic, "stopped" if error is None else error.category), 1
        case RangesRecorded(fresh=fresh):
            yield "recorded_ranges", (topic,), fresh
        case RangesDiscarded(discarded=discarded):
            yield "discarded_ranges", (topic,), discarded
        case Claimed(former=former):
            yield "claims", (topic, "takeover" if former else "first"), 1
        case Lost():
            yield "fencings", (topic,), 1
        case Quarantined():
            yield "quarantines", (topic,), 1
        case Collected(freed=freed):
            for each in freed:
                yield "collected_objects", (topic, each.cause), each.objects
                yield "collected_bytes", (topic, each.cause), each.bytes
        case CollectionEnded(failed=failed):
            yield "collections", ("in_part" if failed else "done",), 1
        case Trouble(what=what):
            yield "troubles", (what,), 1
        case _:
            pass


def _of_job(event: JobEnded, topic: str) -> _Amounts:
    kind, counts = event.kind or "undecided", event.counts
    yield "compactions", (topic, kind, event.status), 1
    if event.kind is None:
        return
    yield "compaction_read_records", (topic, kind), counts.rows_in
    yield "compaction_written_records", (topic, kind), counts.rows_out
    yield "compaction_read_bytes", (topic, kind), counts.bytes_read
    yield "compaction_written_bytes", (topic, kind), counts.bytes_written
    yield "compaction_cpu_seconds", (topic, kind), counts.cpu_ms / 1000
    for reason in _DROPS:
        yield "compaction_dropped_records", (topic, reason), getattr(counts, reason)
    yield "compaction_requests", (topic, "get"), counts.gets
    yield "compaction_requests", (topic, "put"), counts.puts
    yield "compaction_dollars", (topic, "get"), RequestCounts(gets=counts.gets).cost_usd
    yield "compaction_dollars", (topic, "put"), RequestCounts(puts=counts.puts).cost_usd
