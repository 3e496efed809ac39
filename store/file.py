"""A store in a local (or mounted) folder: whole, durable objects under their names, or nothing.

Every object is written to a temporary file in one hidden folder of the root, flushed, and only then given its name.
What a killed process leaves there is never listed or read; `remove_stale_temporaries` deletes it.

A name is visible before it is sure to survive a power cut. So code that relies on a name first makes it durable:
`create` before it answers EXISTS, and `get` before it answers at all (docs/rfcs/0012).
"""

import os
import re
import stat
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import suppress
from itertools import islice
from pathlib import Path
from typing import NoReturn, TypeVar

from lithify.store.disk import Disk, Entry, sync_folder
from lithify.store.driver import machine_ms, new_id
from lithify.store.errors import Corrupt, InvalidRequest, LithifyError, NotFound
from lithify.store.exclusive import publish_exclusively
from lithify.store.file_errors import NOT_THERE, READ_ONLY, explained
from lithify.store.file_output import FileOutput, forget, write_all
from lithify.store.folders import Folders
from lithify.store.followed_clock import FollowedClock
from lithify.store.paths import check_key, check_prefix, check_range
from lithify.store.port import NOT_PICKLED, Object, ObjectInfo, Outcome, Page, Store, StoreSpec
from lithify.store.reserve import PIECES, Reserve

__all__ = ["TEMPORARY", "FileStore"]

TEMPORARY = ".lithify-tmp"
_TEMPORARY_FILE = re.compile(r"[0-9a-f]{16}\.[0-9]+")  # as `_name_temporary` names them
_RESERVE = "reserve"
_PAGE_KEYS = 1000
_STALE_MS = 24 * 3600 * 1000
_CLOCK_CACHED_MS = 1000
_READ_BYTES = 64 * 1024 * 1024  # at a time

T = TypeVar("T")


