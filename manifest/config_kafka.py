"""Kafka's configuration names that are not topic configurations here, each with what to use instead
(docs/from-kafka.md).

Topic-level keys, and the brokers' log.* defaults for them: those of Kafka 4, and those of earlier versions that are
still found in scripts. Names that are the same here are in `lithify.manifest.config`.
"""

__all__ = ["INSTEAD", "instead"]

_OBJECT_STORE = "all segments are in the object store"
_PARQUET = "segments are Parquet with its own index"
_ZSTD = "segments are Parquet with zstd"
_DURABLE = "an append is durable when it returns"
_REPLICAS = "the object store is the replica set"
_NO_MAP = "a merge of sorted segments needs no map of keys"
_NO_ROLL = "every append is closed when it returns, nothing waits to be rolled"
_ONE_FORMAT = "there is one record format"

# Spelled differently here: the topic configuration to use.
_RENAMED = {
    "retention.minutes": "retention.ms (in milliseconds)",
    "retention.hours": "retention.ms (in milliseconds)",
    "log.retention.ms": "retention.ms",
    "log.retention.minutes": "retention.ms (in milliseconds)",
    "log.retention.hours": "retention.ms (in milliseconds)",
    "log.retention.bytes": "retention.bytes",
    "log.cleanup.policy": "cleanup.policy",
    "log.segment.bytes": "segment.bytes",
    "log.roll.ms": "segment.ms",
    "log.roll.hours": "segment.ms (in milliseconds)",
    "log.cleaner.min.cleanable.ratio": "min.cleanable.dirty.ratio",
    "log.cleaner.min.compaction.lag.ms": "min.compaction.lag.ms",
    "log.cleaner.max.compaction.lag.ms": "max.compaction.lag.ms",
    "log.cleaner.delete.retention.ms": "delete.retention.ms",
    "log.cleaner.io.max.bytes.per.second": "compaction.throttle.bytes.per.second",
    "log.cleaner.enable": "compaction.paused (true is Kafka's false)",
    "log.message.timestamp.type": "message.timestamp.type",
    "log.message.timestamp.before.max.ms": "message.timestamp.before.max.ms",
    "log.message.timestamp.after.max.ms": "message.timestamp.after.max.ms",
    "log.message.timestamp.difference.max.ms": "message.timestamp.before.max.ms and message.timestamp.after.max.ms",
    "message.timestamp.difference.max.ms": "message.timestamp.before.max.ms and message.timestamp.after.max.ms",
    "message.max.bytes": "max.message.bytes",
    "remote.storage.enable": "cold.location (or cold.storage.class: a topic that has one of them has a cold home)",
    "remote.log.storage.system.enable": "cold.location (or cold.storage.class, of each topic)",
    "remote.log.copy.disable": "local.retention.ms (-2) and local.retention.bytes (-2)",
    "remote.log.delete.on.disable": "the command 'lithify home recall', which brings everything back",
    "log.local.retention.ms": "local.retention.ms",
    "log.local.retention.bytes": "local.retention.bytes",
}

# Settings, but not of a topic: of the service (docs/cli.md), the warehouse (docs/configuration.md), or a client.
_ELSEWHERE = {
    "log.cleaner.threads": "the compactor's --concurrency",
    "log.cleaner.backoff.ms": "the compactor's --interval-ms",
    "log.retention.check.interval.ms": "the compactor's --interval-ms",
    "log.initial.task.delay.ms": "the compactor's --initial-delay-ms",
    "file.delete.delay.ms": "the collector's --gc-grace-ms",
    "log.segment.delete.delay.ms": "the collector's --gc-grace-ms",
    "auto.create.topics.enable": "the warehouse's setting of that name: lithify warehouse alter",
    "num.partitions": "the warehouse's setting of that name, or --partitions when you create the topic",
    "log.dir": "--warehouse",
    "log.dirs": "--warehouse",
}

# Nothing to set, and why.
_NOTHING = {
    "compression.type": _ZSTD,
    "compression.gzip.level": _ZSTD,
    "compression.lz4.level": _ZSTD,
    "compression.zstd.level": _ZSTD,
    "preallocate": _OBJECT_STORE,
    "log.preallocate": _OBJECT_STORE,
    "index.interval.bytes": _PARQUET,
    "log.index.interval.bytes": _PARQUET,
    "segment.index.bytes": _PARQUET,
    "log.index.size.max.bytes": _PARQUET,
    "segment.jitter.ms": _NO_ROLL,
    "log.roll.jitter.ms": _NO_ROLL,
    "log.roll.jitter.hours": _NO_ROLL,
    "internal.segment.bytes": _NO_ROLL,
    "flush.messages": _DURABLE,
    "flush.ms": _DURABLE,
    "log.flush.interval.messages": _DURABLE,
    "log.flush.interval.ms": _DURABLE,
    "log.flush.scheduler.interval.ms": _DURABLE,
    "log.flush.offset.checkpoint.interval.ms": _DURABLE,
    "log.flush.start.offset.checkpoint.interval.ms": _DURABLE,
    "min.insync.replicas": _REPLICAS,
    "default.replication.factor": _REPLICAS,
    "replication.factor": _REPLICAS,
    "unclean.leader.election.enable": _REPLICAS,
    "leader.replication.throttled.replicas": _REPLICAS,
    "follower.replication.throttled.replicas": _REPLICAS,
    "log.dir.failure.timeout.ms": _OBJECT_STORE,
    "message.format.version": _ONE_FORMAT,
    "log.message.format.version": _ONE_FORMAT,
    "message.downconversion.enable": _ONE_FORMAT,
    "log.message.downconversion.enable": _ONE_FORMAT,
    "log.cleaner.dedupe.buffer.size": _NO_MAP,
    "log.cleaner.io.buffer.load.factor": _NO_MAP,
    "log.cleaner.io.buffer.size": "merges choose their own batch size",
    "delete.topic.enable": "a topic can always be deleted",
}

INSTEAD = _RENAMED | _ELSEWHERE | {name: f"nothing: {why}" for name, why in _NOTHING.items()}
"""Name in Kafka -> what to use here; "nothing: …" if there is nothing to set."""


def instead(name: str) -> str:
    """What to do about one of Kafka's names, as the end of a sentence. Requires: it is in INSTEAD."""
    use = INSTEAD[name]
    return f"; there is nothing to set: {_NOTHING[name]}" if name in _NOTHING else f"; use {use}"
