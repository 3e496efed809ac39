"""A store in a local (or mounted) folder: whole, durable objects under their names, or nothing.

Every object is written to a temporary file in one hidden folder of the root, flushed, and only then given its name;
what a killed process leaves there is never listed or read, and `remove_stale_temporaries` clears it.
"""

import errno
import os
from collections.abc import Generator, Iterator, Sequence
from contextlib import contextmanager, suppress
from itertools import islice
from pathlib import Path
from typing import Any, BinaryIO, NoReturn

from lithify.store.driver import monotonic_ms, new_id
from lithify.store.errors import Corrupt, InvalidRequest, LithifyError, NotFound, Unavailable
from lithify.store.exclusive import publish_exclusively, sync_folder
from lithify.store.paths import check_key, check_prefix, check_range
from lithify.store.port import Object, ObjectInfo, Outcome, Page, StoreSpec

__all__ = ["FileStore"]

_TEMPORARY = ".lithify-tmp"
_CLOCK = "clock"
_PAGE_KEYS = 1000
_STALE_MS = 24 * 3600 * 1000
_CLOCK_CACHED_MS = 1000
# What link(2) answers only where it did nothing. Anything else (EIO, ESTALE, ETIMEDOUT of a server) may have linked.
_REFUSED_FOR_CERTAIN = {
    *(errno.EACCES, errno.EPERM, errno.EROFS, errno.ENOSPC, errno.EDQUOT),
    *(errno.EXDEV, errno.ENAMETOOLONG, errno.ENOTDIR),
}
_NOT_THERE = (FileNotFoundError, NotADirectoryError, IsADirectoryError)


