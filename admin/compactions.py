"""Manual compactions, and the status of all (P15)."""

import hashlib
import re
from collections.abc import Sequence
from functools import partial
from typing import Literal

import msgspec

from lithify.admin.partitions import Answers, Failed, Places, partition_at
from lithify.compactor.info import CompactionInfo, compaction_id, compaction_info
from lithify.compactor.plan import choose_requested
from lithify.compactor.request_edits import RequestCancel, Submit
from lithify.log.beside import AskAlone
from lithify.manifest.catalog import partition_of
from lithify.manifest.config import parse
from lithify.manifest.jobs import Job, Status
from lithify.manifest.keys import PartitionKeys, SegmentId, check_topic_name
from lithify.manifest.known import KnownPartitions
from lithify.manifest.partition import PartitionFiles
from lithify.manifest.quarantine import LiftQuarantine
from lithify.manifest.reading import first_state
from lithify.manifest.walk import FoundPartition, UnreadTopic, partitions_found
from lithify.segment.segments import Segments
from lithify.store.apart import Fault, attempt
from lithify.store.errors import Corrupt, InvalidRequest, NotFound
from lithify.store.port import NewId, Now

__all__ = [
    "JOB_ID",
    "Retried",
    "Sources",
    "cancel",
    "check_submission",
    "compaction",
    "compactions",
    "place_of",
    "retry",
    "retry_topic",
    "split_id",
    "submit",
]

IDEMPOTENCY_KEY_CHARACTERS_MAX = 64
JOB_ID = re.compile(r"[A-Za-z0-9_-]{1,100}")

Sources = Literal["full"] | Sequence[str]


class Retried(msgspec.Struct, frozen=True, kw_only=True):
    topic: str
    partition: int
    lifted: bool  # False: there was no quarantine


def submit(
    known: KnownPartitions, topic: str, partition: int, sources: Sources, idempotency_key: str | None
) -> CompactionInfo:
    check_submission(sources, idempotency_key)
    requested = () if isinstance(sources, str) else tuple(sources)
    digits = None if idempotency_key is None else _digits(idempotency_key, requested)
    found = partition_at(known, topic, partition)
    config = parse(found.topic.config)

    async def request(files: PartitionFiles) -> tuple[Job, int]:
        manifest, now_ms = await files.head(), await Now()
        choose_requested(manifest, requested, now_ms, config)
        job_id = SegmentId.for_job(manifest.id, digits or await NewId())
        job = Job(id=job_id, status="submitted", origin="manual", requested=requested, created_at_ms=now_ms)
        submitted = await files.compactor.commit(Submit(first_state(manifest), job, once=digits is not None))
        return submitted.result, now_ms

    job, now_ms = known.run(found.keys, request)
    return compaction_info(topic, partition, job, now_ms)


def check_submission(sources: Sources, idempotency_key: str | None) -> None:
    """Raises InvalidRequest."""
    if isinstance(sources, str) and sources != "full":
        raise InvalidRequest("sources: give 'full', or a list of L0 segment and run ids")
    if not sources:
        raise InvalidRequest("sources: the list is empty; give 'full' for a compaction of everything")
    key = "-" if idempotency_key is None else idempotency_key
    fits = 0 < len(key) <= IDEMPOTENCY_KEY_CHARACTERS_MAX and key.isascii() and key.isprintable()
    if not fits or key != key.strip():  # HTTP drops blanks at the ends of a header
        raise InvalidRequest(
            f"idempotency key: give 1 to {IDEMPOTENCY_KEY_CHARACTERS_MAX} printable ASCII characters without blanks at "
            "the ends, such as a UUID"
        )


def _digits(key: str, requested: Sequence[str]) -> str:
    """Those at the end of the id of the job that is asked for with `key`. Two requests may share them, once in four
    billion."""
    return hashlib.sha256("\n".join((key, *requested)).encode()).hexdigest()[:8]


