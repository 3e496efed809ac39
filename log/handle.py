"""What a partition's handle holds, and what its methods are made of."""

from collections.abc import Callable, Coroutine, Iterable
from typing import Any, TypeVar

from msgspec.structs import replace

from lithify.log.appending import Appending
from lithify.log.beside_head import BesideHead
from lithify.log.point_reads import PointReads
from lithify.log.record import Record
from lithify.log.snapshot import Snapshot
from lithify.manifest.config import TopicConfig
from lithify.manifest.edits import Edit
from lithify.manifest.keys import PartitionKeys
from lithify.manifest.missing import explain_missing
from lithify.manifest.model import Checkpoint, Manifest
from lithify.manifest.partition import PartitionFiles
from lithify.manifest.retention import Retention, floor_at
from lithify.segment.cold_reads import ColdReads
from lithify.segment.room import Room
from lithify.segment.segments import Segments
from lithify.store.driver import Driver
from lithify.store.errors import LithifyError, NotFound
from lithify.store.own_lock import OwnLock
from lithify.store.port import Request
from lithify.store.short_repr import shortened

__all__ = ["Handle"]

T = TypeVar("T")


class Handle:
    """The files of one partition as this process knows them, under a lock, and who asks the store."""

    def __init__(
        self, driver: Driver, keys: PartitionKeys, config: Callable[[], TopicConfig], unbounded: Callable[[], Retention]
    ) -> None:
        self._driver = driver
        self._config = config
        self._unbounded = unbounded  # the bounds for a manifest that has none
        self._files = PartitionFiles(keys)
        self._lock = OwnLock()  # of `_files`
        self._appending = Appending(driver, keys)
        self._deadline_ms: int | None = None  # when the driver stops waiting
        self._gets = PointReads(self._files)
        self._beside_head = BesideHead()
        self._cold_reads = ColdReads()

    def __repr__(self) -> str:
        return f"Partition({shortened(self._files.name)})"

    @property
    def topic(self) -> str:
        return self._files.keys.topic

    @property
    def number(self) -> int:
        return self._files.keys.partition

    @property
    def cold_segments_read(self) -> int:
        """How many segments outside the warehouse this handle's reads have taken something of, in this process and so
        far; each read counts for itself (docs/homes.md)."""
        return self._cold_reads.count

    def _run(self, coroutine: Coroutine[Request[Any], Any, T]) -> T:
        with self._lock.mine():
            return self._driver.run(coroutine)

    def _learn(self, files: PartitionFiles) -> None:
        """Know what an append has learned; unless somebody reads just now, and learns it himself."""
        # SUBTLE! Not with `acquire`: 1. It takes the lock. 2. Ctrl-C, before the next line. 3. Whoever uses this handle
        # next waits for ever. A `with` is never interrupted there. Test: tests/log/test_interrupted_appends.py
        lock = self._lock.mine()
        if not lock.locked():
            with lock:
                self._files.learn(files)

    def offset_for_timestamp(self, timestamp_ms: int) -> int | None:
        """As `Snapshot.offset_for_timestamp`, of the newest manifest."""
        return self._open(self._head()).offset_for_timestamp(timestamp_ms)

    def get_many_beside(
        self, keys: Iterable[bytes | str], max_staleness_ms: int, room: Room | None
    ) -> list[Record | None]:
        """As `get_many`, in a thread of the store, while others are asked that share `room`: it reads the warehouse
        alone, and raises Elsewhere (lithify.segment.points) if that is not enough. None: alone, by the caller."""
        return self._gets.get_many(
            keys, max_staleness_ms, lambda ms: self._open(self._recent(ms)), self._likely, self._driver.store, room
        )

    def _recent(self, staleness_ms: int) -> Manifest:
        known = self._gets.recent.known(staleness_ms, self._driver.now_ms()) if staleness_ms else None
        return known or self._run(self._gets.recent.within(staleness_ms))

    def _floor(self, manifest: Manifest) -> int:
        """Where the log starts for a reader of `manifest` now (R3)."""
        return floor_at(self._bounded(manifest), self._driver.now_ms())

    def _bounded(self, manifest: Manifest) -> Manifest:
        """`manifest`, with the bounds in force if an earlier version of lithify stored none in it."""
        return manifest if manifest.retention else replace(manifest, retention=self._unbounded())

    def _head(self) -> Manifest:
        return self._run(self._files.live_head())

    def _open(self, manifest: Manifest) -> Snapshot:
        return self._snapshot(manifest, None)

    def _likely(self) -> Snapshot | None:
        """The newest manifest seen, which may or may not be the head. None: none, or of a deleted topic."""
        seen = self._files.manifest.seen.value
        return None if seen is None or seen.sealed else self._open(seen)

    def _snapshot(self, manifest: Manifest, checkpoint: Checkpoint | None, ttl_ms: int | None = None) -> Snapshot:
        # A pinned manifest keeps the floor stored when it was pinned.
        floor = self._floor(manifest) if checkpoint is None else manifest.log_start_offset
        segments = Segments(self._files.keys, self._driver.homes, ColdReads(self._cold_reads))
        points = self._gets.points(segments, self._driver.cache, manifest)
        told = self._explain_missing
        return Snapshot(segments, points, floor, told, checkpoint, ttl_ms=ttl_ms, commit=self._commit)

    def _commit(self, edit: Edit[Manifest, T]) -> T:
        return self._run(self._files.manifest.commit(edit)).result

    def _explain_missing(self, manifest: Manifest, missing: NotFound) -> LithifyError:
        head = self._run(self._files.head())  # reads the boundary, too
        return explain_missing(head, self._files.boundary.seen.value, manifest.id, missing)
