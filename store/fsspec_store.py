"""Any filesystem that fsspec supports: bulk bytes on all, commits only where the server itself creates if absent.

fsspec's `mode="create"` means put-if-absent on some filesystems (gcsfs, adlfs) and "look, then write" on others (local,
memory, sftp, s3fs above one part), and nothing says which. No number of trials proves that nobody can come between look
and write. So the filesystems with a conditional put are listed here, and all others refuse to create. In addition the
first `create` of a process probes the store.
"""

import os
import shutil
import tempfile
from collections.abc import Callable, Generator, Mapping, Sequence
from contextlib import contextmanager, suppress
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, NoReturn, TypeVar

import fsspec

from lithify.store.credentials import write_credentials
from lithify.store.driver import new_id
from lithify.store.errors import AccessDenied, Corrupt, InvalidRequest, LithifyError, NotFound, Unavailable
from lithify.store.followed_clock import FollowedClock
from lithify.store.fsspec_opening import opening
from lithify.store.paths import check_key, check_prefix, check_range
from lithify.store.port import NOT_PICKLED, Object, ObjectInfo, Outcome, OutputFile, Page, Store, StoreSpec
from lithify.store.probe import probe
from lithify.store.side_by_side import SideBySide
from lithify.store.tags import tag_of
from lithify.store.urls import shown

__all__ = ["FsspecStore"]

T = TypeVar("T")

# Options of the common filesystems that are certainly not secret; all others are treated as secrets.
_PUBLIC_OPTIONS = frozenset({"project", "account_name", "host", "port", "default_location", "requester_pays"})
_MODIFIED_FIELDS = ("mtime", "last_modified", "LastModified", "updated", "modified", "created")
_PROBE_ROUNDS = 16
_CONDITIONAL = frozenset({"gs", "gcs", "abfs", "abfss", "az"})  # If-None-Match, ifGenerationMatch=0
_GENERATION, _CREATED = "generation", "creation_time"
_STAMPS = {"gs": _GENERATION, "gcs": _GENERATION, "abfs": _CREATED, "abfss": _CREATED, "az": _CREATED}
_CLOCK_KEPT_MS = 60_000
_SETTINGS = {"use_listings_cache": False, "skip_instance_cache": True}


