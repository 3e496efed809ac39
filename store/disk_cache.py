"""A read-through cache of segments' bytes in a local folder (docs/rfcs/0031). It holds ranges of objects that never
change, and nothing else.

It may be deleted at any time, damaged, full, or unwritable: a read that it cannot answer goes to the store. Processes
share it through files alone: an entry is written beside, and renamed; it has a checksum over its bytes and over what
they are. A lock on a file keeps the sum of the entries; a process that finds it taken keeps its bytes for itself.
"""

import errno
import fcntl
import itertools
import logging
import os
import stat
from collections.abc import Callable, Generator, Iterator
from contextlib import contextmanager, suppress
from functools import lru_cache, partial
from pathlib import Path
from typing import NamedTuple

import numpy as np
import structlog
import xxhash

from lithify.store.disk import Disk
from lithify.store.disk_cache_counts import DiskCacheCounts
from lithify.store.driver import new_id
from lithify.store.own_lock import OwnLock
from lithify.store.port import Store
from lithify.store.wrapped import Wrapped

__all__ = ["Cached", "DiskCache"]

_FOLDER = "lithify-cache-1"  # of this format; nothing else lies in it
_USED = "used"  # the sum of the entries' sizes, and the lock for it
_MAGIC = b"lithify\x01"
_HEAD_BYTES = len(_MAGIC) + 16
_BLOCK_BYTES = 4096  # a file takes whole blocks
_PIECE_BYTES = 2 << 20  # an entry has no more, so that it does not matter how a range was cut when it was fetched
_SHARE_MAX = 8  # no entry is more than this part of the cache
_SKIPPED_AFTER_FAILURE = 100  # writes
_READ_BYTES_MAX = 1 << 31

log = structlog.wrap_logger(logging.getLogger("lithify.store"))


class _Range(NamedTuple):
    """What an entry holds."""

    place: str  # URL of the store, and where requests to it go
    key: str
    start: int
    length: int

    def pieces(self) -> list["_Range"]:
        """What is kept of it: an entry each."""
        end = self.start + self.length
        starts = range(self.start, end, _PIECE_BYTES)
        return [self._replace(start=at, length=min(_PIECE_BYTES, end - at)) for at in starts]

    def digest(self, body: bytes | memoryview) -> bytes:
        made = xxhash.xxh3_128("\0".join(map(str, self)).encode() + b"\0")
        made.update(body)
        return made.digest()


