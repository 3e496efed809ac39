"""Of the property of streams: a store that remembers, drivers that fail, clients that keep what they got."""

from contextlib import suppress
from functools import partial
from typing import Any

from lithify.events.feed import Feed, Following
from lithify.events.notices import Gap
from lithify.events.stream import Asked, Cursor, Sent
from lithify.events.types import Change
from lithify.manifest.catalog import partition_keys
from lithify.manifest.codec import decode
from lithify.manifest.jobs import CompactorState
from lithify.manifest.keys import PartitionKeys
from lithify.manifest.model import Manifest, TopicFile
from lithify.manifest.partition import File
from lithify.store.driver import Driver
from lithify.store.errors import LithifyError, Unavailable
from lithify.store.memory import MemoryStore
from lithify.store.port import Glimpse, NewId, Now, Outcome, Request, Together
from lithify.store.side_by_side import one_after_the_other
from tests.clock import HandClock

__all__ = ["Chain", "Client", "Failing", "Recording"]

Chain = tuple[str, str, int, str]  # topic, topic id, partition, "manifest" or "compactor"
KINDS: dict[str, type[Manifest] | type[CompactorState]] = {"manifest": Manifest, "compactor": CompactorState}


class Recording(MemoryStore):
    """Remembers every numbered file that was ever created, and the partitions that were announced."""

    def __init__(self, clock: HandClock) -> None:
        super().__init__(clock=clock)
        self.files: dict[Chain, dict[int, File]] = {}
        self.announced: set[PartitionKeys] = set()

    def create(self, key: str, body: bytes, frees: bool = False) -> Outcome:
        outcome = super().create(key, body, frees)
        parts = key.split("/")
        if outcome is Outcome.CREATED and len(parts) == 5 and parts[3] in KINDS:
            number = int(parts[4].partition(".")[0])
            chain = (parts[0], parts[1], int(parts[2]), parts[3])
            self.files.setdefault(chain, {})[number] = decode(KINDS[parts[3]], body, key, number)
        if outcome is Outcome.CREATED and key.endswith(".topic"):
            topic = decode(TopicFile, body, key, int(parts[-1].partition(".")[0]))
            self.announced.update(partition_keys(topic))
        return outcome


class Failing(Driver):
    """Some of whose requests fail, and whose clock may differ."""

    def __init__(self, store: MemoryStore, clock: HandClock) -> None:
        super().__init__(store)
        self.coming = ""  # of the next requests: "!" fails
        self.away = ""  # requests about what has this in its key fail
        self.skew_ms = 0
        self.failed: set[str] = set()  # keys
        self.monotonic_ms = clock
        answer = self.answer

        def answer_or_fail(request: Request[Any]) -> Any:
            match request:
                case Together(requests):
                    return tuple(one_after_the_other([partial(answer_or_fail, each) for each in requests]))
                case Now():
                    return answer(request) + self.skew_ms
                case NewId() | Glimpse():  # which asks nothing of a store in memory
                    return answer(request)
                case _:
                    pass
            key = getattr(request, "key", "")
            fails, self.coming = self.coming[:1] == "!", self.coming[1:]
            if fails or (self.away and self.away in key):
                self.failed.add(key)
                raise Unavailable("the store is away")
            return answer(request)

        self.answer = answer_or_fail


class Client:
    """A client that keeps what it got, and the cursor of the last event; it may be cut among events it was sent."""

    def __init__(self, asked: Asked, store: Recording) -> None:
        self.asked = asked
        self.store = store
        self.following: Following | None = None
        self.cursor: Cursor | None = None
        self.begins: dict[Chain, int] = {}  # the newest files when it first connected
        self.changes: list[Change] = []
        self.gaps: list[tuple[Gap, dict[Chain, int]]] = []  # and the newest files when it was told
        self.connected = 0

    def connect(self, feed: Feed) -> None:
        self.cut()
        with suppress(LithifyError):
            self.following = feed.follow(self.asked, self.cursor)
            self.connected += 1
            if self.cursor is None:
                self.cursor, self.begins = self.following.cursor, self.newest()

    def newest(self) -> dict[Chain, int]:
        return {chain: max(files) for chain, files in self.store.files.items()}

    def cut(self) -> None:
        if self.following is not None:
            self.following.close()
            self.following = None

    def take(self, most: int | None = None) -> None:
        """All that there is; or only the first so many, and then the connection breaks."""
        sent: tuple[Sent, ...] = ()
        with suppress(LithifyError):
            sent = () if self.following is None else self.following.take()
        for cursor, event in sent[:most]:
            self.cursor = Cursor.parse(str(cursor))
            if isinstance(event, Change):
                self.changes.append(event)
            if isinstance(event, Gap):
                self.gaps.append((event, self.newest()))
        if most is not None:
            self.cut()
        elif self.following is not None and not sent:
            self.cursor = self.following.cursor  # as a sign of life tells it
