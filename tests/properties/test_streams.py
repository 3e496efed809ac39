"""A stream of events that is cut anywhere, and continued at any server, has every change once repeated ids are removed
(docs/rfcs/0018, Events): with compactions, collections, topics that come, grow and go, clocks that jump, and requests
that fail, other clients that come and go, and versions of topics that nobody can read any more.

The oracle is every numbered file that was ever created, as the store was asked to create it. A change may be missing
only where the stream reported a gap; where its topic was deleted, also if its file or the one before it is gone, or if
it came after the partition was sealed. A gap needs a reason: files that are gone, or that could not be read.

Tried, and caught in the first 80 histories: whoever has the ring's last sequence has missed nothing; a cursor that goes
on while the backlog is sent; a ring that is believed to hold what has left it; topics that are over are not read back;
what a client missed of a topic that cannot be read is left for later.
"""

import random
from collections.abc import Callable, Sequence
from contextlib import suppress
from functools import partial
from typing import Any

import pytest

from lithify.compactor.compactor import Compactor
from lithify.events.changes import changes_of
from lithify.events.feed import Feed, Following
from lithify.events.notices import Gap
from lithify.events.stream import Asked, Cursor, Sent
from lithify.events.types import Change
from lithify.gc.collector import Collector
from lithify.log.record import Record
from lithify.log.warehouse import Warehouse
from lithify.manifest.codec import LaterFormat, decode
from lithify.manifest.jobs import CompactorState
from lithify.manifest.keys import PartitionKeys, TopicKeys
from lithify.manifest.model import Boundary, Manifest
from lithify.manifest.partition import File
from lithify.store.apart import attempt
from lithify.store.driver import Driver
from lithify.store.errors import NotFound, Unavailable
from lithify.store.memory import MemoryStore
from lithify.store.port import NewId, Now, Outcome, Request, Together
from lithify.store.side_by_side import one_after_the_other
from tests.clock import HandClock
from tests.everyday import seeds
from tests.unreadable import later, rewrite

TOPICS = ("a", "b")
CONFIG = {"cleanup.policy": "compact", "l0.segments.tier": "2"}
KINDS: dict[str, type[Manifest] | type[CompactorState]] = {"manifest": Manifest, "compactor": CompactorState}
RING = 12
GRACE_MS = 120_000
CHUNK = 25
FAILING = ("!", "!!", "!!!", "!.!", "!!!!", "!..!!", "!!!!!!", "!...!")  # of which requests in a row
OTHERS = (Asked(), Asked("a"), Asked("b"), Asked("a", 0))

Chain = tuple[str, str, int, str]  # topic, topic id, partition, "manifest" or "compactor"


class Recording(MemoryStore):
    """Remembers every numbered file that was ever created."""

    def __init__(self, clock: HandClock) -> None:
        super().__init__(clock=clock)
        self.files: dict[Chain, dict[int, File]] = {}
        self.created_ms: dict[tuple[Chain, int], int] = {}

    def create(self, key: str, body: bytes, frees: bool = False) -> Outcome:
        outcome = super().create(key, body, frees)
        parts = key.split("/")
        if outcome is Outcome.CREATED and len(parts) == 5 and parts[3] in KINDS:
            number = int(parts[4].partition(".")[0])
            chain = (parts[0], parts[1], int(parts[2]), parts[3])
            self.files.setdefault(chain, {})[number] = decode(KINDS[parts[3]], body, key, number)
            self.created_ms[chain, number] = self.now()
        return outcome


class Failing(Driver):
    """Of whose requests some of the next few fail."""

    def __init__(self, store: MemoryStore, clock: HandClock) -> None:
        super().__init__(store)
        self.coming = ""  # of the next requests: "!" fails
        self.failed: set[str] = set()  # keys
        self.monotonic_ms = clock
        answer = self.answer

        def answer_or_fail(request: Request[Any]) -> Any:
            if isinstance(request, Together):
                return tuple(one_after_the_other([partial(answer_or_fail, each) for each in request.requests]))
            if isinstance(request, NewId | Now):
                return answer(request)
            fails, self.coming = self.coming[:1] == "!", self.coming[1:]
            if fails:
                self.failed.add(getattr(request, "key", ""))
                raise Unavailable("the store is away")
            return answer(request)

        self.answer = answer_or_fail


