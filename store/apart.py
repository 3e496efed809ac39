"""Work on many partitions, each of which may fail by itself: a fault is a value, and the others continue."""

from collections.abc import Callable
from typing import TypeVar

import msgspec

from lithify.store.errors import Corrupt, ErrorKind, LithifyError, NotFound, error_class

__all__ = ["Fault", "attempt"]

T = TypeVar("T")


class Fault(msgspec.Struct, frozen=True):
    """Why a piece of work failed: the one form of a failure in all reports, events and JSON."""

    kind: ErrorKind
    message: str  # names the object and what to do
    key: str = ""  # of the object that is missing, damaged or refused
    retryable: bool = False  # the same request may simply be repeated

    @classmethod
    def of(cls, error: Exception) -> "Fault":
        """A bug in lithify is reported with its type and where it was raised; its own message is left out, because it
        may quote a record."""
        if isinstance(error, LithifyError):
            key = error.key if isinstance(error, NotFound | Corrupt) else ""
            return cls(error.kind, str(error), key, error.retryable)
        what = f"unexpected {type(error).__name__} at {_place_of(error)}"
        return cls(ErrorKind.UNEXPECTED, f"{what}: a bug in lithify, please report it")

    def error(self) -> LithifyError:
        """The error to raise for it."""
        match self.kind:
            case ErrorKind.NOT_FOUND:
                return NotFound(self.message, self.key)
            case ErrorKind.CORRUPT:
                return Corrupt(self.message, self.key)
            case kind:
                return error_class(kind)(self.message)


def attempt(work: Callable[[], T]) -> T | Fault:
    """Returns what `work` returns, or why it failed.

    An unexpected error is reported like the others. A bug in one partition, perhaps because of one odd record, must not
    leave all others without compaction and collection; and if it ended a pass, it would end every pass at the same
    place.
    """
    try:
        return work()
    except Exception as error:  # noqa: BLE001 - the one place where a pass survives a bug; reported, not swallowed
        return Fault.of(error)


def _place_of(error: BaseException) -> str:
    """The module and line where it was raised."""
    frame, place = error.__traceback__, "?"
    while frame is not None:
        place = f"{frame.tb_frame.f_globals.get('__name__')}:{frame.tb_lineno}"
        frame = frame.tb_next
    return place
