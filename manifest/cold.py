"""Which segments a relocation moves (docs/rfcs/0031). Pure."""

from collections.abc import Iterator, Sequence
from itertools import accumulate

from lithify.manifest.config import TopicConfig
from lithify.manifest.homes import HERE
from lithify.manifest.model import HOMES_MAX, RETIRED_MAX, Manifest, SegmentRef
from lithify.manifest.units import Unit, unit_of
from lithify.manifest.words import counted

__all__ = ["RELOCATE_BYTES_MAX", "RELOCATE_MAX", "elsewhere", "lies_elsewhere", "no_room", "one_job", "to_relocate"]

RELOCATE_MAX = 64  # segments of one job, so that it ends, and shows
RELOCATE_BYTES_MAX = 16 << 30
# A relocation fills no more than half of the list of retired segments. Otherwise a cold home that is away, where no
# retired segment can be deleted, would stop compaction.
_RETIRED_SHARE = 2


def lies_elsewhere(unit: Unit) -> bool:
    """Whether a part of `unit` is in another home than the warehouse."""
    return any(segment.home != HERE for segment in unit.segments)


def to_relocate(manifest: Manifest, config: TopicConfig, now_ms: int, held: frozenset[str]) -> tuple[Unit, ...] | str:
    """What moves to the cold home next, each segment as a unit of its own, or why nothing does. `held`: the segments of
    active jobs. Requires: `config` has a cold home.

    Only segments of runs move. L0 segments are the newest, and wait to be merged.
    """
    home = config.cold_home
    if home not in manifest.homes and len(manifest.homes) >= HOMES_MAX:
        return f"the partition has segments in {HOMES_MAX} homes already: bring them back with 'lithify home recall'"
    full = no_room(manifest)
    if full is not None:
        return full
    old = list(_cold(manifest, config, now_ms))
    cold = [unit for unit in old if unit.segments[0].home != home]
    if not cold:
        there = f"; {counted(len(old), 'segment')} moved before" if old else ""
        return f"no segment is old enough (local.retention.ms, local.retention.bytes, hot.retain.segments){there}"
    free = [unit for unit in cold if unit.segments[0].id not in held]
    return one_job(free) if free else f"{counted(len(cold), 'segment')} are old enough, and held by active jobs"


def no_room(manifest: Manifest) -> str | None:
    """Why no relocation may begin because of the list of retired segments. None: it may."""
    if len(manifest.retired) + RELOCATE_MAX <= RETIRED_MAX // _RETIRED_SHARE:
        return None
    return f"{counted(len(manifest.retired), 'replaced segment')} wait to be collected, too many for more to move"


def one_job(found: Sequence[Unit]) -> tuple[Unit, ...]:
    """As many of `found`, from the first, as one job moves: at least one."""
    ends = accumulate(unit.bytes for unit in found[:RELOCATE_MAX])
    return tuple(found[: max(sum(end <= RELOCATE_BYTES_MAX for end in ends), 1)])


def elsewhere(manifest: Manifest, home: str) -> list[Unit]:
    """The segments that are not in `home`, each as a unit, oldest first. Of the warehouse's own those of runs only."""
    found = [unit for unit in _singly(manifest) if unit.segments[0].home != home]
    return sorted(found, key=lambda unit: unit.max_offset)


def _singly(manifest: Manifest) -> Iterator[Unit]:
    for run in manifest.runs:
        for segment in run.segments:
            yield unit_of(run.id, True, (segment,))


def _cold(manifest: Manifest, config: TopicConfig, now_ms: int) -> Iterator[Unit]:
    """The segments of runs that are old enough, oldest first."""
    age = _by_timestamp if config.compacted else _by_offset
    newest = sorted(manifest.segments(), key=age, reverse=True)
    stays = {segment.id for segment in newest[: config.hot_retain_segments]}
    newer = 0
    beyond: set[str] = set()  # what newer segments leave no room for
    for segment in newest:
        newer += segment.bytes
        if newer > config.local_retention_bytes >= 0:
            beyond.add(segment.id)
    for unit in sorted(_singly(manifest), key=lambda unit: age(unit.segments[0])):
        segment = unit.segments[0]
        old = 0 <= config.local_retention_ms < now_ms - segment.max_timestamp_ms
        if segment.id not in stays and (old or segment.id in beyond):
            yield unit


def _by_offset(segment: SegmentRef) -> tuple[int, int]:
    return segment.max_offset, segment.max_timestamp_ms


def _by_timestamp(segment: SegmentRef) -> tuple[int, int]:
    """A segment of a compacted run holds a range of keys: it is old if none of these was written for long."""
    return segment.max_timestamp_ms, segment.max_offset
