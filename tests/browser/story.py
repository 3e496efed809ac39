"""A warehouse as it may stand at half past nine on a Monday: for pictures, and for tests of every view."""

import random
import uuid
from collections.abc import Iterator
from contextlib import contextmanager
from unittest import mock

import lithify
from tests.browser.world import SteppedEngine, World, world
from tests.clock import HandClock
from tests.compactor.serving import eventually

NOW_MS = 1_772_443_800_000  # 2026-03-02 09:30:00Z
HOUR = 3_600_000
DAY = 24 * HOUR
RANGE_BYTES = 6_000
COLD = {"cold.location": "memory://archive", "local.retention.ms": str(2 * DAY), "hot.retain.segments": "0"}
TOPICS: dict[str, tuple[int, str, dict[str, str]]] = {
    "accounts": (2, "acct", {"retention.ms": "-1"}),
    "feature-flags": (1, "flag", {"retention.ms": "-1"}),
    "inventory": (3, "sku", {"retention.ms": "-1"}),
    "orders": (4, "order", {"retention.ms": "-1", "compaction.output.bytes": str(RANGE_BYTES)}),
    "page-views": (2, "visit", {"cleanup.policy": "delete", "retention.ms": str(7 * DAY)} | COLD),
    "payments": (2, "pay", {"retention.ms": "-1"}),
    "sessions": (2, "session", {"retention.ms": "-1", "compaction.paused": "true"}),
    "users": (2, "user", {"retention.ms": "-1", "min.compaction.lag.ms": str(2 * HOUR)}),
}
FLAG = "flag-000017"  # which the pictures look up
STATES = (b"created", b"paid", b"packed", b"shipped", b"delivered", b"returned")


class Story(World):
    """Its clock is the warehouse's; `pass_` lets time pass."""

    clock: HandClock
    chance: random.Random
    compacted: SteppedEngine

    def append(self, name: str, partition: int, count: int, keys: tuple[int, int] = (0, 900)) -> None:
        """Records of the last hour."""
        word = TOPICS[name][1]
        first = self.clock.now_ms - HOUR
        many = [
            lithify.Record(
                f"{word}-{self.chance.randrange(*keys):06d}".encode(),
                None if self.chance.random() < 0.03 else self._value(name),
                timestamp_ms=first + HOUR * number // count,
            )
            for number in range(count)
        ]
        self.warehouse.topic(name).partition(partition).append(many)

    def _value(self, name: str) -> bytes:
        if name == "feature-flags":
            return b'{"on": %s, "share": %d}' % (self.chance.choice((b"true", b"false")), self.chance.randrange(100))
        return self.chance.choice(STATES) + self.chance.randbytes(30)

    def everywhere(self, least: int, most: int) -> None:
        for name, (partitions, _, _) in TOPICS.items():
            for partition in range(partitions):
                self.append(name, partition, self.chance.randrange(least, most))

    def pass_(self, ms: int) -> None:
        self.clock.now_ms += ms

    def next_range(self) -> None:
        """It has taken four seconds."""
        before = ranges_done(self)
        self.pass_(4_000)
        self.compacted.let(1)
        assert eventually(lambda: ranges_done(self) != before)


def ranges_done(made: World) -> int | None:
    """Of the job that runs; None: it has not been planned yet."""
    found = made.admin.readable_compactions("orders").items
    running = (job for job in found if job.status == "in_progress" and job.progress.ranges)
    return next((job.progress.ranges_done for job in running), None)


@contextmanager
def story() -> Iterator[Story]:
    """At its end the compactor is at work on orders/0: it has done three of its key ranges, one in four seconds."""
    chance = random.Random(1)

    def drawn() -> uuid.UUID:
        return uuid.UUID(int=chance.getrandbits(128))

    ids = mock.patch("lithify.store.driver.uuid.uuid4", drawn)
    clock = HandClock(NOW_MS - 6 * DAY)
    with ids, world(clock) as made:
        made.__class__ = Story
        assert isinstance(made, Story)
        made.clock, made.chance = clock, random.Random(2)
        tell(made)
        with made.compacting("compactor-b:2207") as engine:
            made.compacted = engine
            assert eventually(lambda: ranges_done(made) is not None)
            for _ in range(3):
                made.next_range()
            yield made
            engine.let(1_000)


def tell(made: Story) -> None:
    for name, (partitions, _, config) in TOPICS.items():
        made.warehouse.create_topic(name, partitions, {"cleanup.policy": "compact"} | config, probe=False)
    for _ in range(4):
        made.everywhere(150, 400)
        made.pass_(8 * HOUR)
    made.admin.resume("sessions")
    made.compact("compactor-a:1181")
    made.admin.create_checkpoint("orders", "before the migration")
    made.admin.pause("sessions")
    for _ in range(3):
        made.pass_(10 * HOUR)
        made.everywhere(60, 200)
    made.compact("compactor-a:1181", killed=True)
    made.admin.create_checkpoint("orders", "nightly", ttl_ms=3 * DAY)
    made.admin.gc()  # what is replaced so far may go; nobody has collected since
    made.pass_(14 * HOUR)
    made.everywhere(100, 300)
    made.compact("compactor-b:2207")
    made.pass_(NOW_MS - made.clock.now_ms - 3 * HOUR)
    for _ in range(2):  # what is old enough is in the archive then
        made.compact("compactor-b:2207")
    consumers(made)
    damaged(made)
    for _ in range(3):
        made.pass_(HOUR)
        for name in ("users", "inventory", "page-views", "sessions", "accounts"):
            for partition in range(TOPICS[name][0]):
                made.append(name, partition, made.chance.randrange(20, 160))
    flags = made.warehouse.topic("feature-flags").partition(0)
    for value in (b'{"on": true, "share": 25}', b'{"on": true, "share": 50}', None):
        flags.append([lithify.Record(FLAG.encode(), value, timestamp_ms=made.clock.now_ms - HOUR // 2)])
    for part in range(8):
        made.append("orders", 0, 260, (part * 200, part * 200 + 200))
    made.admin.submit("sessions", 1)


def consumers(made: Story) -> None:
    for name, reader in (("orders", "billing"), ("orders", "search-index"), ("users", "crm-sync")):
        for partition in range(TOPICS[name][0]):
            with made.warehouse.topic(name).partition(partition).consumer(reader) as consumer:
                while consumer.poll(timeout_ms=0):
                    pass
                consumer.commit()


def damaged(made: Story) -> None:
    made.append("payments", 1, 900)
    made.damage("payments", 1)
    made.compact("compactor-b:2207")