class FileStore:
    """Objects under the folder `root`, which is made by the first write.

    Its clock is the filesystem's: modification times and `now` come from the same place, a file server's too.
    """

    def __init__(self, root: str | os.PathLike[str]) -> None:
        self._root = Path(os.path.abspath(root))
        self._temporary = self._root / _TEMPORARY
        self._durable: set[Path] = set()  # folders whose own names are known to be on disk
        self._clock_read: tuple[int, int] | None = None  # (monotonic, filesystem) in ms

    def __repr__(self) -> str:
        return f"FileStore({str(self._root)!r})"

    def __reduce__(self) -> NoReturn:
        raise TypeError("a store cannot be pickled: send its spec() and open it there with open_spec")

    @property
    def url(self) -> str:
        return f"file://{self._root}"

    def spec(self) -> StoreSpec:
        return StoreSpec(self.url)

    def create(self, key: str, body: bytes) -> Outcome:
        """Raises (Unavailable, InvalidRequest) only where this attempt certainly published nothing."""
        final = self._path(key)
        with _explained(final):
            temporary = self._write_temporary(final, body)
            try:
                won = publish_exclusively(temporary, final)
            except OSError as error:
                _forget(temporary)
                if error.errno in _REFUSED_FOR_CERTAIN:
                    raise
                return Outcome.UNKNOWN
        if not won:
            _forget(temporary)
            return Outcome.EXISTS
        # From here on the object is visible, but not yet sure to survive a power cut: neither CREATED nor EXISTS
        # may be claimed when the rest fails.
        try:
            temporary.unlink(missing_ok=True)
            sync_folder(final.parent)
        except OSError:
            return Outcome.UNKNOWN
        return Outcome.CREATED

    def get(self, key: str) -> Object | None:
        path = self._path(key)
        with _explained(path):
            try:
                with path.open("rb") as file:
                    return Object(file.read(), _modified_ms(os.fstat(file.fileno())))
            except _NOT_THERE:
                return None

    def read(self, key: str, start: int, length: int) -> bytes:
        check_range(key, start, length)
        path = self._path(key)
        with _explained(path):
            try:
                with path.open("rb", buffering=0) as file:
                    return _read_exactly(file.fileno(), path, start, length)
            except _NOT_THERE as error:
                raise NotFound(f"{path} does not exist") from error

    def put(self, key: str, body: bytes) -> None:
        final = self._path(key)
        with _explained(final):
            self._publish(self._write_temporary(final, body), final)

    def output(self, key: str) -> "_FileOutput":
        final = self._path(key)
        with _explained(final):
            self._make_folder(final.parent)
            temporary = self._name_temporary()
            return _FileOutput(self, temporary.open("xb"), temporary, final)

    def head(self, key: str) -> ObjectInfo | None:
        path = self._path(key)
        with _explained(path):
            try:
                found = path.stat()
            except _NOT_THERE:
                return None
        return ObjectInfo(key, found.st_size, _modified_ms(found)) if path.is_file() else None

    def list(self, prefix: str, token: str | None = None) -> Page:
        """One page of 1,000 in key order; the token is the last key of the page."""
        folder = self._root / check_prefix(prefix)
        with _explained(folder):
            found = tuple(islice(_walk(folder, prefix, token or ""), _PAGE_KEYS + 1))
        page = found[:_PAGE_KEYS]
        return Page(page, page[-1].key if len(found) > len(page) else None)

    def folders(self, prefix: str) -> Sequence[str]:
        """The names of the folders directly under `prefix`, sorted; emptied ones too."""
        folder = self._root / check_prefix(prefix)
        with _explained(folder):
            try:
                names = sorted(entry.name for entry in os.scandir(folder) if entry.is_dir())
            except (FileNotFoundError, NotADirectoryError):
                return []
        return [name for name in names if prefix or name != _TEMPORARY]

    def delete(self, keys: Sequence[str]) -> None:
        paths = [self._path(key) for key in keys]
        folders: set[Path] = set()
        for path in paths:
            with _explained(path), suppress(FileNotFoundError, NotADirectoryError):
                path.unlink()
                folders.add(path.parent)
        for folder in folders:
            with _explained(folder):
                sync_folder(folder)

    def now(self) -> int:
        """The filesystem's clock, read from a file touched at most once a second."""
        monotonic = monotonic_ms()
        if self._clock_read is None or monotonic - self._clock_read[0] >= _CLOCK_CACHED_MS:
            touched = self._temporary / _CLOCK
            with _explained(touched):
                self._make_folder(self._temporary)
                touched.touch()
                self._clock_read = (monotonic, _modified_ms(touched.stat()))
        read_at, filesystem = self._clock_read
        return filesystem + monotonic - read_at

    def local_path(self, key: str) -> Path | None:
        return self._path(key)

    def close(self) -> None:
        """Nothing is held open."""

    def remove_stale_temporaries(self, older_than_ms: int = _STALE_MS) -> int:
        """Remove what killed processes left half written, and say how many files that was."""
        removed = 0
        if not self._temporary.is_dir():
            return removed
        before = self.now() - older_than_ms
        with _explained(self._temporary):
            for path in sorted(self._temporary.iterdir()):
                with suppress(FileNotFoundError):  # another process cleans, or the file just got its name
                    if path.name != _CLOCK and _modified_ms(path.stat()) < before:
                        path.unlink()
                        removed += 1
        return removed

    def _path(self, key: str) -> Path:
        if check_key(key).partition("/")[0] == _TEMPORARY:
            raise InvalidRequest(f"key {key!r} is not allowed: {_TEMPORARY} holds unfinished files")
        return self._root / key

    def _name_temporary(self) -> Path:
        self._make_folder(self._temporary)
        return self._temporary / f"{new_id()}.{os.getpid()}"

    def _write_temporary(self, final: Path, body: bytes) -> Path:
        self._make_folder(final.parent)
        temporary = self._name_temporary()
        try:
            with temporary.open("xb", buffering=0) as file:
                _write_all(file, body)
                os.fsync(file.fileno())
        except BaseException:
            _forget(temporary)
            raise
        return temporary

    def _publish(self, temporary: Path, final: Path) -> None:
        try:
            temporary.replace(final)
        except BaseException:
            _forget(temporary)
            raise
        sync_folder(final.parent)

    def _make_folder(self, folder: Path) -> None:
        """Make `folder`, and make sure that its own name, and its parents', survive a power cut.

        Somebody else's mkdir proves nothing about that, so each process flushes each chain of folders once.
        """
        if folder in self._durable and folder.is_dir():
            return
        try:
            folder.mkdir(parents=True, exist_ok=True)
        except (FileExistsError, NotADirectoryError) as error:
            raise InvalidRequest(f"{folder} cannot be a folder: part of it is a file") from error
        while folder not in self._durable:
            sync_folder(folder.parent)
            self._durable.add(folder)
            if folder == self._root:
                break
            folder = folder.parent