def compaction(known: KnownPartitions, id: str) -> CompactionInfo:  # noqa: A002 - as in Admin
    topic, partition, job_id = split_id(id)
    infos = _infos(known, partition_at(known, topic, partition).keys)
    found = next((info for info in infos if info.id == id), None)
    if found is None:
        raise NotFound(
            f"{topic}/{partition} has no compaction {job_id}; the oldest finished ones are no longer remembered"
        )
    return found


def compactions(
    known: KnownPartitions, topic: str | None, partition: int | None, statuses: Sequence[Status]
) -> Answers[CompactionInfo]:
    if topic is not None:
        check_topic_name(topic)
    infos: list[CompactionInfo] = []
    failed: list[Failed] = []
    wanted: list[PartitionKeys] = []
    for found in partitions_found(known, topic):
        if isinstance(found, UnreadTopic):
            failed.append(Failed(topic=found.topic, partition=None, fault=found.fault))
        elif partition is None or partition_of(found.topic, partition) == found.keys:
            wanted.append(found.keys)
    reads = known.driver.all_of(lambda keys: attempt(partial(_infos, known, keys)), wanted)
    for keys, read in zip(wanted, reads, strict=True):
        if isinstance(read, Fault):
            failed.append(Failed(topic=keys.topic, partition=keys.partition, fault=read))
        else:
            infos += (info for info in read if not statuses or info.status in statuses)
    failed.sort(key=lambda each: (each.topic, -1 if each.partition is None else each.partition))
    return Answers(items=tuple(infos), failed=tuple(failed))


def cancel(known: KnownPartitions, id: str) -> CompactionInfo:  # noqa: A002 - as in Admin
    topic, partition, job_id = split_id(id)
    keys = partition_at(known, topic, partition).keys
    known.run(keys, lambda files: files.compactor.commit(RequestCancel(job_id)))
    return compaction(known, id)


def retry(known: KnownPartitions, found: FoundPartition) -> Retried:
    keys, head = found.keys, known.run(found.keys, lambda files: files.head())
    if head.quarantine is None:
        return _nothing_to_lift(found)
    for ref in (segment for segment in head.segments() if segment.id == head.quarantine.segment):
        try:
            Segments(keys, known.driver.homes).verify(ref)
        except (NotFound, Corrupt) as damaged:
            raise Corrupt(f"{keys.topic}/{keys.partition}: {damaged}", damaged.key, damaged.segment) from damaged
    known.run(keys, lambda files: files.manifest.commit(LiftQuarantine()))
    return Retried(topic=keys.topic, partition=keys.partition, lifted=True)


def retry_topic(known: KnownPartitions, topic: str) -> Answers[Retried]:
    def beside(found: FoundPartition) -> Retried:
        if known.run(found.keys, lambda files: files.head()).quarantine is not None:
            raise AskAlone  # a segment is read, wherever it is
        return _nothing_to_lift(found)

    return Places.of(known, topic).ask_beside_or_alone(partial(retry, known), beside)


def _nothing_to_lift(found: FoundPartition) -> Retried:
    return Retried(topic=found.keys.topic, partition=found.keys.partition, lifted=False)


def _infos(known: KnownPartitions, keys: PartitionKeys) -> list[CompactionInfo]:
    state = known.run(keys, lambda files: files.compactor_state())
    now_ms = known.driver.now_ms()
    jobs = () if state is None else (*state.history, *state.jobs)
    return sorted((compaction_info(keys.topic, keys.partition, job, now_ms) for job in jobs), key=place_of)


def place_of(info: CompactionInfo) -> tuple[str, int, int, str]:
    """In lists: the oldest first in each partition."""
    topic, partition, job = split_id(info.id)
    return topic, partition, info.created_at, job


def split_id(compaction: str) -> tuple[str, int, str]:
    topic, _, rest = compaction.partition("/")
    partition, _, job = rest.partition("/")
    if JOB_ID.fullmatch(job) is None or not partition.isascii() or not partition.isdecimal() or len(partition) > 10:
        example = compaction_id("users", 0, "000000000042-1a2b3c4d")
        raise InvalidRequest(f"{compaction[:300]!r} is not a compaction id; one looks like {example}")
    return topic, int(partition), job
