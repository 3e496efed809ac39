"""Looking up keys in a topic: each in its present partition, without what it left behind (docs/rfcs/0013)."""

from collections.abc import Callable, Iterable, Sequence
from functools import partial
from typing import Any

import pyarrow as pa

from lithify.log.record import Record, as_bytes
from lithify.manifest.places_of_keys import KeyPlaces
from lithify.segment.partitioner import partition_for_key, partitions_for_keys
from lithify.segment.points import Elsewhere
from lithify.segment.room import Room
from lithify.segment.stayed import stays
from lithify.store.errors import InvalidRequest
from lithify.store.port import Store
from lithify.store.side_by_side import THREADS_MAX

__all__ = ["check_keys", "get_placed", "here", "partition_now"]


def check_keys(keys: Iterable[bytes | str], where: str) -> list[bytes]:
    """The keys as bytes: text is UTF-8. Raises InvalidRequest for what is not a list of keys."""
    given: Any = keys
    if isinstance(given, str | bytes) or not isinstance(given, Iterable):
        raise InvalidRequest(f"{where}: get_many takes a list of keys, not {type(given).__name__}")
    wanted: list[bytes] = [as_bytes(key) for key in keys]
    for key in wanted:
        if type(key) is not bytes:
            raise InvalidRequest(f"{where}: a key is bytes, or text in UTF-8, not {type(key).__name__}")
    return wanted


def partition_now(places: KeyPlaces, key: bytes) -> int:
    """Where records of `key` go at present."""
    return partition_for_key(key, places.counts[-1])


def here(places: KeyPlaces, found: Record | None, number: int) -> Record | None:
    """What partition `number` has of a key, unless the key left it behind there."""
    if found is None or not places.growths:
        return found
    return found if stays(places, found.key, found.offset, number) else None


def get_placed(
    places: KeyPlaces,
    keys: Sequence[bytes],
    get_many: Callable[[int, list[bytes], Room | None], list[Record | None]],
    store: Store,
) -> list[Record | None]:
    """As `Topic.get_many`. `get_many(number, keys, room)` asks one partition, beside others that share `room`, or
    alone (None). Those of a far store are asked side by side.

    SUBTLE! Partitions that are asked side by side are asked by threads of the warehouse's store, so never for what is
    in another home (the race is told in `point_reads.py`). One that needs it raises Elsewhere, and is asked again
    afterwards, alone. Test: tests/log/test_gets_across_homes.py
    """
    numbers: list[int] = partitions_for_keys(pa.array(keys, pa.binary()), places.counts[-1]).tolist() if keys else []
    rows: dict[int, list[int]] = {}
    for row, number in enumerate(numbers):
        rows.setdefault(number, []).append(row)
    asked = {number: [keys[row] for row in mine] for number, mine in rows.items()}
    beside: dict[int, list[Record | None] | Exception] = {}
    if store.far and len(rows) > 1:
        room = Room(min(len(rows), THREADS_MAX + 1))
        calls = [partial(get_many, number, wanted, room) for number, wanted in asked.items()]
        beside.update(zip(asked, store.side_by_side(calls), strict=True))
    found: list[Record | None] = [None] * len(keys)
    for number, mine in rows.items():
        records = beside.get(number)
        if records is None or isinstance(records, Elsewhere):
            records = get_many(number, asked[number], None)
        if isinstance(records, Exception):
            raise records
        for row, record in zip(mine, records, strict=True):
            found[row] = here(places, record, number)
    return found
