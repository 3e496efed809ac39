"""Events in sequence, and how far a client of them has got (docs/rfcs/0018, Events). Pure."""

import re
from collections import deque
from itertools import islice
from typing import NamedTuple

import msgspec

from lithify.events.types import Change, Event
from lithify.manifest.keys import PartitionKeys
from lithify.store.errors import InvalidRequest

__all__ = ["RING_MAX", "Asked", "Cursor", "Ring", "Sent", "as_json"]

RING_MAX = 10_000
_CURSOR = re.compile(r"([0-9a-f]{16})\.([0-9]{1,19})\.([0-9]{1,19})")


class Cursor(NamedTuple):
    """How far a client has got: it has the events of `server` up to `sequence`, and every change that it asked for and
    that could be read before `at_ms`. As text: `<server>.<sequence>.<time>`."""

    server: str
    sequence: int
    at_ms: int

    def __str__(self) -> str:
        return f"{self.server}.{self.sequence}.{self.at_ms}"

    @staticmethod
    def parse(text: str) -> "Cursor":
        """Raises InvalidRequest."""
        found = _CURSOR.fullmatch(text)
        if found is None:
            raise InvalidRequest(
                f"{text[:60]!r} is not a cursor of an event stream: send the id of the last event, or none to begin now"
            )
        return Cursor(found[1], int(found[2]), int(found[3]))


class Asked(NamedTuple):
    """What a client follows: the whole warehouse, a topic, or one partition. A notice about the whole of something is
    also one about its parts."""

    topic: str | None = None
    partition: int | None = None

    @property
    def name(self) -> str:
        whole = "this warehouse" if self.topic is None else f"topic {self.topic}"
        return whole if self.partition is None else f"partition {self.partition} of {whole}"

    def takes(self, event: Event) -> bool:
        return (self.topic is None or event.topic in ("", self.topic)) and (
            self.partition is None or event.partition in (None, self.partition)
        )

    def covers(self, keys: PartitionKeys) -> bool:
        return self.topic in (None, keys.topic) and self.partition in (None, keys.partition)


class Sent(NamedTuple):
    """An event, and how far a client has got that received it."""

    cursor: Cursor
    event: Event


class Ring:
    """The last events of one server, numbered from 1."""

    def __init__(self, server: str, most: int = RING_MAX) -> None:
        self.server = server
        self.last = 0
        self._sent: deque[Sent] = deque()
        self._most = most

    def add(self, event: Event, at_ms: int) -> None:
        """Requires: every change that could be read before `at_ms` is in the ring, or was in it."""
        self.last += 1
        self._sent.append(Sent(Cursor(self.server, self.last, at_ms), event))
        if len(self._sent) > self._most:
            self._sent.popleft()

    def holds(self, cursor: Cursor) -> bool:
        """Whether all that this client has missed is still here."""
        return cursor.server == self.server and self.last - len(self._sent) <= cursor.sequence <= self.last

    def after(self, sequence: int) -> tuple[Sent, ...]:
        """Requires: the ring holds what came after it."""
        return tuple(islice(self._sent, len(self._sent) - (self.last - sequence), None))


def as_json(event: Event) -> bytes:
    """For clients. A change has its id as `id`."""
    if not isinstance(event, Change):
        return msgspec.json.encode(event)
    return msgspec.json.encode({"id": event.id, **msgspec.to_builtins(event)})
