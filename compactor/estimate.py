"""Predicts what a compaction will take, from its inputs and the results of earlier ones. Pure (docs/rfcs/0008)."""

import math
from collections.abc import Sequence

from lithify.compactor.plan import in_key_order, merge_bytes
from lithify.manifest.compacted import is_clean
from lithify.manifest.config import TopicConfig
from lithify.manifest.jobs import Estimate, Kind, summed_up
from lithify.manifest.move_price import by_the_store, copying
from lithify.manifest.reading import Reading
from lithify.manifest.retention import floor_at
from lithify.manifest.units import Unit, segments_of
from lithify.segment.read import FAR_FETCH_BYTES_MAX
from lithify.segment.sort import SORT_BYTES
from lithify.segment.source import FETCHES_BYTES

__all__ = ["SPLIT_BYTES_MIN", "estimate", "estimate_relocation", "target_bytes"]

# Smaller jobs have one range. Larger ones have 2, 4 or 8 of about this size, or more if outputs would be too
# large. A range of this size takes a worker about a second, and each task costs a tenth of a second on Spark, whatever
# it does (docs/rfcs/0020). Powers of two, since workers are: of five equal ranges, two workers leave one for last.
SPLIT_BYTES_MIN = 64 * 1024 * 1024
_EVEN_RANGES_MAX = 8
_PROCESS_BYTES = 160 * 1024 * 1024  # of a worker before it merges: interpreter and libraries
_OUTPUT_BYTES = 64 * 1024 * 1024  # of output held: a row group decoded, encoded and on its way
_PART_BYTES = 16 * 1024 * 1024  # of a part of a streamed object
_JOB_PUTS = 4  # admit, start, commit, finish; each output range adds one at most
_JOB_GETS = 8


def target_bytes(config: TopicConfig, input_bytes: int) -> int:
    """The number of input bytes in a key range of a job."""
    if input_bytes <= SPLIT_BYTES_MIN:
        return min(config.output_bytes, SPLIT_BYTES_MIN)
    ranges = 1 << max(1, round(math.log2(input_bytes / SPLIT_BYTES_MIN)))
    return min(config.output_bytes, -(-input_bytes // min(ranges, _EVEN_RANGES_MAX)))


def estimate(reading: Reading, chosen: Sequence[Unit], kind: Kind, ranges: int | None = None) -> Estimate:
    """What a merge of `chosen` takes, in so many `ranges` (None: not known yet). Rows and bytes out follow the last
    finished compaction of the same kind; without one, they are at most what goes in. Clean data is not expected to
    shrink."""
    config, history = reading.config, reading.state.history
    input_bytes, input_rows = sum(u.bytes for u in chosen), sum(u.rows for u in chosen)
    target = target_bytes(config, input_bytes)
    if ranges is None:
        ranges = 1 if input_bytes <= target else -(-input_bytes // target)
    last = next((j for j in reversed(history) if j.status == "completed" and j.kind == kind and j.counts.rows_in), None)
    kept = 1.0 if last is None else last.counts.rows_out / last.counts.rows_in
    read_bytes = 0 if last is None else summed_up(last).input_bytes
    kept_bytes = 1.0 if last is None or not read_bytes else last.output_bytes / read_bytes
    clean_rows, clean_bytes = _stays(chosen, reading) if kind == "clean" and config.compacted else (0, 0)
    output_bytes = max(round(input_bytes * kept_bytes), clean_bytes)
    outputs = max(-(-output_bytes // max(config.output_bytes, 1)), ranges)
    fetch_bytes = min(FAR_FETCH_BYTES_MAX, FETCHES_BYTES // max(len(chosen), 1))
    segments = sum(len(u.segments) for u in chosen)
    opened = ranges * len(chosen) + segments  # each range opens one segment of each source, and runs a few more
    return Estimate(
        input_segments=segments,
        input_rows=input_rows,
        input_bytes=input_bytes,
        output_rows=max(round(input_rows * kept), clean_rows),
        output_bytes=output_bytes,
        ranges=ranges,
        peak_memory_bytes=_peak_memory_bytes(chosen, config),
        gets=opened + -(-input_bytes // fetch_bytes) + outputs,  # each output is opened once
        puts=outputs + output_bytes // _PART_BYTES,
        own_gets=2 * outputs + _JOB_GETS,
        own_puts=ranges + _JOB_PUTS,
        basis="its inputs, since no compaction has finished yet" if last is None else f"how {last.id} went",
    )


def estimate_relocation(chosen: Sequence[Unit], home: str) -> Estimate:
    """What it takes to move `chosen`, each of one segment, to `home`: copies, looks at them, and what any job takes."""
    size, rows, count = sum(u.bytes for u in chosen), sum(u.rows for u in chosen), len(chosen)
    copies = [copying(each.bytes, by_the_store=by_the_store(each.home, home)) for each in segments_of(chosen)]
    return Estimate(
        input_segments=count,
        input_rows=rows,
        input_bytes=size,
        output_rows=rows,
        output_bytes=size,
        ranges=count,
        peak_memory_bytes=_PROCESS_BYTES + 4 * _PART_BYTES,
        gets=sum(each.reads + each.looks for each in copies),
        puts=sum(each.writes for each in copies),
        own_gets=2 * count + _JOB_GETS,
        own_puts=count + _JOB_PUTS + 1,
        basis="its segments, which are copied as they are",
    )


def _peak_memory_bytes(chosen: Sequence[Unit], config: TopicConfig) -> int:
    sorted_bytes = max((u.raw_bytes_max for u in chosen if config.compacted != in_key_order(u)), default=0)
    return _PROCESS_BYTES + _OUTPUT_BYTES + merge_bytes(chosen) + 3 * min(SORT_BYTES, sorted_bytes)


def _stays(chosen: Sequence[Unit], reading: Reading) -> tuple[int, int]:
    """(rows, bytes) of the largest clean run (a divided run has left several), less its tombstones and what lies below
    the floor: each key is in it once, so a clean leaves at least as many."""
    clean = (unit for unit in chosen if unit.is_run and is_clean(unit, reading.manifest.cleaned_to))
    run = max(clean, key=lambda unit: unit.rows, default=None)
    if run is None or not run.rows:
        return 0, 0
    floor = floor_at(reading.manifest, reading.now_ms)
    span = run.max_offset + 1 - run.min_offset
    above = (run.rows - run.tombstones) * max(run.max_offset + 1 - max(floor, run.min_offset), 0) // span
    return above, run.bytes * above // run.rows