class FileStore(Store):
    """Objects under the folder `root`, which the first write creates.

    Its clock is the filesystem's: modification times and `now` agree, even on a file server. If this process may only
    read, `now` is this machine's clock. `reserve_pieces`: space kept for deletions on a full disk
    (lithify.store.reserve); 0: none.
    """

    def __init__(self, root: str | os.PathLike[str], *, disk: Disk | None = None, reserve_pieces: int = PIECES) -> None:
        self._root = Path(os.path.abspath(root))
        self._temporary = self._root / TEMPORARY
        self._disk = disk or Disk()
        self._folders = Folders(self._disk, self._root)
        self._reserve = Reserve(self._disk, self._temporary / _RESERVE, reserve_pieces)
        self._found = False  # whether the root exists
        self._clock = FollowedClock(self._filesystem_ms, _CLOCK_CACHED_MS)

    def __repr__(self) -> str:
        return f"FileStore({str(self._root)!r})"

    def __reduce__(self) -> NoReturn:
        raise TypeError(NOT_PICKLED)

    @property
    def url(self) -> str:
        return f"file://{self._root}"

    def spec(self) -> StoreSpec:
        return StoreSpec(self.url)

    def create(self, key: str, body: bytes, frees: bool = False) -> Outcome:
        """Raises (Unavailable, InvalidRequest) only if this attempt certainly published nothing."""
        final = self._path(key)
        with explained(final):
            if not frees:
                self._require_room()
            outcome, temporary = self._try(frees, lambda: self._name_exclusively(final, body))
        # From here on an object is visible, but may not survive a power cut yet. That includes EXISTS: it may be our
        # own body from an earlier attempt, whose folder could not be flushed. Test: tests/store/test_power_cut.py
        try:
            self._try(frees, lambda: sync_folder(self._disk, final.parent))
        except OSError:
            outcome = Outcome.UNKNOWN
        forget(self._disk, temporary)
        return outcome

    def get(self, key: str) -> Object | None:
        """SUBTLE! The object is durable before it is returned. 1. A writer creates it, and dies before its name is
        flushed. 2. We read it and build on it: acknowledge the commit, delete what it replaced. 3. The power fails, and
        the object is gone. A process that may only read gets what is visible. Test: tests/store/test_power_cut.py"""
        path = self._path(key)
        with explained(path):
            try:
                descriptor = self._disk.open(path, os.O_RDONLY)
                try:
                    found = self._disk.stat_open(descriptor)
                    if not stat.S_ISREG(found.st_mode):
                        return None
                    body = _read_all(self._disk, descriptor)
                finally:
                    self._disk.close(descriptor)
                self._make_sure(path.parent)
            except NOT_THERE:
                return None
        return Object(body, _modified_ms(found), _tag(found))

    def read(self, key: str, start: int, length: int) -> bytes:
        check_range(key, start, length)
        path = self._path(key)
        with explained(path):
            try:
                descriptor = self._disk.open(path, os.O_RDONLY)
                try:
                    return _read_exactly(self._disk, descriptor, (path, key), start, length)
                finally:
                    self._disk.close(descriptor)
            except NOT_THERE as error:
                raise NotFound(f"{path} does not exist", key) from error

    def put(self, key: str, body: bytes) -> None:
        final = self._path(key)
        with explained(final):
            self._require_room()
            self._publish(self._write_temporary(final, body), final)

    def output(self, key: str) -> FileOutput:
        final = self._path(key)
        with explained(final):
            self._require_room()
            self._folders.make(final.parent)
            name = self._name_temporary()
            return FileOutput(self._disk, name, final, require=self._require_room, publish=self._publish)

    def head(self, key: str) -> ObjectInfo | None:
        path = self._path(key)
        with explained(path):
            try:
                found = self._disk.stat(path)
            except NOT_THERE:
                return None
        whole = stat.S_ISREG(found.st_mode)
        return ObjectInfo(key, found.st_size, _modified_ms(found), _tag(found)) if whole else None

    def stamp(self, key: str) -> Mapping[str, str] | None:
        """When the file was born. Not its inode number, which many network filesystems assign anew when they are
        mounted; nor its ctime, which `chmod -R` and `chown -R` change, as some do at each start of a container."""
        path = self._path(key)
        with explained(path):
            try:
                if not stat.S_ISREG(self._disk.stat(path).st_mode):
                    return None
                born_ns = self._disk.born_ns(path)
            except NOT_THERE:
                return None
        return {} if born_ns is None else {"born_ns": str(born_ns)}

    def list(self, prefix: str, token: str | None = None) -> Page:
        """One page of 1,000 in key order; the token is the page's last key."""
        folder = self._root / check_prefix(prefix)
        with explained(folder):
            found = tuple(islice(_walk(self._disk, folder, prefix, token or ""), _PAGE_KEYS + 1))
        page = found[:_PAGE_KEYS]
        return Page(page, page[-1].key if len(found) > len(page) else None)

    def folders(self, prefix: str) -> Sequence[str]:
        """The names of the folders directly under `prefix`, sorted; empty folders included."""
        folder = self._root / check_prefix(prefix)
        with explained(folder):
            try:
                names = sorted(entry.name for entry in self._disk.scan(folder) if entry.is_folder)
            except (FileNotFoundError, NotADirectoryError):
                return []
        return [name for name in names if prefix or name != TEMPORARY]

    def delete(self, keys: Sequence[str]) -> dict[str, str]:
        """Deletions are durable on return, including those of names that another process has just removed."""
        paths = {key: self._path(key) for key in keys}
        refused: dict[str, str] = {}
        for key, path in paths.items():
            try:
                with explained(path), suppress(FileNotFoundError, NotADirectoryError):
                    self._disk.unlink(path)
            except LithifyError as error:
                refused[key] = str(error)
        for folder in sorted({path.parent for path in paths.values()}):
            with explained(folder), suppress(FileNotFoundError, NotADirectoryError):
                sync_folder(self._disk, folder)
        return refused

    def now(self) -> int:
        """The filesystem's clock, read by touching a folder at most once a second.

        If this process may not write, the machine's clock is used instead. For a local folder it is the same clock; for
        a file server's, retention appears earlier or later by the difference between the two. So it is until something
        was written here: whoever only looks leaves nothing behind, wherever the path leads.
        """
        return self._clock.now() if self._written() else machine_ms()

    def _written(self) -> bool:
        if not self._found:
            with explained(self._temporary), suppress(FileNotFoundError, NotADirectoryError):
                self._disk.stat(self._temporary)
                self._found = True
        return self._found

    def local_path(self, key: str) -> Path | None:
        return self._path(key)

    def close(self) -> None:
        """Nothing is kept open."""

    def remove_stale_temporaries(
        self, ours: Callable[[str], bool], older_than_ms: int = _STALE_MS, *, dry_run: bool = False
    ) -> int:
        """Remove all of them: they are in our own folder, under names that reveal no key. Nothing that has another
        name, and nothing through a link: that folder may be anybody's."""
        removed = 0
        with explained(self._temporary):
            if self._disk.resolve(self._temporary) != self._disk.resolve(self._root) / TEMPORARY:
                return removed
            try:
                unfinished = [entry.name for entry in self._disk.scan(self._temporary) if _is_unfinished(entry)]
            except (FileNotFoundError, NotADirectoryError):
                return removed
            before = self.now() - older_than_ms
            for path in (self._temporary / name for name in sorted(unfinished)):
                with suppress(FileNotFoundError):  # another process is cleaning, or the file has just got its name
                    if _modified_ms(self._disk.stat(path)) < before:
                        if not dry_run:
                            self._disk.unlink(path)
                        removed += 1
        return removed

    def _path(self, key: str) -> Path:
        if check_key(key).partition("/")[0] == TEMPORARY:
            raise InvalidRequest(f"key {key!r} is not allowed: {TEMPORARY} holds unfinished files")
        return self._root / key

    def _require_room(self) -> None:
        self._folders.make(self._temporary)
        self._reserve.require()

    def _try(self, frees: bool, act: Callable[[], T]) -> T:
        return self._reserve.lend(act) if frees else act()

    def _name_temporary(self) -> Path:
        self._folders.make(self._temporary)
        return self._temporary / f"{new_id()}.{os.getpid()}"

    def _write_temporary(self, final: Path, body: bytes) -> Path:
        self._folders.make(final.parent)
        temporary = self._name_temporary()
        try:
            descriptor = self._disk.open(temporary, os.O_WRONLY | os.O_CREAT | os.O_EXCL)
            try:
                write_all(self._disk, descriptor, body)
                self._disk.sync(descriptor)
            finally:
                self._disk.close(descriptor)
        except BaseException:
            forget(self._disk, temporary)
            raise
        return temporary

    def _name_exclusively(self, final: Path, body: bytes) -> tuple[Outcome, Path]:
        temporary = self._write_temporary(final, body)
        try:
            return publish_exclusively(self._disk, temporary, final), temporary
        except BaseException:
            forget(self._disk, temporary)
            raise

    def _publish(self, temporary: Path, final: Path) -> None:
        try:
            self._disk.rename(temporary, final)
        except BaseException:
            forget(self._disk, temporary)
            raise
        sync_folder(self._disk, final.parent)

    def _make_sure(self, folder: Path) -> None:
        try:
            sync_folder(self._disk, folder)
        except OSError as error:
            if error.errno not in READ_ONLY:
                raise

    def _filesystem_ms(self) -> int:
        with explained(self._temporary):
            try:
                self._disk.touch(self._temporary)
                return _modified_ms(self._disk.stat(self._temporary))
            except OSError as error:
                if error.errno not in READ_ONLY and not isinstance(error, FileNotFoundError):  # somebody removed it
                    raise
                return machine_ms()