class FsspecStore(Store):
    """Objects under `url` through fsspec, with `options` for its filesystem. `proven`: skip the probe."""

    def __init__(self, url: str, options: Mapping[str, Any] | None = None, proven: bool = False) -> None:
        self._url = url.rstrip("/")
        self._options = dict(options or {})
        self._proven = proven
        self._opened: tuple[int, Any, str] | None = None  # process, filesystem, its root
        self._clock = FollowedClock(self._store_ms, _CLOCK_KEPT_MS)
        self._side_by_side = SideBySide()
        self._filesystem()

    def __repr__(self) -> str:
        return f"FsspecStore({shown(self._url)!r})"

    def __reduce__(self) -> NoReturn:
        raise TypeError(NOT_PICKLED)

    @property
    def url(self) -> str:
        return self._url

    @property
    def far(self) -> bool:
        return self._url.partition("://")[0] in _CONDITIONAL

    @property
    def creates(self) -> bool:
        return self._proven or self._url.partition("://")[0] in _CONDITIONAL

    def spec(self) -> StoreSpec:
        """The options that the filesystem was made with, including fsspec's own configuration. Options that may be
        secret are only named; a worker without them refuses to run."""
        options = self._given()
        public = {name: options[name] for name in options.keys() & _PUBLIC_OPTIONS}
        return StoreSpec(self._url, public, withheld=tuple(sorted(options.keys() - _PUBLIC_OPTIONS)))

    def write_credentials(self, target: str | os.PathLike[str] | int) -> bool:
        """Write the options that may be secret to a private file for workers of this machine."""
        secrets = {name: value for name, value in self._given().items() if name not in _PUBLIC_OPTIONS}
        if secrets:
            write_credentials(secrets, target)
        return bool(secrets)

    def _store_ms(self) -> int:
        key = f".lithify-clock/{new_id()}"
        self.put(key, b"")
        written = self.head(key)
        self.delete([key])
        if written is None or written.modified_ms is None:
            raise InvalidRequest(f"{shown(self._url)}: this filesystem reports no modification times; inject a clock")
        return written.modified_ms

    def _given(self) -> dict[str, Any]:
        """The options in force: those given here, and those that FSSPEC_* variables and files add."""
        made: Mapping[str, Any] = self._filesystem().storage_options
        return {name: value for name, value in made.items() if name not in _SETTINGS}

    def create(self, key: str, body: bytes, frees: bool = False) -> Outcome:
        """Raises InvalidRequest if two writers could both win here."""
        path = self._path(key)
        if not self.creates:
            scheme = self._url.partition("://")[0]
            raise InvalidRequest(
                f"{self._where(key)}: two writers could both create this, because {scheme}:// first looks and then "
                "writes: keep the log in s3:// or file://"
            )
        if not self._proven:
            probe(FsspecStore(self._url, self._options, proven=True), _PROBE_ROUNDS).require()
            self._proven = True
        filesystem = self._filesystem()
        try:
            filesystem.makedirs(path.rpartition("/")[0], exist_ok=True)
            filesystem.pipe_file(path, body, mode="create")
        except FileExistsError:
            return Outcome.EXISTS
        except PermissionError as error:
            raise self._denied(key) from error
        except (NotImplementedError, TypeError) as error:
            raise InvalidRequest(
                f"{self._where(key)}: this filesystem refuses to create objects ({type(error).__name__}): keep the log "
                "in s3:// or file://"
            ) from error
        except Exception:  # noqa: BLE001 - every filesystem has its own errors, and none says whether it wrote
            return Outcome.UNKNOWN
        return Outcome.CREATED

    def get(self, key: str) -> Object | None:
        path = self._path(key)
        with self._explained(key):
            try:
                body = self._filesystem().cat_file(path)
                info = self._filesystem().info(path)
                return Object(body, _modified_ms(info), _tag(info))
            except (FileNotFoundError, IsADirectoryError, NotADirectoryError):
                return None

    def read(self, key: str, start: int, length: int) -> bytes:
        check_range(key, start, length)
        path = self._path(key)
        with self._explained(key):
            try:
                body = self._filesystem().cat_file(path, start=start, end=start + length)
            except FileNotFoundError as error:
                raise NotFound(f"{self._where(key)} does not exist", key) from error
        if len(body) != length:
            raise Corrupt(f"{self._where(key)} ends before byte {start + length}", key)
        return body

    def put(self, key: str, body: bytes) -> None:
        path = self._path(key)
        with self._explained(key):
            self._filesystem().makedirs(path.rpartition("/")[0], exist_ok=True)
            self._filesystem().pipe_file(path, body)

    def output(self, key: str) -> "_SpooledOutput":
        self._path(key)
        return _SpooledOutput(self, key)

    def head(self, key: str) -> ObjectInfo | None:
        path = self._path(key)
        with self._explained(key):
            try:
                found = self._filesystem().info(path)
            except (FileNotFoundError, NotADirectoryError):
                return None
        return ObjectInfo(key, found["size"], _modified_ms(found), _tag(found)) if found["type"] == "file" else None

    def stamp(self, key: str) -> Mapping[str, str] | None:
        """Of the filesystems in which a log can be kept. They are asked for what their service assigns; an ETag may be
        a checksum, and a time may be what a client has sent."""
        field = _STAMPS.get(self._url.partition("://")[0])
        if field is None:
            return {}
        path = self._path(key)
        with self._explained(key):
            try:
                value = self._filesystem().info(path).get(field)
            except (FileNotFoundError, NotADirectoryError):
                return None
        if isinstance(value, datetime):
            value = int(value.timestamp() * 1000)  # however a library's release writes it
        return {field: str(value)} if value else {}

    def list(self, prefix: str, token: str | None = None) -> Page:
        """Everything under `prefix` as one page: fsspec cannot list by pages."""
        check_prefix(prefix)
        root = self._root()
        with self._explained(prefix):
            try:
                found = self._filesystem().find(f"{root}/{prefix}".rstrip("/"), detail=True, on_error="raise")
            except FileNotFoundError:
                found = {}
        infos = [
            ObjectInfo(path[len(root) :].lstrip("/"), entry["size"], _modified_ms(entry))
            for path, entry in found.items()
            if entry["type"] == "file"
        ]
        return Page(tuple(info for info in infos if info.key.startswith(prefix)), None)

    def folders(self, prefix: str) -> Sequence[str]:
        """The names of the folders directly under `prefix`, sorted."""
        folder = f"{self._root()}/{check_prefix(prefix)}".rstrip("/")
        with self._explained(prefix):
            try:
                found = self._filesystem().ls(folder, detail=True)
            except (FileNotFoundError, NotADirectoryError):
                return []
        return sorted(entry["name"].rstrip("/").rpartition("/")[2] for entry in found if entry["type"] == "directory")

    def delete(self, keys: Sequence[str]) -> dict[str, str]:
        refused: dict[str, str] = {}
        for key in keys:
            path = self._path(key)
            try:
                with self._explained(key), suppress(FileNotFoundError):
                    self._filesystem().rm_file(path)
            except AccessDenied as error:
                refused[key] = str(error)
        return refused

    def now(self) -> int:
        """The store's clock: read each minute from an object written for it, and followed by this process's own."""
        return self._clock.now()

    def local_path(self, key: str) -> Path | None:
        check_key(key)
        return None

    def close(self) -> None:
        self._opened = None
        self._side_by_side.close()

    def side_by_side(self, calls: Sequence[Callable[[], T]]) -> Sequence[T | Exception]:
        return self._side_by_side.run(calls)

    def upload(self, key: str, local: str) -> None:
        """Store the local file `local` under `key`."""
        path = self._path(key)
        with self._explained(key):
            self._filesystem().makedirs(path.rpartition("/")[0], exist_ok=True)
            self._filesystem().put_file(local, path)

    def _filesystem(self) -> Any:
        # An instance holds sockets and an event loop's thread: one per process. Never fsspec's shared one, which caches
        # listings.
        if self._opened is None or self._opened[0] != os.getpid():
            protocol = self._url.partition("://")[0]
            with opening(self._url, self._options):
                kind = fsspec.get_filesystem_class(protocol)
                filesystem = kind(**{**self._options, **_SETTINGS})
                root = str(filesystem._strip_protocol(self._url)).rstrip("/")
            self._opened = (os.getpid(), filesystem, root)
        return self._opened[1]

    def _root(self) -> str:
        self._filesystem()
        return self._opened[2] if self._opened else ""

    def _path(self, key: str) -> str:
        return f"{self._root()}/{check_key(key)}"

    def _where(self, key: str) -> str:
        return f"{shown(self._url)}/{key}"

    def _denied(self, key: str) -> AccessDenied:
        return AccessDenied(f"{self._where(key)}: permission denied; check the credentials and what they may do there")

    @contextmanager
    def _explained(self, key: str) -> Generator[None]:
        try:
            yield
        except LithifyError:
            raise
        except PermissionError as error:
            raise self._denied(key) from error
        except Exception as error:
            # Every filesystem has its own errors; Unavailable is what they have in common.
            raise Unavailable(f"{self._where(key)}: {type(error).__name__}; nothing is lost, try again") from error


