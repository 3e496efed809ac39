"""Reads chains: what is new in them, and what a client missed (docs/rfcs/0018, Events)."""

from collections.abc import Callable, Collection, Coroutine, Iterable
from typing import Any, NamedTuple, TypeVar

from lithify.events.chain import FollowedChain, followed
from lithify.events.stream import Cursor, Sent
from lithify.events.troubles import Troubles
from lithify.events.types import Event
from lithify.manifest.keys import PartitionKeys
from lithify.store.apart import Fault, attempt
from lithify.store.driver import Driver
from lithify.store.many import many
from lithify.store.port import Request

__all__ = ["Behind", "Readings"]

A = TypeVar("A")
B = TypeVar("B")


class Behind(NamedTuple):
    """What a client is to be told that does not come to it from the ring."""

    cursor: Cursor  # where the client is
    here: Cursor  # where the ring goes on for it
    places: dict[PartitionKeys, tuple[int, list[FollowedChain] | None]]  # to read back since when; None: not followed
    told: list[Event]  # what cannot be read back, and what the ring has of the rest


class Readings:
    """Reads chains, several at a time. What fails is told as a trouble."""

    def __init__(self, driver: Driver, troubles: Troubles, threads: int) -> None:
        self._driver = driver
        self._troubles = troubles
        self._threads = threads

    def back(self, behind: Behind) -> tuple[Sent, ...]:
        """Until the client has all of this, it stays at its cursor: if it is cut before, it begins there again."""
        read = self.each(lambda place: self._back(place[0], *place[1]), behind.places.items())
        told = [event for events in read for event in events] + behind.told
        return tuple(Sent(behind.cursor, event) for event in told)

    def _back(self, keys: PartitionKeys, since_ms: int, chains: list[FollowedChain] | None) -> list[Event]:
        if chains is None:
            now_ms = self._driver.now_ms()
            chains = [*followed(keys, since_ms)]
            return self.read(keys, chains, lambda chain: chain.look(), lambda chain: chain.gap(0, now_ms))
        return self.read(keys, chains, lambda chain: chain.back(since_ms), lambda chain: chain.gap())

    def read(
        self,
        keys: PartitionKeys,
        chains: Iterable[FollowedChain],
        read: Callable[[FollowedChain], Coroutine[Request[Any], Any, list[Event]]],
        gap: Callable[[FollowedChain], Event] | None = None,
    ) -> list[Event]:
        """What `read` finds in each chain; where it fails nothing, or `gap`."""
        told: list[Event] = []
        fault: Fault | None = None
        for chain in chains:
            events = attempt(lambda chain=chain: self._driver.run(read(chain)))
            if isinstance(events, Fault):
                fault = events
                told += [] if gap is None else [gap(chain)]
            else:
                told += events
        self._troubles.tell("changes not read", fault, keys.topic, keys.partition, keys.topic_id)
        return told

    def each(self, do: Callable[[A], B], all_of: Collection[A]) -> list[B]:
        return many(do, all_of, self._threads)
