"""A partition without Parquet: the production policy, edits and keep/drop rules over rows in arrays, so that ten
thousand appends and all that the policy makes of them take seconds.

Bytes are rows times `row_bytes`. The clock is the simulation's own. A job takes no time, and nothing is appended
meanwhile: what interleaves is for the protocol's tests.
"""

from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from itertools import zip_longest
from typing import Any

import numpy as np
from msgspec.structs import replace

from benchmarks.rows import Rows, joined, merged, reference
from lithify.compactor.estimate import target_bytes
from lithify.compactor.plan import Proposal, choose_requested, fan_in, freeze, kind_of, offset_ranges
from lithify.compactor.policy import Drop, Propose, Wait, decide
from lithify.manifest.appends import Append
from lithify.manifest.claims import Claim
from lithify.manifest.compactions import CommitCompaction
from lithify.manifest.config import TopicConfig
from lithify.manifest.debt import Due, assess
from lithify.manifest.edits import Next, Refused
from lithify.manifest.floor import DropSegments, SetBounds
from lithify.manifest.homes import ONLY_HERE
from lithify.manifest.invariants import check_manifest
from lithify.manifest.jobs import Job, KeyRange, Kind
from lithify.manifest.keys import SegmentId
from lithify.manifest.model import FORMAT, Manifest, SegmentRef, SortedRun
from lithify.manifest.pins import Collect
from lithify.manifest.reading import Reading
from lithify.manifest.retention import retention_of
from lithify.manifest.units import Unit
from lithify.segment.merge import Tally
from lithify.segment.rules import NO_HORIZON
from lithify.store.errors import Unavailable

__all__ = ["START_MS", "Figures", "Simulation"]

START_MS = 1_000_000_000_000
_JOBS_OF_A_PASS_MAX = 1_000  # a policy that goes on for longer does not converge


@dataclass(slots=True)
class Figures:
    """What a workload came to. Samples of L0, runs and sources are taken whenever the compactor has come to rest."""

    bytes_appended: int = 0
    bytes_compacted: int = 0  # of all outputs of compactions
    appends_refused: int = 0  # at l0.segments.max
    l0_max: int = 0
    runs_max: int = 0
    sources: int = 0  # L0 segments and runs: what a scan merges
    samples: int = 0
    jobs: Counter[str] = field(default_factory=Counter[str])  # by the debt they named
    fruitless: list[str] = field(default_factory=list[str])  # jobs that did not lessen the debt they named

    @property
    def write_amplification(self) -> float:
        return (self.bytes_appended + self.bytes_compacted) / self.bytes_appended

    @property
    def read_amplification(self) -> float:
        return self.sources / max(self.samples, 1)


