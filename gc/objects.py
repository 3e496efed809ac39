"""Listing and deleting objects. Coroutines."""

from lithify.gc.reachable import Garbage
from lithify.manifest.keys import is_segment_key
from lithify.store.port import Delete, List, ObjectInfo

__all__ = ["delete", "every_object", "gone", "has_segments"]

DELETE_KEYS_MAX = 1_000
PAGES_MAX = 1_000_000


async def delete(garbage: list[Garbage]) -> list[Garbage]:
    """Answers with what the store would not delete, each with the reason."""
    refused: dict[str, str] = {}
    for start in range(0, len(garbage), DELETE_KEYS_MAX):
        refused |= await Delete(tuple(g.key for g in garbage[start : start + DELETE_KEYS_MAX]))
    return [Garbage(g.key, g.bytes, refused[g.key]) for g in garbage if g.key in refused]


def gone(garbage: list[Garbage], refused: list[Garbage]) -> tuple[Garbage, ...]:
    """All but what the store would not delete."""
    stay = {g.key for g in refused}
    return tuple(g for g in garbage if g.key not in stay)


async def has_segments(prefix: str) -> bool:
    """Whether a segment lies under `prefix`: a topic's name, or the folder of a partition."""
    return any(is_segment_key(found.key) for found in await every_object(prefix.rstrip("/") + "/"))


async def every_object(prefix: str) -> list[ObjectInfo]:
    found: list[ObjectInfo] = []
    token: str | None = None
    for _ in range(PAGES_MAX):
        page = await List(prefix, token)
        found += page.objects
        token = page.token
        if token is None:
            break
    return found
