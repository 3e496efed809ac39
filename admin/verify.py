"""Checks, on threads or on Spark, that everything a warehouse's manifests name exists and is as it was written.

A task is a few segments of one partition. It crosses process borders as JSON, without secrets; its findings come back
as data.
"""

import functools
import os
from collections.abc import Callable, Collection, Generator, Iterable, Iterator, Mapping, Sequence
from concurrent.futures import FIRST_COMPLETED, Future, ThreadPoolExecutor, wait
from contextlib import closing
from typing import TYPE_CHECKING, Any, Literal, Protocol

import msgspec

from lithify.compactor.engines.executor_wait import EXECUTOR_WAIT_MS, ExecutorWait
from lithify.gc.reachable import pinned_manifests
from lithify.manifest.homes import reachable, unreachable, where
from lithify.manifest.invariants import manifest_problems
from lithify.manifest.keys import PartitionKeys
from lithify.manifest.known import KnownPartitions
from lithify.manifest.model import Manifest, SegmentRef
from lithify.manifest.partition import PartitionFiles
from lithify.manifest.pins import missing_text
from lithify.manifest.runs import Runs
from lithify.manifest.uploads import upload_of
from lithify.manifest.walk import UnreadTopic, partitions_found
from lithify.manifest.words import counted
from lithify.segment.check import CheckTask, Finding, check_segments, finding, unread
from lithify.store.apart import Ending, Fault, attempt
from lithify.store.driver import Driver, new_id
from lithify.store.errors import Corrupt, InvalidRequest, Unavailable
from lithify.store.homes import Homes
from lithify.store.listing import pages
from lithify.store.short_repr import short_repr
from lithify.work.order import Checked, Refused
from lithify.work.pays import spark_pays
from lithify.work.spark import JOBS_MAX, SparkWorkers, carry, refuse_memory, withdraw
from lithify.work.spark_conf import parse_spark_conf
from lithify.work.spark_errors import Lost
from lithify.work.spark_jobs import SparkJobs

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

__all__ = ["Finding", "PartitionCheck", "Verifier", "VerifyReport", "checks_on", "local_checks", "spark_checks"]

LOOK_MS = 5_000  # while no task ends
FAR_CHECKS = 4  # at once, each with some 70 MiB of pieces in memory at most
TASK_BYTES = 256 << 20
TASK_SEGMENTS_MAX = 64
"""A task is one order to a worker: large enough that Spark's 0.2 s per task do not matter."""


class PartitionCheck(msgspec.Struct, frozen=True, kw_only=True):
    topic: str
    partition: int | None  # None: the topic, whose file cannot be read
    manifest_id: int = 0
    segments: int = 0  # checked: live ones, and those pinned by checkpoints
    bytes: int = 0
    pinned: int = 0  # those of them that only checkpoints keep
    unnamed: int = 0  # objects that no manifest names: orphans, or uploads in progress
    unnamed_bytes: int = 0
    uploading: int = 0  # those of them that belong to an upload that stands (docs/rfcs/0019): no sweep deletes them
    pins_unread: int = 0  # pinned manifests that cannot be read: what only these name is among the unnamed objects
    quarantine: str | None = None
    findings: tuple[Finding, ...] = ()


class VerifyReport(msgspec.Struct, frozen=True, kw_only=True):
    deep: bool
    partitions: tuple[PartitionCheck, ...]

    @property
    def findings(self) -> tuple[Finding, ...]:
        return tuple(finding for partition in self.partitions for finding in partition.findings)

    @property
    def ending(self) -> Ending:
        kinds = {finding.kind for finding in self.findings}
        if kinds & {"corrupt", "missing"}:
            return Ending.DAMAGED
        return Ending.UNREACHABLE if kinds else Ending.DONE

    __repr__ = short_repr


class RunChecks(Protocol):
    """Runs tasks somewhere; yields each task's findings when it ends, in any order. Who closes it stops the rest."""

    def __call__(self, homes: Homes, tasks: list[CheckTask], /) -> Generator[tuple[Finding, ...]]: ...


