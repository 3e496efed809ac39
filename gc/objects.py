"""Listing and deleting objects. Coroutines."""

from lithify.gc.reachable import Garbage
from lithify.manifest.homes import Where
from lithify.manifest.keys import is_run_list_key, is_segment_key
from lithify.store.errors import LithifyError
from lithify.store.home_names import physical
from lithify.store.listing import pages
from lithify.store.owners import owner_key_beside
from lithify.store.port import DELETE_KEYS_MAX, HERE, Delete, ObjectInfo, OwnHome

__all__ = ["delete", "every_object", "gone", "has_segments"]


async def delete(garbage: list[Garbage]) -> list[Garbage]:
    """Delete these objects. Answers with those that were not deleted, each with the reason: the store refused it, or
    another home does not answer, or is another warehouse's. So a home that is away keeps nothing else from going."""
    refused: dict[Where, str] = {}
    for home in dict.fromkeys(g.home for g in garbage):
        keys = [g.key for g in garbage if g.home == home]
        try:
            refused |= await _delete(home, keys)
        except LithifyError as error:
            if home == HERE:
                raise
            refused |= {Where(home, key): str(error) for key in keys}
    return [Garbage(g.key, g.bytes, refused[g.where], g.home) for g in garbage if g.where in refused]


async def _delete(home: str, keys: list[str]) -> dict[Where, str]:
    refused: dict[Where, str] = {}
    for owner in dict.fromkeys(map(owner_key_beside, keys)) if physical(home) != HERE else ():
        await OwnHome(home, owner)
    for start in range(0, len(keys), DELETE_KEYS_MAX):
        reasons = await Delete(tuple(keys[start : start + DELETE_KEYS_MAX]), home)
        refused |= {Where(home, key): reason for key, reason in reasons.items()}
    return refused


def gone(garbage: list[Garbage], refused: list[Garbage]) -> tuple[Garbage, ...]:
    """`garbage` without what the store refused to delete."""
    stay = {g.where for g in refused}
    return tuple(g for g in garbage if g.where not in stay)


async def has_segments(prefix: str) -> bool:
    """Whether a segment or a run list lies under `prefix`: a topic's name, or the folder of a partition."""
    async for page in pages(prefix.rstrip("/") + "/"):
        if any(is_segment_key(found.key) or is_run_list_key(found.key) for found in page.objects):
            return True
    return False


async def every_object(prefix: str, home: str = HERE) -> list[ObjectInfo]:
    return [found async for page in pages(prefix, home) for found in page.objects]
