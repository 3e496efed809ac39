"""What a plan or a scan of a snapshot is asked for, and cutting it into tasks (docs/rfcs/0021)."""

from collections.abc import Iterable, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import Any, get_args

import msgspec
from msgspec.structs import replace

from lithify.manifest.model import SegmentRef
from lithify.segment.read_plan import TARGET_BYTES, Part, large, parts_of, planned
from lithify.segment.read_task import Beside, ReadTask, View
from lithify.segment.schema import RECORDS
from lithify.segment.segments import Segments
from lithify.store.errors import InvalidRequest

__all__ = ["BESIDE_MAX", "Wanted", "check_offsets", "cut", "held_together", "target_of", "wanted"]

FOOTERS_AT_ONCE = 8  # the footers of large segments are read at the same time: each is one request
TASKS_MAX = 1_000_000
TASKS_MULTIPLE = 4
BESIDE_MAX = 64  # pins of other partitions that a task carries: 5 KB


class Wanted(msgspec.Struct, frozen=True):
    """Of what a snapshot shows: the words of `Snapshot.plan`, checked."""

    view: View
    low: bytes | None
    high: bytes | None
    start_offset: int
    end_offset: int | None
    columns: tuple[str, ...]
    tombstones: bool
    ordered: bool


def wanted(
    where: str,
    *,
    view: object = "latest",
    low: bytes | None = None,
    high: bytes | None = None,
    start_offset: int = 0,
    end_offset: int | None = None,
    columns: Iterable[str] | None = None,
    tombstones: bool = False,
    ordered: bool = False,
) -> Wanted:
    """Raises InvalidRequest; `where` begins the message."""
    shown = _view(where, view)
    _check_keys(where, low, high)
    check_offsets(where, start_offset, end_offset)
    named = _columns(where, columns)
    return Wanted(shown, low, high, start_offset, end_offset, named, tombstones, ordered and shown == "log")


def _view(where: str, view: object) -> View:
    for known in get_args(View):
        if view == known:
            return known
    raise InvalidRequest(f"{where}: view must be one of {', '.join(get_args(View))}")


def _columns(where: str, columns: object) -> tuple[str, ...]:
    """The names in their order; None: all."""
    if columns is None:
        return tuple(RECORDS.names)
    given: list[Any] = [] if isinstance(columns, str) or not isinstance(columns, Iterable) else list(columns)
    if not given or len(set(map(str, given))) != len(given) or any(name not in RECORDS.names for name in given):
        raise InvalidRequest(
            f"{where}: columns must be a list of at least one of {', '.join(RECORDS.names)}, each once"
        )
    return tuple(given)


def _check_keys(where: str, low: object, high: object) -> None:
    for bound in (low, high):
        if bound is not None and type(bound) is not bytes:
            raise InvalidRequest(f"{where}: low and high are keys: bytes, or None for no bound")
    if isinstance(low, bytes) and isinstance(high, bytes) and high < low:
        raise InvalidRequest(f"{where}: low must not be above high")


def check_offsets(where: str, start: object, end: object) -> None:
    if type(start) is not int or start < 0 or (end is not None and (type(end) is not int or end < start)):
        bounds = "start_offset and end_offset must be integers >= 0, with end_offset >= start_offset"
        raise InvalidRequest(f"{where}: {bounds}")


def target_of(where: str, tasks: object, target_bytes: object, wholes: Iterable[ReadTask]) -> int:
    """Bytes of one task, if `wholes` are cut."""
    stored_bytes = sum(ref.bytes for whole in wholes for ref in whole.segments)
    if tasks is not None:
        if type(tasks) is not int or not 1 <= tasks <= TASKS_MAX:
            raise InvalidRequest(f"{where}: tasks must be an integer from 1 to {TASKS_MAX}")
        if target_bytes is not None:
            raise InvalidRequest(f"{where}: give either tasks or target_bytes")
        return max(1, -(-stored_bytes // tasks))
    if target_bytes is None:
        return _even(stored_bytes)
    if type(target_bytes) is not int or target_bytes < 1:
        raise InvalidRequest(f"{where}: target_bytes must be an integer above 0")
    return target_bytes


def _even(stored_bytes: int) -> int:
    """Bytes of a task, so that a few of them are a multiple of four: two, four or eight cores then share them evenly.
    Of five, two cores would do three rounds."""
    count = -(-stored_bytes // TARGET_BYTES)
    if count <= 1:
        return TARGET_BYTES
    return -(-stored_bytes // (-(-count // TASKS_MULTIPLE) * TASKS_MULTIPLE))


def cut(whole: ReadTask, segments: Segments, target_bytes: int) -> list[ReadTask]:
    """The tasks of `whole`. Reads the footers of large segments. Raises NotFound, Corrupt."""
    opened = large(whole.segments, target_bytes)
    if not opened or sum(ref.bytes for ref in whole.segments) <= target_bytes:
        return list(planned(whole, {}, target_bytes))

    def read(ref: SegmentRef) -> tuple[Part, ...]:
        return parts_of(ref, segments.reader(ref).row_groups)

    with ThreadPoolExecutor(min(FOOTERS_AT_ONCE, len(opened))) as pool:
        parts = dict(zip((ref.id for ref in opened), pool.map(read, opened), strict=True))
    return list(planned(whole, parts, target_bytes))


def held_together(tasks: Sequence[ReadTask]) -> list[ReadTask]:
    """The tasks of one query, each with pins of its other partitions too.

    SUBTLE! 1. A query of two partitions is planned, and both are pinned for an hour. 2. Its workers read partition 0,
    for two hours, and renew its pin. 3. Nobody renews the pin of partition 1, and what it kept is collected. 4. The
    query fails at partition 1, though it has read all the time. Test: tests/log/test_held_together.py

    Each carries a share of them, if they are many, and begins at another one: so that a few tasks that follow each
    other carry all, and workers that begin at the same time look at different ones.
    """
    holds = {task.partition: task.hold for task in tasks if task.hold is not None}
    pins = [Beside(number, hold) for number, hold in sorted(holds.items())]
    shares = -(-len(pins) // BESIDE_MAX)
    found: list[ReadTask] = []
    for index, task in enumerate(tasks):
        mine = [pin for pin in pins[index % shares :: shares] if pin.partition != task.partition] if pins else []
        first = (index // shares) % len(mine) if mine else 0
        found.append(replace(task, beside=(*mine[first:], *mine[:first])))
    return found
