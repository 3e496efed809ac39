"""The demo's steps, in order. Every figure shown was measured in this run."""

from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pyarrow as pa

from lithify.admin.client import Admin
from lithify.cli.demo.changes import Latest
from lithify.cli.demo.compactor import CompactorProcess, newest
from lithify.cli.demo.picture import Picture, measure, picture_table, verify, verify_gets
from lithify.cli.demo.pipeline import InProcess, OnSpark, Pipeline
from lithify.cli.demo.screen import Screen
from lithify.compactor.info import CompactionInfo
from lithify.gc.collector import GRACE_MS, Collector
from lithify.gc.reachable import Garbage
from lithify.log.warehouse import Warehouse
from lithify.manifest.words import counted
from lithify.store.driver import monotonic_ms, pause
from lithify.store.errors import Corrupt, Unavailable
from lithify.store.request_counts import RequestCounts

__all__ = ["TOPIC", "Place", "Story"]

TOPIC = "users"
PIN = "half-way"
RANGES = 18  # key ranges of the job, about; each is recorded when done
KILL_AT_PERCENT = 50
COLLECT_PASSES_MAX = 20
COLLECT_REST_MS = 300


@dataclass(frozen=True, slots=True)
class Place:
    """Where the demo works. `open` returns a new handle, with its own request counts."""

    open: Callable[[], Warehouse]
    url: str
    env: Mapping[str, str]  # for the compactor's process
    folder: Path  # for its log and its temporary files
    engine: str
    options: Mapping[str, Any]  # for reaching the store
    requests: Callable[[], RequestCounts] | None  # of all processes; None: this store does not count them