class _FileOutput:
    """A temporary file that takes its name at `close`."""

    def __init__(self, store: FileStore, file: BinaryIO, temporary: Path, final: Path) -> None:
        self._store = store
        self._file = file
        self._temporary = temporary
        self._final = final
        self.closed = False

    def write(self, data: Any, /) -> int:
        with memoryview(data) as view, _explained(self._final):
            return self._file.write(view.cast("B"))

    def flush(self) -> None:
        """Nothing becomes visible before `close`."""

    def close(self) -> None:
        if self.closed:
            return
        self.closed = True
        with _explained(self._final):
            try:
                self._file.flush()
                os.fsync(self._file.fileno())
                self._file.close()
            except BaseException:
                self._discard()
                raise
            self._store._publish(self._temporary, self._final)  # pyright: ignore[reportPrivateUsage]

    def abort(self) -> None:
        if not self.closed:
            self.closed = True
            self._discard()

    def _discard(self) -> None:
        with suppress(OSError):  # closing flushes what no longer matters
            self._file.close()
        _forget(self._temporary)


def _walk(folder: Path, prefix: str, after: str) -> Iterator[ObjectInfo]:
    """Every object under `folder` with a key above `after`, in key order ('/' counts as part of the key)."""
    try:
        entries = [(entry.name + "/" if entry.is_dir() else entry.name, entry) for entry in os.scandir(folder)]
    except (FileNotFoundError, NotADirectoryError):
        return
    for name, entry in sorted(entries, key=lambda named: named[0]):
        key = prefix + name
        if name.endswith("/"):
            beyond = key <= after and not after.startswith(key)
            if not beyond and key != _TEMPORARY + "/":
                yield from _walk(folder / name, key, after)
        elif key > after and entry.is_file():
            with suppress(FileNotFoundError):  # deleted since the folder was read
                found = entry.stat()
                yield ObjectInfo(key, found.st_size, _modified_ms(found))


def _modified_ms(found: os.stat_result) -> int:
    return found.st_mtime_ns // 1_000_000


def _read_exactly(descriptor: int, path: Path, start: int, length: int) -> bytes:
    pieces: list[bytes] = []
    missing = length
    while missing:
        piece = os.pread(descriptor, missing, start + length - missing)
        if not piece:
            raise Corrupt(f"{path} has {os.fstat(descriptor).st_size} bytes, fewer than {start} + {length}")
        pieces.append(piece)
        missing -= len(piece)
    return pieces[0] if len(pieces) == 1 else b"".join(pieces)


def _write_all(file: Any, body: bytes) -> None:
    rest = memoryview(body)
    while rest:
        rest = rest[file.write(rest) :]


def _forget(temporary: Path) -> None:
    with suppress(OSError):  # it is invisible, and removed later as stale
        temporary.unlink(missing_ok=True)


@contextmanager
def _explained(path: Path) -> Generator[None]:
    """Turn the system's refusals into errors that name the path and say what to do."""
    try:
        yield
    except LithifyError:
        raise
    except OSError as error:
        reason = error.strerror or type(error).__name__
        match error.errno:
            case errno.EACCES | errno.EPERM | errno.EROFS:
                raise InvalidRequest(f"{path}: {reason}; give this user read and write access to it") from error
            case errno.ENAMETOOLONG | errno.EISDIR | errno.ENOTDIR | errno.EEXIST | errno.ENOTEMPTY | errno.EXDEV:
                raise InvalidRequest(
                    f"{path}: {reason}; the warehouse must be plain files in one filesystem, each part of a key "
                    "at most 255 bytes"
                ) from error
            case _:
                raise Unavailable(f"{path}: {reason}; nothing is lost, try again") from error