def local_checks(homes: Homes, tasks: list[CheckTask]) -> Generator[tuple[Finding, ...]]:
    """Run checks on threads of this process. Of a far store more of them wait than work."""
    threads = max(os.cpu_count() or 1, FAR_CHECKS if homes.here.far else 1)
    with ThreadPoolExecutor(threads, thread_name_prefix="lithify-verify") as pool:
        yield from pool.map(functools.partial(check_segments, homes), tasks)


def spark_checks(
    session_or_master: "SparkSession | str",
    config: Mapping[str, str] | None = None,
    executor_wait_ms: int = EXECUTOR_WAIT_MS,
) -> RunChecks:
    """Run checks on Spark's workers, of a session (also of Spark Connect) or a master, as SparkEngine takes them. Each
    task is one order. Raises InvalidRequest, Unavailable, also if a cluster gives no executor for so long."""

    def run(homes: Homes, tasks: list[CheckTask]) -> Generator[tuple[Finding, ...]]:
        refuse_memory(homes, "verify")
        if not tasks:
            return
        tag, pool = f"lithify-verify-{new_id()}", ThreadPoolExecutor(JOBS_MAX, thread_name_prefix="lithify-verify")
        workers = SparkWorkers(session_or_master, pool, config)
        try:
            jobs = workers.session().result().jobs
            begun = [pool.submit(_check, workers, jobs, homes, task, tag) for task in tasks]
            try:
                yield from _as_they_land(jobs, begun, ExecutorWait(executor_wait_ms, "verify"))
            finally:
                pool.shutdown(wait=False, cancel_futures=True)
                if not all(each.done() for each in begun):  # somebody stops here
                    withdraw(jobs, [tag])
        finally:
            pool.shutdown()
            workers.close()

    return run


def _as_they_land(
    jobs: SparkJobs, begun: Sequence[Future[tuple[Finding, ...]]], executors: ExecutorWait
) -> Iterator[tuple[Finding, ...]]:
    left = set(begun)
    while left:
        done, left = wait(left, timeout=LOOK_MS / 1000, return_when=FIRST_COMPLETED)
        if not done:
            executors.look(jobs)
        for each in done:
            yield each.result()


def _check(workers: SparkWorkers, jobs: SparkJobs, homes: Homes, task: CheckTask, tag: str) -> tuple[Finding, ...]:
    described = f"lithify verify {task.keys.topic}/{task.keys.partition}, {counted(len(task.segments), 'segment')}"
    match carry(jobs, workers.order(jobs, task, homes), described, [tag]):
        case Checked(findings):
            return findings
        case Refused(reason):
            return unread(task, reason)
        case Lost(_, reason):
            raise Unavailable(f"Spark could not check: {reason}")
        case reply:
            raise AssertionError(f"a check was answered with {type(reply).__name__}")


def checks_by_size(homes: Homes, tasks: list[CheckTask]) -> Generator[tuple[Finding, ...]]:
    """On a Spark that this process starts if there is much to check, else in threads. A store in memory is checked in
    threads: no worker could reach it."""
    size = sum(ref.bytes for task in tasks for ref in task.segments)
    reachable = not any(store.url.startswith("memory:") for _, store in homes)
    run = spark_checks("local[*]") if reachable and spark_pays(size) else local_checks
    return run(homes, tasks)


def checks_on(
    engine: Literal["spark", "local"] | None,
    master: str | None,
    spark_conf: Sequence[str] = (),
    executor_wait_ms: int = EXECUTOR_WAIT_MS,
) -> RunChecks:
    """`engine` None: Spark if one of its settings is given, else by size. Raises InvalidRequest."""
    if engine is None and not master and not spark_conf:
        return checks_by_size
    if engine != "local":
        return spark_checks(master or "local[*]", parse_spark_conf(spark_conf), executor_wait_ms)
    for flag, given in (("--master", master), ("--spark-conf", spark_conf)):
        if given:
            raise InvalidRequest(f"{flag} is Spark's, and the engine is {engine}: leave one of them out")
    return local_checks


