"""What an edit of a chain's head is, and what it may answer. Pure."""

from typing import Generic, Protocol, TypeVar

import msgspec

from lithify.manifest.model import Numbered
from lithify.store.errors import LithifyError

__all__ = ["Already", "Edit", "Next", "Refused"]

S = TypeVar("S", bound=Numbered)
R = TypeVar("R")


class Next(msgspec.Struct, Generic[S, R], frozen=True):
    """The edit applies: commit `value` (the commit sets its id, nonce and time) and answer `result`."""

    value: S
    result: R


class Already(msgspec.Struct, Generic[R], frozen=True):
    """The edit recognises itself in the head: it was committed before, with this result."""

    result: R


class Refused(msgspec.Struct, frozen=True):
    """The edit does not apply to this head. `error` says why; it is raised once the head is known to be current."""

    error: LithifyError
    final: bool = False  # nothing is left of what earlier attempts may have done, so their outcomes do not matter


class Edit(Protocol[S, R]):
    """A pure change of a chain's head. If a rival wins the race, it is applied again to the new head."""

    repeatable: bool
    """Whether the edit may be applied again while an earlier outcome of it is unknown: because it recognises itself in
    the head, or because doing it twice is the same as once (P4)."""

    frees: bool
    """Whether it leads to deletions, so that on a full disk it may use the reserve (docs/rfcs/0012)."""

    def apply(self, head: S | None, number: int, now_ms: int) -> Next[S, R] | Already[R] | Refused:
        """What this edit makes of `head` (None: the chain is empty) as file `number`. Reads nothing else."""
        ...
