"""Random histories of a log, and the judge who looks on: after every step all that was stored and all that is shown is
what the model says. A history is a seed; nothing else decides it."""

import random
from collections.abc import Callable, Collection, Iterable, Sequence
from dataclasses import dataclass, field

from lithify.manifest.config import TopicConfig
from lithify.manifest.debt import units
from lithify.manifest.model import Manifest, SegmentRef
from lithify.manifest.retention import floor_at
from lithify.store.errors import InvalidRequest
from tests.clock import HandClock
from tests.properties.log import Log, View
from tests.properties.model import Admission, AppendedAt, Row, floors, index_problem, latest, merged

__all__ = ["Alphabet", "History", "config_of", "play"]

HOUR_MS, DAY_MS, WEEK_MS = 3_600_000, 86_400_000, 604_800_000
JUMPS_MS = (0, 1, 17, 999, 1_000, 1_001, HOUR_MS - 1, HOUR_MS, HOUR_MS + 1, DAY_MS, WEEK_MS, WEEK_MS + 1, 3 * WEEK_MS)
SKEWS_MS = (0, 0, 0, 0, -1, -1_000, -HOUR_MS, -DAY_MS, -3 * WEEK_MS, 1, HOUR_MS, WEEK_MS)
BEGINNING = 3  # steps that are appends, so that there is something to work on


@dataclass(frozen=True)
class Alphabet:
    """What records are made of."""

    keys: tuple[bytes, ...] = (b"", b"k0", b"k1", b"k2", b"k3", b"k4", b"k5")
    values: tuple[bytes, ...] = (b"v",)  # what a value begins with
    names: tuple[str, ...] = ("h",)  # of headers


def config_of(dice: random.Random, row_bytes: int, *, by_bytes: bool = True) -> dict[str, str]:
    """`by_bytes` False: nothing that is decided by the sizes of segments, which two codecs never share."""
    min_lag_ms = dice.choice((0, 0, 0, 1_000, HOUR_MS))
    config = {
        "cleanup.policy": dice.choice(("delete", "compact", "compact", "compact,delete", "compact,delete", "")),
        "retention.ms": dice.choice(("-1",) * 5 + ("0", "1000", str(HOUR_MS), str(DAY_MS), str(WEEK_MS))),
        "retention.records": dice.choice(("-1",) * 6 + ("0", "5", "12", "25")),
        "min.cleanable.dirty.ratio": dice.choice(("0", "0", "0.3", "0.5", "1") if by_bytes else ("0", "0", "1")),
        "min.compaction.lag.ms": str(min_lag_ms),
        "max.compaction.lag.ms": str(dice.choice((2**63 - 1, 2**63 - 1, HOUR_MS, WEEK_MS))),
        "delete.retention.ms": dice.choice(("0", "1000", str(HOUR_MS), str(DAY_MS))),
        "message.timestamp.type": dice.choice(("CreateTime",) * 4 + ("LogAppendTime",)),
        "l0.segments.tier": dice.choice(("2", "3", "3", "8")),
        "runs.tier": dice.choice(("2", "4")) if by_bytes else "256",
        "compaction.attempts.max": "1000",
    }
    if by_bytes:
        config["retention.bytes"] = dice.choice(("-1",) * 6 + ("0", *(str(rows * row_bytes) for rows in (5, 12, 25))))
        config["compaction.output.bytes"] = dice.choice(("1024", "1024", str(2**28)))
    return config


