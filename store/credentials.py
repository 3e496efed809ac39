"""Explicit secrets for worker processes on this machine, in one private file: never in a pickle, a log or an argument.

The process that starts workers writes the file, names it in `StoreSpec.credentials_file`, and deletes it at the end. A
worker on another machine does not find it, and uses its own credential chain.
"""

import os
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import msgspec

from lithify.store.errors import InvalidRequest

__all__ = ["read_credentials", "write_credentials"]


def write_credentials(secrets: Mapping[str, Any], path: str | os.PathLike[str] | int) -> None:
    """Write `secrets` to a new file that only this user can read (mode 0600 from the start), or to the open descriptor
    of one, which stays open."""
    if isinstance(path, int):
        with os.fdopen(path, "wb", closefd=False) as file:
            file.write(msgspec.json.encode(dict(secrets)))
        return
    try:
        descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW, 0o600)
    except OSError as error:
        raise InvalidRequest(f"{os.fspath(path)}: cannot be created for credentials: {error.strerror}") from error
    with os.fdopen(descriptor, "wb") as file:
        file.write(msgspec.json.encode(dict(secrets)))


def read_credentials(path: str | os.PathLike[str]) -> dict[str, Any]:
    """The secrets in `path`; empty if it does not exist (another machine, or its maker has ended)."""
    try:
        body = Path(path).read_bytes()
    except FileNotFoundError:
        return {}
    except OSError as error:
        raise InvalidRequest(f"{os.fspath(path)}: cannot be read: {error.strerror}") from error
    try:
        return msgspec.json.decode(body, type=dict[str, Any])
    except msgspec.DecodeError:
        # Not chained: a decoder's message may quote its input.
        raise InvalidRequest(f"{os.fspath(path)}: holds no credentials written by lithify; delete it") from None
