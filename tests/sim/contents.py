"""What a partition's records must be, held against what its manifests name. Nothing here knows how a merge works."""

from collections.abc import Iterable, Mapping, Sequence
from typing import NamedTuple

from lithify.manifest.model import Manifest, Retention, SegmentRef
from tests.sim.judge.settings import Bounds
from tests.sim.rows import Row, size_of

__all__ = ["Contents", "Reign"]


class Reign(NamedTuple):
    """Bounds that were in force until a time, in a log that ended before an offset then."""

    bounds: Bounds
    until_ms: int
    end_offset: int


class Contents:
    """Every record that was ever appended, at its offset, and every segment's rows."""

    def __init__(self) -> None:
        self.placed: dict[int, Row] = {}  # by offset, in offset order
        self.at: dict[str, int] = {}  # token -> offset
        self.stored: dict[str, Sequence[Row]] = {}  # segment id -> rows as they were written
        self._rows: dict[tuple[str, int], Sequence[Row]] = {}  # and from this offset on: nearly every check asks

    def rows(self, ref: SegmentRef) -> Sequence[Row]:
        base = ref.base_offset or 0
        found = self._rows.get((ref.id, base))
        if found is None:
            found = self._rows[ref.id, base] = [
                Row(r.offset + base, r.key, r.token, r.dead, r.timestamp_ms, r.horizon_ms, r.size)
                for r in self.stored[ref.id]
            ]
        return found

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

    def floor_is_early(
        self, previous: Manifest, manifest: Manifest, reigns: Sequence[Reign], floor: int, *, held: bool = False
    ) -> str | None:
        """Why no bounds, while they were in force, let the floor rise from that of `previous` to `floor`, over records
        that were still there (R3). `held`: those alone that `manifest` still holds; what a merge superseded in a bucket
        between two that expired is gone by other rules, and the floor passes over where it was."""
        first = max(previous.log_start_offset, manifest.deleted_to)
        stays = {row.offset: row for ref in manifest.segments() for row in self.rows(ref)}
        there = {row.offset: row for ref in previous.segments() for row in self.rows(ref)} | stays
        for offset in sorted(o for o in (stays if held else there) if first <= o < floor):
            timestamp_ms, now = self.placed[offset].timestamp_ms, reigns[-1]
            if _may_go(now.bounds, [r for o, r in there.items() if o > offset], now.until_ms - timestamp_ms):
                continue
            if not any(self._could_go(reign, offset) for reign in reigns[:-1]):
                return f"offset {offset}, of {timestamp_ms}, lies below the floor {floor} (R3)"
        return None

    def _could_go(self, reign: Reign, offset: int) -> bool:
        """Under bounds of former times, as many records as were ever appended after it."""
        after = [self.placed[o] for o in range(offset + 1, reign.end_offset) if o in self.placed]
        return _may_go(reign.bounds, after, reign.until_ms - self.placed[offset].timestamp_ms)

    def floor_is_wrong(
        self, previous: Manifest, manifest: Manifest, reigns: Sequence[Reign], floor: int, *, counted: bool
    ) -> str | None:
        """What is wrong with `floor`, where readers of `manifest` see the log start, or with the index that it is
        reckoned from. `counted` False: workers of an earlier release took part, so it may be late."""
        wrong = self.counted_wrongly(manifest, exact=counted)
        if wrong is None and manifest.retention == previous.retention:
            wrong = self.floor_is_early(previous, manifest, reigns, floor, held=True)
        return self.floor_is_late(manifest, floor) if wrong is None and counted else wrong

    def floor_is_late(self, manifest: Manifest, floor: int) -> str | None:
        """Why the first bucket that is not wholly below `floor` should be (R3, D2)."""
        starts = [bucket.start for bucket in manifest.time_index]
        end = next((end for end in (*starts[1:], manifest.next_offset) if end > floor), None)
        if manifest.retention is None or not starts or end is None:
            return None
        after = [row for ref in manifest.segments() for row in self.rows(ref) if row.offset >= end]
        if _bound_remains(manifest.retention, after):
            return f"the log starts at {floor}, though {size_of(after)} bytes remain from {end} on (R3, D2)"
        return None

    def counted_wrongly(self, manifest: Manifest, exact: bool) -> str | None:
        """How the time index differs from the records that are stored. `exact` False: it may count fewer bytes."""
        index = manifest.time_index
        rows = [row for ref in manifest.segments() for row in self.rows(ref)]
        for bucket, end in zip(index, [*(later.start for later in index[1:]), manifest.next_offset], strict=False):
            if bucket.start < manifest.log_start_offset:
                continue  # the floor cuts it
            inside = [row for row in rows if bucket.start <= row.offset < end]
            size = size_of(inside)
            if bucket.rows != len(inside) or bucket.bytes > size or (exact and bucket.bytes != size):
                return f"bucket {bucket} holds {len(inside)} records of {size} bytes (R3, D2)"
        return None

    def cut_wrongly(self, segments: Sequence[SegmentRef], output_bytes: int) -> str | None:
        """R5, of one run that a compaction made."""
        for ref in segments:
            rows = self.stored[ref.id]
            before = rows[:-1] if ref.order == "offset" else [r for r in rows if r.key != rows[-1].key]
            if size_of(before) >= output_bytes:
                return f"segment {ref.id} of {size_of(rows)} bytes was to be cut at {output_bytes} (R5)"
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


def _may_go(bounds: Bounds, after: Sequence[Row], age_ms: int) -> bool:
    """Whether retention may forget a record of that age with so many after it (at least: a bucket goes as a whole)."""
    return _bound_remains(bounds, after) or 0 <= bounds.ms < age_ms


def _bound_remains(bounds: Bounds | Retention, rows: Sequence[Row]) -> bool:
    return 0 <= bounds.records <= len(rows) or 0 <= bounds.bytes <= size_of(rows)


def _plain(row: Row) -> tuple[object, ...]:
    return row.key, row.token, row.dead, row.timestamp_ms
