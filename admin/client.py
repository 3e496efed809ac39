"""Everything that can be asked of a warehouse's operation, or done to it, as one table of methods."""

from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, Literal

from lithify.admin import checkpoints as _checkpoints
from lithify.admin import compactions as _compactions
from lithify.admin import consumers as _consumers
from lithify.admin import explain as _explain
from lithify.admin import health as _health
from lithify.admin import homes as _homes
from lithify.admin import topics as _topics
from lithify.admin import transactions as _transactions
from lithify.admin.checkpoints import PartitionCheckpoint
from lithify.admin.compactions import Retried, Sources
from lithify.admin.consumers import PartitionConsumer
from lithify.admin.explain import Explanation
from lithify.admin.garbage import GRACE_MS, Garbage
from lithify.admin.health import Health
from lithify.admin.home_watch import RecentHomes
from lithify.admin.homes import PartitionHomes
from lithify.admin.manifests import ManifestFile, manifest_file, whole_manifest
from lithify.admin.partitions import Answers, WarehouseLike, only_partition, partition_at
from lithify.admin.survey import Overview
from lithify.admin.surveyor import SURVEY_MS, Surveyor
from lithify.admin.topics import LogStart, TopicSummary
from lithify.admin.transactions import PartitionTransaction
from lithify.compactor.info import CompactionInfo
from lithify.events.event_log import log_event
from lithify.events.types import Sink
from lithify.gc.collector import GcReport
from lithify.log.info import PartitionInfo, TopicInfo
from lithify.manifest.config import Setting
from lithify.manifest.jobs import Status
from lithify.manifest.known import KnownPartitions
from lithify.manifest.model import Manifest, PinOwner
from lithify.manifest.walk import FoundPartition
from lithify.store.errors import InvalidRequest
from lithify.store.short_repr import named_repr
from lithify.store.urls import shown

if TYPE_CHECKING:
    from lithify.admin.history import KeyHistory
    from lithify.admin.verify import VerifyReport

__all__ = ["Admin"]