class Simulation:
    """One partition, its clock and what became of it."""

    def __init__(self, config: TopicConfig, row_bytes: int) -> None:
        self.config = config
        self.row_bytes = row_bytes
        self.now_ms = START_MS
        self.figures = Figures()
        self.manifest = Manifest(format=FORMAT, topic="simulated", topic_id="one", partition=0, id=1, nonce="n")
        self._rows: dict[str, Rows] = {}
        self._made = 0
        self._commit(Claim(None))

    def append(self, key: Any, tombstone: Any = None, timestamp_ms: Any = None) -> bool:
        """One segment of records stamped `timestamp_ms` (the clock's unless told); False where it was refused."""
        count = len(key)
        rows = Rows(
            key=key,
            offset=np.arange(self.manifest.next_offset, self.manifest.next_offset + count),
            timestamp_ms=np.full(count, self.now_ms) if timestamp_ms is None else timestamp_ms,
            tombstone=np.zeros(count, np.bool_) if tombstone is None else tombstone,
            horizon_ms=np.full(count, NO_HORIZON),
        )
        ref = self._reference(SegmentId.for_append(self.manifest.id, self._nonce()), rows)
        try:
            self._commit(Append(ref, self.config.l0_segments_max))
        except Unavailable:
            self.figures.appends_refused += 1
            return False
        self._rows[ref.id] = rows
        self.figures.bytes_appended += ref.bytes
        return True

    def compact(self, jobs_max: int | None = None) -> int:
        """Do what is due until nothing is, or `jobs_max` jobs and drops are done; answers with how many that took."""
        for steps in range(_JOBS_OF_A_PASS_MAX):
            if steps == jobs_max:
                return steps
            action = decide(self._reading())
            self.figures.l0_max = max(self.figures.l0_max, len(self.manifest.l0))
            self.figures.runs_max = max(self.figures.runs_max, len(self.manifest.runs))
            match action:
                case Wait():
                    self.figures.sources += len(self.manifest.l0) + len(self.manifest.runs)
                    self.figures.samples += 1
                    return steps
                case Propose(due) | Drop(due):
                    self._do(due)
                case _:
                    raise AssertionError(f"no job is under way, yet the policy answers {action}")
        raise AssertionError(f"the policy is not done after {_JOBS_OF_A_PASS_MAX} jobs: {dict(self.figures.jobs)}")

    def request(self, *wanted: str) -> None:
        """A manual compaction of L0 segments and runs by their ids, of everything without. Raises InvalidRequest."""
        chosen = choose_requested(self.manifest, wanted, self.now_ms, self.config)
        held = fan_in(chosen)
        if held:
            asked = kind_of(self._reading(), chosen)
            self._compact(held, asked if len(held) == len(chosen) else "tier", "asked for")
            self._collect()

    def alter(self, config: TopicConfig) -> None:
        """As Topic.alter does it: the floor is stored under the old bounds with the new ones (R3)."""
        bounds = retention_of(config)
        if bounds != self.manifest.retention:
            self._commit(SetBounds(bounds, self.manifest.config_at + 1, bounds))
        self.config = config

    def settle(self) -> bool:
        """Without appends, let every lag pass, again and again; whether the policy comes to rest for good."""
        config = self.config
        lags = [config.min_compaction_lag_ms, config.delete_retention_ms, config.retention_ms * config.deleting]
        lags += [config.max_compaction_lag_ms] if config.max_compaction_lag_ms < START_MS else []
        # Each lag may make the next one start: cleaned when old enough, stamped, expired.
        for _ in range(len(lags) + 2):
            self.now_ms += max(lags) + 1
            if self.compact() == 0:
                return True
        return False

    def _do(self, due: Due) -> None:
        name = due.debt
        before = self._owed(name)
        if due.kind == "drop":
            self._commit(DropSegments(self.manifest.compactor_epoch, frozenset()))
        else:
            self._compact(due.units, due.kind, due.reason)
        self._collect()
        self.figures.jobs[name] += 1
        after = self._owed(name)
        if after >= before:
            self.figures.fruitless.append(f"{due.kind} for {name}: {before} -> {after} ({due.reason})")

    def _owed(self, name: str) -> int:
        """How large the debt of this name is."""
        debt = assess(Reading.of(self.manifest, None, self.config, self.now_ms))
        match name:
            case "floor":
                return sum(s.bytes for s in debt.droppable)
            case "overdue" | "dirty":
                return debt.dirty_bytes
            case "l0" | "l0-pressure":
                return len(self.manifest.l0)
            case "runs" | "runs-pressure":
                return len(self.manifest.runs)
            case "tombstones":
                return sum(s.tombstones for s in self.manifest.segments())
            case "fan-in":
                to_sort = sum(s.bytes for s in self.manifest.segments() if self.config.compacted and s.order != "key")
                return to_sort + len(self.manifest.l0) + len(self.manifest.runs)
            case _:
                raise AssertionError(f"no measure is known for debt {name!r}")

    def _reading(self) -> Reading:
        return Reading.of(self.manifest, None, self.config, self.now_ms)

    def _compact(self, chosen: Sequence[Unit], kind: Kind, reason: str) -> None:
        job_id = SegmentId.for_job(self.manifest.id, self._nonce())
        job = freeze(self._reading(), Proposal(chosen, kind, reason), self._ranges(chosen), job_id)
        assert job.plan is not None
        kept, tally = self._merged(job)
        outputs = tuple(self._written(job, kept))
        self.figures.bytes_compacted += sum(ref.bytes for ref in outputs)
        commit = CommitCompaction(
            epoch=self.manifest.compactor_epoch,
            job=job.id,
            segments=job.segments,
            run=SortedRun(id=job.destination, segments=outputs),
            coverage_offset=job.plan.rules.coverage_offset,
            clean=kind == "clean",
            forget=tuple(done.id for done in self.manifest.completed_jobs),
            floor=job.plan.rules.floor,
            lost=tuple((start, rows) for start, rows in zip(job.plan.rules.buckets, tally.lost, strict=False) if rows),
            sizes=tuple(zip_longest(job.plan.rules.buckets, tally.kept_bytes, tally.lost_bytes, fillvalue=0)),
            dropped_to=tally.dropped_to,
        )
        self._commit(commit)

    def _ranges(self, chosen: Sequence[Unit]) -> tuple[KeyRange, ...]:
        if self.config.compacted:
            return (KeyRange(),)
        size = sum(unit.bytes for unit in chosen)
        return offset_ranges([s for unit in chosen for s in unit.segments], target_bytes(self.config, size))

    def _merged(self, job: Job) -> tuple[Rows, Tally]:
        assert job.plan is not None
        rows = joined([self._rows[name] for name in job.segments])
        return merged(job.plan.rules, rows, 2 * self.row_bytes)

    def _written(self, job: Job, kept: Rows) -> Iterator[SegmentRef]:
        """`kept` in segments of the size where outputs are cut, and between keys (R5)."""
        assert job.plan is not None
        most = max(self.config.output_bytes // self.row_bytes, 1)
        highs = [high for key_range in job.plan.ranges[:-1] if (high := key_range.high_offset) is not None]
        ends = [int(end) for end in np.searchsorted(kept.offset, highs)] if highs else []
        start = 0
        for end in (*ends, len(kept)):
            while start < end:
                cut = min(start + most, end)
                while self.config.compacted and cut < end and kept.key[cut] == kept.key[cut - 1]:
                    cut += 1
                part = kept.take(slice(start, cut))
                ref = self._reference(SegmentId.for_output(job.id, 1, 0, self._nonce()), part)
                self._rows[ref.id] = part
                yield ref
                start = cut

    def _reference(self, name: str, rows: Rows) -> SegmentRef:
        return reference(name, rows, self.row_bytes, "key" if self.config.compacted else "offset")

    def _nonce(self) -> str:
        self._made += 1
        return f"{self._made:08x}"

    def _commit(self, edit: Any) -> Any:
        """As a commit does it: the edit, then the invariants (P2)."""
        number = self.manifest.id + 1
        verdict = edit.apply(self.manifest, number, self.now_ms)
        if isinstance(verdict, Refused):
            raise verdict.error
        assert isinstance(verdict, Next)
        value = replace(verdict.value, id=number, nonce="n")
        check_manifest(self.manifest, value)
        self.manifest = value
        return verdict.result

    def _collect(self) -> None:
        """Garbage collection without grace: what is retired goes at once."""
        gone = frozenset(entry.id for entry in self.manifest.retired)
        self._commit(Collect(boundary=self.manifest.id, collected=gone, homes=ONLY_HERE))
        for name in gone:
            del self._rows[name]
