"""The memory of point reads in several partitions at once (docs/rfcs/0025, docs/rfcs/0030)."""

import threading

__all__ = ["LOOKS_MAX", "WAVE_RAW_BYTES", "Room"]

LOOKS_MAX = 512  # at once: each holds its place in a segment
WAVE_RAW_BYTES = 64 << 20  # of the parts that are fetched at once, in memory
_WAIT_S = 60  # then it goes on without room: others may have been interrupted


class Room:
    """What partitions that are asked at once share, so that all of them together hold about what one may hold alone.
    Thread-safe."""

    def __init__(self, partitions: int) -> None:
        self.partitions = partitions
        self._lock = threading.RLock()  # for `with`: a condition's own is Python, and Ctrl-C within it leaks the lock
        self._changed = threading.Condition(self._lock)
        self._held_bytes = 0

    def take(self, size: int) -> None:
        """Wait until so many bytes have room, or until nobody else holds any. Requires: the caller holds none."""
        with self._lock:
            self._changed.wait_for(
                lambda: not self._held_bytes or self._held_bytes + size <= WAVE_RAW_BYTES, timeout=_WAIT_S
            )
            self._held_bytes += size

    def give(self, size: int) -> None:
        with self._lock:
            self._held_bytes -= size
            self._changed.notify_all()
