"""What a partition's records must be, held against what its manifests name. Nothing here knows how a merge works."""

from collections.abc import Iterable, Mapping, Sequence
from typing import NamedTuple

from lithify.manifest.model import Manifest, Retention, SegmentRef
from tests.sim.rows import ROW_BYTES, Row

__all__ = ["Contents", "Reign"]


class Reign(NamedTuple):
    """Bounds that were in force until a time, in a log that ended before an offset then."""

    retention: Retention
    until_ms: int
    end_offset: int


class Contents:
    """Every record that was ever appended, at its offset, and every segment's rows."""

    def __init__(self) -> None:
        self.placed: dict[int, Row] = {}  # by offset, in offset order
        self.at: dict[str, int] = {}  # token -> offset
        self.stored: dict[str, Sequence[Row]] = {}  # segment id -> rows as they were written

    def rows(self, ref: SegmentRef) -> list[Row]:
        base = ref.base_offset or 0
        return [Row(r.offset + base, r.key, r.token, r.dead, r.timestamp_ms, r.horizon_ms) for r in self.stored[ref.id]]

    def place(self, ref: SegmentRef, anew_to: int = 0) -> str | None:
        """A new L0 segment's rows take their offsets; what is wrong with that, if anything is. Below `anew_to` they
        may be there already: their application was forgotten."""
        for row in self.rows(ref):
            if row.offset in self.placed:
                return f"offset {row.offset} was given twice (R2)"
            if self.at.get(row.token, -1) >= anew_to:
                return f"record {row.token} is at offset {self.at[row.token]} already, and now at {row.offset} (P6)"
            self.placed[row.offset] = row
            self.at[row.token] = row.offset
        return None

    def differences(self, manifest: Manifest, compacted: bool) -> str | None:
        """How `manifest` differs from the records above its floor. `compacted`: the topic may have been cleaned."""
        rows: dict[int, Row] = {}
        for ref in manifest.segments():
            for row in self.rows(ref):
                if row.offset in rows:
                    return f"offset {row.offset} is live twice (R2)"
                rows[row.offset] = row
        for offset, row in rows.items():
            placed = self.placed.get(offset)
            if placed is None or _plain(placed) != _plain(row):
                return f"offset {offset} holds {_plain(row)}, not {placed and _plain(placed)} (R2)"
        wrong = _cleaned_wrongly(rows, manifest.cleaned_to)
        if wrong is not None:
            return wrong
        floor = manifest.log_start_offset
        latest = {row.key: row for row in self.placed.values() if row.offset >= floor}
        live = {key: offset for offset, key in sorted((o, r.key) for o, r in rows.items() if o >= floor)}
        for key, row in latest.items():
            if key is not None and live.get(key) != row.offset and not (row.dead and key not in live and compacted):
                return f"key {key} shows offset {live.get(key)}, its latest record is {row.offset} (R1, R4)"
        for offset, row in self.placed.items():
            if offset < floor or offset in rows:
                continue
            if not compacted or (row.key is not None and latest[row.key].offset == offset and not row.dead):
                return f"offset {offset} has vanished (R1, R2)"
        return None

    def merged_wrongly(
        self, taken: Iterable[SegmentRef], made: Sequence[SegmentRef], manifest: Manifest, kind: str | None, now_ms: int
    ) -> str | None:
        """What is wrong with a merge of `taken` into `made`, as `manifest` has it (R4)."""
        ours, floor = {ref.id for ref in made}, manifest.log_start_offset
        others = [ref for ref in manifest.segments() if ref.id not in ours]
        before = {row.offset: row for ref in taken for row in self.rows(ref)}
        after = {row.offset: row for ref in made for row in self.rows(ref)}
        covered = min((ref.min_offset for ref in others), default=None)
        newest = {row.key: row.offset for row in sorted(before.values(), key=lambda row: row.offset)}
        for offset, row in before.items():
            kept = after.get(offset)
            if kept is None:
                if (
                    offset >= floor
                    and row.dead
                    and newest[row.key] == offset
                    and (row.horizon_ms is None or row.horizon_ms > now_ms)
                ):
                    return f"tombstone {offset} went before its time ({row.horizon_ms}) (R4)"
            elif kept.horizon_ms != row.horizon_ms:
                if kind != "clean":
                    return f"tombstone {offset} is stamped by a {kind} (R4)"
                if row.horizon_ms is not None:
                    return f"tombstone {offset} was stamped {row.horizon_ms} and is stamped anew (R4)"
                if covered is not None and offset >= covered:
                    return f"tombstone {offset} is stamped, though a live segment begins at {covered} (R4)"
        if after.keys() - before.keys():
            return f"the merge made up offset {min(after.keys() - before.keys())} (R2)"
        return None

    def floor_is_early(self, previous: Manifest, manifest: Manifest, reigns: Sequence[Reign]) -> str | None:
        """Why no bounds, while they were in force, let the floor rise from `previous` to `manifest`, over records that
        were still there (R3)."""
        floor = manifest.log_start_offset
        first = max(previous.log_start_offset, manifest.deleted_to)
        there = {row.offset for m in (previous, manifest) for ref in m.segments() for row in self.rows(ref)}
        for offset in sorted(o for o in there if first <= o < floor):
            timestamp_ms, now = self.placed[offset].timestamp_ms, reigns[-1]
            if _may_go(now.retention, sum(o > offset for o in there), now.until_ms - timestamp_ms):
                continue
            if not any(_may_go(r.retention, r.end_offset - offset - 1, r.until_ms - timestamp_ms) for r in reigns[:-1]):
                return f"offset {offset}, of {timestamp_ms}, lies below the floor {floor} (R3)"
        return None

    def cut_wrongly(self, segments: Sequence[SegmentRef], output_bytes: int) -> str | None:
        """R5, of one run that a compaction made."""
        for ref in segments:
            rows = self.stored[ref.id]
            before = [r for r in rows if r.key != rows[-1].key or ref.order == "offset"]
            if len(before) * ROW_BYTES > output_bytes + ROW_BYTES:
                return f"segment {ref.id} of {len(rows) * ROW_BYTES} bytes was to be cut at {output_bytes} (R5)"
        return None

    def scan(self, manifest: Manifest) -> Mapping[str | None, Row]:
        """What a reader of `manifest` must find: the latest record of each key."""
        floor, end = manifest.log_start_offset, manifest.next_offset
        return {row.key: row for row in self.placed.values() if floor <= row.offset < end}


def _cleaned_wrongly(rows: Mapping[int, Row], cleaned_to: int) -> str | None:
    """What lies below `cleaned_to` was merged with everything else there, and a tombstone with a horizon has nothing
    left to hide: it may go."""
    lowest: dict[str, int] = {}
    for offset, row in sorted(rows.items()):
        if row.key is None:
            continue
        older = lowest.setdefault(row.key, offset)
        if older != offset and (offset < cleaned_to or row.horizon_ms is not None):
            return f"offset {older} of key {row.key} is left below {offset}, which is clean to {cleaned_to} (R4)"
    return None


def _may_go(bounds: Retention, after: int, age_ms: int) -> bool:
    """Whether retention may forget a record of that age with so many after it (at least: a bucket goes as a whole)."""
    by_rows = 0 <= bounds.records <= after or 0 <= bounds.bytes <= after * ROW_BYTES
    return by_rows or 0 <= bounds.ms < age_ms


def _plain(row: Row) -> tuple[object, ...]:
    return row.key, row.token, row.dead, row.timestamp_ms
