"""What one process knows of a warehouse's topics and partitions, kept from question to question."""

from collections.abc import Callable, Collection, Coroutine
from dataclasses import dataclass, field
from typing import Any, Generic, TypeVar

from lithify.manifest.catalog import live_topic, topic_lineage
from lithify.manifest.commit import Lineage
from lithify.manifest.keys import PartitionKeys
from lithify.manifest.model import TopicFile
from lithify.manifest.no_warehouse import explain_no_topic
from lithify.manifest.partition import PartitionFiles
from lithify.store.driver import Driver
from lithify.store.errors import NotFound
from lithify.store.own_lock import OwnLock
from lithify.store.port import Request

__all__ = ["KEPT_MAX", "KnownPartitions"]

KEPT_MAX = 1_024  # partitions, and as many topics; each keeps its newest manifest and `.compactor` in memory

T = TypeVar("T")


@dataclass(slots=True)
class _Kept(Generic[T]):
    """Something that one coroutine at a time may use."""

    what: T
    lock: OwnLock = field(default_factory=OwnLock)
    topic_id: str = ""  # for a topic: the id at the latest look


class KnownPartitions:
    """Keeps the files of up to `kept_max` partitions, those used last, so that a question about one that has not
    changed costs two GETs for each chain. A first question also gallops from the boundary to the head. Thread-safe:
    work on one partition takes turns, and work on different partitions runs side by side.

    Topics that are gone are forgotten, with their partitions.
    """

    def __init__(self, driver: Driver, kept_max: int = KEPT_MAX) -> None:
        self.driver = driver
        self._kept_max = kept_max
        self._lock = OwnLock()  # of both dicts; never held while the store is asked
        self._topics: dict[str, _Kept[Lineage[TopicFile]]] = {}  # in the order of use, as are the partitions
        self._partitions: dict[PartitionKeys, _Kept[PartitionFiles]] = {}

    def run(
        self,
        keys: PartitionKeys,
        work: Callable[[PartitionFiles], Coroutine[Request[Any], Any, T]],
        *,
        anew: bool = False,
    ) -> T:
        """What `work` returns, run on the files of a partition, while nobody else uses them. `anew`: forget what is
        known of them first, so that the newest files are read again even if they have not changed.

        Requires: `work` does not call this again for the same partition.
        """
        with self._lock.mine():
            kept = None if anew else self._partitions.pop(keys, None)
            kept = _used(
                self._partitions,
                keys,
                kept or _Kept(PartitionFiles(keys, homes=self.driver.homes.names)),
                self._kept_max,
            )
        # SUBTLE! `PartitionFiles` is for one coroutine at a time: a head that another one has seen meanwhile may be
        # replaced by an older one, together with its time. Test: tests/manifest/test_known.py
        with kept.lock.mine():
            return self.driver.run(work(kept.what))

    def topic(self, name: str, *, anew: bool = False) -> TopicFile:
        """The newest configuration of a live topic. Costs one GET if nothing has changed. `anew`: as in `run`. Raises
        NotFound."""
        with self._lock.mine():
            kept = None if anew else self._topics.pop(name, None)
            kept = _used(self._topics, name, kept or _Kept(topic_lineage(name)), self._kept_max)
        # SUBTLE! 1. A reads life 1 of a topic. 2. It is made anew; B reads life 2, and its partitions. 3. A compares
        # what it has read with what B has noted, and forgets life 2. So what is read and what follows from it are one
        # turn. Test: tests/manifest/test_known.py
        with kept.lock.mine():
            try:
                found = self.driver.run(live_topic(kept.what, name))
            except NotFound as missing:
                self._forget(name, "")
                raise explain_no_topic(self.driver, name, missing) from None
            if kept.topic_id not in ("", found.topic_id):
                self._forget(name, found.topic_id)
            kept.topic_id = found.topic_id
            return found

    def keep(self, names: Collection[str]) -> None:
        """Forget the topics that are not among `names`."""
        with self._lock.mine():
            self._topics = {name: kept for name, kept in self._topics.items() if name in names}
            self._partitions = {keys: kept for keys, kept in self._partitions.items() if keys.topic in names}

    def __len__(self) -> int:
        """How many partitions are kept."""
        return len(self._partitions)

    def _forget(self, name: str, topic_id: str) -> None:
        """Forget the partitions of topic `name`, other than those of its life `topic_id`; if "", the topic too."""
        with self._lock.mine():
            if not topic_id:
                self._topics.pop(name, None)
            self._partitions = {
                keys: kept for keys, kept in self._partitions.items() if keys.topic != name or keys.topic_id == topic_id
            }


K = TypeVar("K")


def _used(kept: dict[K, _Kept[T]], key: K, one: _Kept[T], kept_max: int) -> _Kept[T]:
    """`one`, put last in `kept`; the one that was used longest ago goes if there are too many. Whoever still works on
    that continues with it."""
    kept[key] = one
    if len(kept) > kept_max:
        del kept[next(iter(kept))]
    return one
