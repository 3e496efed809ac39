"""Topic configuration: what is taken, how it is stored, and what every other name is told."""

from typing import Any

import pytest

from lithify.manifest.config import config_table, parse, spell_changes, validate
from lithify.manifest.config_kafka import INSTEAD
from lithify.store.errors import InvalidRequest

LONG_MAX = 2**63 - 1
DEFAULTS = {name: default for name, default, _ in config_table()}

# Kafka's own defaults (4.x; message.timestamp.after.max.ms as before 4.0, docs/from-kafka.md says why).
KAFKA = {
    "cleanup.policy": "delete",
    "retention.ms": "604800000",
    "retention.bytes": "-1",
    "min.cleanable.dirty.ratio": "0.5",
    "min.compaction.lag.ms": "0",
    "max.compaction.lag.ms": str(LONG_MAX),
    "delete.retention.ms": "86400000",
    "segment.bytes": "1073741824",
    "segment.ms": "604800000",
    "message.timestamp.type": "CreateTime",
    "message.timestamp.before.max.ms": str(LONG_MAX),
    "message.timestamp.after.max.ms": str(LONG_MAX),
}

TAKEN: list[tuple[str, Any, str, str, Any]] = [
    ("cleanup.policy", " compact , delete ", "compact , delete", "compacted", True),
    ("cleanup.policy", "delete,delete", "delete,delete", "compacted", False),
    ("cleanup.policy", "", "", "deleting", False),
    ("retention.ms", -1, "-1", "retention_ms", -1),
    ("retention.ms", 0, "0", "retention_ms", 0),
    ("retention.ms", LONG_MAX, str(LONG_MAX), "retention_ms", LONG_MAX),
    ("retention.bytes", "0", "0", "retention_bytes", 0),
    ("retention.records", 7, "7", "retention_records", 7),
    ("min.cleanable.dirty.ratio", 0.25, "0.25", "min_cleanable_dirty_ratio", 0.25),
    ("min.cleanable.dirty.ratio", 1, "1", "min_cleanable_dirty_ratio", 1.0),
    ("max.compaction.lag.ms", 1, "1", "max_compaction_lag_ms", 1),
    ("delete.retention.ms", 0, "0", "delete_retention_ms", 0),
    ("segment.bytes", 14, "14", "segment_bytes", 14),
    ("segment.ms", 1, "1", "segment_ms", 1),
    ("message.timestamp.before.max.ms", 0, "0", "message_timestamp_before_max_ms", 0),
    ("compaction.paused", True, "true", "compaction_paused", True),
    ("compaction.paused", "FALSE", "FALSE", "compaction_paused", False),
    ("compaction.priority", -100, "-100", "compaction_priority", -100),
    ("compaction.throttle.bytes.per.second", -1, "-1", "compaction_throttle_bytes_per_second", -1),
    ("compaction.throttle.bytes.per.second", 1, "1", "compaction_throttle_bytes_per_second", 1),
]

REFUSED: list[tuple[str, Any, str]] = [
    ("cleanup.policy", "compact,tidy", "'compact', 'delete'"),
    ("cleanup.policy", "compact,", "'compact', 'delete'"),
    ("cleanup.policy", ["compact"], "not a list"),
    ("retention.ms", -2, "at least -1"),
    ("retention.ms", LONG_MAX + 1, f"at most {LONG_MAX}"),
    ("retention.ms", "7d", "a whole number"),
    ("retention.ms", 1.5, "a whole number"),
    ("retention.ms", True, "a whole number"),
    ("retention.ms", "1_000", "a whole number"),
    ("retention.ms", "٣", "a whole number"),
    ("retention.ms", "9" * 5_000, "a whole number"),
    ("retention.ms", b"5", "not a bytes"),
    ("min.cleanable.dirty.ratio", 1.01, "between 0 and 1"),
    ("min.cleanable.dirty.ratio", "nan", "between 0 and 1"),
    ("min.compaction.lag.ms", -1, "at least 0"),
    ("max.compaction.lag.ms", 0, "at least 1"),
    ("delete.retention.ms", -1, "at least 0"),
    ("segment.bytes", 13, "at least 14"),
    ("segment.ms", 0, "at least 1"),
    ("max.message.bytes", 0, "between 1 and"),
    ("message.timestamp.type", "createtime", "'CreateTime'"),
    ("message.timestamp.before.max.ms", -1, "at least 0"),
    ("message.timestamp.after.max.ms", -1, "at least 0"),
    ("compaction.paused", 1, "true or false"),
    ("compaction.priority", 101, "between -100 and 100"),
    ("compaction.throttle.bytes.per.second", 0, "or -1 for no bound"),
]


def test_defaults_are_kafkas() -> None:
    assert {name: DEFAULTS[name] for name in KAFKA} == KAFKA
    assert parse({}) == parse(validate(DEFAULTS))


@pytest.mark.parametrize(("name", "given", "stored", "field", "parsed"), TAKEN)
def test_a_value_is_stored_as_text_and_read_back(name: str, given: Any, stored: str, field: str, parsed: Any) -> None:
    assert validate({name: given}) == {name: stored}
    assert getattr(parse({name: stored}), field) == parsed
    assert spell_changes({name: given}) == {name: stored}