class Story:
    """Requires: nothing else uses the warehouse, which is collected without a grace period."""

    def __init__(self, screen: Screen, place: Place) -> None:
        self._screen = screen
        self._place = place
        self._warehouse = place.open()
        self._watching = place.open()  # a separate handle, so that watching is not counted as a cost
        self._admin = Admin(self._watching)
        self._topic = self._warehouse.create_topic(TOPIC, 1, {"cleanup.policy": "compact"})
        self._partition = self._topic.partition(0)
        self._counted = RequestCounts()

    def run(self, commits: Sequence[pa.Table]) -> None:
        """Raises Corrupt if a read differs from the dict, Unavailable if a compactor or Spark fails."""
        with self._pipeline() as pipeline:
            self._run(commits, pipeline)

    def _run(self, commits: Sequence[pa.Table], pipeline: Pipeline) -> None:
        latest, half = self._append(commits, pipeline)
        before = self._read("Read it all, before any compaction", latest)
        self._compact()
        self._take_over()
        self._collect(
            f"Collect the garbage without the grace period of {GRACE_MS // 60_000} minutes: nothing else reads here"
        )
        self._verify(latest, half, pipeline)
        self._partition.delete_checkpoint(PIN)
        self._collect(f"Delete checkpoint {PIN!r}, and collect what it kept")
        after = self._read("Read it all again", latest)
        self._screen.show(picture_table(before, after))

    def _append(self, commits: Sequence[pa.Table], pipeline: Pipeline) -> tuple[Latest, Latest]:
        """Append all commits; returns the state after them, and the state halfway, where a checkpoint was made."""
        latest, half = Latest(), Latest()
        records = sum(table.num_rows for table in commits)
        took_ms = 0
        middle = len(commits) // 2
        self._screen.step(f"Append {records:,} changes to topic {TOPIC!r} in {len(commits)} {pipeline.parts}")
        with self._screen.bar(pipeline.doing, 2) as show:
            for number, tables in enumerate((commits[:middle], commits[middle:]), start=1):
                began_ms = monotonic_ms()
                offsets = pipeline.append(tables)
                took_ms += monotonic_ms() - began_ms
                latest.apply(pa.concat_tables(tables), offsets)
                if number == 1:
                    pinned = self._partition.snapshot(pin=PIN)
                    half = latest.copy()
                    self._screen.say(f"halfway: checkpoint {PIN!r} pins manifest {pinned.manifest_id}")
                show(number)
        self._screen.say(
            f"durable in {_seconds(took_ms)}{pipeline.with_start}; {len(latest.rows):,} users live, "
            f"{len(latest.gone):,} deleted"
        )
        return latest, half

    def _read(self, title: str, latest: Latest) -> Picture:
        self._screen.step(title)
        picture = measure(self._warehouse, self._partition, latest)
        self._screen.say(
            f"{picture.records:,} records in {picture.segments} segments ({picture.bytes / 1e6:,.1f} MB) are read to "
            f"show {picture.live:,}: {picture.scan.ms:,.0f} ms, {picture.scan.requests:,.0f} requests"
        )
        return picture

    def _compact(self) -> None:
        """Run the first compactor, and kill it."""
        stored_bytes = self._partition.describe().bytes
        self._topic.alter({"compaction.output.bytes": max(1024, stored_bytes // RANGES)})
        self._screen.step(f"Start a compactor ({self._place.engine}), and kill it in the middle of its job")
        self._counted = self._requests()
        with (
            self._compactor() as compactor,
            self._bar() as show,
        ):

            def half_done(job: CompactionInfo) -> bool:
                done = job.progress.completion_percentage
                show(done)
                return job.completed_at is None and done >= KILL_AT_PERCENT

            killed = compactor.watch(self._admin, TOPIC, half_done)
            compactor.kill()
        if not killed:
            self._screen.say("the job finished before it could be killed; use more records, such as --records 2000000")
            return
        job = self._job()
        self._screen.say(
            f"kill -9 {compactor.pid}: job {job.id} ({job.kind}: {job.reason}) was "
            f"{job.progress.completion_percentage:g} % done"
        )
        self._screen.say(
            f"{job.attempts[-1].ranges_done} of {_ranges(job)} key ranges are recorded (segments: "
            f"{job.progress.output_segments_written}); readers do not see them yet"
        )

    def _take_over(self) -> None:
        """Run the second compactor, which redoes only what was not recorded."""
        stood = self._job()
        self._screen.step("Start another, which takes over")
        began_ms = monotonic_ms()
        with (
            self._compactor(take_over=True) as compactor,
            self._bar() as show,
        ):
            compactor.watch(self._admin, TOPIC, lambda job: show(job.progress.completion_percentage) is not None)
        took_ms, asked = monotonic_ms() - began_ms, self._requests() - self._counted
        job = self._job()
        if job.status != "completed":
            raise Unavailable(f"compaction {job.id} is {job.status}: {job.error.reason if job.error else job.reason}")
        kept = [a for a in self._outputs(job) if a < job.last_attempt]
        if len(job.attempts) > 1 and len(kept) != stood.progress.output_segments_written:
            raise Corrupt(f"{stood.progress.output_segments_written} segments were recorded, and {len(kept)} are kept")
        for attempt in job.attempts:
            self._screen.say(
                f"attempt {attempt.number}, epoch {attempt.epoch}: {counted(attempt.ranges_done, 'key range')} done"
            )
        self._screen.say(f"{len(kept)} recorded segments are kept as they are; committed after {_seconds(took_ms)}")
        counts = job.counts
        self._screen.say(
            f"{counts.rows_in:,} records in, {counts.rows_out:,} out ({counts.superseded:,} superseded); "
            f"{counts.bytes_read / 1e6:,.1f} MB read, {counts.bytes_written / 1e6:,.1f} MB written"
        )
        if self._place.requests is not None:
            self._screen.say(f"requests of both compactors: {asked.total:,}, ${asked.cost_usd:.4f} on S3")

    def _collect(self, title: str) -> None:
        self._screen.step(title)
        collector = Collector(self._place.open(), grace_ms=0)
        found: dict[str, Garbage] = {}
        waiting = -1
        for _ in range(COLLECT_PASSES_MAX):
            (done,) = collector.run_once(sweep=True).partitions
            if done.fault is not None:
                raise done.fault.error()
            if not done.deleted and done.waiting == waiting:
                break
            waiting = done.waiting
            found |= {garbage.key: garbage for garbage in done.deleted}
            pause(COLLECT_REST_MS)  # the store's clock has whole seconds
        kinds = Counter(self._kind(key) for key in found)
        files = counted(kinds["file"], "old manifest or job file")
        orphans = counted(kinds["orphan"], "orphan")
        self._screen.say(
            f"deleted: {counted(kinds['replaced'], 'replaced segment')}, {orphans} of the killed attempt, {files}"
        )
        if waiting:
            self._screen.say(f"{waiting} replaced segments stay: checkpoint {PIN!r} pins them")

    def _kind(self, key: str) -> str:
        if key.rpartition(".")[2] != "parquet":
            return "file"
        return "orphan" if self._job().destination in key else "replaced"

    def _verify(self, latest: Latest, half: Latest, pipeline: Pipeline) -> None:
        self._screen.step(f"Verify against a plain dict, read with {pipeline.reads}: every key, offset and value")
        verify(pipeline.latest(), latest, "what was read")
        absent = verify_gets(self._partition, latest)
        verify(pipeline.latest(PIN), half, f"checkpoint {PIN}")
        self._screen.say(f"now: {len(latest.rows):,} users equal; {absent} deleted or unknown keys are not found")
        self._screen.say(f"checkpoint {PIN!r}: {len(half.rows):,} users equal the dict as it was halfway")

    def _pipeline(self) -> AbstractContextManager[Pipeline]:
        place = self._place
        if place.engine == "spark":
            return OnSpark(place.url, self._partition, place.env, place.folder, place.options)
        return nullcontext(InProcess(self._partition))

    def _compactor(self, take_over: bool = False) -> CompactorProcess:
        place = self._place
        return CompactorProcess(place.url, place.engine, place.env, place.folder, take_over=take_over)

    def _bar(self) -> AbstractContextManager[Callable[[float], None]]:
        return self._screen.bar(f"{self._place.engine} starts, then compacts", 100)

    def _job(self) -> CompactionInfo:
        job = newest(self._admin, TOPIC)
        assert job is not None
        return job

    def _outputs(self, job: CompactionInfo) -> list[int]:
        """For each segment of the job's run, the attempt that wrote it: its number is in the name (P10)."""
        name = job.destination + "-"
        runs = self._partition.describe().runs
        found = [segment.id for run in runs for segment in run.segments if segment.id.startswith(name)]
        return [int(segment.removeprefix(name).partition("-")[0]) for segment in found]

    def _requests(self) -> RequestCounts:
        """Requests of the compactors so far, if the store counts them: those of all processes, less our own for
        watching."""
        if self._place.requests is None:
            return RequestCounts()
        return self._place.requests() - self._watching.store.requests()


def _ranges(job: CompactionInfo) -> int:
    done = sum(attempt.ranges_done for attempt in job.attempts)
    return round(100 * done / job.progress.completion_percentage) if done else 0


def _seconds(ms: int) -> str:
    return f"{ms / 1000:.1f} s"