@dataclass
class History:
    """One log, its model, and what was done to it so far."""

    seed: int
    log: Log
    clock: HandClock
    by_bytes: bool = True
    alphabet: Alphabet = Alphabet()
    story: list[str] = field(default_factory=list)
    records: list[Row] = field(default_factory=list)  # all that were ever appended, by offset
    appends: list[AppendedAt] = field(default_factory=list)
    pins: dict[str, View] = field(default_factory=dict)
    admitted: dict[str, Admission] = field(default_factory=dict)
    held_by: dict[str, frozenset[str]] = field(default_factory=dict)  # by jobs that were under way after a step
    held: frozenset[str] = frozenset()  # segments of jobs under way
    ever_compacted: bool = False
    floor: int = 0
    seen: Manifest | None = None

    @property
    def _head(self) -> Manifest:
        assert self.seen is not None
        return self.seen

    def step(self, number: int) -> None:
        dice = random.Random(f"{self.seed}/{number}")
        ways, weights = zip(*self._ways(), strict=True)
        way = self._append if number < BEGINNING else dice.choices(ways, weights)[0]
        self.story.append(way.__name__.strip("_"))
        way(dice)
        self.judge()

    def _ways(self) -> Iterable[tuple[Callable[[random.Random], None], int]]:
        yield self._append, 8
        yield self._advance, 4
        yield self._pass, 5
        yield self._full, 2
        yield self._tier, 4
        yield self._fail, 1
        yield self._alter, 2
        yield self._collect, 2
        yield self._delete_records, 1
        yield self._pin, 1
        yield self._reopen, 1

    def _append(self, dice: random.Random) -> None:
        config, base, now_ms, letters = self.log.config, len(self.records), self.clock.now_ms, self.alphabet
        rows: list[Row] = []
        for offset in range(base, base + dice.choice((1, 1, 2, 3, 5))):
            key = None if not config.compacted and dice.random() < 0.2 else dice.choice(letters.keys)
            text = letters.values[offset % len(letters.values)] + b"%d" % offset
            value = None if dice.random() < 0.3 else b"" if dice.random() < 0.1 else text
            name = letters.names[offset % len(letters.names)]
            headers = ((name, text), ("n", None)) if dice.random() < 0.2 else ()
            stamp_ms = max(0, now_ms + dice.choice(SKEWS_MS))
            rows.append(Row(offset, key, value, stamp_ms, headers))
        if config.message_timestamp_type == "LogAppendTime":
            kept = [row._replace(timestamp_ms=now_ms) for row in rows]
        else:
            kept = rows
        assert self.log.append(rows) == range(base, base + len(rows))
        self.records += kept
        self.appends.append(AppendedAt(base, len(self.records), max(row.timestamp_ms for row in kept)))
        self.story[-1] += f" {[(_brief(r.key), r.value is not None, r.timestamp_ms - now_ms) for r in kept]}"

    def _advance(self, dice: random.Random) -> None:
        turns = [moment - self.clock.now_ms + dice.choice((-1, 0, 1)) for moment in self._moments()]
        ahead = [jump_ms for jump_ms in turns if jump_ms >= 0]
        jump_ms = dice.choice(ahead) if ahead and dice.random() < 0.5 else dice.choice(JUMPS_MS)
        self.clock.now_ms += jump_ms
        self.story[-1] += f" {jump_ms} ms"

    def _moments(self) -> Iterable[int]:
        """When something turns: a horizon, the age of an append against each bound."""
        config = self.log.config
        for ref in self._head.segments():
            yield from (at for at in (ref.min_horizon_ms, ref.max_horizon_ms) if at is not None)
        for at in self.appends:
            for age_ms in (config.retention_ms, config.min_compaction_lag_ms):
                yield at.max_timestamp_ms + max(age_ms, 0)
            if config.max_compaction_lag_ms <= WEEK_MS:
                yield at.max_timestamp_ms + config.max_compaction_lag_ms

    def _pass(self, dice: random.Random) -> None:
        self.log.compact()

    def _full(self, dice: random.Random) -> None:
        self._submit(())

    def _tier(self, dice: random.Random) -> None:
        """By sources: neighbours, or any; never one that a job holds, which would be refused."""
        known = [unit.id for unit in units(self._head)]
        if len(known) < 2:
            return
        count = dice.randint(1, len(known))
        start = dice.randint(0, len(known) - count)
        chosen = known[start : start + count] if dice.random() < 0.6 else dice.sample(known, count)
        self.story[-1] += f" {sorted(map(known.index, chosen))} of {len(known)}"
        self._submit(chosen)

    def _submit(self, sources: Sequence[str]) -> None:
        try:
            self.log.submit(sources)
        except InvalidRequest:  # young and old records do not mix
            self.story[-1] += ": refused"
        self.log.compact()

    def _fail(self, dice: random.Random) -> None:
        self.log.submit(())
        self.log.compact(fails_after=dice.choice((0, 1)))

    def _alter(self, dice: random.Random) -> None:
        config = config_of(dice, self.log.row_bytes, by_bytes=self.by_bytes)
        names = ["cleanup.policy"] * (dice.random() < 0.5) + dice.sample(sorted(config), dice.randint(1, 3))
        changes = {name: config[name] for name in names}
        self.story[-1] += f" {changes}"
        try:
            self.log.alter(changes)
        except InvalidRequest:  # the lags would contradict each other
            self.story[-1] += " refused"

    def _collect(self, dice: random.Random) -> None:
        for _ in range(dice.choice((1, 2))):
            self.log.collect(sweeping=dice.random() < 0.3)
            self.clock.now_ms += dice.choice((0, 70_000))

    def _delete_records(self, dice: random.Random) -> None:
        before = dice.randint(0, len(self.records))
        self.story[-1] += f" before {before}"
        assert self.log.delete_records(before) >= before

    def _pin(self, dice: random.Random) -> None:
        name = f"pin {dice.randrange(3)}"
        if name in self.pins:
            self.log.unpin(name)
            del self.pins[name]
        else:
            self.log.pin(name)
            self.pins[name] = self.log.pinned(name)
            now = self.log.view()
            assert (self.pins[name].read, self.pins[name].scan) == (now.read, now.scan), "a pin shows what is"

    def _reopen(self, dice: random.Random) -> None:
        self.log.reopen()

    def judge(self) -> None:
        self.ever_compacted |= self.log.config.compacted
        head = self.log.head()
        previous = self.seen
        if previous is not None:
            for number in range(previous.id + 1, head.id + 1):
                following = head if number == head.id else self.log.manifest(number)
                self._judge_edit(previous, following)
                previous = following
        self.seen = head
        self._remember_admissions(head)
        self._judge_view(head)
        for name, then in self.pins.items():
            now = self.log.pinned(name)
            assert (now.log_start_offset, now.read, now.scan) == (then.log_start_offset, then.read, then.scan), name

    def _judge_edit(self, previous: Manifest, following: Manifest) -> None:
        was, now = ({s.id: s for s in m.segments()} for m in (previous, following))
        gone = [was[i] for i in was if i not in now]
        new = [now[i] for i in now if i not in was]
        for ref in new:
            self._judge_reference(ref)
        known = {job.id for job in previous.completed_jobs}
        done = [job.id for job in following.completed_jobs if job.id not in known]
        if done:
            self._judge_compaction(done[0], previous, following, gone, new)
            return
        assert following.cleaned_to == previous.cleaned_to
        held = self.held - self._let_go()
        assert held.isdisjoint(ref.id for ref in gone), "what a job holds goes with the job"
        for ref in gone:
            assert all(row.offset < following.log_start_offset for row in self.log.rows(ref)), "dropped above the floor"
        for ref in new:
            rows = sorted(self.log.rows(ref))
            assert rows == self.records[ref.min_offset : ref.max_offset + 1], "an append changed"
        appended = following.next_offset - previous.next_offset
        assert appended == sum(ref.rows for ref in new), "next_offset grows by appends alone"

    def _judge_compaction(
        self, job_id: str, previous: Manifest, following: Manifest, gone: list[SegmentRef], new: list[SegmentRef]
    ) -> None:
        state = self.log.state()
        job = None if state is None else state.job(job_id)
        assert job is not None
        taken = {ref.id for ref in gone}
        assert self.held_by.get(job_id, taken) == taken, "exactly the sources that it held go"
        assert job.input_segments == len(taken), "an ended job has their number"
        when = self.admitted.pop(job_id, None) or self._admission(previous, taken)
        sources = [row for ref in gone for row in self.log.rows(ref)]
        outputs = sorted(row for ref in new for row in self.log.rows(ref))
        expected = merged(sources, when, clean=job.kind == "clean")
        assert outputs == expected, f"{job.kind}: {outputs} instead of {expected}"
        assert following.next_offset == previous.next_offset, "a compaction appends nothing"
        cleaned_to = previous.cleaned_to
        if job.kind == "clean":
            cleaned_to = max(cleaned_to, min(when.left_out, default=previous.next_offset))
        assert following.cleaned_to == cleaned_to
        live = [row for ref in following.segments() for row in self.log.rows(ref)]
        for row in outputs:
            if row.horizon_ms is not None:
                older = [other.offset for other in live if other.key == row.key and other.offset < row.offset]
                assert not older, f"tombstone {row.offset} has a horizon, and older values at {older}"

    def _let_go(self) -> frozenset[str]:
        """What jobs held that an alteration ended: whatever comes after them in the same step may retire it."""
        state = self.log.state()
        ended = () if state is None else state.history
        jobs = [job.id for job in ended if job.error is not None and job.error.category == "altered"]
        return frozenset(segment for job in jobs for segment in self.held_by.get(job, ()))

    def _judge_reference(self, ref: SegmentRef) -> None:
        rows = self.log.rows(ref)
        offsets, times = [row.offset for row in rows], [row.timestamp_ms for row in rows]
        horizons = [row.horizon_ms for row in rows if row.horizon_ms is not None]
        assert (ref.rows, ref.min_offset, ref.max_offset) == (len(rows), min(offsets), max(offsets))
        assert (ref.min_timestamp_ms, ref.max_timestamp_ms) == (min(times), max(times))
        assert ref.tombstones == sum(row.value is None for row in rows)
        assert (ref.min_horizon_ms, ref.max_horizon_ms) == (min(horizons, default=None), max(horizons, default=None))

    def _admission(self, head: Manifest, sources: Collection[str]) -> Admission:
        now_ms, config = self.clock.now_ms, self.log.config
        floor = floor_at(head, now_ms)
        left_out = {row.offset for ref in head.segments() if ref.id not in sources for row in self.log.rows(ref)}
        return Admission(config, now_ms, floor, frozenset(left_out | {head.next_offset}))

    def _remember_admissions(self, head: Manifest) -> None:
        state = self.log.state()
        jobs = [job for job in (() if state is None else state.jobs) if job.status == "in_progress"]
        self.held = frozenset(segment for job in jobs for segment in job.segments)
        for job in jobs:
            self.held_by[job.id] = frozenset(job.segments)
            if job.id not in self.admitted:
                self.admitted[job.id] = self._admission(head, job.segments)

    def _judge_view(self, head: Manifest) -> None:
        view, config, now_ms = self.log.view(), self.log.config, self.clock.now_ms
        floor = view.log_start_offset
        rows = [
            (row, ref.bytes / ref.rows, min(ref.bytes, ref.raw_bytes) / ref.rows)
            for ref in head.segments()
            for row in self.log.rows(ref)
        ]
        live = [row for row, _, _ in rows]
        assert view.next_offset == len(self.records)
        assert floor >= self.floor, f"the log start offset fell from {self.floor} to {floor}"
        self.floor = floor
        self._judge_floor(head, rows, floor, config, now_ms)
        assert index_problem(head.time_index, live, head.log_start_offset) is None, index_problem(
            head.time_index, live, head.log_start_offset
        )
        stored = sorted(row._replace(horizon_ms=None) for row in live if row.offset >= floor)
        assert view.read == stored, "read shows what is stored from the log start on"
        assert view.read == [self.records[row.offset] for row in view.read], "a record is what was appended"
        if not self.ever_compacted:
            assert view.read == self.records[floor:], "nothing but the floor takes from a topic that is not compacted"
        self._judge_keys(view)

    def _judge_floor(
        self, head: Manifest, rows: list[tuple[Row, float, float]], floor: int, config: TopicConfig, now_ms: int
    ) -> None:
        segments = [(ref.min_offset, ref.max_offset, ref.bytes) for ref in head.segments()]
        exact = floors(head, rows, segments, self.appends, config, now_ms)
        early = [row.offset for row, _, _ in rows if exact.possible <= row.offset < floor]
        assert not early, f"the log starts at {floor}, which forgets {early}: {exact}"
        late = {row.offset for row, _, _ in rows if floor <= row.offset < exact.certain}
        starts = [bucket.start for bucket in head.time_index]
        buckets = {sum(start <= offset for start in starts) for offset in late}
        assert len(buckets) <= 1, f"the log starts at {floor}, {exact}: more than one bucket late"

    def _judge_keys(self, view: View) -> None:
        floor = view.log_start_offset
        expected = latest(self.records, floor)
        assert view.scan == [expected[key] for key in sorted(expected)], "scan differs from the model"
        for key in self.alphabet.keys:
            assert view.get(key) == expected.get(key), f"get({_brief(key)}) differs from the model"


def _brief(key: bytes | None) -> str:
    return repr(key) if key is None or len(key) < 80 else f"{key[:40]!r}… of {len(key)} bytes"


def play(history: History, steps: int) -> History:
    """Play it to its end. A failure tells the seed and the story."""
    try:
        history.judge()
        for number in range(steps):
            history.step(number)
    except Exception as error:
        story = "\n  ".join(f"{at}: {line}" for at, line in enumerate(history.story))
        error.add_note(f"seed {history.seed}, {history.log.config}\n  {story}")
        raise
    return history
