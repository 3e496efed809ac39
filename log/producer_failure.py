"""What a producer failed by, told as often as somebody asks: each time by an exception of its own.

SUBTLE! An exception that is raised again keeps the frames of all its raises, and each frame keeps what was handed over
then: 600 refused records of 1 MB took 600 MB. Test: tests/log/test_producer_failures.py
"""

import copy
from collections.abc import Sequence
from weakref import WeakSet

from lithify.store.errors import CommitUnknown, LithifyError, Unavailable

__all__ = ["Failure", "noted_on", "told_of_all"]


class Failure:
    """Of one batch, and by that of its producer."""

    def __init__(self, error: LithifyError) -> None:
        self._error = _fresh(error)
        self._raised = WeakSet[BaseException]()

    @property
    def unknown(self) -> bool:
        return isinstance(self._error, CommitUnknown)

    def told(self) -> LithifyError:
        """To whoever asks about the batch."""
        return self._remembered(_fresh(self._error))

    def refusal(self) -> LithifyError:
        """To whoever asks about a record that was never sent because of it: certainly not appended, so this is never
        CommitUnknown, and has no token."""
        kind = Unavailable if self.unknown else type(self._error)
        text = f"the record was not appended, since its producer had failed before it was sent: {self}"
        if issubclass(kind, Unavailable):
            text += ". Open another producer, and append this record again"
        return self._remembered(kind(text))

    def __str__(self) -> str:
        """Its words, and what to ask by."""
        token = f" (token {self._error.token})" if isinstance(self._error, CommitUnknown) else ""
        return f"{self._error}{token}"

    def raised(self, error: BaseException) -> bool:
        """Whether `error` is one of those that were told because of it."""
        return error in self._raised

    def is_told_by(self, error: BaseException) -> bool:
        """Whether whoever sees `error` learns of it, and of its token."""
        if isinstance(error, CommitUnknown) and isinstance(self._error, CommitUnknown):
            return error.token == self._error.token
        return any(str(self) in text for text in (str(error), *getattr(error, "__notes__", ())))

    def _remembered(self, error: LithifyError) -> LithifyError:
        self._raised.add(error)
        return error


def told_of_all(failures: Sequence[Failure]) -> LithifyError:
    """One error for batches that failed side by side: the first that is unknown, as that is to be looked up before
    anything is sent again; else the first. The others are its notes."""
    told = next((failure for failure in failures if failure.unknown), failures[0])
    error = told.told()
    for other in failures:
        if other is not told:
            error.add_note(f"another batch of this producer failed, too: {other}")
    return error


def noted_on(error: BaseException, failures: Sequence[Failure]) -> None:
    """What it does not tell already."""
    for failure in failures:
        if not failure.is_told_by(error):
            error.add_note(f"and the producer failed: {failure}")


def _fresh(error: LithifyError) -> LithifyError:
    """The same words, token and notes; no traceback and no cause."""
    fresh = copy.copy(error)
    notes: list[str] = list(getattr(error, "__notes__", ()))
    if notes:
        fresh.__notes__ = notes  # a list of its own
    return fresh
