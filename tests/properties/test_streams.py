"""Streams that are cut anywhere, and continued at any server, have every change once repeated ids are removed
(docs/rfcs/0018, Events): of clients that ask for different things, with compactions, collections, topics that come,
grow and go, clocks that jump and that differ, requests that fail, alone or for long, and files that nobody can read,
for a while or for good.

The oracle is every numbered file that was ever created, as the store was asked to create it. A change may be missing
only where the stream reported a gap; where its topic was deleted, also if its file or the one before it is gone, or if
it came after the partition was sealed. A gap needs a reason: files that are gone, or that could not be read. Nothing
stays behind: no cursor once all can be read, and no partition that is looked at a minute after the last client.

Tried, and caught in the first 80 histories: whoever has the ring's last sequence has missed nothing; a cursor that goes
on while the backlog is sent; a ring that is believed to hold what has left it; topics that are over are not read back;
what a client missed of a topic that cannot be read is left for later.
"""

import random
from collections.abc import Callable, Sequence
from contextlib import suppress
from typing import Any

import pytest

from lithify.compactor.compactor import Compactor
from lithify.events.changes import changes_of
from lithify.events.feed import Feed
from lithify.events.notices import Gap
from lithify.events.stream import Asked
from lithify.events.types import Change
from lithify.gc.collector import Collector
from lithify.log.record import Record
from lithify.log.warehouse import Warehouse
from lithify.manifest.codec import decode
from lithify.manifest.keys import Chain as Numbered
from lithify.manifest.keys import PartitionKeys, TopicKeys
from lithify.manifest.model import Boundary, Manifest
from lithify.store.driver import Driver
from lithify.store.errors import LithifyError
from tests.clock import HandClock
from tests.everyday import seeds
from tests.properties.streams import Chain, Client, Failing, Recording
from tests.unreadable import later, rewrite

TOPICS = ("a", "b")
CONFIG = {"cleanup.policy": "compact", "l0.segments.tier": "2"}
RINGS = (1, 3, 12, 12, 200)
GRACE_MS = 120_000
CHUNK = 25
CLIENTS = 3
ASKED = (Asked(), Asked("a"), Asked("b"), Asked("a", 0), Asked("a", 1), Asked("b", 1))
FAILING = ("!", "!!", "!!!", "!.!", "!!!!", "!..!!", "!!!!!!", "!...!")  # of which requests in a row
AWAY = ("", "/manifest/", "a/config/", "b/config/", "/compactor/", "/boundary/", "a/")  # what a server cannot reach
SKEWS_S = (-28, -7, 0, 0, 7, 28)


