"""Iterators that never end early after an error."""

from collections.abc import Generator, Iterator
from contextlib import suppress
from typing import Generic, NamedTuple, TypeVar

import pyarrow as pa

from lithify.store.errors import Unavailable

__all__ = ["Batches", "Whole"]

T = TypeVar("T")


class Whole(Iterator[T], Generic[T]):
    """The same items; an exception is raised again at each further call.

    SUBTLE! After an exception a generator has ended. 1. It raises Unavailable. 2. The caller retries, as that error
    advises, and gets the end. 3. He takes a part for the whole. Test: tests/log/test_failed_reads.py
    """

    def __init__(self, items: Iterator[T], where: str) -> None:
        self._items = items
        self._where = where
        self._failed: Exception | None = None
        self._first: list[T] = []

    def begin(self) -> None:
        """Take the first item now. It comes first as ever."""
        with suppress(StopIteration):
            self._first.append(next(self))

    def __next__(self) -> T:
        if self._first:
            return self._first.pop()
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
            self._failed = Unavailable(f"{self._where}: reading was interrupted before its end; read it again")
            raise

    def __repr__(self) -> str:
        return f"<iterator over {self._where}>"

    def close(self) -> None:
        self._first.clear()
        if isinstance(self._items, Generator):
            self._items.close()


class Batches(NamedTuple):
    """What a reader of Arrow is made of."""

    schema: pa.Schema
    rows: Whole[pa.RecordBatch]

    def reader(self) -> pa.RecordBatchReader:
        return pa.RecordBatchReader.from_batches(self.schema, self.rows)


def _alike(error: Exception) -> Exception:
    """A copy without the traceback, whose frames would keep alive everything that was open there."""
    same = error.__class__.__new__(error.__class__, *error.args)
    same.__dict__.update(error.__dict__)
    return same