class Verifier:
    """Verifies partitions of the topics of one warehouse."""

    def __init__(
        self,
        driver: Driver,
        run: RunChecks,
        deep: bool = False,
        ended: Callable[[int], Any] | None = None,
        known: KnownPartitions | None = None,
    ):
        """`deep`: check rows too, not only bytes. `ended` is called with each finished task's number of segments.
        `known`: where to look partitions up, and leave what is learned; never trusted instead of a look."""
        self._driver = driver
        self._known = known or KnownPartitions(driver)
        self._run = run
        self._deep = deep
        self._ended = ended or (lambda _: None)

    def verify(self, topic: str | None = None) -> VerifyReport:
        """Raises NotFound if `topic` does not exist; problems with its objects are in the report."""
        looks: list[_Look] = []
        checks: list[PartitionCheck] = []
        partitions: list[PartitionKeys] = []
        for found in partitions_found(self._known, topic, anew=True):
            if isinstance(found, UnreadTopic):
                checks.append(_unread(found.topic, None, found.fault))
            else:
                partitions.append(found.keys)
        for keys, look in zip(partitions, self._driver.all_of(self._looked_at, partitions), strict=True):
            if isinstance(look, Fault):
                checks.append(_unread(keys.topic, keys.partition, look))
            else:
                looks.append(look)
        findings = self._check(looks)
        checks += [self._settle(look, findings) for look in looks]
        checks.sort(key=lambda check: (check.topic, -1 if check.partition is None else check.partition))
        return VerifyReport(deep=self._deep, partitions=tuple(checks))

    def _looked_at(self, keys: PartitionKeys) -> "_Look | Fault":
        return attempt(lambda: self._known.run(keys, _look, anew=True))

    def _check(self, looks: "list[_Look]") -> dict[str, Finding]:
        tasks = [CheckTask(self._deep, look.keys, some) for look in looks for some in _tasks(look.segments().values())]
        found: dict[str, Finding] = {}
        with closing(self._run(self._driver.homes, tasks)) as each:
            for findings in each:
                found |= {finding.object: finding for finding in findings}
                self._ended(1)
        return found

    def _settle(self, look: "_Look", findings: dict[str, Finding]) -> PartitionCheck:
        mine = [findings[key] for key in look.segments() if key in findings]
        if any(finding.kind == "missing" for finding in mine):
            # SUBTLE! 1. We read head 7. 2. While we verify, segments are compacted and collected. 3. We find them
            # missing. Only what a later head, or a pin, still names is really missing. Test:
            # tests/admin/test_verify_meanwhile.py
            now = attempt(lambda: self._known.run(look.keys, _look))
            named = (look if isinstance(now, Fault) else now).segments().keys()
            mine = [finding for finding in mine if finding.kind != "missing" or finding.object in named]
        live = {ref.id for ref in look.head.segments()}
        here = look.segments().values()
        return PartitionCheck(
            topic=look.keys.topic,
            partition=look.keys.partition,
            manifest_id=look.head.id,
            segments=len(here),
            bytes=sum(ref.bytes for ref in here),
            pinned=sum(ref.id not in live for ref in here),
            unnamed=len(look.unnamed),
            unnamed_bytes=sum(look.unnamed.values()),
            uploading=sum(
                upload_of(look.keys.segment_id(key) or "", look.head.uploads) is not None for key in look.unnamed
            ),
            pins_unread=look.pins_unread,
            quarantine=look.head.quarantine.reason if look.head.quarantine else None,
            findings=(*look.problems, *mine),
        )


class _Look(msgspec.Struct, frozen=True):
    """What a partition's files say: the segments to check, unnamed objects, and problems with the files."""

    keys: PartitionKeys
    homes: Collection[str]
    head: Manifest
    refs: dict[str, SegmentRef]
    unnamed: dict[str, int]  # key -> bytes
    problems: tuple[Finding, ...]
    pins_unread: int

    def segments(self) -> dict[str, SegmentRef]:
        """The segments that can be checked, by key."""
        return {where(self.keys, ref).key: ref for ref in self.refs.values() if reachable(ref, self.homes)}


