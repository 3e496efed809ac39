"""Every numbered file when it appears: how large it is, how long its lists are, and what it says of who is at work."""

from collections import Counter
from dataclasses import dataclass, field
from typing import Any

import msgspec

from tests.sim.judge.layout import Json, Place, load, place_of
from tests.sim.judge.settings import Settings, settings
from tests.sim.lists import with_runs
from tests.sim.months.bounds import LEASE_MS, LISTS, file_bytes
from tests.sim.months.clock import MINUTE_MS, Process
from tests.sim.months.served import Span
from tests.sim.months.site import Site

__all__ = ["Ledger", "Partition"]

Raws = list[msgspec.Raw]
BEHIND_MS = 30 * MINUTE_MS  # in which what waits is paid


class _Run(msgspec.Struct):
    segments: Raws


class _Manifest(msgspec.Struct):
    l0: Raws = []
    runs: list[_Run] = []
    time_index: Raws = []
    retired: Raws = []
    completed_jobs: Raws = []
    checkpoints: Raws = []
    sealed: bool = False


class _Attempt(msgspec.Struct):
    ended_at_ms: int | None = None


class _Plan(msgspec.Struct):
    ranges: Raws = []


class _Job(msgspec.Struct):
    id: str
    status: str = ""
    started_at_ms: int | None = None
    completed_at_ms: int | None = None
    plan: _Plan | None = None
    attempts: list[_Attempt] = []
    segments: list[str] = []
    sources: Raws = []


class _State(msgspec.Struct):
    epoch: int = 0
    planning: bool = False
    jobs: list[_Job] = []
    history: list[_Job] = []
    failures: Raws = []


_manifest, _state = msgspec.json.Decoder(_Manifest).decode, msgspec.json.Decoder(_State).decode


@dataclass(eq=False)
class Partition:
    """As its files have it by now."""

    topic: str
    root: str
    unstopped: Span  # served, and neither paused nor throttled
    free: Span  # and no job of its own runs
    born: dict[int, int] = field(default_factory=dict)  # of manifests, those that are gone, too
    there: dict[str, dict[int, int]] = field(default_factory=lambda: {"manifest": {}, "compactor": {}, "boundary": {}})
    boundaries: list[tuple[int, Json]] = field(default_factory=list)  # with when each was written
    segments: dict[str, int] = field(default_factory=dict)  # by id, when it was uploaded
    state: _State = field(default_factory=_State)
    busy_until_ms: int = 0
    claims: int = 0
    unpinned_ms: int = 0  # when a checkpoint left last
    pins: frozenset[int] = frozenset()
    ever_pinned: set[int] = field(default_factory=set)
    bytes: int = 0
    units: tuple[int, int] = (0, 0)  # L0 segments, and runs
    parsed: tuple[int, Json] | None = None  # the newest manifest that was looked at

    @property
    def number(self) -> int:
        return int(self.root.rstrip("/").rpartition("/")[2])

    def last(self, chain: str) -> int:
        return next(reversed(self.there[chain]), 0)


