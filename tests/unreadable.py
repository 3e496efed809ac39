"""Ways in which a numbered file cannot be read: to readers the two are one, unless they need the file."""

import re
from collections.abc import Callable

from lithify.store.port import Store
from tests.interleave import World

__all__ = ["UNREADABLE", "Rewrite", "damaged", "later", "rewrite", "rewrite_in", "unsealed"]

Rewrite = Callable[[bytes], bytes]
_FORMAT = re.compile(rb'"format":\d+')


def unsealed(body: bytes) -> bytes:
    """Without its checksum, as a file that somebody mended by hand."""
    return re.sub(rb',"file_xxh3":"[0-9a-f]{16}"', b"", body)


def damaged(body: bytes) -> bytes:
    return _FORMAT.sub(b"\0", body)


def later(body: bytes) -> bytes:
    """As a later release would write it."""
    return _FORMAT.sub(b'"format":99', unsealed(body))


UNREADABLE: tuple[Rewrite, ...] = (damaged, later)


def rewrite(store: Store, key: str, change: Rewrite) -> bytes:
    """What was there before."""
    found = store.get(key)
    assert found is not None
    store.put(key, change(found.body))
    return found.body


def rewrite_in(world: World, key: str, change: Rewrite) -> None:
    """And leave its time as it is."""
    body, modified_ms = world.objects[key]
    world.objects[key] = (change(body), modified_ms)
