"""A producer's settings, with Kafka's names if Kafka has them."""

import re
from collections.abc import Mapping

import msgspec

from lithify.log.intake import APPEND_BYTES_MAX
from lithify.manifest.config import LONG_MAX
from lithify.manifest.quantities import unit_hint
from lithify.store.errors import InvalidRequest

__all__ = ["ProducerConfig", "parse_producer_config"]


class ProducerConfig(msgspec.Struct, frozen=True, kw_only=True):
    """Kafka's names with '_' for '.'. Defaults differ because a commit to an object store costs two PUTs and a tenth of
    a second, not a network packet: batches are larger and linger longer."""

    linger_ms: int = 1_000  # a batch is sent at most so long after its first record
    batch_records: int = 10_000  # or when it has this many records
    batch_size: int = 8 << 20  # or this many bytes
    buffer_memory: int = 64 << 20  # bytes of unacknowledged records; then `append` waits
    max_block_ms: int = 60_000  # at most so long; then it raises Unavailable
    delivery_timeout_ms: int = 120_000  # how long one batch is tried


# Kafka's names, with what to use instead (docs/from-kafka.md).
_INSTEAD = {
    "acks": "nothing to set: an append that returns is durable",
    "retries": "set delivery.timeout.ms: a batch is retried for that long",
    "max.in.flight.requests.per.connection": "nothing to set: batches of a partition go one after the other",
    "enable.idempotence": "give the producer an id",
    "transactional.id": "give the producer an id, or an append a txn",
    "compression.type": "nothing to set: segments are Parquet with zstd",
    "max.request.size": "set max.message.bytes of the topic",
    "partitioner.class": "nothing to set: keys go where Kafka's default partitioner puts them",
    "request.timeout.ms": "set delivery.timeout.ms",
}
_LARGEST_RECORD_BYTES = 64 << 20  # of any topic: a batch's last record may exceed batch.size by this
_BOUNDS = {
    "batch_records": (1, LONG_MAX),
    "batch_size": (1, APPEND_BYTES_MAX - _LARGEST_RECORD_BYTES),
    "buffer_memory": (1, LONG_MAX),
}  # lower bound of the others: 0
_WHOLE = re.compile("-?[0-9]{1,19}")


def parse_producer_config(config: Mapping[str, str | int]) -> ProducerConfig:
    """Raises InvalidRequest that says what to do."""
    fields: dict[str, int] = {}
    for name, given in config.items():
        field = name.replace(".", "_") if isinstance(name, str) else ""  # pyright: ignore[reportUnnecessaryIsInstance]
        if name in _INSTEAD:
            raise InvalidRequest(f"{name} is not a producer configuration of lithify; {_INSTEAD[name]}")
        if field not in ProducerConfig.__struct_fields__:
            known = ", ".join(known.replace("_", ".") for known in ProducerConfig.__struct_fields__)
            raise InvalidRequest(f"unknown producer configuration {str(name)[:80]!r}; known are {known}")
        if field in fields:
            raise InvalidRequest(f"{field.replace('_', '.')} is given twice: leave one out")
        fields[field] = _number(name, given, *_BOUNDS.get(field, (0, LONG_MAX)))
    return ProducerConfig(**fields)


def _number(name: str, given: object, low: int, high: int) -> int:
    """A text is parsed as for topics. A float is refused even if it is whole: otherwise 0.9 would become 0."""
    value = int(given) if isinstance(given, str) and _WHOLE.fullmatch(given) else given
    if type(value) is not int or not low <= value <= high:
        raise InvalidRequest(f"{name} must be a whole number between {low} and {high}{unit_hint(name, given)}")
    return value
