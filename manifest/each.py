"""The same for many partitions, in step; one that fails does not stop the others. Protocol coroutines."""

from collections.abc import Callable, Coroutine, Sequence
from typing import Any, TypeVar

from lithify.manifest.edits import Edit
from lithify.manifest.keys import PartitionKeys
from lithify.manifest.model import Manifest
from lithify.manifest.partition import PartitionFiles
from lithify.manifest.words import numbers_text
from lithify.store.errors import CommitUnknown, LithifyError
from lithify.store.in_step import in_step
from lithify.store.port import Request

__all__ = ["AT_ONCE", "AWAY_MAX", "commit_to_each", "each"]

A = TypeVar("A")
T = TypeVar("T")

# After so many partitions in a row without an answer from the store the rest is not tried: each takes its time. So many
# go in step at first, and after them AT_ONCE, while all are answered.
AWAY_MAX = 3
AT_ONCE = 32  # as many as a store makes side by side (`store/side_by_side.py`)


async def each(do: Callable[[A], Coroutine[Request[Any], Any, T]], items: Sequence[A]) -> list[T]:
    """What `do` returns for each of `items`, AT_ONCE of them in step. Raises the first failure, once those that go in
    step with it have ended."""
    found: list[T] = []
    for start in range(0, len(items), AT_ONCE):
        for outcome in await in_step(*map(do, items[start : start + AT_ONCE])):
            if isinstance(outcome, Exception):
                raise outcome
            found.append(outcome)
    return found


async def commit_to_each(all_keys: Sequence[PartitionKeys], edit: Edit[Manifest, Any], note: str) -> None:
    """Try all partitions, then raise the first failure, with `note` and the partitions that were not reached."""
    missing: list[int] = []
    first: LithifyError | None = None
    away = place = 0
    while place < len(all_keys) and away < AWAY_MAX:
        together = all_keys[place : place + (AT_ONCE if place and not away else AWAY_MAX)]
        outcomes = await in_step(*(PartitionFiles(keys).manifest.commit(edit) for keys in together))
        place += len(together)
        for keys, outcome in zip(together, outcomes, strict=True):
            if isinstance(outcome, LithifyError):
                first = first or outcome
                missing.append(keys.partition)
            elif isinstance(outcome, Exception):
                raise outcome
            away = away + 1 if isinstance(outcome, LithifyError) and _is_away(outcome) else 0
    missing += [keys.partition for keys in all_keys[place:]]
    if first is not None:
        first.add_note(f"{note} {numbers_text('partition', missing)}")
        raise first


def _is_away(error: LithifyError) -> bool:
    return error.retryable or isinstance(error, CommitUnknown)
