"""Which partitions there are to follow (docs/rfcs/0018, Events)."""

from typing import NamedTuple

from lithify.events.chain import partitions_since, topics_since
from lithify.events.stream import Asked
from lithify.events.troubles import Troubles
from lithify.manifest.catalog import topic_lineage
from lithify.manifest.commit import Lineage
from lithify.manifest.ended import Known
from lithify.manifest.keys import PartitionKeys
from lithify.manifest.model import TopicFile
from lithify.store.apart import Fault, attempt
from lithify.store.driver import Driver

__all__ = ["Finder", "Found"]

# Topics, those asked for last; more if so many are listed. Another one costs a search for its newest version.
KEPT_MAX = 4_096


class Found(NamedTuple):
    partitions: dict[PartitionKeys, int]  # from when on each is news
    newest: dict[str, int]  # topics that were read, and their newest versions
    unread: dict[str, Fault]  # topics whose partitions could not be read
    unreadable: dict[str, int]  # topics with a version in between that nobody can read, and the newest such


class Finder:
    """One thread at a time. Troubles are told once."""

    def __init__(self, driver: Driver, troubles: Troubles) -> None:
        self._driver = driver
        self._troubles = troubles
        self._known = Known()
        self._topics: dict[str, Lineage[TopicFile]] = {}
        self._listed = 0  # topics, at last

    def partitions(self, asked: Asked, since_ms: int) -> Found:
        """Those that are or were asked for since then. Raises what the listing of topics raises."""
        names = [asked.topic] if asked.topic is not None else self._names(since_ms)
        found = Found({}, {}, {}, {})
        for name in names:
            lineage = self._topics[name] = self._topics.pop(name, None) or topic_lineage(name)
            if len(self._topics) > max(KEPT_MAX, 2 * self._listed):  # of those that are gone nobody says so
                del self._topics[next(iter(self._topics))]
            known = attempt(lambda lineage=lineage: self._driver.run(partitions_since(lineage, since_ms)))
            self._troubles.tell("topic skipped", known, name)
            if isinstance(known, Fault):
                found.unread[name] = known
                continue
            if not lineage.seen.number:  # no topic has this name; clients may ask for any number of such names
                del self._topics[name]
                continue
            found.newest[name] = lineage.seen.number
            found.partitions.update({keys: ms for keys, ms in known.partitions.items() if asked.covers(keys)})
            if known.unreadable:
                found.unreadable[name] = known.unreadable
        return found

    @property
    def topics(self) -> list[str]:
        """That are remembered."""
        return [*self._topics]

    def forget(self) -> None:
        """Nobody follows anything for now."""
        self._topics.clear()

    def _names(self, since_ms: int) -> list[str]:
        names = attempt(lambda: self._driver.run(topics_since(self._known, since_ms)))
        self._troubles.tell("topics not listed", names)
        if isinstance(names, Fault):
            raise names.error()
        self._listed = len(names)
        return names
