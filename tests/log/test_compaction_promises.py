"""What compaction promises a consumer that reads on: what it is handed is what was appended, and it misses no more than
Kafka's consumers do. The oracle holds what was appended, when, and when the consumer came past it; nothing else."""

from dataclasses import dataclass, field

import pytest
from hypothesis import event, given, settings
from hypothesis import strategies as st

from lithify.compactor.compactor import Compactor
from lithify.log.record import Record
from lithify.log.warehouse import Warehouse
from lithify.store.driver import Driver
from lithify.store.memory import MemoryStore
from tests.clock import HandClock

DELETE_RETENTION_MS = 1_000
KEYS = [b"a", b"b", b"c"]
WRITES = st.tuples(st.just("write"), st.sampled_from(KEYS), st.sampled_from([None, b"", b"1"]))
CLEANS = st.tuples(st.just("clean"), st.sampled_from([0, 0, 1, 399, 400, 999]))
STEPS = st.lists(
    WRITES
    | WRITES
    | CLEANS
    | CLEANS
    | st.tuples(st.just("deleted and cleaned away"), st.sampled_from(KEYS))
    | st.tuples(st.sampled_from(["read", "read", "open again"]), st.integers(1, 4)),
    min_size=8,
    max_size=25,
)


@dataclass
class History:
    lag_ms: int  # min.compaction.lag.ms
    appended: list[Record] = field(default_factory=list[Record])
    handed: list[Record] = field(default_factory=list[Record])
    # By offset: when the consumer came past it, and where the log ended then.
    passed: list[tuple[int, int]] = field(default_factory=list[tuple[int, int]])

    def __post_init__(self) -> None:
        self.clock = HandClock()
        self.warehouse = Warehouse(Driver(MemoryStore(), self.clock))
        config = {
            "cleanup.policy": "compact",
            "delete.retention.ms": DELETE_RETENTION_MS,
            "min.cleanable.dirty.ratio": 0,
            "min.compaction.lag.ms": self.lag_ms,
        }
        self.part = self.warehouse.create_topic("t", config=config, probe=False).partition(0)
        self.consumer = self.part.consumer("c", auto_commit_interval_ms=100)
        self.compactor = Compactor(self.warehouse, engine="local")

    def play(self, step: tuple[object, ...]) -> None:
        match step:
            case "write", bytes(key), value:
                assert value is None or isinstance(value, bytes)
                offset = len(self.appended)
                record = Record(key, value, self.clock.now_ms, (("at", b"%d" % offset),))
                assert self.part.append([record]) == range(offset, offset + 1)
                self.appended.append(Record(key, value, record.timestamp_ms, record.headers, offset))
            case "deleted and cleaned away", key:
                for each in (("write", key, None), ("clean", 0), ("clean", DELETE_RETENTION_MS)):
                    self.play(each)
            case "read", int(most):
                self._read(most)
            case "clean", int(ms):
                self.clock.now_ms += ms
                self.compactor.run_once()
            case _:
                self.consumer.close()
                self.consumer = self.part.consumer("c", auto_commit_interval_ms=100)

    def _read(self, most: int) -> bool:
        found = self.consumer.poll(max_records=most)
        assert all(isinstance(item, Record) for item in found), "nothing expires here"
        self.handed += [item for item in found if isinstance(item, Record)]
        self.passed += [(self.clock.now_ms, len(self.appended))] * (self.consumer.position - len(self.passed))
        return bool(found)

    def read_to_the_end(self) -> None:
        while self._read(100):
            pass
        self.consumer.close()
        assert self.consumer.position == len(self.passed) == len(self.appended)

    def judge(self) -> None:
        offsets = [record.offset for record in self.handed]
        known = [offset for offset in offsets if offset is not None]
        assert offsets == sorted(set(known)), "out of order, or twice"
        assert self.handed == [self.appended[offset] for offset in known], "not what was appended"
        for offset in set(range(len(self.appended))) - set(offsets):
            self._judge_missing(self.appended[offset], *self.passed[offset])
        missed = self._state(self.handed) != self._state(self.appended)
        (info,) = self.part.consumers()
        event(f"{'some' if missed else 'no'} deletion is missed, {'an' if info.alarm else 'no'} alarm")
        assert info.alarm is not None or not missed, "a deletion was missed, and nobody is told"

    def _judge_missing(self, record: Record, passed_ms: int, end: int) -> None:
        """Whoever keeps up with min.compaction.lag.ms is handed everything. Whoever does not misses what was
        superseded by then, and tombstones that are older than delete.retention.ms."""
        assert record.timestamp_ms is not None
        assert record.offset is not None
        age_ms = passed_ms - record.timestamp_ms
        assert not self.lag_ms or age_ms >= self.lag_ms, "younger than min.compaction.lag.ms"
        superseded = any(later.key == record.key for later in self.appended[record.offset + 1 : end])
        expired = record.value is None and age_ms >= DELETE_RETENTION_MS
        event("superseded" if superseded else "expired")
        assert superseded or expired, "the latest record of its key, and none that could expire"

    @staticmethod
    def _state(records: list[Record]) -> dict[bytes | None, bytes]:
        """As a consumer makes it, which keeps it beside its position."""
        state: dict[bytes | None, bytes] = {}
        for record in records:
            state.pop(record.key, None)
            if record.value is not None:
                state[record.key] = record.value
        return state


@pytest.mark.slow
@given(lag_ms=st.sampled_from([0, 400]), stretch=st.sampled_from([1, 500]), steps=STEPS)
@settings(max_examples=2 * settings.default.max_examples, deadline=None)
def test_a_consumer_misses_only_what_kafka_says(lag_ms: int, stretch: int, steps: list[tuple[object, ...]]) -> None:
    """Tried, and caught within some hundred histories: in manifest/compactions.py, a clean that tells no consumer what
    it dropped; in manifest/consumers.py, a commit that takes the alarm back; in manifest/debt.py, no lag; in
    segment/rules.py, tombstones that expire without a horizon."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("lithify.log.follow.STRETCH_RECORDS", stretch)  # with 1 it holds a snapshot while others clean
        history = History(lag_ms)
        for step in steps:
            history.play(step)
        history.read_to_the_end()
        history.judge()
