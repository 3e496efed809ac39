"""What every manifest must hold by itself and against the one before it (docs/formats.md, RFC 0002): what only grows,
what a reference says of its segment, and in which order segments lie."""

from base64 import b64decode
from collections.abc import Iterator, Sequence
from itertools import accumulate, pairwise

from tests.sim.judge.layout import Json, index_of, segments_of
from tests.sim.judge.records import Record, Records

__all__ = ["broken"]

GROWS = ("next_offset", "log_start_offset", "deleted_to", "cleaned_to", "orphan_floor", "compactor_epoch", "config_at")


def broken(previous: Json, manifest: Json, records: Records) -> Iterator[str]:
    number = manifest["id"]
    for name in GROWS:
        if manifest.get(name, 0) < previous.get(name, 0):
            yield f"manifest {number}: {name} falls from {previous[name]} to {manifest.get(name, 0)} (P2)"
    if previous.get("sealed") and not manifest.get("sealed"):
        yield f"manifest {number} is sealed no more (P21)"
    yield from _moved(previous, manifest)
    known = {each["id"] for each in segments_of(previous)}
    for ref in segments_of(manifest):
        if ref["id"] not in known:
            yield from _told_wrongly(ref, records.of(ref), number)
    for run in manifest.get("runs", ()):
        if run["segments"][0]["id"] not in known:
            yield from _unsorted(run, records)
    yield from _index(manifest)


def _moved(previous: Json, manifest: Json) -> Iterator[str]:
    number = manifest["id"]
    was, now = ([each["id"] for each in segments_of(one)] for one in (previous, manifest))
    before, after = ({each["id"]: each for each in one.get("retired", ())} for one in (previous, manifest))
    if len({*now, *after}) < len(now) + len(after):
        yield f"manifest {number} names a segment twice, live or retired (P16)"
    if set(now) & before.keys():
        yield f"manifest {number} brings back what was retired (P16)"
    fresh = after.keys() - before.keys()
    if fresh != set(was) - set(now):
        yield f"manifest {number} retires {sorted(fresh)}, and {sorted(set(was) - set(now))} are live no more (P16)"
    if any(after[name]["retired_at"] != number for name in fresh):
        yield f"manifest {number} retires a segment under another number (P16)"
    ends = [(each["min_offset"], each["max_offset"] + 1) for each in manifest.get("l0", ())]
    if any(later[0] < former[1] for former, later in pairwise(ends)):
        yield f"manifest {number}: L0 segments are not in offset order (R2)"
    appended = [each for each in manifest.get("l0", ()) if each["id"] not in was]
    grown = manifest.get("next_offset", 0) - previous.get("next_offset", 0)
    if grown != sum(each["rows"] for each in appended):
        yield f"manifest {number} gives {grown} offsets to {sum(each['rows'] for each in appended)} records (R2)"


def _told_wrongly(ref: Json, rows: Sequence[Record], number: int) -> Iterator[str]:
    """What the reference of a new segment says, against the records in it."""
    times, offsets = [row.timestamp_ms for row in rows], [row.offset for row in rows]
    horizons = [row.horizon_ms for row in rows if row.horizon_ms is not None]
    expected = {
        "rows": len(rows),
        "tombstones": sum(row.tombstone for row in rows),
        "bytes": sum(row.size for row in rows),
        "min_offset": min(offsets),
        "max_offset": max(offsets),
        "min_ts_ms": min(times),
        "max_ts_ms": max(times),
        "horizon_ms": min(horizons, default=None),
        "last_horizon_ms": max(horizons, default=None),
        "added_at": number,
    }
    for name, value in expected.items():
        if ref.get(name, 0 if name == "tombstones" else None) != value:
            yield f"manifest {number}: {name} of segment {ref['id']} is {ref.get(name)}, it holds {value} (P2)"
    keys = [row.key.encode("latin-1") for row in rows if row.key is not None]
    low, high = (None if ref.get(name) is None else b64decode(ref[name]) for name in ("min_key", "max_key"))
    if keys and ((low is not None and low > min(keys)) or (high is not None and high < max(keys))):
        yield f"manifest {number}: keys of segment {ref['id']} lie outside its bounds (P2)"


def _unsorted(run: Json, records: Records) -> Iterator[str]:
    """Segments of a run do not overlap: by key, or by offset where they are in that order."""
    by_offset = run["segments"][0].get("order", "key") == "offset"
    rows = [records.of(ref) for ref in run["segments"]]
    offsets = [[record.offset for record in each] for each in rows]
    keys = [[record.key for record in each if record.key is not None] for each in rows]
    if by_offset:
        wrong = any(max(former) >= min(later) for former, later in pairwise(offsets))
    else:
        wrong = any(max(former) >= min(later) for former, later in pairwise(filter(None, keys)))
    if wrong:
        yield f"run {run['id']} is not in order (R5)"


def _index(manifest: Json) -> Iterator[str]:
    """From no border on does the time index count more bytes than live segments hold that reach there; but for a bucket
    that the floor cuts."""
    index, number = index_of(manifest), manifest["id"]
    starts = [bucket[0] for bucket in index]
    if starts != sorted(set(starts)):
        yield f"manifest {number}: the time index is not in offset order (R3)"
    counted = [*accumulate(bucket[3] for bucket in reversed(index))][::-1]
    for start, size in zip(starts, counted, strict=True):
        there = sum(each["bytes"] for each in segments_of(manifest) if each["max_offset"] >= start)
        if size > there and start >= manifest.get("log_start_offset", 0):
            yield f"manifest {number} counts {size} bytes from {start} on, and {there} are stored (R3, D2)"
