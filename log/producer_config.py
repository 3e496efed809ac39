"""What a producer can be told, by Kafka's names where Kafka has one."""

from collections.abc import Mapping

import msgspec

from lithify.store.errors import InvalidRequest

__all__ = ["ProducerConfig", "parse_producer_config"]


class ProducerConfig(msgspec.Struct, frozen=True, kw_only=True):
    """Kafka's names with '_' for '.'. Its defaults differ where an object store does: a commit costs two PUTs and a
    tenth of a second, not a network packet, so batches are larger and wait longer for company."""

    linger_ms: int = 1_000  # a batch is sent at the latest so long after its first record
    batch_records: int = 10_000  # or when it has so many records
    batch_size: int = 8 << 20  # or so many bytes
    buffer_memory: int = 64 << 20  # bytes of unacknowledged records; then `append` waits
    max_block_ms: int = 60_000  # so long, and raises Unavailable
    delivery_timeout_ms: int = 120_000  # how long one batch is tried


# Kafka's, with what stands in their place (docs/from-kafka.md).
_INSTEAD = {
    "acks": "nothing to set: an append that returns is durable",
    "retries": "set delivery.timeout.ms: a batch is tried for so long",
    "max.in.flight.requests.per.connection": "nothing to set: batches of a partition go one after the other",
    "enable.idempotence": "give the producer an id",
    "transactional.id": "give the producer an id, or an append a txn",
    "compression.type": "nothing to set: segments are Parquet with zstd",
    "max.request.size": "set max.message.bytes of the topic",
    "partitioner.class": "nothing to set: keys go where Kafka's default partitioner puts them",
    "request.timeout.ms": "set delivery.timeout.ms",
}
_SMALLEST = {"batch_records": 1, "batch_size": 1, "buffer_memory": 1}  # the others: 0


def parse_producer_config(config: Mapping[str, str | int]) -> ProducerConfig:
    """Raises InvalidRequest with the remedy."""
    fields: dict[str, int] = {}
    for name, given in config.items():
        field = name.replace(".", "_") if isinstance(name, str) else ""  # pyright: ignore[reportUnnecessaryIsInstance]
        if name in _INSTEAD:
            raise InvalidRequest(f"{name} is no configuration of a producer here; {_INSTEAD[name]}")
        if field not in ProducerConfig.__struct_fields__:
            known = ", ".join(known.replace("_", ".") for known in ProducerConfig.__struct_fields__)
            raise InvalidRequest(f"no producer configuration is named {str(name)[:80]!r}; there are {known}")
        try:
            fields[field] = int(given)
        except (TypeError, ValueError):
            raise InvalidRequest(f"{name}: give a whole number") from None
        if fields[field] < _SMALLEST.get(field, 0):
            raise InvalidRequest(f"{name}: give a whole number of at least {_SMALLEST.get(field, 0)}")
    return ProducerConfig(**fields)