def _walk(disk: Disk, folder: Path, prefix: str, after: str, trail: tuple[Path, ...] = ()) -> Iterator[ObjectInfo]:
    """Every object under `folder` with a key above `after`, in key order ('/' counts as part of the key). A link to a
    folder is followed, unless it leads back to where the walk came from: `trail` has the folders left by links."""
    try:
        entries = [(entry.name + "/" if entry.is_folder else entry.name, entry) for entry in disk.scan(folder)]
    except (FileNotFoundError, NotADirectoryError):
        return
    for name, entry in sorted(entries):
        key = prefix + name
        if entry.is_folder:
            beyond = key <= after and not after.startswith(key)
            left = (*trail, disk.resolve(folder)) if entry.is_link else trail
            back = entry.is_link and _leads_back(disk.resolve(folder / name), left)
            if not beyond and not back and key != TEMPORARY + "/":
                yield from _walk(disk, folder / name, key, after, left)
        elif key > after and entry.is_file:
            with suppress(FileNotFoundError):  # deleted after the folder was read
                found = disk.stat(folder / name)
                yield ObjectInfo(key, found.st_size, _modified_ms(found))


def _leads_back(target: Path, left: tuple[Path, ...]) -> bool:
    return any(folder.is_relative_to(target) for folder in left)


def _is_unfinished(entry: Entry) -> bool:
    return entry.is_file and not entry.is_link and _TEMPORARY_FILE.fullmatch(entry.name) is not None


def _modified_ms(found: os.stat_result) -> int:
    return found.st_mtime_ns // 1_000_000


def _tag(found: os.stat_result) -> str:
    """Not its time of modification alone: that is when a writer wrote its temporary file, and two write at the same
    moment. A file gets a new ctime when it gets its name. None where the two are the same: some filesystems have no
    ctime, nor inodes of their own."""
    if found.st_ctime_ns == found.st_mtime_ns:
        return ""
    return f"{found.st_ino:x} {found.st_ctime_ns} {found.st_mtime_ns} {found.st_size}"


def _read_all(disk: Disk, descriptor: int) -> bytes:
    pieces: list[bytes] = []
    read = 0
    while piece := disk.read(descriptor, _READ_BYTES, read):
        pieces.append(piece)
        read += len(piece)
    return pieces[0] if len(pieces) == 1 else b"".join(pieces)


def _read_exactly(disk: Disk, descriptor: int, file: tuple[Path, str], start: int, length: int) -> bytes:
    pieces: list[bytes] = []
    missing = length
    while missing:
        piece = disk.read(descriptor, missing, start + length - missing)
        if not piece:
            size, (path, key) = disk.stat_open(descriptor).st_size, file
            raise Corrupt(f"{path} has {size} bytes, fewer than {start} + {length}", key)
        pieces.append(piece)
        missing -= len(piece)
    return pieces[0] if len(pieces) == 1 else b"".join(pieces)
