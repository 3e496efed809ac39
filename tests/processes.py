"""Processes that a test starts: none outlives it."""

import subprocess
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Any

__all__ = ["running"]


@contextmanager
def running(command: Sequence[str], **options: Any) -> "Iterator[subprocess.Popen[Any]]":
    """As `with subprocess.Popen(...)`, which waits for ever for one that does not end: this one is killed."""
    with subprocess.Popen(command, **options) as process:
        try:
            yield process
        finally:
            process.kill()  # nothing, where it has ended and was waited for
