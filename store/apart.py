"""Work on many partitions, each of which may fail by itself: a failure is a value, and the others continue."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import TypeVar

from lithify.store.errors import Corrupt, LithifyError

__all__ = ["Failure", "attempt", "place_of"]

T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class Failure:
    """Why a piece of work failed."""

    kind: str  # of the error
    text: str
    error: LithifyError | None = None  # None: a bug in lithify

    @property
    def damaged(self) -> bool:
        """Whether a person must look, and restore something."""
        return isinstance(self.error, Corrupt)


def attempt(work: Callable[[], T]) -> T | Failure:
    """Returns what `work` returns, or why it failed.

    An unexpected error is reported like the others, with its type and where it was raised. A bug in one partition,
    perhaps because of one odd record, must not leave all others without compaction and collection; and if it ended a
    pass, it would end every pass at the same place. The error's own message is left out: it may quote a record.
    """
    try:
        return work()
    except LithifyError as error:
        return Failure(type(error).__name__, str(error), error)
    except Exception as error:  # noqa: BLE001 - the one place where a pass survives a bug; reported, not swallowed
        kind = type(error).__name__
        return Failure(kind, f"unexpected {kind} at {place_of(error)}: a bug in lithify, please report it")


def place_of(error: BaseException) -> str:
    """The module and line where it was raised."""
    frame, place = error.__traceback__, "?"
    while frame is not None:
        place = f"{frame.tb_frame.f_globals.get('__name__')}:{frame.tb_lineno}"
        frame = frame.tb_next
    return place