class Client:
    """A client that keeps what it got, and the cursor of the last event; it may be cut among events it was sent."""

    def __init__(self, asked: Asked) -> None:
        self.asked = asked
        self.following: Following | None = None
        self.cursor: Cursor | None = None
        self.changes: list[Change] = []
        self.gaps: list[Gap] = []
        self.connected = 0

    def connect(self, feed: Feed) -> None:
        self.cut()
        with suppress(Unavailable, NotFound, LaterFormat):
            self.following = feed.follow(self.asked, self.cursor)
            self.connected += 1
            self.cursor = self.cursor or self.following.cursor

    def cut(self) -> None:
        if self.following is not None:
            self.following.close()
            self.following = None

    def take(self, most: int | None = None) -> None:
        """All that there is; or only the first so many, and then the connection breaks."""
        sent: tuple[Sent, ...] = ()
        with suppress(Unavailable):
            sent = () if self.following is None else self.following.take()
        for cursor, event in sent[:most]:
            self.cursor = Cursor.parse(str(cursor))
            if isinstance(event, Change):
                self.changes.append(event)
            if isinstance(event, Gap):
                self.gaps.append(event)
        if most is not None:
            self.cut()
        elif self.following is not None and not sent:
            self.cursor = self.following.cursor  # as a sign of life tells it


