"""Why an attempt at a job, or the job, ended other than well (P14). Pure."""

from enum import StrEnum

__all__ = ["Category"]


class Category(StrEnum):
    """Stored as a word, which a later release may add to: what is read from a file is a plain string."""

    # What the job or its sources are to blame for:
    CORRUPT = "corrupt"  # a source is damaged: a person must look (R6)
    MISSING = "missing"  # a source is gone: a person must look
    OUTPUT_LOST = "output_lost"  # what it had recorded is damaged or gone: it is done again
    MEMORY = "memory"
    INVALID = "invalid"  # what it was to do cannot be done
    ENGINE = "engine"  # a task failed, for a reason of its own
    STALLED = "stalled"  # no key range has finished for longer than could be expected
    GIVEN_UP = "attempts"  # too many attempts failed
    # What it is not to blame for, though it ends:
    ALTERED = "altered"  # the topic keeps now what its plan drops
    NO_ROOM = "no_room"  # the list of retired segments is full
    # What says nothing about the job, so that it is tried again however often it happens:
    ENGINE_DOWN = "engine_down"  # the engine took no task: nothing began
    STORE_DENIED = "store_denied"  # the store refused who asked
    UNAVAILABLE = "unavailable"  # the store did not answer a task, or not as it must the compactor itself
    # What may be the job's doing:
    ENGINE_LOST = "engine_lost"  # the engine itself died, or was stopped, while tasks ran

    @property
    def blames_job(self) -> bool:
        """Whether an attempt that ended so counts as one of the job, or of the engine under it."""
        return self not in (Category.ENGINE_DOWN, Category.STORE_DENIED, Category.UNAVAILABLE)

    @property
    def damage(self) -> bool:
        """Whether a source is damaged or gone."""
        return self in (Category.CORRUPT, Category.MISSING)