@pytest.mark.parametrize(("name", "given", "told"), REFUSED)
def test_a_value_out_of_range_is_refused_with_the_range(name: str, given: Any, told: str) -> None:
    with pytest.raises(InvalidRequest, match=name) as refused:
        validate({name: given})
    assert told in str(refused.value)
    assert len(str(refused.value)) < 300


def test_the_lags_must_leave_room_for_each_other() -> None:
    """D8."""
    assert validate({"min.compaction.lag.ms": 5, "max.compaction.lag.ms": 5})
    with pytest.raises(InvalidRequest, match="lower it, or raise the other"):
        validate({"min.compaction.lag.ms": 6, "max.compaction.lag.ms": 5})


@pytest.mark.parametrize("name", INSTEAD)
def test_kafkas_other_names_are_refused_with_what_to_use(name: str) -> None:
    assert name not in DEFAULTS
    for use in (validate, spell_changes):
        with pytest.raises(InvalidRequest) as refused:
            use({name: "1"})
        nothing = INSTEAD[name].startswith("nothing: ")
        told = f"; there is nothing to set: {INSTEAD[name][9:]}" if nothing else f"; use {INSTEAD[name]}"
        assert str(refused.value) == f"{name} is not a topic configuration of lithify{told}"


@pytest.mark.parametrize("name", [name for name in INSTEAD if name.endswith((".hours", ".minutes"))])
def test_another_unit_of_time_is_pointed_out(name: str) -> None:
    """Whoever takes 168 over from retention.hours must not keep data for 168 milliseconds."""
    assert "in milliseconds" in INSTEAD[name] or INSTEAD[name].startswith("nothing: ")


def test_what_is_to_be_used_instead_exists() -> None:
    for name, instead in INSTEAD.items():
        if instead.startswith(("nothing: ", "the ", "--")):
            continue
        assert all(word.split(" (")[0] in DEFAULTS for word in instead.split(" and ")), name


# Every topic-level configuration of Kafka 4 and those of 3; the broker's defaults for them; the log cleaner's.
OF_KAFKA = """
cleanup.policy compression.gzip.level compression.lz4.level compression.type compression.zstd.level delete.retention.ms
file.delete.delay.ms flush.messages flush.ms follower.replication.throttled.replicas index.interval.bytes
leader.replication.throttled.replicas local.retention.bytes local.retention.ms max.compaction.lag.ms max.message.bytes
message.downconversion.enable message.format.version message.timestamp.after.max.ms message.timestamp.before.max.ms
message.timestamp.difference.max.ms message.timestamp.type min.cleanable.dirty.ratio min.compaction.lag.ms
min.insync.replicas preallocate remote.log.copy.disable remote.log.delete.on.disable remote.storage.enable
retention.bytes retention.ms segment.bytes segment.index.bytes segment.jitter.ms segment.ms
unclean.leader.election.enable
log.cleaner.backoff.ms log.cleaner.dedupe.buffer.size log.cleaner.delete.retention.ms log.cleaner.enable
log.cleaner.io.buffer.load.factor log.cleaner.io.buffer.size log.cleaner.io.max.bytes.per.second
log.cleaner.max.compaction.lag.ms log.cleaner.min.cleanable.ratio log.cleaner.min.compaction.lag.ms log.cleaner.threads
log.cleanup.policy log.flush.interval.messages log.flush.interval.ms log.flush.offset.checkpoint.interval.ms
log.flush.scheduler.interval.ms log.flush.start.offset.checkpoint.interval.ms log.index.interval.bytes
log.index.size.max.bytes log.initial.task.delay.ms log.local.retention.bytes log.local.retention.ms
log.message.downconversion.enable log.message.format.version log.message.timestamp.after.max.ms
log.message.timestamp.before.max.ms log.message.timestamp.difference.max.ms log.message.timestamp.type log.preallocate
log.retention.bytes log.retention.check.interval.ms log.retention.hours log.retention.minutes log.retention.ms
log.roll.hours log.roll.jitter.hours log.roll.jitter.ms log.roll.ms log.segment.bytes log.segment.delete.delay.ms
log.dir log.dirs log.dir.failure.timeout.ms message.max.bytes num.partitions auto.create.topics.enable
default.replication.factor delete.topic.enable remote.log.storage.system.enable
"""


@pytest.mark.parametrize("name", OF_KAFKA.split())
def test_every_name_of_kafka_has_an_answer(name: str) -> None:
    assert (name in DEFAULTS) != (name in INSTEAD)


@pytest.mark.parametrize(
    ("name", "told"),
    [("retention.mss", "did you mean retention.ms?"), ("x", "see docs/configuration.md"), ("y" * 5_000, "y" * 80)],
)
def test_a_misspelt_name_is_told_the_nearest(name: str, told: str) -> None:
    for use in (validate, spell_changes):
        with pytest.raises(InvalidRequest, match="unknown configuration") as refused:
            use({name: "1"})
        assert told in str(refused.value)
        assert len(str(refused.value)) < 200
