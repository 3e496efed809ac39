"""A number of a chain with what it holds, and what came of a commit."""

from typing import Generic, TypeVar

import msgspec

from lithify.manifest.model import Numbered
from lithify.store.port import Object

__all__ = ["Committed", "Version"]

S = TypeVar("S", bound=Numbered)
R = TypeVar("R")


class Version(msgspec.Struct, Generic[S], frozen=True):
    """A number of a chain and the file it holds; number 0 with None is the empty chain."""

    number: int
    value: S | None
    modified_ms: int | None = None
    lacks: str = ""  # the key of a part that is gone: then there is no content
    tag: str = ""  # of the object
    stored: Object | None = None  # as it was found, if nobody has read what it says
    since: int = 0  # if it was found by a listing: all numbers from here to it were there

    @property
    def whole(self) -> bool:
        """Whether its content is known, or it is the empty chain."""
        return self.value is not None or self.number == 0


class Committed(msgspec.Struct, Generic[S, R], frozen=True):
    version: Version[S]
    result: R
    repeated: bool  # True: it had been committed before, and this call changed nothing
    open: str = ""  # the token of an earlier attempt whose outcome will never be known, if there was one
