"""Benchmark data: appends of random keys as L0 segments, the same for the same flags, made once per folder.

    python benchmarks/generate.py /tmp/lithify-bench --segments 8 --rows 1000000 --keys 4000000

Keys are 16 bytes; values are 150 bytes that compress about 2:1.
"""

import argparse
from pathlib import Path

import msgspec
import numpy as np
import pyarrow as pa

from lithify.manifest.keys import PartitionKeys, SegmentId
from lithify.manifest.model import SegmentRef
from lithify.segment.schema import normalise
from lithify.segment.write import encode_append
from lithify.store.file import FileStore

KEYS = PartitionKeys("bench", "0000000000000001", 0)
VALUE_BYTES = 150
NOW_MS = 1_700_000_000_000


def table(seed: int, rows: int, keys: int) -> pa.Table:
    """`rows` records with keys like `account-00000012`, drawn evenly from `keys`."""
    random = np.random.default_rng(seed)
    drawn = random.integers(0, keys, rows)
    names = pa.array(np.char.add("account-", np.char.mod("%08d", drawn)).astype("S16").tolist(), pa.binary())
    return normalise(pa.table({"key": names, "value": _values(random, rows)}), NOW_MS)


def _values(random: np.random.Generator, rows: int) -> pa.Array:
    """Half of each value is noise, half a repeated text: zstd takes about half away."""
    content = np.empty((rows, VALUE_BYTES), np.uint8)
    content[:, : VALUE_BYTES // 2] = random.integers(0, 256, (rows, VALUE_BYTES // 2), np.uint8)
    content[:, VALUE_BYTES // 2 :] = np.frombuffer((b"status=active;region=eu;" * 8)[: VALUE_BYTES // 2], np.uint8)
    offsets = np.arange(rows + 1, dtype=np.int32) * VALUE_BYTES
    return pa.Array.from_buffers(pa.binary(), rows, [None, pa.py_buffer(offsets), pa.py_buffer(content.tobytes())])


def generate(folder: Path, segments: int, rows: int, keys: int) -> list[SegmentRef]:
    """The references of the segments in `folder`, written there unless they are already."""
    listing = folder / f"refs-{segments}-{rows}-{keys}.json"
    if listing.exists():
        return msgspec.json.decode(listing.read_bytes(), type=list[SegmentRef])
    store = FileStore(folder)
    refs: list[SegmentRef] = []
    for index in range(segments):
        segment_id = SegmentId.for_append(1, f"{index:016x}")
        body, ref = encode_append(table(index, rows, keys), "key", segment_id)
        store.put(KEYS.segment(segment_id), body)
        base = index * rows
        refs.append(msgspec.structs.replace(ref, base_offset=base, min_offset=base, max_offset=base + rows - 1))
    listing.write_bytes(msgspec.json.encode(refs))
    return refs


def arguments() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("folder", type=Path, help="where the data lie between runs")
    parser.add_argument("--segments", type=int, default=8)
    parser.add_argument("--rows", type=int, default=1_000_000, help="of each segment")
    parser.add_argument("--keys", type=int, default=4_000_000, help="to draw from")
    return parser


if __name__ == "__main__":
    flags = arguments().parse_args()
    made = generate(flags.folder, flags.segments, flags.rows, flags.keys)
    stored = sum(ref.bytes for ref in made)
    print(f"{len(made)} segments, {sum(ref.rows for ref in made)} rows, {stored / 1e6:.0f} MB of Parquet")