async def _look(files: PartitionFiles) -> _Look:
    """List before reading the head: what the head then does not name is an orphan, or an upload in progress."""
    listed = await _list(files.keys)
    head, pinned, unread = await _head_and_pinned(files)
    problems = [
        Finding(
            object=files.keys.manifest.key(head.id),
            kind="corrupt",
            message=f"{files.name} manifest {head.id} breaks an invariant: {problem}. Please report this",
        )
        # With itself as predecessor, but for the object of its runs: checks what every manifest must satisfy.
        for problem in manifest_problems(msgspec.structs.replace(head, id=head.id - 1, runs=Runs(head.runs)), head)
    ]
    try:
        await files.compactor_state()
    except (Corrupt, InvalidRequest) as error:
        kind: Literal["corrupt", "unreadable"] = "corrupt" if isinstance(error, Corrupt) else "unreadable"
        problems.append(Finding(object=files.keys.compactor.prefix, kind=kind, message=str(error)))
    refs = {ref.id: ref for ref in head.segments()}
    for each in pinned:
        refs |= {ref.id: ref for ref in each.segments() if ref.id not in refs}
    problems += unread
    # Nothing is known about a segment in another home: it is reported, not counted as checked.
    problems += [
        Finding(object=ref.id, kind="unreadable", message=str(unreachable(files.keys, ref)))
        for ref in refs.values()
        if not reachable(ref, files.homes)
    ]
    named = refs.keys() | {retired.id for retired in head.retired}
    unnamed = {key: size for segment, (key, size) in listed.items() if segment not in named}
    return _Look(files.keys, files.homes, head, refs, unnamed, tuple(problems), len(unread))


async def _head_and_pinned(files: PartitionFiles) -> tuple[Manifest, list[Manifest], list[Finding]]:
    """The head, the manifests that it pins, and what is wrong with those of them that cannot be read.

    SUBTLE! 1. We read head 7, which pins manifest 3. 2. The checkpoint is deleted, and manifest 3 collected. 3. We find
    it absent. That is damage only if a later head still pins it. Test: tests/admin/test_verify_meanwhile.py
    """
    unread: dict[int, Finding] = {}
    while True:  # bounded: each round finds one more pinned manifest that cannot be read
        head = await files.head()
        pins, known, found = sorted(pinned_manifests(head)), len(unread), list[Manifest]()
        for number in pins:
            if number not in unread:
                pinned = await _pinned(files, head, number)
                if isinstance(pinned, Manifest):
                    found.append(pinned)
                else:
                    unread[number] = pinned
        if len(unread) == known:
            return head, found, [unread[number] for number in pins if number in unread]


async def _pinned(files: PartitionFiles, head: Manifest, number: int) -> Manifest | Finding:
    key = files.keys.manifest.key(number)
    try:
        pinned = await files.pinned(number)
    except (Corrupt, InvalidRequest) as error:
        return Finding(object=key, kind="corrupt" if isinstance(error, Corrupt) else "unreadable", message=str(error))
    if pinned is not None and pinned.value is not None:
        return pinned.value
    lacks = "" if pinned is None else pinned.lacks
    return Finding(object=lacks or key, kind="missing", message=missing_text(head, number, key, lacks))


async def _list(keys: PartitionKeys) -> dict[str, tuple[str, int]]:
    found: dict[str, tuple[str, int]] = {}
    async for page in pages(keys.segments):
        for each in page.objects:
            segment = keys.segment_id(each.key)
            if segment is not None:
                found[segment] = (each.key, each.size)
    return found


def _tasks(segments: Iterable[SegmentRef]) -> Iterator[tuple[SegmentRef, ...]]:
    some: list[SegmentRef] = []
    total_bytes = 0
    for ref in segments:
        if some and (len(some) == TASK_SEGMENTS_MAX or total_bytes + ref.bytes > TASK_BYTES):
            yield tuple(some)
            some, total_bytes = [], 0
        some.append(ref)
        total_bytes += ref.bytes
    if some:
        yield tuple(some)


def _unread(topic: str, partition: int | None, fault: Fault) -> PartitionCheck:
    """The check of a topic or partition whose files could not be read; the error names the object."""
    where = topic if partition is None else f"{topic}/{partition}"
    return PartitionCheck(topic=topic, partition=partition, findings=(finding(where, fault, fault.text),))
