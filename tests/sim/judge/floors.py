"""Where a log starts, by RFC 0007: reckoned from a manifest alone, and what each kind of commit must store of it."""

from collections.abc import Callable, Iterable

from tests.sim.judge.layout import Json, index_of
from tests.sim.judge.settings import KEEP_ALL, Bounds

__all__ = ["bounds_of", "log_start", "misdated", "stored_wrongly"]


def bounds_of(manifest: Json) -> Bounds:
    return KEEP_ALL._replace(**(manifest.get("retention") or {}))


def log_start(manifest: Json, now_ms: int) -> int:
    """The stored floor, or the end of the last bucket, from the front, that goes; whichever is higher."""
    bounds, index, floor = bounds_of(manifest), index_of(manifest), manifest.get("log_start_offset", 0)
    starts = [bucket[0] for bucket in index]
    for at, (_, latest_ms, *_) in enumerate(index):
        end = starts[at + 1] if at + 1 < len(starts) else manifest.get("next_offset", 0)
        behind = index[at + 1 :]
        old = bounds.ms >= 0 and now_ms - latest_ms > bounds.ms
        enough_bytes = bounds.bytes >= 0 and sum(bucket[3] for bucket in behind) >= bounds.bytes
        enough_rows = bounds.records >= 0 and sum(bucket[2] for bucket in behind) >= bounds.records
        if end > floor and not (old or enough_bytes or enough_rows):
            break
        floor = max(floor, end)
    return floor


def stored_wrongly(previous: Json, manifest: Json, plan_floor: int | None, *, moves: bool = False) -> str | None:
    """What is wrong with the floor that a commit stored, made at its own time upon `previous`. `plan_floor`: of the job
    that it commits; `moves`: it is a relocation."""
    at_ms, before = manifest["committed_at_ms"], previous.get("log_start_offset", 0)
    floor, reckoned = manifest.get("log_start_offset", 0), log_start(previous, at_ms)
    if manifest.get("sealed"):
        return None
    if moves:
        allowed = {before}
    elif plan_floor is not None:
        allowed = {max(reckoned, plan_floor)}
    elif _must_store(previous, manifest):
        allowed = {max(reckoned, manifest.get("deleted_to", 0))}
    elif manifest.get("next_offset", 0) > previous.get("next_offset", 0):
        allowed = {before, reckoned}
    else:
        allowed = {before}
    if floor in allowed:
        return None
    return (
        f"manifest {manifest['id']} stores floor {floor}; by bounds and clock of its commit it is {max(allowed)} (R3)"
    )


def _must_store(previous: Json, manifest: Json) -> bool:
    """Whether the commit is one that stores the floor that readers have come to: bounds, drops, pins, deletions by
    hand, and appends that join buckets."""
    was, now = ({each["id"] for each in one.get("checkpoints", ())} for one in (previous, manifest))
    known = {each["id"] for each in previous.get("retired", ())}
    drops = any(each["id"] not in known for each in manifest.get("retired", ()))
    by_hand = manifest.get("deleted_to", 0) != previous.get("deleted_to", 0)
    alters = manifest.get("config_at", 0) != previous.get("config_at", 0) and "retention" in previous
    return (
        bool(now - was) or drops or by_hand or alters or _joins(previous, manifest) or _floor_alone(previous, manifest)
    )


def _floor_alone(previous: Json, manifest: Json) -> bool:
    """Records were deleted by hand below what had been deleted so before: the floor is stored all the same."""
    moved = manifest.get("log_start_offset", 0) != previous.get("log_start_offset", 0)
    return moved and manifest.get("next_offset", 0) == previous.get("next_offset", 0)


def _joins(previous: Json, manifest: Json) -> bool:
    floor, left = manifest.get("log_start_offset", 0), {bucket[0] for bucket in index_of(manifest)}
    appended = manifest.get("next_offset", 0) > previous.get("next_offset", 0)
    return appended and any(bucket[0] > floor and bucket[0] not in left for bucket in index_of(previous))


Stamped = tuple[int, int]
"""(offset, timestamp) of a record."""


def misdated(
    manifest: Json, ever: Callable[[int, int], Iterable[int]], there: Callable[[int, int], Iterable[int]]
) -> str | None:
    """How a bucket's latest timestamp differs from those of the records that were `ever` appended to it, and of those
    that are `there`: each tells timestamps between two offsets. What a clean removed with its whole bucket does not
    count any more."""
    index = index_of(manifest)
    ends = [*(bucket[0] for bucket in index[1:]), manifest.get("next_offset", 0)]
    for (start, latest_ms, *_), end in zip(index, ends, strict=False):
        least = max(there(start, end), default=latest_ms)
        most = max(ever(start, end), default=latest_ms)
        if not least <= latest_ms <= most:
            return (
                f"bucket {start} of manifest {manifest['id']} is dated {latest_ms}, its records {least} to {most} (R3)"
            )
    return None
