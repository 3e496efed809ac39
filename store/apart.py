"""Work on many partitions of which each may fail apart: a failure is a value, and the others go on."""

import threading
from collections.abc import Callable, Container
from dataclasses import dataclass
from typing import Any, Protocol, TypeVar

from lithify.store.errors import Corrupt, LithifyError

__all__ = ["Failure", "Told", "attempt", "place_of"]

T = TypeVar("T")
TOLD_MAX = 10_000


@dataclass(frozen=True, slots=True)
class Failure:
    """Why one piece of work came to nothing."""

    kind: str  # of the error
    text: str
    error: LithifyError | None = None  # None: a fault of this program

    @property
    def damaged(self) -> bool:
        """A person must look, and restore something."""
        return isinstance(self.error, Corrupt)


def attempt(work: Callable[[], T]) -> T | Failure:
    """What `work` answers, or why it did not.

    An error nobody foresaw is told like the others, with its type and where it was raised. A fault in one partition,
    which may be one odd record's, must not leave all others without compaction and collection; and where it ended a
    pass it would end every pass at the same place. Its own words are not told, as they may quote a record.
    """
    try:
        return work()
    except LithifyError as error:
        return Failure(type(error).__name__, str(error), error)
    except Exception as error:  # noqa: BLE001 - the one place where a pass goes on after a fault; told, never swallowed
        kind = type(error).__name__
        return Failure(kind, f"unexpected {kind} at {place_of(error)}: a fault of lithify, please report it")


def place_of(error: BaseException) -> str:
    """The module and line in which it was raised."""
    frame, place = error.__traceback__, "?"
    while frame is not None:
        place = f"{frame.tb_frame.f_globals.get('__name__')}:{frame.tb_lineno}"
        frame = frame.tb_next
    return place


class Log(Protocol):
    def info(self, event: str, /, **fields: Any) -> Any: ...
    def error(self, event: str, /, **fields: Any) -> Any: ...


class Told:
    """What is wrong where, as it was last told: a pass every few seconds logs a failure once. Thread-safe.

    Of the places where something is wrong it remembers TOLD_MAX: what is wrong at the others is told again.
    """

    def __init__(self) -> None:
        self._texts: dict[tuple[str, str, int], str] = {}  # by what, topic and partition; the latest told last
        self._lock = threading.Lock()

    def is_news(self, what: str, topic: str, partition: int, text: str | None) -> bool:
        """Whether this failure, or (None) that there is none any more, was not told yet."""
        where = what, topic, partition
        with self._lock:
            before = self._texts.pop(where, None)
            if text is not None:
                self._texts[where] = text
            if len(self._texts) > TOLD_MAX:
                self._texts.pop(next(iter(self._texts)))
            return text != before

    def keep(self, topics: Container[str]) -> None:
        """Forgets what was wrong in topics that are gone: nobody tells of their end, and one that is made again under
        the name of one of them begins anew."""
        with self._lock:
            self._texts = {
                where: text
                for where, text in self._texts.items()
                if (topic := where[1].partition("/")[0]) in topics or not topic
            }

    def tell(self, log: Log, what: str, topic: str, partition: int, outcome: object) -> None:
        """In the log, when it begins, changes or ends; reports have it at every pass. `outcome`: a Failure or its text;
        whatever else says that all is well. Partition -1: the whole topic. `topic`: its name, or that and an id."""
        text = outcome.text if isinstance(outcome, Failure) else outcome if isinstance(outcome, str) else None
        if not self.is_news(what, topic, partition, text):
            return
        where = {"topic": topic} if partition < 0 else {"topic": topic, "partition": partition}
        if text is None:
            log.info(f"no longer: {what}", **where)
        else:
            log.error(what, **where, error=text)
