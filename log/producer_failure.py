"""What a producer failed by, told as often as somebody asks: each time by an exception of its own.

SUBTLE! An exception that is raised again keeps the frames of all its raises, and each frame keeps what was handed over
then: 600 refused records of 1 MB took 600 MB. Test: tests/log/test_producer_failures.py
"""

import copy
from collections.abc import Sequence

from lithify.store.errors import CommitUnknown, LithifyError, Unavailable

__all__ = ["Failure", "told_of_all"]


class Failure:
    """Of one batch, and by that of its producer."""

    def __init__(self, error: LithifyError) -> None:
        self._error = _fresh(error)

    @property
    def unknown(self) -> bool:
        return isinstance(self._error, CommitUnknown)

    def told(self) -> LithifyError:
        """To whoever asks about the batch."""
        return _fresh(self._error)

    def refusal(self) -> LithifyError:
        """To whoever asks about a record that was never sent because of it: certainly not appended, so this is never
        CommitUnknown, and has no token."""
        kind = Unavailable if self.unknown else type(self._error)
        text = f"the record was not appended, since its producer had failed before it was sent: {self._error}"
        if issubclass(kind, Unavailable):
            text += ". Open another producer, and append this record again"
        return kind(text)

    def note(self) -> str:
        token = f" (token {self._error.token})" if isinstance(self._error, CommitUnknown) else ""
        return f"another batch of this producer failed, too: {self._error}{token}"


def told_of_all(failures: Sequence[Failure]) -> LithifyError:
    """One error for batches that failed side by side: the first that is unknown, as that is to be looked up before
    anything is sent again; else the first. The others are its notes."""
    told = next((failure for failure in failures if failure.unknown), failures[0])
    error = told.told()
    for other in failures:
        if other is not told:
            error.add_note(other.note())
    return error


def _fresh(error: LithifyError) -> LithifyError:
    """The same words, token and notes; no traceback and no cause."""
    fresh = copy.copy(error)
    notes: list[str] = list(getattr(error, "__notes__", ()))
    if notes:
        fresh.__notes__ = notes  # a list of its own
    return fresh