class World:
    def __init__(self, dice: random.Random) -> None:
        self.dice = dice
        self.clock = HandClock()
        self.store = Recording(self.clock)
        self.warehouse = Warehouse(Driver(self.store))
        self.servers = [Failing(self.store, self.clock) for _ in range(2)]
        ring = dice.choice(RINGS)
        self.feeds = [Feed(driver, ring_max=ring, threads=1) for driver in self.servers]
        self.compactor = Compactor(self.warehouse, engine="local", events=self.feeds[0].sink)
        self.collector = Collector(self.warehouse, grace_ms=GRACE_MS, events=self.feeds[0].sink)
        self.unreadable: set[str] = set()  # keys that were, or are
        self.stored: dict[str, bytes] = {}  # what was there, of those that will be restored
        self.create(0)
        for _ in range(2):
            self.append(0)
        self.clients = [Client(asked, self.store) for asked in dice.choices(ASKED, k=CLIENTS)]
        for client in self.clients[1:]:
            client.connect(dice.choice(self.feeds))

    def append(self, which: int) -> None:
        self.in_topic(which, lambda topic: topic.append([Record(b"key", b"value")] * 2))

    def grow(self, which: int) -> None:
        self.in_topic(which, lambda topic: topic.alter(partitions=topic.partitions + 1))

    def delete(self, which: int) -> None:
        with suppress(LithifyError):
            self.warehouse.delete_topic(TOPICS[which])

    def create(self, which: int) -> None:
        with suppress(LithifyError):
            self.warehouse.create_topic(TOPICS[which], 2, CONFIG, probe=False)

    def in_topic(self, which: int, do: Callable[[Any], object]) -> None:
        with suppress(LithifyError):
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

    def fail(self, server: int) -> None:
        self.servers[server].coming = "." * self.dice.randrange(9) + self.dice.choice(FAILING)

    def go_away(self, server: int) -> None:
        self.servers[server].away = self.dice.choice(AWAY)

    def skew(self, server: int) -> None:
        self.servers[server].skew_ms = 1_000 * self.dice.choice(SKEWS_S)

    def spoil(self, which: int) -> None:
        """A version of a topic that is not the newest cannot be read any more."""
        chain = TopicKeys(TOPICS[which]).config
        numbers = self.numbers(chain)
        if len(numbers) > 1 and chain.key(numbers[-2]) not in self.stored:
            rewrite(self.store, chain.key(numbers[-2]), later)
            self.unreadable.add(chain.key(numbers[-2]))

    def spoil_newest(self, _: int) -> None:
        """The newest file of a chain cannot be read; the next time it is restored."""
        chains = [TopicKeys(name).config for name in TOPICS]
        for name, topic_id, partition, kind in sorted(self.store.files):
            keys = PartitionKeys(name, topic_id, partition)
            chains.append(keys.manifest if kind == "manifest" else keys.compactor)
        chain = self.dice.choice(self.dice.choice([chains, chains[: len(TOPICS)]]))
        numbers = self.numbers(chain)
        if not numbers:
            return
        key = chain.key(numbers[-1])
        if key in self.stored:
            self.store.put(key, self.stored.pop(key))
        elif key not in self.unreadable:
            self.stored[key] = rewrite(self.store, key, later)
            self.unreadable.add(key)

    def numbers(self, chain: Numbered) -> list[int]:
        return sorted(chain.number(each.key) or 0 for each in self.store.list(chain.prefix).objects)

    def take(self, client: int) -> None:
        self.clients[client].take()

    def cut(self, client: int) -> None:
        self.clients[client].take(self.dice.randrange(5))

    def connect(self, client: int) -> None:
        self.clients[client].connect(self.dice.choice(self.feeds))

    def end(self) -> None:
        """Everything can be read, and is looked at again. Then all clients go."""
        for server in self.servers:
            server.coming = server.away = ""
            server.skew_ms = 0
        for key, body in self.stored.items():
            if self.store.get(key) is not None:
                self.store.put(key, body)
        for client in self.clients:
            if client.following is None:
                client.connect(self.feeds[1])
        for _ in range(2):
            self.wait(90)
            for feed in self.feeds:
                feed.look()
            for client in self.clients:
                client.take()
                client.take()
        for client in self.clients:
            if client.cursor is not None and client.following is not None:
                assert self.clock.now_ms - client.cursor.at_ms <= 60_000, "nothing holds it back"
            client.cut()
        for feed in self.feeds:
            feed.look()
            self.wait(61)
            feed.look()
            assert feed.idle

    def judge(self) -> None:
        for client in self.clients:
            if client.cursor is not None:
                self.judge_one(client)

    def judge_one(self, client: Client) -> None:
        got: dict[str, Change] = {}
        for change in client.changes:
            assert got.setdefault(change.id, change) == change
        numbers = dict(client.begins)
        gaps = {chain_of(gap) for gap, _ in client.gaps if gap.partition is not None}
        topics = {gap.topic for gap, _ in client.gaps if gap.partition is None}
        for change in got.values():  # by when each came first
            chain = chain_of(change)
            if change.number > client.begins.get(chain, 0) and chain not in gaps and chain[0] not in topics:
                assert change.number >= numbers.get(chain, 0), f"{change.id} comes late"
                numbers[chain] = change.number
        for chain, files in self.store.files.items():
            keys = PartitionKeys(*chain[:3])
            if not client.asked.covers(keys) or keys not in self.store.announced:
                continue
            for number, file in files.items():
                expected = changes_of(files.get(number - 1), file)
                missing = [change for change in expected if got.get(change.id) != change]
                if missing and number > client.begins.get(chain, 0):
                    assert self.may_miss(client, chain, number), (client.asked, missing)
        for gap, _ in client.gaps:
            assert self.has_a_reason(gap), gap

    def has_a_reason(self, gap: Gap) -> bool:
        """A gap that no request and no file explains would be told of what is there."""
        failed = self.unreadable.union(*(server.failed for server in self.servers))
        if gap.partition is None:
            return any(key.startswith(f"{gap.topic}/config/") for key in failed)
        keys = PartitionKeys(gap.topic, gap.topic_id, gap.partition)
        return any(key.startswith(keys.root) for key in failed) or 0 < gap.number <= self.boundary(chain_of(gap)) + 1

    def may_miss(self, client: Client, chain: Chain, number: int) -> bool:
        for gap, newest in client.gaps:
            of_it = gap.topic == chain[0] if gap.partition is None else chain_of(gap) == chain
            if of_it and (number <= gap.number or (gap.number == 0 and number <= newest.get(chain, 0))):
                return True
        manifests = self.store.files[*chain[:3], "manifest"].values()
        sealed = next((each for each in manifests if isinstance(each, Manifest) and each.sealed), None)
        if sealed is None:
            return False
        file = self.store.files[chain][number]
        later = file.id > sealed.id if isinstance(file, Manifest) else file.committed_at_ms >= sealed.committed_at_ms
        return later or number <= self.boundary(chain) + 1

    def boundary(self, chain: Chain) -> int:
        keys = PartitionKeys(*chain[:3])
        numbers = self.numbers(keys.boundary)
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