class World:
    def __init__(self, asked: Asked) -> None:
        self.clock = HandClock()
        self.store = Recording(self.clock)
        self.warehouse = Warehouse(Driver(self.store))
        self.servers = [Failing(self.store, self.clock) for _ in range(2)]
        self.feeds = [Feed(driver, ring_max=RING, threads=1) for driver in self.servers]
        self.compactor = Compactor(self.warehouse, engine="local", events=self.feeds[0].sink)
        self.collector = Collector(self.warehouse, grace_ms=GRACE_MS, events=self.feeds[0].sink)
        self.client = Client(asked)
        self.others: list[Following] = []
        self.spoilt: set[str] = set()  # topics
        self.create(0)
        for _ in range(2):
            self.append(0)
        self.begins = {chain: max(files) for chain, files in self.store.files.items()}
        self.client.connect(self.feeds[0])

    def append(self, which: int) -> None:
        self.in_topic(which, lambda topic: topic.append([Record(b"key", b"value")] * 2))

    def grow(self, which: int) -> None:
        self.in_topic(which, lambda topic: topic.alter(partitions=topic.partitions + 1))

    def delete(self, which: int) -> None:
        attempt(lambda: self.warehouse.delete_topic(TOPICS[which]))

    def create(self, which: int) -> None:
        attempt(lambda: self.warehouse.create_topic(TOPICS[which], 2, CONFIG, probe=False))

    def in_topic(self, which: int, do: Callable[[Any], object]) -> None:
        with suppress(NotFound, LaterFormat):
            do(self.warehouse.topic(TOPICS[which]))

    def compact(self, _: int) -> None:
        self.compactor.run_once()

    def collect(self, _: int) -> None:
        self.collector.run_once()

    def wait(self, seconds: int) -> None:
        self.clock.now_ms += seconds * 1_000

    def look(self, server: int) -> None:
        self.feeds[server].look()

    def look_where_woken(self, _: int) -> None:
        self.feeds[0].look_where_woken()

    def fail(self, drawn: int) -> None:
        self.servers[drawn % 2].coming = "." * (drawn // 2 % 9) + FAILING[drawn % len(FAILING)]

    def spoil(self, which: int) -> None:
        """A version of a topic that is not the newest cannot be read any more."""
        chain = TopicKeys(TOPICS[which]).config
        numbers = sorted(chain.number(each.key) or 0 for each in self.store.list(chain.prefix).objects)
        if len(numbers) > 1:
            rewrite(self.store, chain.key(numbers[-2]), later)
            self.spoilt.add(TOPICS[which])

    def other(self, server: int) -> None:
        """Another client comes, and the one before it goes."""
        for each in self.others:
            each.close()
        self.others.clear()
        with suppress(Unavailable, NotFound, LaterFormat):
            self.others.append(self.feeds[server % 2].follow(OTHERS[server // 2]))

    def take(self, _: int) -> None:
        self.client.take()

    def cut(self, after: int) -> None:
        self.client.take(after)

    def connect(self, server: int) -> None:
        self.client.connect(self.feeds[server])

    def end(self) -> None:
        for server in self.servers:
            server.coming = ""
        if self.client.following is None:
            self.connect(1)
        for _ in range(2):
            self.wait(90)  # everything is looked at again
            for feed in self.feeds:
                feed.look()
            self.client.take()
            self.client.take()

    def judge(self) -> None:
        got: dict[str, Change] = {}
        for change in self.client.changes:
            assert got.setdefault(change.id, change) == change
        numbers = dict(self.begins)
        gaps = {chain_of(gap) for gap in self.client.gaps if gap.partition is not None}
        topics = {gap.topic for gap in self.client.gaps if gap.partition is None}
        for change in got.values():  # by when each came first
            chain = chain_of(change)
            if change.number > self.begins.get(chain, 0) and chain not in gaps and chain[0] not in topics:
                assert change.number >= numbers.get(chain, 0), f"{change.id} comes late"
                numbers[chain] = change.number
        for chain, files in self.store.files.items():
            asked = self.client.asked
            if not asked.covers(PartitionKeys(*chain[:3])):
                continue
            for number, file in files.items():
                expected = changes_of(files.get(number - 1), file)
                missing = [change for change in expected if got.get(change.id) != change]
                if missing and number > self.begins.get(chain, 0):
                    assert self.may_miss(chain, number), missing
        for gap in self.client.gaps:
            assert self.has_a_reason(gap), gap

    def has_a_reason(self, gap: Gap) -> bool:
        """A gap that no request and no file explains would be told of what is there."""
        failed = {key for server in self.servers for key in server.failed}
        if gap.partition is None:
            return gap.topic in self.spoilt or any(key.startswith(f"{gap.topic}/config/") for key in failed)
        keys = PartitionKeys(gap.topic, gap.topic_id, gap.partition)
        return any(key.startswith(keys.root) for key in failed) or 0 < gap.number <= self.boundary(chain_of(gap)) + 1

    def may_miss(self, chain: Chain, number: int) -> bool:
        created_ms = self.store.created_ms[chain, number]
        for gap in self.client.gaps:
            of_it = gap.topic == chain[0] if gap.partition is None else chain_of(gap) == chain
            if of_it and (number <= gap.number or (gap.number == 0 and created_ms <= gap.from_ms)):
                return True
        manifests = self.store.files[*chain[:3], "manifest"].values()
        sealed = next((each for each in manifests if isinstance(each, Manifest) and each.sealed), None)
        if sealed is None:
            return False
        file = self.store.files[chain][number]
        later = file.id > sealed.id if isinstance(file, Manifest) else file.committed_at_ms > sealed.committed_at_ms
        return later or number <= self.boundary(chain) + 1

    def boundary(self, chain: Chain) -> int:
        keys = PartitionKeys(*chain[:3])
        numbers = [keys.boundary.number(each.key) or 0 for each in self.store.list(keys.boundary.prefix).objects]
        if not numbers:
            return 0
        found = self.store.get(keys.boundary.key(max(numbers)))
        assert found is not None
        boundary = decode(Boundary, found.body, keys.boundary.key(max(numbers)), max(numbers))
        return boundary.manifest if chain[3] == "manifest" else boundary.compactor


def chain_of(event: Change | Gap) -> Chain:
    assert event.partition is not None
    assert event.chain is not None
    return event.topic, event.topic_id, event.partition, event.chain


# Each step with its weight, and the numbers it may be called with.
STEPS: list[tuple[Callable[[World, int], None], int, Sequence[int]]] = [
    (World.append, 6, (0, 0, 1)),
    (World.look, 6, (0, 1)),
    (World.take, 5, (0,)),
    (World.cut, 3, (0, 1, 2, 4)),
    (World.connect, 4, (0, 1)),
    (World.look_where_woken, 2, (0,)),
    (World.compact, 2, (0,)),
    (World.collect, 4, (0,)),
    (World.create, 2, (0, 1, 1)),
    (World.delete, 1, (0, 1, 1)),
    (World.grow, 1, (0, 1)),
    (World.fail, 2, range(1_000)),
    (World.spoil, 1, (0, 1)),
    (World.other, 2, range(2 * len(OTHERS))),
    (World.wait, 6, (1, 3, 11, 61, 130, 1_000)),
]


ALL_TROUBLES = {World.fail, World.spoil}
# Of a history. What is a gap hides what follows it, so most histories have few reasons for one.
TROUBLES = [set(), {World.fail}, {World.fail}, {World.spoil}]


def history(seed: int) -> World:
    dice = random.Random(seed)
    world = World(dice.choice([Asked(), Asked(), Asked("a"), Asked("a", 1)]))
    troubles = dice.choice(TROUBLES)
    steps = [step for step in STEPS if step[0] not in ALL_TROUBLES or step[0] in troubles]
    for do, _, numbers in dice.choices(steps, [weight for _, weight, _ in steps], k=dice.randrange(20, 120)):
        do(world, dice.choice(numbers))
    world.end()
    return world


@pytest.mark.slow
@pytest.mark.parametrize("chunk", seeds(2, 12))
def test_a_stream_that_is_cut_and_continued_misses_nothing(chunk: int) -> None:
    for seed in range(chunk * CHUNK, (chunk + 1) * CHUNK):
        world = history(seed)
        try:
            world.judge()
        except AssertionError as error:
            error.add_note(f"seed {seed}")
            raise


@pytest.mark.slow
def test_the_histories_have_everything_in_them() -> None:
    """Streams that were continued, gaps, several lives of a topic, every kind of file."""
    worlds = [history(seed) for seed in range(CHUNK)]
    assert sum(world.client.connected for world in worlds) > 2 * len(worlds)
    assert sum(bool(world.client.gaps) for world in worlds) > len(worlds) // 10
    assert sum(len({chain[1] for chain in world.store.files}) > 2 for world in worlds) > len(worlds) // 10
    got = {type(change).__name__ for world in worlds for change in world.client.changes}
    assert {"PartitionCreated", "PartitionSealed", "Appended", "Compacted", "JobEnded", "OrphanFloorRaised"} <= got
