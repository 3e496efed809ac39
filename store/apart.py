"""Work on many partitions of which each may fail apart: a failure is a value, and the others go on."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import TypeVar

from lithify.store.errors import Corrupt, LithifyError

__all__ = ["Failure", "attempt", "place_of"]

T = TypeVar("T")


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
