"""Iterators that end only where what they read does."""

from collections.abc import Iterator
from typing import Generic, TypeVar

from lithify.store.errors import Unavailable

__all__ = ["Whole"]

T = TypeVar("T")


class Whole(Iterator[T], Generic[T]):
    """The same items; what is raised is raised again, each time it is asked.

    SUBTLE! A generator is over after what it raised, and to be asked again it answers as if that had been all: a caller
    who retries, as Unavailable tells him to, would hold a part for the whole. Test: tests/log/test_failed_reads.py
    """

    def __init__(self, items: Iterator[T], where: str) -> None:
        self._items = items
        self._where = where
        self._failed: Exception | None = None

    def __next__(self) -> T:
        if self._failed is not None:
            raise _alike(self._failed)
        try:
            return next(self._items)
        except StopIteration:
            raise
        except Exception as error:
            self._failed = _alike(error)
            raise
        except BaseException:  # Ctrl-C
            self._failed = Unavailable(f"{self._where}: reading was interrupted before its end; read it anew")
            raise

    def close(self) -> None:
        close = getattr(self._items, "close", None)
        if close is not None:
            close()


def _alike(error: Exception) -> Exception:
    """The same without its traceback, whose frames would hold what was open there for as long as this one is held."""
    same = error.__class__.__new__(error.__class__, *error.args)
    same.__dict__.update(error.__dict__)
    return same
