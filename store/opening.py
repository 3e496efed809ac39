"""Opens a store from a URL, or from another process's spec."""

import hashlib
import os
import re
from collections.abc import Hashable, Mapping
from pathlib import Path
from typing import Any

import fsspec
import msgspec

from lithify.store.credentials import read_credentials
from lithify.store.driver import Clock
from lithify.store.errors import InvalidRequest
from lithify.store.file import FileStore
from lithify.store.memory import MemoryStore
from lithify.store.metered import Metered
from lithify.store.port import Store, StoreSpec
from lithify.store.urls import shown

__all__ = ["open_spec", "open_store"]

_BUCKET = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{1,254}")
_ALMOST_A_URL = re.compile("(s3a?|file|local|memory|gs|https?):")  # a slash is missing
_memory: dict[str, MemoryStore] = {}  # by name: opening "memory://x" twice gives the same data
_opened: dict[tuple[int, bytes], Metered] = {}


def open_store(
    url: str | os.PathLike[str], options: Mapping[str, Any] | None = None, clock: Clock | None = None
) -> Metered:
    """Open a warehouse's root: `s3://bucket/prefix`, `file:///folder`, a path, `memory://name`, or a URL that fsspec
    knows.

    `options` are storage options, spelled as for s3fs (or that filesystem). `clock` (-> milliseconds) is the clock of a
    new memory store. Makes no request. Raises InvalidRequest.
    """
    given: Any = url
    if not isinstance(given, str | os.PathLike):
        raise InvalidRequest(f"a URL or a path is text, not {type(given).__name__}")
    url = os.fspath(url)
    if not url:
        raise InvalidRequest("no URL given: use s3://bucket/prefix, file:///folder or a path")
    if "\0" in url:
        raise InvalidRequest("a URL has no NUL in it: use s3://bucket/prefix, file:///folder or a path")
    scheme, separator, rest = url.partition("://")
    if not separator:
        if mistyped := _ALMOST_A_URL.match(url):
            kind = mistyped[1]
            raise InvalidRequest(f"a URL of this kind begins with {kind}://; a folder of that name is ./{kind}:…")
        scheme, rest = "file", os.path.abspath(os.path.expanduser(url))
    opened = Metered(_open(scheme.lower(), rest, url, options, clock))
    # Of the options only a digest is kept: they may be secrets.
    digest = hashlib.sha256(repr(sorted((options or {}).items(), key=str)).encode()).digest()
    # A clock may be an object without a hash, such as a dataclass: then it is like no other.
    opened.same_as = (url, digest, clock) if isinstance(clock, Hashable) else None
    return opened


def _open(scheme: str, rest: str, url: str, options: Mapping[str, Any] | None, clock: Clock | None) -> Store:
    match scheme:
        case "file" | "local":
            _refuse_options(url, options)
            return FileStore(_folder(rest, url))
        case "memory":
            _refuse_options(url, options)
            name = rest.strip("/")
            return _memory.setdefault(name, MemoryStore(name, clock))
        case "s3" | "s3a":
            return _open_s3(rest, url, options)
        case "http" | "https":
            raise InvalidRequest(
                f"{shown(url)} is the address of a server, which lithify.Admin('{scheme}://…') asks (on the command "
                "line: --url). A warehouse is a store's URL: s3://bucket/prefix, file:///folder or a path"
            )
        case _:
            return _open_fsspec(scheme, url, options)


def _open_s3(rest: str, url: str, options: Mapping[str, Any] | None) -> Store:
    from lithify.store.s3 import S3Store

    bucket, _, prefix = rest.partition("/")
    if not _BUCKET.fullmatch(bucket):
        # With an '@' the URL is not shown: the part before it may be a secret.
        told = "put credentials into the storage options" if "@" in url else f"{bucket!r} is not a bucket's name"
        raise InvalidRequest(f"an S3 URL is s3://bucket/prefix: {told}")
    if "?" in prefix or "#" in prefix:
        raise InvalidRequest(f"{shown(url)}: an S3 URL has no '?' or '#'; put settings into the storage options")
    return S3Store(bucket, prefix, dict(options or {}))


def _open_fsspec(scheme: str, url: str, options: Mapping[str, Any] | None) -> Store:
    from lithify.store.fsspec_store import FsspecStore

    if scheme not in fsspec.available_protocols():
        raise InvalidRequest(f"{scheme}:// is not a known kind of store: use s3, file, memory, or a protocol of fsspec")
    if "@" in url:
        raise InvalidRequest(f"{scheme}:// URL with '@': put credentials into the storage options")
    return FsspecStore(url, options)


def _folder(rest: str, url: str) -> Path:
    path = rest.removeprefix("localhost")
    if not path.startswith("/"):
        raise InvalidRequest(f"{shown(url)}: a file URL needs an absolute path, as in file:///folder")
    return Path(path)


def _refuse_options(url: str, options: Mapping[str, Any] | None) -> None:
    if options:
        raise InvalidRequest(
            f"{shown(url)} takes no storage options, but was given {', '.join(sorted(map(str, options)))}"
        )


def open_spec(spec: StoreSpec) -> Metered:
    """Open a store from another process's description of it; once per process and spec, since workers run many tasks.

    Secrets come from the spec's credentials file if it is on this machine, else from this process's own credential
    chain. The store's location comes from the spec alone. Raises InvalidRequest if some of this is missing.
    """
    key = (os.getpid(), msgspec.json.encode(spec, order="deterministic"))
    found = _opened.get(key)
    if found is None:
        secrets = read_credentials(spec.credentials_file) if spec.credentials_file is not None else {}
        missing = [name for name in spec.withheld if name not in secrets]
        if missing:
            raise InvalidRequest(
                f"{spec.url}: the storage options {', '.join(missing)} may be secret, and reach only workers on the "
                "machine that has them: run the workers there, or keep the warehouse in s3:// or file://"
            )
        found = _opened.setdefault(key, open_store(spec.url, {**spec.options, **secrets}))
    return found
