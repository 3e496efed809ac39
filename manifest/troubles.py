"""Current problems by place, reported once: a pass every few seconds meets the same failure again (docs/rfcs/0015)."""

import threading
from collections.abc import Container
from typing import NamedTuple

from lithify.manifest.events import Recovered, Rests, Sink, Trouble, What
from lithify.store.apart import Fault

__all__ = ["Troubles"]

TOLD_MAX = 10_000


class _Place(NamedTuple):
    what: str
    topic: str
    topic_id: str
    partition: int | None


class Troubles:
    """Remembers the reports of TOLD_MAX places; problems elsewhere are reported again. Thread-safe."""

    def __init__(self, sink: Sink) -> None:
        self._sink = sink
        self._texts: dict[_Place, str] = {}  # the latest reported last
        self._lock = threading.Lock()

    def tell(
        self, what: What, outcome: object, topic: str = "", partition: int | None = None, topic_id: str = ""
    ) -> None:
        """Emit `Trouble` when a problem begins or changes, and `Recovered` when it ends. `outcome`: a Fault; anything
        else means that all is well. Partition None: the whole topic. Topic "": the warehouse."""
        fault = outcome if isinstance(outcome, Fault) else None
        if not self._is_news(_Place(what, topic, topic_id, partition), fault and fault.message):
            return
        if fault is None:
            self._sink(Recovered(topic=topic, partition=partition, topic_id=topic_id, what=what))
        else:
            self._sink(Trouble(topic=topic, partition=partition, topic_id=topic_id, what=what, fault=fault))

    def rests(self, topic: str, partition: int | None, kind: str | None, outcome: str, reason: str) -> None:
        """Emit `Rests` if `kind` differs from the last one. None: it rests because nothing is due."""
        if self._is_news(_Place("rests", topic, "", partition), kind) and kind is not None:
            self._sink(Rests(topic=topic, partition=partition, outcome=outcome, reason=reason))

    def waits(self, topic: str, partition: int, since_ms: int) -> bool:
        """Whether it is new that a job has been waiting since then."""
        return self._is_news(_Place("waits", topic, "", partition), str(since_ms))

    def keep(self, topics: Container[str]) -> None:
        """Forget the problems of topics that are gone: nothing reports their end, and a new topic of the same name
        begins without problems."""
        with self._lock:
            self._texts = {
                place: text for place, text in self._texts.items() if place.topic in topics or not place.topic
            }

    def _is_news(self, place: _Place, text: str | None) -> bool:
        with self._lock:
            before = self._texts.pop(place, None)
            if text is not None:
                self._texts[place] = text
            if len(self._texts) > TOLD_MAX:
                self._texts.pop(next(iter(self._texts)))
            return text != before