class DiskCache:
    """At most `bytes_max` in `folder`, apart from what is being written. Thread-safe, and usable after a fork."""

    def __init__(self, folder: str | os.PathLike[str], bytes_max: int, *, disk: Disk | None = None) -> None:
        """Touches nothing yet."""
        self.folder = Path(os.path.abspath(os.path.expanduser(folder)))
        self.bytes_max = bytes_max
        self._root = self.folder / _FOLDER
        self._disk = disk or Disk()
        self._lock = OwnLock()
        self._counts = DiskCacheCounts()
        self._skips = 0
        self._said = False

    def counts(self) -> DiskCacheCounts:
        return self._counts

    def read(self, wanted: tuple[str, str, int, int], fetch: Callable[[int, int], bytes]) -> memoryview:
        """The bytes of a range (place, key, start, length), from here or from `fetch`, which is given the start and the
        length of what is missing. Raises what `fetch` raises.

        The pieces are read into one buffer: to join them afterwards took a tenth of the time of a scan.
        """
        whole = _Range(*wanted)
        pieces = whole.pieces()
        into = np.empty(whole.length, np.uint8).data  # not zeroed, unlike a bytearray
        parts = [into[each.start - whole.start :][: each.length] for each in pieces]
        found = [self._find(*each) for each in zip(pieces, parts, strict=True)]
        self._count(hits=sum(found), hit_bytes=sum(itertools.compress((each.length for each in pieces), found)))
        for is_there, run in itertools.groupby(range(len(pieces)), found.__getitem__):
            if not is_there:
                numbers = list(run)
                missing = [pieces[number] for number in numbers]
                length = sum(each.length for each in missing)
                body = memoryview(fetch(missing[0].start, length))
                self._count(misses=len(missing), missed_bytes=len(body))
                for each in missing:
                    self._keep(each, body[each.start - missing[0].start :][: each.length])
                if len(missing) == len(pieces):
                    return body
                into[missing[0].start - whole.start :][:length] = body
        return into

    def has(self, wanted: tuple[str, str, int, int]) -> bool:
        """Whether there are entries of the whole range, be they damaged."""
        try:
            for each in _Range(*wanted).pieces():
                self._disk.stat(self._path(each))
        except OSError:
            return False
        return True

    def forget(self, place: str, key: str) -> None:
        """All ranges of an object."""
        folder = _folder(self._root, place, key)
        with suppress(OSError):
            for name in os.listdir(folder):
                self._remove(folder / name)

    def _find(self, entry: _Range, into: memoryview) -> bool:
        """Whether it is there, and now in `into`."""
        path, head = self._path(entry), bytearray(_HEAD_BYTES)
        try:
            descriptor = self._disk.open(path, os.O_RDONLY | os.O_NOFOLLOW)
            try:
                whole = self._disk.stat_open(descriptor).st_size == _HEAD_BYTES + entry.length
                whole = whole and self._disk.read_into(descriptor, [head, into], 0) == _HEAD_BYTES + entry.length
                with suppress(OSError):  # a folder that may only be read
                    os.utime(descriptor)  # by this the oldest is found
            finally:
                self._disk.close(descriptor)
        except (FileNotFoundError, NotADirectoryError):
            return False
        except OSError as error:
            self._failed(error)
            return False
        if whole and bytes(head) == _MAGIC + entry.digest(into):
            return True
        self._count(damaged=1)
        self._remove(path)
        return False

    def _keep(self, entry: _Range, body: memoryview) -> None:
        size = _blocks(_HEAD_BYTES + len(body))
        if size * _SHARE_MAX > self.bytes_max or self._skipped():
            return
        path = self._path(entry)
        try:
            if not self._reserve(size):
                return
            path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
            self._write(path, _MAGIC + entry.digest(body), body)
        except OSError as error:
            self._failed(error)

    def _write(self, path: Path, head: bytes, body: memoryview) -> None:
        """No flush to the disk: after a power cut the checksum tells."""
        temporary = path.parent / f"{new_id()}.new"
        try:
            descriptor = self._disk.open(temporary, os.O_WRONLY | os.O_CREAT | os.O_EXCL)
            try:
                for part in (head, body):
                    with memoryview(part) as view:
                        written = 0
                        while written < len(view):
                            written += self._disk.write(descriptor, view[written:])
            finally:
                self._disk.close(descriptor)
            self._disk.rename(temporary, path)
        except BaseException:
            self._remove(temporary)
            raise

    def _reserve(self, size: int) -> bool:
        """Add to the sum of the entries, after making room if need be. False: another process is doing so."""
        self._make_root()
        with self._lock.mine(), self._locked() as descriptor:
            if descriptor is None:
                return False
            used = _number(os.pread(descriptor, 32, 0))
            if used is None or used + size > self.bytes_max:
                # Make room for an eighth of the cache, so that this is rare: it looks at every entry.
                used = self._make_room(self.bytes_max - self.bytes_max // _SHARE_MAX - size)
            os.ftruncate(descriptor, 0)
            os.pwrite(descriptor, str(used + size).encode(), 0)
            return True

    def _make_root(self) -> None:
        self._root.mkdir(mode=0o700, parents=True, exist_ok=True)
        found = os.stat(self._root)
        if found.st_uid != os.getuid() or stat.S_IMODE(found.st_mode) & 0o022:
            raise PermissionError(errno.EPERM, "other users may write there, and could change what is read")

    @contextmanager
    def _locked(self) -> Generator[int | None]:
        descriptor = os.open(self._root / _USED, os.O_RDWR | os.O_CREAT | os.O_NOFOLLOW, 0o600)
        try:
            try:
                fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except BlockingIOError:
                yield None
            else:
                yield descriptor
        finally:
            os.close(descriptor)

    def _make_room(self, bytes_max: int) -> int:
        """Remove what was not used for longest. Returns the size of what is left."""
        entries = sorted(self._entries())
        used = sum(size for _, size, _ in entries)
        for _, size, path in entries:
            if used <= bytes_max:
                break
            if self._remove(path):
                used -= size
        return used

    def _entries(self) -> Iterator[tuple[int, int, Path]]:
        """(time of use, size, path) of each; of what killed processes left half written, too."""
        for folder, _, names in os.walk(self._root):
            if folder != str(self._root):
                with suppress(OSError):
                    if not names:
                        os.rmdir(folder)  # fails if there are folders in it
                for name in names:
                    with suppress(OSError):
                        path = Path(folder, name)
                        found = path.stat(follow_symlinks=False)
                        yield found.st_mtime_ns, _blocks(found.st_size), path

    def _path(self, entry: _Range) -> Path:
        return _folder(self._root, entry.place, entry.key) / f"{entry.start}-{entry.length}"

    def _remove(self, path: Path) -> bool:
        try:
            self._disk.unlink(path)
        except FileNotFoundError:
            return True
        except OSError:
            return False
        return True

    def _skipped(self) -> bool:
        """After a failure many writes are not even tried."""
        with self._lock.mine():
            self._skips = max(0, self._skips - 1)
            return self._skips > 0

    def _failed(self, error: OSError) -> None:
        if isinstance(error, FileNotFoundError):  # the folder was deleted meanwhile, as it may be at any time
            return
        self._count(failures=1)
        with self._lock.mine():
            said, self._said, self._skips = self._said, True, _SKIPPED_AFTER_FAILURE
        if not said:
            log.warning("cache", folder=str(self.folder), failed=error.strerror, effect="reads go to the store")

    def _count(self, **more: int) -> None:
        with self._lock.mine():
            self._counts = self._counts._replace(**{name: getattr(self._counts, name) + more[name] for name in more})


class Cached(Wrapped):
    """`inner`, with a cache of what is read of segments. `is_segment`: whether a key is that of a segment."""

    def __init__(self, inner: Store, cache: DiskCache, is_segment: Callable[[str], bool]) -> None:
        super().__init__(inner)
        self._cache = cache
        self._is_segment = is_segment
        self._known_place: str | None = None

    def read(self, key: str, start: int, length: int) -> bytes:
        return bytes(self.view(key, start, length))

    def view(self, key: str, start: int, length: int) -> memoryview:
        if not self._is_segment(key) or length <= 0 or length > _READ_BYTES_MAX:
            return memoryview(self.inner.read(key, start, length))
        return self._cache.read((self._place, key, start, length), partial(self.inner.read, key))

    def at_hand(self, key: str, start: int, length: int) -> bool:
        return self._is_segment(key) and self._cache.has((self._place, key, start, length))

    def once(self) -> Store:
        return self.inner.once()

    def distrust(self, key: str) -> None:
        self._cache.forget(self._place, key)
        self.inner.distrust(key)

    @property
    def _place(self) -> str:
        if self._known_place is None:
            self._known_place = f"{self.inner.url}\0{self.inner.endpoint_url}"
        return self._known_place


@lru_cache(1_024)
def _folder(root: Path, place: str, key: str) -> Path:
    """Of all ranges of one object. To make a path takes longer than to look whether it is there."""
    name = xxhash.xxh3_128_hexdigest(f"{place}\0{key}".encode())
    return root / name[:2] / name[2:]


def _blocks(size: int) -> int:
    return -(-size // _BLOCK_BYTES) * _BLOCK_BYTES


def _number(text: bytes) -> int | None:
    return int(text) if text.isdigit() else None
