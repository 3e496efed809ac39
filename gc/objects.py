"""Listing and deleting objects. Coroutines."""

from lithify.gc.reachable import Garbage
from lithify.manifest.homes import Where
from lithify.manifest.keys import is_segment_key
from lithify.store.listing import pages
from lithify.store.port import DELETE_KEYS_MAX, Delete, ObjectInfo

__all__ = ["delete", "every_object", "gone", "has_segments"]


async def delete(garbage: list[Garbage]) -> list[Garbage]:
    """Delete these objects. Answers with those that the store refused to delete, each with the reason."""
    refused: dict[Where, str] = {}
    for home in dict.fromkeys(g.home for g in garbage):
        keys = [g.key for g in garbage if g.home == home]
        for start in range(0, len(keys), DELETE_KEYS_MAX):
            reasons = await Delete(tuple(keys[start : start + DELETE_KEYS_MAX]), home)
            refused |= {Where(home, key): reason for key, reason in reasons.items()}
    return [Garbage(g.key, g.bytes, refused[g.where], g.home) for g in garbage if g.where in refused]


def gone(garbage: list[Garbage], refused: list[Garbage]) -> tuple[Garbage, ...]:
    """`garbage` without what the store refused to delete."""
    stay = {g.where for g in refused}
    return tuple(g for g in garbage if g.where not in stay)


async def has_segments(prefix: str) -> bool:
    """Whether a segment lies under `prefix`: a topic's name, or the folder of a partition."""
    async for page in pages(prefix.rstrip("/") + "/"):
        if any(is_segment_key(found.key) for found in page.objects):
            return True
    return False


async def every_object(prefix: str) -> list[ObjectInfo]:
    return [found async for page in pages(prefix) for found in page.objects]
