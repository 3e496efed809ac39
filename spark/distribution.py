"""Over how many partitions a write distributes its keys: decided on the driver, and looked at again before the first
commit (RFC 0013, 0022)."""

import hashlib
import itertools
import logging
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Protocol, TypeVar

if TYPE_CHECKING:
    from lithify.log.topic import Topic

__all__ = [
    "Former",
    "application_over",
    "check_distribution",
    "distributed_over",
    "former_of",
    "keyless_turn",
    "upload_id_of",
]


A = TypeVar("A")
T = TypeVar("T")


class Each(Protocol):
    """As `Opened.each`."""

    def __call__(self, work: Callable[[A], T], items: Iterable[A], /) -> list[T]: ...


def application_over(application: str, count: int) -> str:
    return f"{application} over {count}"


def keyless_turn(txn: tuple[str, int]) -> int:
    """All rows of this transaction without a key go to the partition of this number, by the count that it is
    distributed over: each version to the next one.

    SUBTLE! Not to one for each task: 1. Four tasks write keyless rows to partitions 0 and 1 of two. Partition 0 is
    appended, and the driver dies. 2. The write is repeated with two tasks, which put other rows into each of the two.
    3. Partition 0 has the version, and leaves them out: some rows are lost, and others there twice. Test:
    tests/spark/test_keyless_rows.py
    """
    from lithify.segment.partitioner import partition_for_key

    application, version = txn
    return partition_for_key(application.encode(), 1 << 31) + version


def upload_id_of(txn: tuple[str, int], count: int, ttl_ms: int, now_ms: int) -> str:
    """Of an attempt of this transaction that begins now. Attempts within an eighth of the ttl share their upload, and
    each of them has at least the other seven eighths to its end.

    SUBTLE! Not a new one for each: 1. A stream fails after it has begun its uploads, and is started again each five
    minutes. 2. After 256 times nobody can begin an upload in its partitions, until the first of them expires. Nor one
    for ever: an attempt would get one that is about to expire. Test: tests/spark/test_repeated_attempts.py
    """
    period = now_ms // max(1, ttl_ms // 8)
    named = f"{txn[1]} {ttl_ms} {period} {application_over(txn[0], count)}"
    return hashlib.sha256(named.encode()).hexdigest()[:16]


@dataclass(frozen=True)
class Former:
    """The counts that the topic had before it grew, the earliest first, and how far each application came: names as
    `application_over` gives them, with their highest version."""

    counts: tuple[int, ...] = ()
    versions: Mapping[str, int] = field(default_factory=dict[str, int])

    def count_for(self, txn: tuple[str, int], now: int) -> int:
        """Over how many partitions an earlier attempt of this transaction distributed its keys; else `now`.

        SUBTLE! 1. An attempt appends to partition 0 of two, and dies. 2. The topic grows to four. 3. The next attempt,
        over four, would leave out partition 0, which has the transaction, and append keys to 2 and 3 that partition 0
        already has. So an application's name tells the count. A lower version is of the same time or an earlier one: it
        is distributed as then, to be found and skipped. Test: tests/spark/test_growing_writes.py
        """
        for count in self.counts:
            if self.versions.get(application_over(txn[0], count), -1) >= txn[1]:
                return count
        return now


def _one_after_the_other(work: Callable[[A], T], items: Iterable[A], /) -> list[T]:
    return [work(item) for item in items]


def former_of(topic: "Topic", each: Each = _one_after_the_other) -> Former:
    """Asks nothing of a topic that has never grown; of another one the heads of its former partitions."""
    counts = tuple(reversed(topic.former_partitions()))
    endings = tuple(application_over("", count) for count in counts)
    versions: dict[str, int] = {}
    known = each(lambda number: topic.partition(number).transactions(), range(max(counts, default=0)))
    for entry in itertools.chain.from_iterable(known):
        if entry.application.endswith(endings):
            versions[entry.application] = max(entry.version, versions.get(entry.application, 0))
    return Former(counts, versions)


def distributed_over(topic: "Topic", txn: tuple[str, int], now: int, each: Each = _one_after_the_other) -> int:
    return former_of(topic, each).count_for(txn, now)


def check_distribution(
    topic: "Topic", counts: set[int], txn: tuple[str, int] | None, each: Each = _one_after_the_other
) -> None:
    """Raises Unavailable unless the tasks distributed keys as the topic does now, or as an earlier attempt did that may
    have been appended in part.

    SUBTLE! 1. The tasks of a write put keys over two partitions. 2. The topic grows to four. 3. The write is committed:
    half of its keys now belong to other partitions, so that readers of the latest records never see them. Or: 3. the
    batch is tried again, over four, and is appended. 4. The first attempt, believed to be dead, is appended, too.
    Tests: tests/spark/test_growing_writes.py
    """
    from lithify.store.errors import Unavailable

    now = topic.partitions_now()
    right = now if txn is None else distributed_over(topic, txn, now, each)
    if counts != {right}:
        found = " and ".join(str(count) for count in sorted(counts))
        error = Unavailable(
            f"topic {topic.name} grew while it was written: keys were distributed over {found} partitions, and should "
            f"be over {right}. Write again; a stream's query does so when it is started again"
        )
        error.add_note("Nothing was appended.")
        raise error
    if right != now:
        logging.getLogger("lithify.spark").warning(
            "topic %s grew from %d to %d partitions after a first attempt of this write was appended in part: the rest "
            "is distributed as then, and view=latest does not show keys that belong elsewhere now",
            topic.name,
            right,
            now,
        )
