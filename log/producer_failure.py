"""A producer's failure, which every caller gets as a new exception.

SUBTLE! An exception that is raised again keeps the frames of all its raises, and each frame keeps the record handed
over then: 600 refused records of 1 MB took 600 MB. Test: tests/log/test_producer_failures.py
"""

import copy
from collections.abc import Sequence
from weakref import WeakSet

from lithify.store.errors import CommitUnknown, LithifyError, Unavailable

__all__ = ["Failure", "noted_on", "told_of_all"]


class Failure:
    """The failure of one batch, and therefore of its producer."""

    def __init__(self, error: LithifyError) -> None:
        self._error = _fresh(error)
        self._raised = WeakSet[BaseException]()

    @property
    def unknown(self) -> bool:
        return isinstance(self._error, CommitUnknown)

    def told(self) -> LithifyError:
        """The error for callers that ask about this batch."""
        return self._remembered(_fresh(self._error))

    def refusal(self) -> LithifyError:
        """The error for a record that was never sent because of this failure. It was certainly not appended, so this is
        never CommitUnknown, and has no token."""
        kind = Unavailable if self.unknown else type(self._error)
        text = f"the record was not appended, since its producer had failed before it was sent: {self}"
        if issubclass(kind, Unavailable):
            text += ". Open another producer, and append this record again"
        return self._remembered(kind(text))

    def __str__(self) -> str:
        """The message, and the token if there is one."""
        token = f" (token {self._error.token})" if isinstance(self._error, CommitUnknown) else ""
        return f"{self._error}{token}"

    def raised(self, error: BaseException) -> bool:
        """Whether `error` was raised for this failure, or has it as a note."""
        return error in self._raised

    def note_on(self, error: LithifyError) -> None:
        """Add this failure to `error`, which was raised for another one of its producer."""
        error.add_note(f"another batch of this producer also failed: {self}")
        self._remembered(error)

    def _remembered(self, error: LithifyError) -> LithifyError:
        self._raised.add(error)
        return error


def told_of_all(failures: Sequence[Failure]) -> LithifyError:
    """One error for batches that failed together: the first unknown one, since its outcome must be looked up before
    anything is sent again; else the first. The others become its notes."""
    told = next((failure for failure in failures if failure.unknown), failures[0])
    error = told.told()
    for other in failures:
        if other is not told:
            other.note_on(error)
    return error


def noted_on(error: BaseException, failures: Sequence[Failure]) -> None:
    """Add the failures that `error` does not report yet as its notes."""
    for failure in failures:
        if not failure.raised(error):
            error.add_note(f"and the producer failed: {failure}")


def _fresh(error: LithifyError) -> LithifyError:
    """The same message, token and notes; without traceback and cause."""
    fresh = copy.copy(error)
    notes: list[str] = list(getattr(error, "__notes__", ()))
    if notes:
        fresh.__notes__ = notes  # a list of its own
    return fresh