class _SpooledOutput(OutputFile):
    """Spooled to a local temporary file: not every filesystem can discard a half-written object."""

    def __init__(self, store: FsspecStore, key: str) -> None:
        self._store = store
        self._key = key
        self._folder = tempfile.mkdtemp(prefix="lithify-")
        self._file = (Path(self._folder) / "object").open("wb")
        self.closed = False

    def write(self, data: Any, /) -> int:
        with memoryview(data) as view:
            return self._file.write(view.cast("B"))

    def flush(self) -> None:
        """Nothing becomes visible before `close`."""

    def close(self) -> None:
        if self.closed:
            return
        try:
            self._file.close()
            self._store.upload(self._key, self._file.name)
        finally:
            self.abort()

    def abort(self) -> None:
        if not self.closed:
            self.closed = True
            self._file.close()
            shutil.rmtree(self._folder, ignore_errors=True)


def _tag(info: Mapping[str, Any]) -> str:
    return tag_of(str(info.get("ETag") or info.get("etag") or ""), info["size"], _modified_ms(info))


def _modified_ms(info: Mapping[str, Any]) -> int | None:
    """fsspec has no common name or type for modification times."""
    value = next((info[name] for name in _MODIFIED_FIELDS if info.get(name)), None)
    if isinstance(value, str):
        value = datetime.fromisoformat(value)
    if isinstance(value, datetime):
        aware = value if value.tzinfo else value.replace(tzinfo=UTC)
        return int(aware.timestamp() * 1000)
    return int(value * 1000) if isinstance(value, int | float) else None
