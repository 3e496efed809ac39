"""Which segments a relocation moves (docs/rfcs/0031). Pure."""

from collections.abc import Iterator, Sequence
from itertools import accumulate

import msgspec

from lithify.manifest.config import TopicConfig
from lithify.manifest.homes import HERE, told
from lithify.manifest.model import HOMES_MAX, RETIRED_MAX, Manifest, SegmentRef
from lithify.manifest.units import Unit, unit_of
from lithify.manifest.words import counted, span_text
from lithify.store.home_names import same_home

__all__ = [
    "RELOCATE_BYTES_MAX",
    "RELOCATE_MAX",
    "all_there",
    "elsewhere",
    "lies_elsewhere",
    "no_room",
    "one_job",
    "to_relocate",
]

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
    cold = [unit for unit in old if not same_home(unit.segments[0].home, home)]
    if not cold:
        return _why_none_is_old(manifest, config, now_ms)
    free = [unit for unit in cold if unit.segments[0].id not in held]
    if free:
        return one_job(free)
    are = "is old enough, but active jobs hold it" if len(cold) == 1 else "are old enough, but active jobs hold them"
    return f"{counted(len(cold), 'segment')} {are}"


def _why_none_is_old(manifest: Manifest, config: TopicConfig, now_ms: int) -> str:
    """Which of the conditions no segment meets, and what would change that."""
    home = config.cold_home
    stay = [segment for run in manifest.runs for segment in run.segments if not same_home(segment.home, home)]
    if not stay:
        return all_there(manifest, home)
    if config.local_retention_ms < 0 and config.local_retention_bytes < 0:
        return (
            "neither local.retention.ms nor local.retention.bytes is set: set one of them with 'lithify topic alter', "
            "or move everything now with 'lithify home relocate'"
        )
    unkept = msgspec.structs.replace(config, hot_retain_segments=0)
    kept = [unit for unit in _cold(manifest, unkept, now_ms) if not same_home(unit.segments[0].home, home)]
    if kept:
        are = "is old enough, but it is" if len(kept) == 1 else "are old enough, but they are"
        return (
            f"{counted(len(kept), 'segment')} {are} among the newest {config.hot_retain_segments}, which "
            "hot.retain.segments keeps"
        )
    reasons: list[str] = []
    if config.local_retention_ms >= 0:
        left_ms = min(segment.max_timestamp_ms for segment in stay) + config.local_retention_ms + 1 - now_ms
        reasons.append(f"the oldest segment is old enough in {span_text(left_ms)} (local.retention.ms)")
    if config.local_retention_bytes >= 0:
        size = sum(segment.bytes for segment in manifest.segments())
        reasons.append(f"all segments together have {size} of {config.local_retention_bytes} local.retention.bytes")
    return "; ".join(reasons)


def all_there(manifest: Manifest, home: str) -> str:
    """Why nothing is left to move to `home`. Requires: no segment of a run is elsewhere."""
    if not manifest.segments():
        return "the partition is empty"
    if home == HERE:
        return f"everything is in {told(home)} already"
    if not manifest.runs:
        return (
            "there are only L0 segments, which stay until a compaction merges them into a run ('lithify compaction "
            f"submit {manifest.topic} --full' requests one)"
        )
    if not manifest.l0:
        return f"everything is in {told(home)} already"
    return f"everything but the L0 segments is in {told(home)} already; these stay until a compaction merges them"


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
    found = [unit for unit in _singly(manifest) if not same_home(unit.segments[0].home, home)]
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
