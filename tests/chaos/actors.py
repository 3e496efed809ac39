"""Writers, compactors and collectors, each with a store of its own, at work until told to stop."""

import random
import threading
from collections.abc import Callable
from typing import TypeVar

import lithify
from lithify.segment.partitioner import partition_for_key
from lithify.store.errors import CommitUnknown, Fenced, LithifyError, Unavailable
from tests.chaos.records import Tally, Told, record

T = TypeVar("T")
TOPICS = {
    "changes": {
        "cleanup.policy": "delete",
        "retention.ms": -1,
        "l0.segments.tier": 12,
        "compaction.output.bytes": 2048,
    },
    "users": {"cleanup.policy": "compact", "l0.segments.tier": 6, "compaction.output.bytes": 2048},
}
PARTITIONS = {"changes": 3, "users": 1}
REST_S = 1.0  # of compactors and collectors between two passes
IN_FLIGHT = 3  # records it has sent and not heard of
TRIES = 200  # of one step, each with its own retries below


def retried(step: Callable[[], T], tally: Tally) -> T:
    """A step that may be done again where it was unavailable."""
    for _ in range(TRIES):
        try:
            return step()
        except Unavailable:
            tally("unavailable, tried again")
    return step()


class PlainWriter:
    """Appends without any memory of its own; what is unknown it looks up by its token, and appends again only what
    certainly did not happen."""

    def __init__(self, warehouse: lithify.Warehouse, name: str, seed: int, told: Told, tally: Tally) -> None:
        self.name, self._told, self._tally = name, told, tally
        self._dice = random.Random(f"{seed} {name}")
        self._warehouse = warehouse
        self.written = 0

    def run(self, appends: int) -> None:
        topics = {name: self._topic(name) for name in TOPICS}
        places = [topics[name].partition(n) for name in TOPICS for n in range(PARTITIONS[name])]
        for _ in range(appends):
            rows = self._dice.randrange(1, 4)
            records = [record(self.name, self.written + n) for n in range(rows)]
            self._append(self._dice.choice(places), records)
            self.written += rows

    def _topic(self, name: str) -> lithify.Topic:
        return retried(lambda: self._warehouse.topic(name), self._tally)

    def _append(self, partition: lithify.Partition, records: list[lithify.Record]) -> None:
        for _ in range(TRIES):
            try:
                offsets = partition.append(records)
                self._tally("appends acknowledged")
            except Unavailable:
                self._tally("unavailable, tried again")
                continue
            except CommitUnknown as error:
                self._tally("appends unknown")
                known, offsets = self._looked_up(partition, error.token)
                if not known:
                    self._tally("unknown appends for ever unknown")
                    return self._told.unknown(records)
                self._tally("unknown appends that had happened" if offsets else "unknown appends that had not")
            if offsets is not None:
                return self._told.appended(partition, offsets, records)
        raise AssertionError(f"{self.name}: {TRIES} attempts at one append")

    def _looked_up(self, partition: lithify.Partition, token: str) -> tuple[bool, range | None]:
        """Whether it can be told, and then where the records are (None: nowhere)."""
        for _ in range(10):
            try:
                return True, partition.outcome(token, settle=True)
            except (Unavailable, CommitUnknown):
                continue
        return False, None


class IdempotentWriter:
    """A producer with an id, opened anew under it now and then, as after a crash: it goes on with what was not
    appended. Its records are numbered from 0 in each topic."""

    def __init__(self, warehouse: lithify.Warehouse, name: str, told: Told, tally: Tally) -> None:
        self.name, self._told, self._tally = name, told, tally
        self._warehouse = warehouse

    def run(self, records: int, lives: int) -> None:
        for life in range(lives):
            for topic in TOPICS:
                done = False
                while not done:
                    try:
                        self._live(topic, records * (life + 1) // lives)
                        done = True
                    except LithifyError as error:
                        self._tally(f"producers ended by {type(error).__name__}")

    def _live(self, name: str, goal: int) -> None:
        topic = self._warehouse.topic(name)
        with topic.producer(self.name, {"linger.ms": 0}) as producer:
            self._tally("producers opened")
            missing = still_missing(producer, topic, [record(self.name, number) for number in range(goal)])
            for first in range(0, len(missing), IN_FLIGHT):
                sent = [(one, producer.append(one.key, one.value)) for one in missing[first : first + IN_FLIGHT]]
                for one, delivery in sent:
                    self._told.at(name, delivery.partition, delivery.offset(), one)
                    self._tally("records of idempotent producers acknowledged")


def still_missing(
    producer: lithify.Producer, topic: lithify.Topic, records: list[lithify.Record]
) -> list[lithify.Record]:
    """Without the first of each partition, as many as were appended by earlier instances."""
    held = list(producer.sequences)
    missing: list[lithify.Record] = []
    for one in records:
        assert one.key is not None
        place = partition_for_key(one.key, topic.partitions)
        if held[place]:
            held[place] -= 1
        else:
            missing.append(one)
    return missing


class Compacting:
    """Passes of a compactor that now and then takes over from the others, and is replaced by a new one when fenced."""

    def __init__(self, warehouse: lithify.Warehouse, name: str, seed: int, tally: Tally) -> None:
        self._warehouse, self._tally = warehouse, tally
        self._dice = random.Random(f"{seed} {name}")

    def run(self, stopped: threading.Event) -> None:
        compactor = lithify.Compactor(self._warehouse, engine="local")
        while not stopped.wait(REST_S):
            try:
                report = compactor.run_once(take_over=self._dice.random() < 0.1)
            except Fenced:
                self._tally("compactors fenced")
                compactor.close()
                compactor = lithify.Compactor(self._warehouse, engine="local")
            except Unavailable:
                self._tally("compactor passes unavailable")
            else:
                for job in report.jobs:
                    self._tally(f"jobs {job.kind} {job.status}")
        compactor.close()


class Collecting:
    def __init__(self, warehouse: lithify.Warehouse, name: str, seed: int, tally: Tally, grace_ms: int) -> None:
        self._collector = lithify.Collector(warehouse, grace_ms=grace_ms)
        self._tally = tally
        self._dice = random.Random(f"{seed} {name}")

    def run(self, stopped: threading.Event) -> None:
        while not stopped.wait(REST_S):
            sweep = self._dice.random() < 0.2
            try:
                report = self._collector.run_once(sweep=sweep)
            except LithifyError as error:
                self._tally(f"collections ended by {type(error).__name__}")
                continue
            self._tally("sweeps" if sweep else "collections")
            self._tally("objects collected", len(report.deleted))