class Ledger:
    def __init__(self, site: Site) -> None:
        self.site = site
        self.partitions: dict[str, Partition] = {}
        self.settings: dict[str, tuple[int, Settings, int]] = {}  # by topic: since when, and the throttle
        self.longest: Counter[tuple[str, str]] = Counter()
        self.largest: Counter[str] = Counter()  # bytes of a numbered file, by kind
        self.written: Counter[str] = Counter()  # bytes of all of them
        self.files: Counter[str] = Counter()
        self.longest_job_ms = 0
        site.bucket.created, site.bucket.deleted = self.created, self.deleted
        site.refused = self._refused

    def created(self, _: Process, key: str, body: Any) -> None:
        place = place_of(key)
        if place is None:
            if key.endswith(".topic"):
                self._topic(body)
            return
        partition = self._partition(key, place)
        number, now_ms = place.number, self.site.clock.now_ms
        if number is None:
            if place.segment is not None:
                partition.segments[place.segment] = now_ms
            return
        partition.there[place.folder][number] = now_ms
        self.files[place.folder] += 1
        self.written[place.folder] += len(body)
        self.largest[place.folder] = max(self.largest[place.folder], len(body))
        if place.folder == "manifest":
            partition.born[number] = now_ms
            self._manifest(partition, key, body)
        elif place.folder == "compactor":
            self._compactor(partition, key, body)
        else:
            partition.boundaries.append((now_ms, load(body)))

    def deleted(self, key: str) -> None:
        place = place_of(key)
        if place is None:
            return
        partition = self._partition(key, place)
        if place.segment is not None:
            partition.segments.pop(place.segment, None)
        elif place.number is not None:
            partition.there[place.folder].pop(place.number, None)

    def head(self, partition: Partition) -> Json:
        number = partition.last("manifest")
        if partition.parsed is None or partition.parsed[0] != number:
            partition.parsed = number, self.manifest(partition, number) or {}
        return partition.parsed[1]

    def manifest(self, partition: Partition, number: int) -> Json | None:
        found = self.site.bucket.find(f"{partition.root}manifest/{number:020d}.manifest")
        return None if found is None else self._whole(partition, load(found.body))

    def _whole(self, partition: Partition, manifest: Json) -> Json:
        """With the runs that are in run lists, if these are there still: those of a dead manifest may be gone."""
        named = [each["id"] for each in manifest.get("lists", ())]
        lists = {name: self.site.bucket.find(f"{partition.root}manifest/{name}.runs") for name in named}
        bodies = {name: each.body for name, each in lists.items() if each is not None}
        return with_runs(manifest, bodies) if named and len(bodies) == len(named) else manifest

    def left(self, partition: Partition) -> list[str]:
        """The numbered files of it that are there."""
        keys = self.site.bucket.keys(partition.root)
        return [key for key in keys if (place := place_of(key)) is not None and place.number is not None]

    def settle(self, partition: Partition) -> None:
        """Time has come to now: whoever was busy may not have been for a while."""
        now_ms = self.site.clock.now_ms
        self.site.served.settle(now_ms)
        self.site.collected.settle(now_ms)
        if not partition.free.runs and now_ms >= partition.busy_until_ms:
            partition.free.turn(partition.busy_until_ms, runs=True)

    def _partition(self, key: str, place: Place) -> Partition:
        known = self.partitions.get(place.root)
        if known is None:
            now_ms = self.site.clock.now_ms
            unstopped = Span(now_ms, self.site.served)
            topic = key.split("/", 1)[0]
            known = self.partitions[place.root] = Partition(topic, place.root, unstopped, Span(now_ms, unstopped))
        return known

    def _refused(self, topic: str, number: int) -> None:
        """The limit is reached where compaction is behind, and nothing of the load here is more than it can do."""
        now_ms = self.site.clock.now_ms
        for partition in self.partitions.values():
            if (partition.topic, partition.number) == (topic, number):
                self.settle(partition)
                if partition.unstopped.since(now_ms - BEHIND_MS, now_ms) == BEHIND_MS:
                    self.site.clock.fail(f"{partition.root}: an append is refused, though it was served for long")

    def _topic(self, body: bytes) -> None:
        told, now_ms = load(body), self.site.clock.now_ms
        found = settings(told["id"], told["config"])
        throttle = int(told["config"].get("compaction.throttle.bytes.per.second", -1))
        self.settings[told["topic"]] = now_ms, found, throttle
        for partition in self.partitions.values():
            if partition.topic == told["topic"]:
                self.settle(partition)
                partition.unstopped.turn(now_ms, runs=not found.paused and throttle < 0)

    def _manifest(self, partition: Partition, key: str, body: bytes) -> None:
        found = _manifest(body)
        live = len(found.l0) + sum(len(run.segments) for run in found.runs)
        runs = len(self._whole(partition, load(body))["runs"]) if b'"lists":' in body else len(found.runs)
        partition.units = len(found.l0), runs
        for name in ("completed_jobs", "time_index", "checkpoints", "retired"):
            self._list(key, "manifest", name, len(getattr(found, name)), sealed=found.sealed)
        self._size(key, len(body), live + len(found.retired), 0)
        if found.checkpoints or partition.pins:
            pins = frozenset(msgspec.json.decode(each)["manifest"] for each in found.checkpoints)
            if partition.pins - pins:
                partition.unpinned_ms = self.site.clock.now_ms
            partition.pins = pins
            partition.ever_pinned |= pins

    def _compactor(self, partition: Partition, key: str, body: bytes) -> None:
        found, before, now_ms = _state(body), partition.state, self.site.clock.now_ms
        for name in ("jobs", "history", "failures"):
            self._list(key, "compactor", name, len(getattr(found, name)))
        for job in (*found.jobs, *found.history[-2:]):
            self._list(key, "compactor", "attempts", len(job.attempts))
            took_ms = (job.completed_at_ms or now_ms) - (job.started_at_ms or now_ms)
            self.longest_job_ms = max(self.longest_job_ms, took_ms)
        held = sum(len(job.segments) for job in found.jobs)
        self._size(key, len(body), held, sum(len(job.plan.ranges) for job in found.jobs if job.plan is not None))
        partition.claims += found.epoch > before.epoch
        self.settle(partition)
        partition.state = found
        at_work = found.planning or any(a.ended_at_ms is None for job in found.jobs for a in job.attempts)
        partition.busy_until_ms = now_ms + LEASE_MS if at_work else now_ms
        partition.free.turn(now_ms, runs=not at_work)

    def _list(self, key: str, kind: str, name: str, length: int, *, sealed: bool = False) -> None:
        self.longest[kind, name] = max(self.longest[kind, name], length)
        if length > LISTS[kind, name] and not sealed:
            self.site.clock.fail(f"{key}: {name} has {length} entries, more than {LISTS[kind, name]}")

    def _size(self, key: str, size: int, references: int, ranges: int) -> None:
        most = file_bytes(references, ranges)
        if size > most:
            self.site.clock.fail(f"{key} has {size} bytes, {most} at most for {references} references, {ranges} ranges")
