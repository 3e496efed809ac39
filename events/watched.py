"""What the clients of a feed follow, and the partitions that are looked at for them (docs/rfcs/0018, Events)."""

from lithify.events.chain import followed
from lithify.events.stream import Asked
from lithify.events.types import Event
from lithify.manifest.keys import PartitionKeys
from lithify.store.apart import Fault

__all__ = ["GIVE_UP_MS", "LINGER_MS", "QUIET_MS", "Scope", "Watched"]

LINGER_MS = 60_000  # how long chains are still looked at after their last client has gone
QUIET_MS = 60_000  # a partition of a deleted topic is let go of after so long without a change
GIVE_UP_MS = 600_000  # how long one that is gone and cannot be read is tried; then it ends with a gap


class Scope:
    """What some clients follow, and which partitions that is."""

    def __init__(self, asked: Asked, now_ms: int, sequence: int) -> None:
        self.asked = asked
        self.sequence = sequence  # whoever has all up to here finds the rest in the ring
        self.clients = 0
        self.left_ms = 0  # when the last client went, by the monotonic clock, as the next
        self.looked_ms: int | None = None
        self.found_ms = now_ms  # all partitions that were announced before this have been found
        self.partitions: frozenset[PartitionKeys] = frozenset()
        self.gone: dict[PartitionKeys, int] = {}  # those that nobody announces any more, since when (monotonic clock)
        self.unread: Fault | None = None  # why they, or others, could not be found


class Watched:
    """A partition that is followed: its changes since `from_ms`. `news_ms`: it was announced after this, if its changes
    are told from the first on."""

    def __init__(self, keys: PartitionKeys, from_ms: int, news_ms: int, sequence: int) -> None:
        self.keys = keys
        self.chains = followed(keys, from_ms)
        self.sequence = sequence  # whoever has all up to here finds the rest in the ring
        self.woken = False
        self._news_ms = news_ms

    @property
    def looked_ms(self) -> int:
        """What could be read before this has been told, or is of a partition that was announced later."""
        return max(self._news_ms, min(chain.looked_ms for chain in self.chains))

    def ending(self, now_ms: int, *, patient: bool) -> list[Event] | None:
        """What a partition that nobody announces any more ends with: nothing, or gaps, which only the first to ask is
        told. None: it is still followed, because its manifests can be read and are not sealed, or because what cannot
        be read is still waited for (`patient`)."""
        failing = [chain for chain in self.chains if chain.failing]
        if not (self.chains[0].failing or self.chains[0].ended(now_ms - QUIET_MS)) or (failing and patient):
            return None
        untold = [chain for chain in failing if not chain.given_up]
        for chain in untold:
            chain.given_up = True
        return [chain.gap(0, now_ms) for chain in untold]
