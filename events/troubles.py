"""Current problems by place, reported once: a pass every few seconds meets the same failure again (docs/rfcs/0015).

A failure is the same while its kind and its object are. Its message is not compared: it may name the number that this
pass tried.
"""

import threading
from collections.abc import Container
from typing import NamedTuple

from lithify.events.notices import Recovered, Rests, Trouble, What
from lithify.events.types import Sink
from lithify.manifest.keys import PartitionKeys
from lithify.store.apart import Fault

__all__ = ["Troubles"]

TOLD_MAX = 10_000
_Met = tuple[str, str]  # a fault's kind and the key of its object; the kind of a rest; the time of a wait


class _Place(NamedTuple):
    what: str
    topic: str
    topic_id: str
    partition: int | None


class Troubles:
    """Remembers the reports of TOLD_MAX places; problems elsewhere are reported again. Thread-safe."""

    def __init__(self, sink: Sink) -> None:
        self._sink = sink
        self._met: dict[_Place, _Met] = {}  # the latest met last
        self._lock = threading.Lock()

    def tell(
        self, what: What, outcome: object, topic: str = "", partition: int | None = None, topic_id: str = ""
    ) -> None:
        """Emit `Trouble` when a problem begins or has another kind or object, and `Recovered` when it ends.
        `outcome`: a Fault; anything else means that all is well. Partition None: the whole topic. Topic "": the
        warehouse."""
        fault = outcome if isinstance(outcome, Fault) else None
        met = None if fault is None else (fault.kind.value, fault.key)
        if not self._is_news(_Place(what, topic, topic_id, partition), met):
            return
        if fault is None:
            self._sink(Recovered(topic=topic, partition=partition, topic_id=topic_id, what=what))
        else:
            self._sink(Trouble(topic=topic, partition=partition, topic_id=topic_id, what=what, fault=fault))

    def rests(self, keys: PartitionKeys, kind: str | None, outcome: str, reason: str) -> None:
        """Emit `Rests` if `kind` differs from the last one. None: it rests because nothing is due."""
        met = None if kind is None else (kind, "")
        place = _Place("rests", keys.topic, keys.topic_id, keys.partition)
        if self._is_news(place, met) and kind is not None:
            topic, topic_id, partition = keys.topic, keys.topic_id, keys.partition
            self._sink(Rests(topic=topic, topic_id=topic_id, partition=partition, outcome=outcome, reason=reason))

    def waits(self, topic: str, partition: int, since_ms: int) -> bool:
        """Whether it is new that a job has been waiting since then."""
        return self._is_news(_Place("waits", topic, "", partition), (str(since_ms), ""))

    def keep(self, topics: Container[str]) -> None:
        """Forget the problems of topics that are gone: nothing reports their end, and a new topic of the same name
        begins without problems."""
        with self._lock:
            self._met = {place: met for place, met in self._met.items() if place.topic in topics or not place.topic}

    def _is_news(self, place: _Place, met: _Met | None) -> bool:
        with self._lock:
            before = self._met.pop(place, None)
            if met is not None:
                self._met[place] = met
            if len(self._met) > TOLD_MAX:
                self._met.pop(next(iter(self._met)))
            return met != before
