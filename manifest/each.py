"""Commit one edit to many partitions; one that fails does not stop the others. A protocol coroutine."""

from collections.abc import Sequence
from typing import Any

from lithify.manifest.commit import Edit
from lithify.manifest.keys import PartitionKeys
from lithify.manifest.model import Manifest
from lithify.manifest.partition import PartitionFiles
from lithify.manifest.words import numbers_text
from lithify.store.errors import CommitUnknown, LithifyError

__all__ = ["AWAY_MAX", "commit_to_each"]

# After so many partitions in a row without an answer from the store the rest is not tried: each takes its time.
AWAY_MAX = 3


async def commit_to_each(all_keys: Sequence[PartitionKeys], edit: Edit[Manifest, Any], note: str) -> None:
    """Try all partitions, then raise the first failure, with `note` and the partitions that were not reached."""
    missing: list[int] = []
    first: LithifyError | None = None
    away = 0
    for place, keys in enumerate(all_keys):
        try:
            await PartitionFiles(keys).manifest.commit(edit)
            away = 0
        except LithifyError as error:
            first = first or error
            missing.append(keys.partition)
            away = away + 1 if _is_away(error) else 0
        if away == AWAY_MAX:
            missing += [keys.partition for keys in all_keys[place + 1 :]]
            break
    if first is not None:
        first.add_note(f"{note} {numbers_text('partition', missing)}")
        raise first


def _is_away(error: LithifyError) -> bool:
    return error.retryable or isinstance(error, CommitUnknown)
