"""Does anything in a warehouse need a person?"""

from collections.abc import Iterator
from typing import Literal

import msgspec

from lithify.log.consumer_info import consumer_infos
from lithify.manifest.config import TopicConfig, parse
from lithify.manifest.debt import assess
from lithify.manifest.keys import is_segment_key
from lithify.manifest.known import KnownPartitions
from lithify.manifest.model import Manifest
from lithify.manifest.partition import PartitionFiles
from lithify.manifest.retention import floor_at, stalled_by_future
from lithify.manifest.walk import FoundPartition, UnreadTopic, partitions_found
from lithify.manifest.words import quarantine_text, span_text
from lithify.store.apart import Ending, Fault, attempt
from lithify.store.driver import Driver

__all__ = ["Check", "Health", "Verdict", "health", "stale_temporaries"]

DEBT_OLD_MS = 3_600_000  # work that has been due for longer makes one ask whether a compactor runs

Verdict = Literal["ok", "warning", "failure"]


class Check(msgspec.Struct, frozen=True):
    """A failure needs a person; a warning may."""

    name: str
    verdict: Verdict
    detail: str
    fault: Fault | None = None  # if it is one that this check met


class Health(msgspec.Struct, frozen=True, kw_only=True):
    """Of the topics of a warehouse."""

    checks: tuple[Check, ...]

    @property
    def ending(self) -> Ending:
        return Ending.DAMAGED if any(check.verdict == "failure" for check in self.checks) else Ending.DONE


def stale_temporaries(driver: Driver) -> Check:
    """Removes what killed processes left half written a day ago, and tells how much that was."""
    removed = attempt(lambda: driver.store.remove_stale_temporaries(is_segment_key))
    if isinstance(removed, Fault):
        return Check("stale temporaries", "warning", removed.message, removed)
    return Check("stale temporaries", "ok", f"{removed} removed, left by killed processes")


def health(known: KnownPartitions, topic: str | None) -> Health:
    return Health(checks=tuple(_checks(known, topic)))


def _checks(known: KnownPartitions, topic: str | None) -> Iterator[Check]:
    all_found = attempt(lambda: list(partitions_found(known, topic, anew=True)))
    if isinstance(all_found, Fault):
        yield Check("topics", "failure", all_found.text, all_found)
        return
    readable = 0
    for found in all_found:
        if isinstance(found, UnreadTopic):
            yield Check(f"topic {found.topic}", "failure", found.fault.text, found.fault)
            continue
        checks = attempt(lambda found=found: _partition(known, found))
        if isinstance(checks, Fault):
            yield Check(f"{found.keys.topic}/{found.keys.partition}", "failure", checks.text, checks)
            continue
        readable += 1
        yield from checks
    yield Check("topics", "ok", f"{readable} partitions are readable")


def _partition(known: KnownPartitions, found: FoundPartition) -> list[Check]:
    """Checks of a partition: its job files must be readable; then its head."""

    async def head(files: PartitionFiles) -> Manifest:
        await files.compactor_state()
        return await files.head()

    config, now_ms = parse(found.topic.config), known.driver.now_ms()
    return list(_head(known.run(found.keys, head, anew=True), config, now_ms))


def _head(head: Manifest, config: TopicConfig, now_ms: int) -> Iterator[Check]:
    where = f"{head.topic}/{head.partition}"
    floor = floor_at(head, now_ms)
    for consumer in consumer_infos(head, floor):
        if consumer.alarm is not None:
            yield Check(where, "warning", f"consumer {consumer.name}: {consumer.alarm}")
    stalled = stalled_by_future(head, floor, now_ms)
    if stalled is not None:
        yield Check(where, "warning", stalled)
    if head.quarantine is None:
        yield from _debt(where, head, config, now_ms)
        return
    stopped = head.quarantine
    text = quarantine_text(head.topic, head.partition, stopped.reason, stopped.segment, head.segments())
    yield Check(where, "failure", text)


def _debt(where: str, head: Manifest, config: TopicConfig, now_ms: int) -> Iterator[Check]:
    debt = assess(head, config, now_ms)
    due = debt.due
    if due is None:
        return
    oldest_ms = min(each.min_timestamp_ms for each in (*due.units, *debt.droppable))
    age_ms = now_ms - max(head.last_compacted_at_ms or 0, oldest_ms)
    if age_ms >= DEBT_OLD_MS:
        detail = f"a {due.kind} ({due.reason}) seems to have been due for {span_text(age_ms)}, judging by the records"
        yield Check(where, "warning", f"{detail}: is a compactor running?")
