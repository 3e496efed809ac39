"""Work on many partitions, each of which may fail by itself: a fault is a value, and the others continue."""

from collections.abc import Callable, Iterable
from enum import StrEnum
from typing import TypeVar

import msgspec

from lithify.store.errors import CommitUnknown, Corrupt, ErrorKind, LithifyError, NotFound, error_class

__all__ = ["Ending", "Fault", "attempt", "ending_of"]

T = TypeVar("T")


class Fault(msgspec.Struct, frozen=True):
    """Why a piece of work failed: the one form of a failure in all reports, events and JSON. It keeps all that an error
    tells: `Fault.of(error).error()` is that error again, without its traceback."""

    kind: ErrorKind
    message: str  # names the object and what to do
    key: str = ""  # of the object that is missing, damaged or refused
    retryable: bool = False  # the same request may simply be repeated
    segment: str = ""  # the id of the segment that was read there
    token: str = ""  # of an append that may have happened; `Partition.outcome` tells
    notes: tuple[str, ...] = ()  # more to say, such as what else did not happen

    @classmethod
    def of(cls, error: Exception) -> "Fault":
        """A bug in lithify is reported with its type and where it was raised; its own message is left out, because it
        may quote a record."""
        if isinstance(error, LithifyError):
            notes = tuple(getattr(error, "__notes__", ()))
            match error:
                case NotFound(key=key, segment=segment) | Corrupt(key=key, segment=segment):
                    return cls(error.kind, str(error), key, error.retryable, segment, notes=notes)
                case CommitUnknown(token=token):
                    return cls(error.kind, str(error), token=token, notes=notes)
                case _:
                    return cls(error.kind, str(error), retryable=error.retryable, notes=notes)
        what = f"unexpected {type(error).__name__} at {_place_of(error)}"
        return cls(ErrorKind.UNEXPECTED, f"{what}: a bug in lithify, please report it")

    def error(self) -> LithifyError:
        """The error to raise for it."""
        match self.kind:
            case ErrorKind.NOT_FOUND:
                error = NotFound(self.message, self.key, self.segment)
            case ErrorKind.CORRUPT:
                error = Corrupt(self.message, self.key, self.segment)
            case ErrorKind.COMMIT_UNKNOWN:
                error = CommitUnknown(self.message, self.token)
            case kind:
                error = error_class(kind)(self.message)
        for note in self.notes:
            error.add_note(note)
        return error

    @property
    def text(self) -> str:
        """The message and the notes."""
        return "; ".join((self.message, *self.notes))


class Ending(StrEnum):
    """What a report comes to: the worst that is in it. Each report has it as `ending`."""

    DONE = "done"
    IN_PART = "in part"  # something failed, and the report says what
    UNREACHABLE = "unreachable"  # nothing is known: the store does not answer, refuses access, or holds something newer
    UNFIT = "unfit"  # no log can be kept in this store
    DAMAGED = "damaged"  # a person must look


def ending_of(faults: Iterable[Fault | None], *, damaged: bool = False, failed: bool = False) -> Ending:
    """Of a report over many partitions, by their faults (None: there was none). `damaged`, `failed`: something else in
    it says so."""
    found = {fault.kind for fault in faults if fault is not None}
    if damaged or ErrorKind.CORRUPT in found:
        return Ending.DAMAGED
    return Ending.IN_PART if found or failed else Ending.DONE


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
