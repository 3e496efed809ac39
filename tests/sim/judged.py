"""What a compactor concludes from what it read: that a source is damaged, and that a configuration lets it drop."""

from collections.abc import Iterable, Sequence

from lithify.manifest.jobs import MergeRules
from lithify.manifest.model import Manifest, SegmentRef, TopicFile
from tests.sim.cast import Author
from tests.sim.contents import Contents
from tests.sim.judge.settings import Settings, settings

__all__ = ["Readings", "kept_by_all"]


class Readings:
    """When each coordinator began to read its sources, and when damaged ones were restored; by steps."""

    def __init__(self) -> None:
        self._since: dict[Author, int] = {}
        self._whole_since: dict[str, int] = {}

    def begin(self, author: Author, step: int) -> None:
        """An attempt of this coordinator, or its planning, begins to read; what it tells of damage is of later."""
        self._since[author] = step

    def restored(self, segment_ids: Iterable[str], step: int) -> None:
        self._whole_since.update(dict.fromkeys(segment_ids, step))

    def all_of_whole(self, author: Author, segment_id: str) -> bool:
        """Whether a segment that is whole now was so ever since `author` began to read (R6)."""
        return self._whole_since.get(segment_id, 0) < self._since.get(author, 0)


def kept_by_all(
    contents: Contents,
    rules: MergeRules,
    taken: Sequence[SegmentRef],
    made: Sequence[SegmentRef],
    manifest: Manifest,
    topics: Sequence[TopicFile],
    now_ms: int,
) -> str | None:
    """Why no configuration of `topics`, those in force since the one that the manifest went by, lets a job drop what it
    drops, or stamp what it stamps (P9)."""
    in_force = [settings(topic.id, topic.config) for topic in topics if topic.topic_id == manifest.topic_id]
    before = {row.offset: row for ref in taken for row in contents.rows(ref)}
    after = {row.offset: row for ref in made for row in contents.rows(ref)}
    gone = [row for offset, row in before.items() if offset not in after and offset >= manifest.log_start_offset]
    alive = [row for row in gone if row.horizon_ms is None or row.horizon_ms > now_ms]
    stamps = [row.horizon_ms or 0 for offset, row in after.items() if row.horizon_ms != before[offset].horizon_ms]
    latest_ms = max((ref.max_timestamp_ms for ref in taken), default=0)

    def lets(config: Settings) -> bool:
        lag_ms = config.lag_ms
        drops = config.compacted and (not lag_ms or latest_ms <= now_ms - lag_ms)
        stamped = config.compacted and all(at_ms >= rules.clock_ms + config.tombstones_ms for at_ms in stamps)
        return (drops or not alive) and (stamped or not stamps)

    if any(map(lets, in_force)):
        return None
    return f"drops {len(alive)} records and stamps {len(stamps)} that the topic was altered to keep (P9)"
