"""How fast segments move between a folder and a bucket of a real S3 server, there and back, against plain copies of the
same files by boto3; by turns, so that both see the same machine (docs/rfcs/0031).

    python -m benchmarks.relocating             a minute
    python -m benchmarks.relocating --quick     does it work?

A relocation reads what it copies, checks it, records each segment and commits; a plain copy does none of that.
"""

import os
import statistics
import tempfile
from collections.abc import Callable
from functools import partial
from pathlib import Path

import lithify
from benchmarks.far_site import timed
from benchmarks.quick import asks_quick
from lithify.log.info import SegmentInfo
from tests.endpoint import Endpoint
from tests.rgw import running_rgw

__all__ = ["Moves", "relocating"]

SEGMENTS, SEGMENT_BYTES, ROUNDS = 24, 32 << 20, 5
_MEMORY_BYTES = 16 << 30  # of the server, which keeps what was replaced for a while
_TOPIC = "users"
_VALUE_BYTES = 10_000


class Moves:
    """Seconds of each round, by what was done."""

    def __init__(self) -> None:
        self.bytes = 0
        self.took: dict[str, list[float]] = {"copied there": [], "moved there": [], "copied back": [], "moved back": []}

    def rate(self, what: str) -> float:
        """The median, in MB/s."""
        return self.bytes / statistics.median(self.took[what]) / 1e6

    def share(self, way: str) -> float:
        """Of the rate of a plain copy."""
        return self.rate(f"moved {way}") / self.rate(f"copied {way}")


class _Place:
    def __init__(self, folder: Path, user: Endpoint, bucket: str, segments: int, segment_bytes: int) -> None:
        home = f"s3://{bucket}/home"
        self._folder, self._user, self._bucket = folder, user, bucket
        self.warehouse = lithify.open(folder / "warehouse", storage_options={"homes": {home: user.options}})
        config = {"cleanup.policy": "compact", "cold.location": home, "compaction.output.bytes": str(segment_bytes)}
        topic = self.warehouse.create_topic(_TOPIC, config=config, probe=False)
        rows = segment_bytes // _VALUE_BYTES
        for first in range(0, segments * rows, rows):
            some = range(first, first + rows)
            topic.append([lithify.Record(b"key-%08d" % row, os.urandom(_VALUE_BYTES)) for row in some])
        self.admin = lithify.Admin(self.warehouse)
        self.compactor = lithify.Compactor(self.warehouse, engine="local")
        self.admin.submit(_TOPIC, 0)
        self.compactor.run_once()
        self.refs: tuple[SegmentInfo, ...] = self._live()
        self._files = [next(folder.rglob(f"{ref.id}.parquet")) for ref in self.refs]

    def _live(self) -> tuple[SegmentInfo, ...]:
        return tuple(ref for run in self.warehouse.topic(_TOPIC).partition(0).describe().runs for ref in run.segments)

    def move(self, ask: Callable[[str, int], object], home: bool) -> float:
        ask(_TOPIC, 0)
        took = timed(self.compactor.run_once)
        assert {bool(ref.home) for ref in self._live()} == {home}
        return took

    def copy_there(self, turn: int) -> None:
        """To a new name in each turn, as a relocation does: to write over what is there costs less."""
        for number, file in enumerate(self._files):
            self._user.client.upload_file(str(file), self._bucket, f"plain/{turn}-{number}")

    def copy_back(self, turn: int) -> None:
        for number in range(len(self._files)):
            path = self._folder / f"back-{turn}-{number}"
            self._user.client.download_file(self._bucket, f"plain/{turn}-{number}", str(path))
            with path.open("rb") as file:
                os.fsync(file.fileno())  # as a segment in a folder is


def relocating(folder: Path, quick: bool = False) -> Moves:
    segments, segment_bytes, rounds = (2, 1 << 20, 1) if quick else (SEGMENTS, SEGMENT_BYTES, ROUNDS)
    found = Moves()
    with running_rgw(folder / "rgw", memory_bytes=_MEMORY_BYTES) as rgw:
        user = rgw.user("bench")
        place = _Place(folder, user, user.create_bucket(), segments, segment_bytes)
        found.bytes = sum(ref.bytes for ref in place.refs)
        for turn in range(rounds):
            found.took["copied there"].append(timed(partial(place.copy_there, turn)))
            found.took["moved there"].append(place.move(place.admin.relocate, home=True))
            found.took["copied back"].append(timed(partial(place.copy_back, turn)))
            found.took["moved back"].append(place.move(place.admin.recall, home=False))
        place.compactor.close()
        place.warehouse.close()
        user.close()
    return found


def main() -> int:
    quick = asks_quick("relocating", __doc__)
    with tempfile.TemporaryDirectory() as folder:
        found = relocating(Path(folder), quick)
    print(f"{found.bytes / 1e6:.0f} MB")
    for way in ("there", "back"):
        copied, moved = (found.rate(f"{what} {way}") for what in ("copied", "moved"))
        print(f"{way:6} copied {copied:7.1f} MB/s   moved {moved:7.1f} MB/s ({found.share(way):.2f} x)")
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
