"""Who does what a person does: alters, growth, pins with and without a time to live, topics that come and go."""

import random
from collections.abc import Callable
from typing import TYPE_CHECKING

from lithify.manifest.catalog import (
    alter_topic,
    create_topic,
    delete_topic,
    live_topic,
    partition_keys,
    topic_lineage,
)
from lithify.manifest.config import validate
from lithify.manifest.partition import PartitionFiles
from lithify.manifest.pins import CreateCheckpoint, DeleteCheckpoint
from lithify.store.driver import drive
from lithify.store.errors import AlreadyExists
from lithify.store.port import NewId
from tests.sim.clients.fibres import ask
from tests.sim.months.clock import DAY_MS, HOUR_MS, MINUTE_MS, Process, Spend
from tests.sim.months.load import outages, producer
from tests.sim.months.topics import TOPICS, Shape

if TYPE_CHECKING:
    from tests.sim.months.site import Site

__all__ = ["begin", "make"]

PINNED = ("hot", "bursty", "events", "large", "rare")
LATE_MS = 9 * DAY_MS  # after which a pin without a time to live is deleted
ALTERATIONS: tuple[tuple[dict[str, str | None], int], ...] = (
    ({"compaction.paused": "true"}, 3 * HOUR_MS),
    ({"compaction.paused": "false", "min.compaction.lag.ms": str(HOUR_MS)}, 20 * HOUR_MS),
    ({"min.compaction.lag.ms": None, "compaction.throttle.bytes.per.second": "2000000"}, 10 * HOUR_MS),
    ({"compaction.throttle.bytes.per.second": None, "cleanup.policy": "compact,delete"}, 5 * HOUR_MS),
    ({"retention.ms": str(DAY_MS // 2)}, 20 * HOUR_MS),
    ({"cleanup.policy": "delete", "retention.ms": str(2 * DAY_MS)}, 20 * HOUR_MS),
    ({"cleanup.policy": "compact", "retention.ms": None, "compaction.priority": "50"}, 20 * HOUR_MS),
    ({"min.cleanable.dirty.ratio": "0.05", "compaction.priority": None}, 20 * HOUR_MS),
    ({"min.cleanable.dirty.ratio": None, "delete.retention.ms": str(2 * HOUR_MS)}, 20 * HOUR_MS),
    ({"delete.retention.ms": None, "l0.segments.tier": "3"}, 20 * HOUR_MS),
    ({"l0.segments.tier": None}, HOUR_MS),
)


def begin(site: "Site") -> None:
    def process(name: str, does: Callable[["Site"], None]) -> None:
        def main(_: Process) -> None:
            does(site)

        site.clock.process(name, "operators", main)

    process("creator", _creates)
    process("alterer", _alters)
    process("pinner", _pins)
    process("grower", _grows)
    process("comer and goer", _comes_and_goes)


def make(site: "Site", shape: Shape) -> None:
    while True:
        with outages(site, "create"):
            try:
                drive(
                    create_topic(topic_lineage(shape.name), shape.name, shape.partitions, validate(shape.config)), ask
                )
            except AlreadyExists:
                site.clock.counts["create: made before"] += 1
            break
        ask(Spend(MINUTE_MS))
    for number in range(shape.partitions):
        producer(site, shape, number)


def _creates(site: "Site") -> None:
    for shape in site.shapes:
        if shape.name != "passing":
            make(site, shape)


def _alter(site: "Site", name: str, changes: dict[str, str | None], partitions: int | None = None) -> None:
    """Again and again, until it is done."""
    while True:
        with outages(site, "alter"):
            lineage = topic_lineage(name)
            topic = drive(live_topic(lineage, name), ask)
            drive(alter_topic(lineage, topic, changes, partitions), ask)
            site.clock.counts["alter"] += 1
            return
        ask(Spend(5 * MINUTE_MS))


def _alters(site: "Site") -> None:
    ask(Spend(6 * HOUR_MS))
    while True:
        for changes, rest_ms in ALTERATIONS:
            if site.load_is_over:
                break
            _alter(site, "fickle", changes)
            ask(Spend(rest_ms))
        if site.load_is_over:
            back: dict[str, str | None] = {name: None for changes, _ in ALTERATIONS for name in changes}
            _alter(site, "fickle", back | {"cleanup.policy": "compact"})
            return


def _grows(site: "Site") -> None:
    ask(Spend(DAY_MS // 2))
    shape = next(each for each in TOPICS if each.name == "events")
    _alter(site, shape.name, {}, shape.partitions + 1)
    producer(site, shape, shape.partitions)


def _comes_and_goes(site: "Site") -> None:
    shape = next(each for each in TOPICS if each.name == "passing")
    while not site.load_is_over:
        make(site, shape)
        ask(Spend(3 * DAY_MS))
        with outages(site, "delete"):
            lineage = topic_lineage(shape.name)
            drive(delete_topic(lineage, drive(live_topic(lineage, shape.name), ask)), ask)
        ask(Spend(DAY_MS // 2))


def _pins(site: "Site") -> None:
    dice = random.Random(f"{site.seed}/pins")
    kept: list[tuple[int, PartitionFiles, str]] = []  # without a time to live: when made
    turn = 0
    while True:
        ask(Spend(4 * HOUR_MS))
        for made_ms, files, pin in [each for each in kept if site.load_is_over or _is_late(site, each[0])]:
            with outages(site, "unpin"):
                drive(files.manifest.commit(DeleteCheckpoint(pin)), ask)
                kept.remove((made_ms, files, pin))
        if site.load_is_over:
            if not kept:
                return
            continue
        turn += 1
        with outages(site, "pin"):
            name = dice.choice(PINNED)
            topic = drive(live_topic(topic_lineage(name), name), ask)
            files = PartitionFiles(dice.choice(partition_keys(topic)))
            ttl_ms = None if turn % 6 == 0 else dice.choice((HOUR_MS, DAY_MS, 3 * DAY_MS))
            pin = ask(NewId())
            drive(files.manifest.commit(CreateCheckpoint(pin, f"pin {turn}", ttl_ms)), ask)
            site.clock.counts["pin" if ttl_ms else "pin without ttl"] += 1
            if ttl_ms is None:
                kept.append((site.clock.now_ms, files, pin))


def _is_late(site: "Site", made_ms: int) -> bool:
    return site.clock.now_ms - made_ms > LATE_MS
