"""A Spark Connect session whose server is this process: each order runs in the thread that asks."""

from collections.abc import Callable, Iterator
from threading import Event, Lock
from typing import Any, NamedTuple

import pyarrow as pa

BATCH = pa.RecordBatch.from_pydict({"id": [0]})


class Row(NamedTuple):
    reply: str


class Frame:
    def __init__(self, session: "Session", function: Callable[[Iterator[pa.RecordBatch]], Iterator[pa.RecordBatch]]):
        self._session = session
        self._function = function

    def collect(self) -> list[Row]:
        self._session.carries()
        return [Row(text) for batch in self._function(iter([BATCH])) for text in batch.column("reply").to_pylist()]


class Session:
    is_stopped = False

    def __init__(self, fails: Exception | None = None, holds_after: int | None = None) -> None:
        """`holds_after`: further orders wait until they are interrupted."""
        self._fails = fails
        self._holds_after = holds_after
        self._lock = Lock()
        self._interrupted = Event()
        self.carried = 0
        self.tags: list[str] = []
        self.interrupted: list[str] = []

    def carries(self) -> None:
        with self._lock:
            self.carried += 1
            held = self._holds_after is not None and self.carried > self._holds_after
        if held:
            self._interrupted.wait()
            raise RuntimeError("OPERATION_CANCELED")
        if self._fails is not None:
            raise self._fails

    def range(self, *_: int) -> "Session":
        return self

    def mapInArrow(self, function: Any, schema: str) -> Frame:  # noqa: N802 - PySpark's name
        assert schema == "reply string"
        return Frame(self, function)

    def addTag(self, tag: str) -> None:  # noqa: N802
        self.tags.append(tag)

    def removeTag(self, tag: str) -> None:  # noqa: N802
        assert tag in self.tags

    def interruptTag(self, tag: str) -> None:  # noqa: N802
        self.interrupted.append(tag)
        self._interrupted.set()


Session.__module__ = "pyspark.sql.connect.session"  # by which such a session is told