# Each step with its weight, and the numbers it may be called with: of a topic, a server, a client, or of seconds.
STEPS: list[tuple[Callable[[World, int], None], int, Sequence[int]]] = [
    (World.append, 6, (0, 0, 1)),
    (World.look, 7, (0, 1)),
    (World.take, 7, range(CLIENTS)),
    (World.cut, 4, range(CLIENTS)),
    (World.connect, 6, range(CLIENTS)),
    (World.look_where_woken, 2, (0,)),
    (World.compact, 2, (0,)),
    (World.collect, 3, (0,)),
    (World.create, 2, (0, 1, 1)),
    (World.delete, 1, (0, 1, 1)),
    (World.grow, 1, (0, 1)),
    (World.wait, 6, (1, 3, 11, 40, 61, 130, 1_000)),
    (World.fail, 2, (0, 1)),
    (World.go_away, 2, (0, 1)),
    (World.skew, 1, (0, 1)),
    (World.spoil, 1, (0, 1)),
    (World.spoil_newest, 2, (0,)),
]
# Of which a history leaves some out, with this probability: what is a gap hides what follows it.
LEFT_OUT: dict[Callable[[World, int], None], float] = {
    World.collect: 0.3,
    World.fail: 0.4,
    World.go_away: 0.6,
    World.skew: 0.5,
    World.spoil: 0.6,
    World.spoil_newest: 0.7,
}


def history(seed: int) -> World:
    dice = random.Random(seed)
    world = World(dice)
    steps = [step for step in STEPS if dice.random() >= LEFT_OUT.get(step[0], 0)]
    for do, _, numbers in dice.choices(steps, [weight for _, weight, _ in steps], k=dice.randrange(20, 120)):
        do(world, dice.choice(numbers))
    world.end()
    return world


@pytest.mark.slow
@pytest.mark.parametrize("chunk", seeds(2, 12))
def test_streams_that_are_cut_and_continued_miss_nothing(chunk: int) -> None:
    for seed in range(chunk * CHUNK, (chunk + 1) * CHUNK):
        try:
            history(seed).judge()
        except AssertionError as error:
            error.add_note(f"seed {seed}")
            raise


@pytest.mark.slow
def test_the_histories_have_everything_in_them() -> None:
    """Streams that were continued, gaps of both kinds, several lives of a topic, every kind of file."""
    worlds = [history(seed) for seed in range(CHUNK)]
    clients = [client for world in worlds for client in world.clients]
    assert sum(client.connected for client in clients) > 2 * len(clients)
    gaps = [gap for client in clients for gap, _ in client.gaps]
    assert {gap.partition is None for gap in gaps} == {False, True}
    assert sum(not client.gaps for client in clients) > len(clients) // 3
    assert sum(len({chain[1] for chain in world.store.files}) > 2 for world in worlds) > len(worlds) // 10
    got = {type(change).__name__ for client in clients for change in client.changes}
    assert {"PartitionCreated", "PartitionSealed", "Appended", "Compacted", "JobEnded", "OrphanFloorRaised"} <= got