class Admin:
    """The operations of a warehouse. Any process may use it; it needs no running compactor, and starts no engine but to
    verify. Thread-safe: one object may serve many, and what it has read makes the next question cheap.

    >>> warehouse = lithify.open("memory://example")
    >>> _ = warehouse.create_topic("users").append([lithify.Record(b"ada", b"pro")])
    >>> admin = lithify.Admin(warehouse)
    >>> job = admin.submit("users", 0)
    >>> admin.compaction(job.id).status
    'submitted'
    >>> _ = admin.cancel(job.id)
    >>> admin.explain("users", 0).action
    'settle'

    What is asked of several partitions continues past those that fail: `items` has the answers, `failed` the others. If
    all fail, the error of the first is raised: there, `partition` None means all of a topic. What is asked of one
    partition takes None for the topic's only one, and raises InvalidRequest if it has several. Every method that names
    a topic raises NotFound if there is none.
    """

    def __new__(
        cls,
        warehouse: WarehouseLike | str,
        *,
        token: str | None = None,
        survey_ms: int = SURVEY_MS,
        events: Sink = log_event,
    ) -> "Admin":
        if not isinstance(warehouse, str):
            return object.__new__(cls)
        from lithify.admin.http.client import RemoteAdmin

        remote: Any = RemoteAdmin
        return object.__new__(remote)

    def __init__(
        self,
        warehouse: WarehouseLike | str,
        *,
        token: str | None = None,
        survey_ms: int = SURVEY_MS,
        events: Sink = log_event,
    ) -> None:
        """`warehouse`: an open one; or the URL of a server that runs beside one (`lithify serve`), with the `token`
        that it asks for, by default that of LITHIFY_HTTP_TOKEN. `survey_ms`: of `overview`. `events`: takes those of
        `gc`."""
        if isinstance(warehouse, str) or token is not None:
            raise InvalidRequest("a token is for a server: give its URL, http://...")
        self._known = KnownPartitions(warehouse.driver)
        self._garbage = Garbage(warehouse.driver, events)
        self._surveyor = Surveyor(self._known, survey_ms)
        self._homes = RecentHomes(warehouse.driver.homes)

    def __repr__(self) -> str:
        return named_repr(self, shown(self._known.driver.store.url))

    def _only(self, topic: str, partition: int | None) -> int:
        return partition if partition is not None else only_partition(topic, self._known.topic(topic).partitions)

    def _at(self, topic: str, partition: int | None) -> FoundPartition:
        return partition_at(self._known, topic, self._only(topic, partition))

    # Topics

    def topics(self) -> Answers[TopicSummary]:
        """All live topics, by name. A topic that cannot be read is among `failed`; it may have been deleted."""
        return _topics.topics(self._known)

    def topic(self, topic: str) -> TopicSummary:
        """One topic, without its partitions' state."""
        return TopicSummary.of(self._known.topic(topic))

    def create_topic(
        self, topic: str, partitions: int = 1, config: Mapping[str, Setting] | None = None, *, probe: bool = True
    ) -> TopicSummary:
        """As `Warehouse.create_topic`. Raises AlreadyExists, InvalidRequest, Unavailable."""
        return _topics.create_topic(self._known, topic, partitions, config, probe=probe)

    def alter_topic(
        self, topic: str, config: Mapping[str, Setting | None] | None = None, partitions: int | None = None
    ) -> TopicSummary:
        """As `Topic.alter`: change configuration values (None: back to the default), or grow the number of partitions.
        Raises InvalidRequest."""
        return _topics.alter_topic(self._known, topic, config, partitions)

    def delete_topic(self, topic: str) -> TopicSummary:
        """Delete a topic and, once garbage is collected, all of its data. Returns what it was."""
        return _topics.delete_topic(self._known, topic)

    def describe_topic(self, topic: str) -> TopicInfo:
        """A topic and its partitions; those that cannot be read are listed under `failures`."""
        return _topics.describe_topic(self._known, topic)

    def describe(self, topic: str, partition: int | None = None) -> PartitionInfo:
        """One partition: its segments, offsets, sizes, and what is due."""
        return _topics.describe(self._known, self._at(topic, partition))

    def delete_records(self, topic: str, partition: int, before_offset: int) -> LogStart:
        """As `Partition.delete_records`; -1: all. Raises OffsetOutOfRange."""
        return _topics.delete_records(self._known, topic, partition, before_offset)

    def manifest(self, topic: str, partition: int | None = None, number: int | None = None) -> Manifest:
        """The manifest of a number, or the head. Raises Corrupt; InvalidRequest if a later lithify wrote it."""
        return whole_manifest(self._known, topic, self._only(topic, partition), number)

    def manifest_file(self, topic: str, partition: int | None = None, number: int | None = None) -> ManifestFile:
        """As `manifest`, but the stored bytes, which may be damaged."""
        return manifest_file(self._known, topic, self._only(topic, partition), number)

    def history(
        self,
        topic: str,
        key: bytes,
        partition: int | None = None,
        limit: int = 100,
        *,
        values: bool = False,
        trace: bool = False,
    ) -> "KeyHistory":
        """Every version of a key that a live segment still has, and what readers see of it. Looks where the key lives,
        and where it lived before the topic grew; or in one partition.

        `values`: also return values and headers. `limit`: the most versions, up to 1000, with values up to 100.
        `trace`: also versions that only checkpoints keep; and of each where it is stored, and what wrote it. Reads
        every pinned manifest, and asks for the time of each segment with a version.
        """
        from lithify.admin.history import history

        return history(self._known, topic, key, partition, limit, values=values, trace=trace)

    # Checkpoints, consumers, transactions

    def checkpoints(
        self, topic: str, partition: int | None = None, owner: PinOwner | None = "user"
    ) -> Answers[PartitionCheckpoint]:
        """The checkpoints made by users; or by another `owner`: "scan", "view", None for all."""
        return _checkpoints.list_all(self._known, topic, partition, owner)

    def create_checkpoint(
        self, topic: str, name: str, partition: int | None = None, ttl_ms: int | None = None
    ) -> Answers[PartitionCheckpoint]:
        """Pin what the partitions hold now, until `ttl_ms` from now (None: until deleted). Partitions that already have
        a checkpoint `name` keep it. Returns all of that name. Raises AlreadyExists if no partition is without it."""
        return _checkpoints.create(self._known, topic, name, partition, ttl_ms)

    def delete_checkpoint(self, topic: str, name: str, partition: int | None = None) -> Answers[PartitionCheckpoint]:
        """Delete a checkpoint in the partitions that have it; returns what was deleted. Raises NotFound if none has."""
        return _checkpoints.delete(self._known, topic, name, partition)

    def consumers(self, topic: str, partition: int | None = None) -> Answers[PartitionConsumer]:
        """Named consumers with their positions and lags."""
        return _consumers.consumers(self._known, topic, partition)

    def reset_consumer(
        self, topic: str, name: str, to: int | Literal["earliest", "latest"], partition: int | None = None
    ) -> Answers[PartitionConsumer]:
        """As `Partition.reset_consumer`, in the partitions that have it. An offset applies to one partition. Raises
        NotFound if no partition has it, OffsetOutOfRange."""
        return _consumers.reset_consumer(self._known, topic, name, to, partition)

    def delete_consumer(self, topic: str, name: str, partition: int | None = None) -> Answers[PartitionConsumer]:
        """Delete a consumer in the partitions that have it; returns what was deleted. Raises NotFound if none has."""
        return _consumers.delete_consumer(self._known, topic, name, partition)

    def transactions(self, topic: str, partition: int | None = None) -> Answers[PartitionTransaction]:
        """The applications that number their appends, the longest idle first in each partition."""
        return _transactions.transactions(self._known, topic, partition)

    def forget_transaction(
        self, topic: str, application: str, partition: int | None = None
    ) -> Answers[PartitionTransaction]:
        """Forget an application in the partitions that remember it; returns what was forgotten. Whatever it sends later
        is appended as if for the first time. Raises NotFound if none remembers it."""
        return _transactions.forget_transaction(self._known, topic, application, partition)

    # Compaction

    def submit(
        self, topic: str, partition: int | None = None, sources: Sources = "full", *, idempotency_key: str | None = None
    ) -> CompactionInfo:
        """Request a compaction: of everything ("full"), or of these L0 and run ids. The compactor decides.

        `idempotency_key`: 1 to 64 characters that name this request. If it is repeated with its key, because the answer
        was lost, it returns the compaction that was submitted before, as long as that is remembered (docs/rfcs/0018).

        Raises InvalidRequest if a source is not live, Unavailable if 64 requests are waiting already.
        """
        return _compactions.submit(self._known, topic, self._only(topic, partition), sources, idempotency_key)

    def homes(self, topic: str, partition: int | None = None) -> PartitionHomes:
        """In which homes a partition's segments are, and what moves next (docs/homes.md)."""
        return _homes.status(self._known, self._homes, topic, self._only(topic, partition))

    def relocate(self, topic: str, partition: int | None = None) -> CompactionInfo:
        """Request that all segments of the partition's runs move to the topic's cold home, whatever their age. Raises
        InvalidRequest if the topic has none, or nothing is left to move; AlreadyExists if such a request is under
        way."""
        return _homes.relocate(self._known, topic, self._only(topic, partition))

    def recall(self, topic: str, partition: int | None = None) -> CompactionInfo:
        """Request that all segments of the partition come back to the warehouse. As long as the topic's configuration
        says so, those that are old enough go again: alter it first. Raises InvalidRequest if nothing is elsewhere,
        AlreadyExists if such a request is under way."""
        return _homes.relocate(self._known, topic, self._only(topic, partition), back=True)

    def adopt_home(self, topic: str) -> tuple[str, ...]:
        """Make this warehouse the owner of the topic's segments in other homes, which it returns: for a warehouse that
        was moved or restored. Requires: the former owner is gone, for it refers to what this one will delete there."""
        return _homes.adopt(self._known, topic)

    def compaction(self, id: str) -> CompactionInfo:  # noqa: A002 - part of the public API
        """The status of one compaction by its id, topic/partition/job. Raises NotFound."""
        return _compactions.compaction(self._known, id)

    def compactions(self, topic: str | None = None, partition: int | None = None) -> list[CompactionInfo]:
        """Active and remembered compactions, of the whole warehouse or a part, oldest first in each partition. Raises
        if one of them cannot be read; `readable_compactions` continues with the others."""
        found = self.readable_compactions(topic, partition)
        for failed in found.failed:
            raise failed.fault.error()
        return list(found.items)

    def readable_compactions(
        self, topic: str | None = None, partition: int | None = None, statuses: Sequence[Status] = ()
    ) -> Answers[CompactionInfo]:
        """As `compactions`, but those that can be read, even if there are none. `statuses`: only with one of these."""
        return _compactions.compactions(self._known, topic, partition, statuses)

    def cancel(self, id: str) -> CompactionInfo:  # noqa: A002
        """Request that a compaction be cancelled; its compactor ends it, so the returned status may be old.

        Raises InvalidRequest if it has completed or failed, NotFound.
        """
        return _compactions.cancel(self._known, id)

    def explain(self, topic: str, partition: int | None = None) -> Explanation:
        """What a compactor would do next in a partition, and what it would not do, with the reasons."""
        return _explain.explain(self._known, self._at(topic, partition))

    def explain_topic(self, topic: str) -> Answers[Explanation]:
        """As `explain`, of every partition."""
        return _explain.explain_topic(self._known, topic)

    def pause(self, topic: str) -> TopicSummary:
        """Start no more compactions of a topic, and stop those that run; what they have finished is kept. Appends and
        retention continue. Sets compaction.paused."""
        return _topics.alter_topic(self._known, topic, {"compaction.paused": True}, None)

    def resume(self, topic: str) -> TopicSummary:
        """End `pause`."""
        return _topics.alter_topic(self._known, topic, {"compaction.paused": None}, None)

    def retry(self, topic: str, partition: int | None = None) -> Retried:
        """Lift a partition's quarantine, if the damaged segment is whole again or gone from the log; tells whether
        there was a quarantine.

        Raises Corrupt if the segment is still damaged: then nothing was changed.
        """
        return _compactions.retry(self._known, self._at(topic, partition))

    def retry_topic(self, topic: str) -> Answers[Retried]:
        """As `retry`, of every partition."""
        return _compactions.retry_topic(self._known, topic)

    # The whole warehouse

    def gc(self, *, dry_run: bool = False, sweep: bool = False, grace_ms: int = GRACE_MS) -> GcReport:
        """As `Collector.run_once`. `grace_ms`: how long replaced data stays readable: at least 300000, or 0 if nothing
        else uses the warehouse. Raises InvalidRequest."""
        return self._garbage.collect(dry_run, sweep, grace_ms)

    def overview(self, *, wait_ms: int | None = None) -> Overview:
        """Every partition: counts, debts, jobs, sizes, consumers, garbage; and those that cannot be read. It comes from
        the last survey, unless that is older than `survey_ms`, and says how old it is.

        `wait_ms`: wait for a new survey no longer than that, up to 25000; then the last one is returned, or if there is
        none what the first one has read so far (`whole` is false). None: wait for all of it. Raises InvalidRequest.
        """
        return self._surveyor.overview(wait_ms)

    def health(self, topic: str | None = None) -> Health:
        """What in the topics needs a person: damaged files, quarantines, overdue work, consumers that lost records.
        Reads every partition's newest files again."""
        return _health.health(self._known, topic)

    def verify(
        self,
        topic: str | None = None,
        *,
        deep: bool = False,
        engine: Literal["spark", "local"] | None = "local",
        master: str | None = None,
        spark_conf: Sequence[str] = (),
        executor_wait_ms: int = 60_000,
        ended: Callable[[int], object] | None = None,
    ) -> "VerifyReport":
        """Check that every live or pinned segment exists and is as it was written; `deep`: rows too, not only bytes.

        `engine`, `master`: whether to use threads of this process, or Spark's workers; None: Spark from 1 GiB on, if
        it can be started here, or if `master` or `spark_conf` is given. `spark_conf`: `NAME=VALUE` each,
        for the session that is started. `ended` is called with the number of tasks that have just ended. Raises
        InvalidRequest, Unavailable.
        """
        from lithify.admin.verify import Verifier, checks_on

        run = checks_on(engine, master, spark_conf, executor_wait_ms)
        return Verifier(self._known.driver, run, deep, ended, self._known).verify(topic)
