"""Files for workers of this machine: readable by this user alone, deleted with the engine, or else with the process."""

import atexit
import shutil
import tempfile
import threading
from pathlib import Path

import msgspec

from lithify.store.errors import InvalidRequest
from lithify.store.port import Store, StoreSpec

__all__ = ["PrivateFolder"]


class PrivateFolder:
    """Made at its first use. Thread-safe."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._folder: Path | None = None
        self._specs: dict[Store, StoreSpec] = {}
        self._deleted = False

    def path(self, name: str) -> Path:
        with self._lock:
            return self._path(name)

    def _path(self, name: str) -> Path:
        if self._deleted:
            raise InvalidRequest("this engine is closed; make a new one")
        if self._folder is None:
            self._folder = Path(tempfile.mkdtemp(prefix="lithify-spark-"))
            atexit.register(shutil.rmtree, self._folder, ignore_errors=True)
        return self._folder / name

    def spec(self, store: Store) -> StoreSpec:
        """What a worker opens `store` by, explicit secrets included by way of a file (mode 0600): the same spec for
        every task, so that a worker opens the store once."""
        with self._lock:
            if store not in self._specs:
                path = self._path(f"store-{len(self._specs)}")
                write = getattr(store, "write_credentials", None)
                has_secrets = write is not None and write(path)
                named = str(path) if has_secrets else None
                self._specs[store] = msgspec.structs.replace(store.spec(), credentials_file=named)
            return self._specs[store]

    def delete(self) -> None:
        with self._lock:
            self._deleted = True
            self._specs.clear()
            if self._folder is not None:
                shutil.rmtree(self._folder, ignore_errors=True)
