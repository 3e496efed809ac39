"""What `describe` reports about a partition's consumers."""

import msgspec

from lithify.manifest.model import ConsumerPosition, Manifest

__all__ = ["ConsumerInfo", "consumer_infos", "expired_unread"]


class ConsumerInfo(msgspec.Struct, frozen=True, kw_only=True):
    """The position of a named consumer, as last committed."""

    name: str
    offset: int  # of the next record it wants
    lag: int  # number of offsets from there, or from the log's start, to the log's end
    committed_at_ms: int  # milliseconds since 1970
    missed_to: int  # cleaning dropped tombstones below this that it had not read; 0: none
    alarm: str | None  # records it lost, or deletions it missed; None: neither


def consumer_infos(manifest: Manifest, floor: int) -> tuple[ConsumerInfo, ...]:
    """By name. `floor`: the log start offset as a reader sees it (R3)."""
    return tuple(_info(consumer, manifest, floor) for consumer in manifest.consumers)


def expired_unread(consumer: ConsumerPosition, manifest: Manifest, floor: int) -> int:
    """The number of offsets that retention took from a consumer before it had read them."""
    return max(0, floor - max(consumer.offset, manifest.deleted_to))


def _info(consumer: ConsumerPosition, manifest: Manifest, floor: int) -> ConsumerInfo:
    lost_from = max(consumer.offset, manifest.deleted_to)
    alarms = [
        f"retention has overtaken it: offsets {lost_from} to {floor - 1} expired unread" if lost_from < floor else "",
        f"delete.retention.ms passed before it read the deletions below offset {consumer.missed_to}: its state may "
        "hold deleted keys; rebuild it"
        if consumer.missed_to and consumer.offset  # at 0 the next instance begins anew
        else "",
    ]
    return ConsumerInfo(
        name=consumer.name,
        offset=consumer.offset,
        lag=manifest.next_offset - max(consumer.offset, floor),
        committed_at_ms=consumer.committed_at_ms,
        missed_to=consumer.missed_to,
        alarm="; ".join(filter(None, alarms)) or None,
    )
