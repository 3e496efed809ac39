"""Why a job, or an attempt at it, ended without success (P14); and who ended a job from outside. Pure."""

from enum import StrEnum
from typing import Literal

from lithify.store.errors import AccessDenied, Corrupt, InvalidRequest, NotFound, Unavailable

__all__ = ["Category", "EndedBy", "MetBy"]

MetBy = Literal["task", "engine", "compactor"]
"""Who met an error: a task, at its work; the engine, which took no task; the compactor, at a request of its own."""


class Category(StrEnum):
    """Stored as a word. Later releases may add words, so what is read from a file is a plain string."""

    # The job or its sources are to blame:
    CORRUPT = "corrupt"  # a source is damaged: a person must look (R6)
    MISSING = "missing"  # a source is gone: a person must look
    OUTPUT_LOST = "output_lost"  # something recorded is damaged or gone: it is done again
    MEMORY = "memory"
    INVALID = "invalid"  # the job cannot be done
    ENGINE = "engine"  # a task failed for a reason of its own
    STALLED = "stalled"  # no key range has finished for longer than expected
    GIVEN_UP = "attempts"  # too many attempts failed
    # The job ends, but is not to blame:
    ALTERED = "altered"  # the topic now keeps something that its plan drops
    NO_ROOM = "no_room"  # the list of retired segments is full
    # These say nothing about the job; it is tried again however often they happen:
    ENGINE_DOWN = "engine_down"  # the engine took no task: nothing began
    STORE_DENIED = "store_denied"  # the store refused access
    UNAVAILABLE = "unavailable"  # the store did not answer, or not as required
    # These may be the job's doing:
    ENGINE_LOST = "engine_lost"  # the engine itself died, or was stopped, while tasks ran

    @classmethod
    def of(cls, error: Exception, met_by: MetBy = "task") -> "Category":
        """What an attempt ended with, by the error that ended it. A task's Corrupt and NotFound are taken for damage of
        a source: of anything else they are an ENGINE."""
        match met_by, error:
            case "engine", _:
                return cls.ENGINE_DOWN
            case _, AccessDenied():
                return cls.STORE_DENIED
            case _, Unavailable():
                return cls.UNAVAILABLE
            case "compactor", _:  # a numbered file is damaged, or of a later release: a person must look
                return cls.UNAVAILABLE
            case _, Corrupt():
                return cls.CORRUPT
            case _, NotFound():
                return cls.MISSING
            case _, InvalidRequest():
                return cls.INVALID
            case _, MemoryError():  # pyarrow's ArrowMemoryError is one
                return cls.MEMORY
            case _:
                return cls.ENGINE

    @property
    def blames_job(self) -> bool:
        """Whether an attempt that ended like this counts against the job (or the engine that ran it)."""
        return self not in (Category.ENGINE_DOWN, Category.STORE_DENIED, Category.UNAVAILABLE)

    @property
    def damage(self) -> bool:
        """Whether a source is damaged or gone."""
        return self in (Category.CORRUPT, Category.MISSING)


class EndedBy(StrEnum):
    """What ended a job from outside: its status is "cancelled", but only REQUEST was asked for. Stored as a word;
    later releases may add words."""

    REQUEST = "request"  # a request to cancel it
    ALTERATION = "alteration"  # the topic now keeps something that its plan drops; what is due is planned again
    DELETION = "deletion"  # the topic was deleted
    HOME = "home"  # another home than the warehouse was away, or refused; the status is "failed"
    OTHER = "other"  # in reports alone: a word of a later release

    @classmethod
    def _missing_(cls, value: object) -> "EndedBy | None":
        return cls.OTHER if isinstance(value, str) and value else None
