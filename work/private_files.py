"""Files for workers on this machine: readable by this user only, and gone when this process ends, however it ends.

On Linux they lie in memory and have no name in any folder; workers open them through /proc while this process lives. So
a SIGKILL leaves no secret behind, and no cleaner of temporary files can remove one. Elsewhere they lie in a private
folder, which is made again if a cleaner removed it; the next process removes what a killed one left.
"""

import atexit
import fcntl
import os
import shutil
import sys
import tempfile
import threading
from dataclasses import dataclass
from pathlib import Path

import msgspec

from lithify.store.driver import new_id
from lithify.store.errors import InvalidRequest, Unavailable
from lithify.store.port import Store, StoreSpec

__all__ = ["PrivateFile", "PrivateFiles"]

_PREFIX = "lithify-spark-"
_OWNER = "owner"  # locked by the process whose folder it is


@dataclass(frozen=True, slots=True)
class PrivateFile:
    """An empty file of mode 0600; others of this user open it by `path`."""

    descriptor: int
    path: str

    def close(self) -> None:
        if not self.path.startswith("/proc/"):
            Path(self.path).unlink(missing_ok=True)
        os.close(self.descriptor)


class PrivateFiles:
    """Thread-safe."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._folder: _Folder | None = None
        self._specs: dict[Store, tuple[StoreSpec, PrivateFile | None]] = {}
        self._deleted = False

    def create(self, name: str) -> PrivateFile:
        """A new file, which the caller closes. Raises Unavailable if none can be made."""
        with self._lock:
            return self._create(name)

    def _create(self, name: str) -> PrivateFile:
        if self._deleted:
            raise InvalidRequest("this engine is closed; make a new one")
        found = _in_memory(name)
        return self._in_folder(name) if found is None else found

    def _in_folder(self, name: str) -> PrivateFile:
        try:
            if self._folder is None or not self._folder.path.is_dir():
                self._folder = _Folder()
            return self._folder.create(name)
        except OSError as error:
            where = tempfile.gettempdir()
            raise Unavailable(f"{where}: no private file for Spark's workers can be made: {error.strerror}") from error

    def spec(self, store: Store) -> StoreSpec:
        """How a worker opens `store`, with explicit secrets by way of a file. Every task gets the same spec, so that a
        worker opens the store once."""
        with self._lock:
            known = self._specs.get(store)
            if known is not None and (known[1] is None or os.path.exists(known[1].path)):
                return known[0]
            if known is not None and known[1] is not None:
                known[1].close()
            self._specs[store] = self._write(store)
            return self._specs[store][0]

    def _write(self, store: Store) -> tuple[StoreSpec, PrivateFile | None]:
        file = self._create(f"store-{new_id()}")
        if not store.write_credentials(file.descriptor):
            file.close()
            return store.spec(), None
        return msgspec.structs.replace(store.spec(), credentials_file=file.path), file

    def delete(self) -> None:
        """Delete the files: from now on nobody can open them by their paths. Calling it again is harmless."""
        with self._lock:
            self._deleted = True
            for _, file in self._specs.values():
                if file is not None:
                    file.close()
            self._specs.clear()
            if self._folder is not None:
                self._folder.delete()


def _in_memory(name: str) -> PrivateFile | None:
    """A file in memory; None if this system has none, or workers could not open it."""
    if sys.platform != "linux" or not os.path.isdir(f"/proc/{os.getpid()}/fd"):
        return None
    try:
        descriptor = os.memfd_create(f"lithify-{name}", os.MFD_CLOEXEC)
    except OSError:  # forbidden in this container
        return None
    os.fchmod(descriptor, 0o600)
    return PrivateFile(descriptor, f"/proc/{os.getpid()}/fd/{descriptor}")


class _Folder:
    """A folder of mode 0700 among the temporary files, deleted with the process. One left by a killed process is
    recognised by its lock, which nobody holds."""

    def __init__(self) -> None:
        _remove_stale(Path(tempfile.gettempdir()))
        self.path = Path(tempfile.mkdtemp(prefix=_PREFIX))
        self._owner = os.open(self.path / _OWNER, os.O_RDWR | os.O_CREAT | os.O_EXCL, 0o600)
        fcntl.flock(self._owner, fcntl.LOCK_EX | fcntl.LOCK_NB)
        atexit.register(shutil.rmtree, self.path, ignore_errors=True)

    def create(self, name: str) -> PrivateFile:
        path = self.path / name
        descriptor = os.open(path, os.O_RDWR | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW, 0o600)
        return PrivateFile(descriptor, str(path))

    def delete(self) -> None:
        shutil.rmtree(self.path, ignore_errors=True)
        if self._owner >= 0:
            os.close(self._owner)
            self._owner = -1


def _remove_stale(parent: Path) -> None:
    for folder in parent.glob(f"{_PREFIX}*"):
        try:
            owner = os.open(folder / _OWNER, os.O_RDWR | os.O_NOFOLLOW)
        except OSError:  # another user's, or one that is being made right now
            continue
        try:
            fcntl.flock(owner, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError:
            continue  # its owner is alive
        else:
            shutil.rmtree(folder, ignore_errors=True)
        finally:
            os.close(owner)
