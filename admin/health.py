"""Does anything in a warehouse need a person?"""

from collections.abc import Iterator
from typing import Literal

import msgspec

from lithify.admin.overdue import overdue
from lithify.gc.temporaries import remove_stale_temporaries
from lithify.log.consumer_info import consumer_infos
from lithify.manifest.config import parse
from lithify.manifest.keys import check_topic_name
from lithify.manifest.known import KnownPartitions
from lithify.manifest.model import UPLOADS_MAX
from lithify.manifest.partition import PartitionFiles
from lithify.manifest.reading import Reading
from lithify.manifest.retention import floor_at, stalled_by_future
from lithify.manifest.uploads import still_stand
from lithify.manifest.walk import FoundPartition, UnreadTopic, partitions_found
from lithify.manifest.words import counted, quarantine_text, span_text
from lithify.store.apart import Ending, Fault, attempt
from lithify.store.homes import Homes
from lithify.store.port import Now

__all__ = ["Check", "Health", "Verdict", "health", "stale_temporaries"]

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


def stale_temporaries(homes: Homes) -> Check:
    """Removes what killed processes left half written a day ago, and tells how much that was."""
    found = remove_stale_temporaries(homes)
    if found.fault:
        return Check("stale temporaries", "warning", found.fault.message, found.fault)
    return Check("stale temporaries", "ok", f"{found.removed} removed, left by killed processes")


def health(known: KnownPartitions, topic: str | None) -> Health:
    """Raises InvalidRequest."""
    if topic is not None:
        check_topic_name(topic)
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
    yield Check("topics", "ok", f"{counted(readable, 'partition')} {'is' if readable == 1 else 'are'} readable")


def _partition(known: KnownPartitions, found: FoundPartition) -> list[Check]:
    """Checks of a partition, if its head and its job files can be read."""
    config = parse(found.topic.config)

    async def read(files: PartitionFiles) -> Reading:
        state, head = await files.compactor_state(), await files.head()
        return Reading.of(head, state, config, await Now())

    return list(_checked(known.run(found.keys, read, anew=True)))


def _checked(reading: Reading) -> Iterator[Check]:
    head, now_ms = reading.manifest, reading.now_ms
    where = f"{head.topic}/{head.partition}"
    floor = floor_at(head, now_ms)
    for consumer in consumer_infos(head, floor):
        if consumer.alarm is not None:
            yield Check(where, "warning", f"consumer {consumer.name}: {consumer.alarm}")
    stalled = stalled_by_future(head, floor, now_ms)
    if stalled is not None:
        yield Check(where, "warning", stalled)
    standing = [upload for upload in still_stand(head.uploads, now_ms) if upload.appended is None]
    if len(standing) == UPLOADS_MAX:
        first_ms = min(upload.expires_at_ms for upload in standing) - now_ms
        text = f"{UPLOADS_MAX} uploads were not appended, its limit, so no other can begin until the first expires in"
        yield Check(where, "warning", f"{text} {span_text(first_ms)}; give uploads a shorter ttl")
    waits = overdue(reading)
    if waits is not None:
        yield Check(where, "warning", f"{waits}: is a compactor running?")
    if head.quarantine is not None:
        stopped = head.quarantine
        text = quarantine_text(head.topic, head.partition, stopped.reason, stopped.segment, head.segments())
        yield Check(where, "failure", text)
