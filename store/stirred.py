"""What this process itself has written, for those of its threads that would otherwise ask the store for it.

A compactor leaves partitions at rest alone for minutes; what the same process appends or requests there, it knows at
once (docs/rfcs/0026). A hint: whoever is told looks, and nobody relies on being told.
"""

import weakref
from collections.abc import Iterable

from lithify.store.own_lock import OwnLock

__all__ = ["Stirred", "tell"]

_lock = OwnLock()  # of those who begin to listen
# Never changed in place, so that it can be read without the lock.
_listening: dict[tuple[str, str], tuple["weakref.ref[Stirred]", ...]] = {}


class Stirred:
    """The folders in the store at `url` and `endpoint_url` in which this process has created numbered files since it
    was last asked, each with its last slash: of a partition, or of a topic if that was its configuration.
    Thread-safe."""

    def __init__(self, url: str, endpoint_url: str) -> None:
        self._folders: dict[str, None] = {}  # no larger than there are partitions and topics
        place = url, endpoint_url
        with _lock.mine():
            others = tuple(each for each in _listening.get(place, ()) if each() is not None)
            _listening[place] = (*others, weakref.ref(self))

    def told(self, folder: str) -> None:
        self._folders[folder] = None

    def taken(self) -> Iterable[str]:
        """Those told since the last call."""
        found: list[str] = []
        while self._folders:
            found.append(self._folders.popitem()[0])
        return found


def tell(url: str, endpoint_url: str, key: str) -> None:
    """This process has created `key`, or may have: `<folder>/<chain>/<number>`."""
    for each in _listening.get((url, endpoint_url), ()):
        listener = each()
        if listener is not None:
            listener.told(key.rsplit("/", 2)[0] + "/")
