"""The survey: what it says of a partition is what describe and explain say; it is made once for all who ask."""

import threading
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing

import pytest
from msgspec.structs import replace

import lithify
from lithify.admin.surveyor import AWAY_MAX, PROOF_MS, SURVEY_MS, THREADS, WAIT_MS_MAX, Surveyor
from lithify.gc.collector import GRACE_MS_MIN
from lithify.manifest.edits import Next
from lithify.manifest.gallop import STRIDES_FIRST, STRIDES_FIRST_SMALL
from lithify.manifest.known import KnownPartitions
from lithify.manifest.model import Manifest, Quarantine
from lithify.store.apart import Fault
from lithify.store.driver import Driver
from lithify.store.errors import ErrorKind, Unavailable
from lithify.store.memory import MemoryStore
from lithify.store.metered import Metered
from lithify.store.port import Object, Page
from tests.admin.hanging import Hanging
from tests.admin.test_operations import COMPACTED, damage_head, fill, keys_of
from tests.clock import HandClock

DAY_MS = 86_400_000


class Slow(MemoryStore):
    """Each survey lists the topics once, and waits there until `go`. Or it is away."""

    def __init__(self) -> None:
        super().__init__()
        self.go, self.asked = threading.Event(), threading.Event()
        self.go.set()
        self.away: set[str] = set()  # "list", "get"

    def folders(self, prefix: str) -> list[str]:
        self.asked.set()
        self.go.wait()
        if "list" in self.away:
            raise Unavailable("away")
        return [*super().folders(prefix)]

    def list(self, prefix: str, token: str | None = None) -> Page:
        self.asked.set()
        self.go.wait()
        if "list" in self.away:
            raise Unavailable("away")
        return super().list(prefix, token)

    def get(self, key: str) -> Object | None:
        if "get" in self.away and "/config/" not in key:
            raise Unavailable("away")
        return super().get(key)


@pytest.fixture
def store() -> Slow:
    return Slow()


@pytest.fixture
def warehouse(store: Slow, clock: HandClock) -> Iterator[lithify.Warehouse]:
    driver = Driver(Metered(store), clock)
    driver.monotonic_ms = clock
    with lithify.Warehouse(driver) as opened:
        yield opened


def requests(warehouse: lithify.Warehouse) -> int:
    return warehouse.store.requests().total


class Quarantining:
    repeatable = True
    frees = False

    def apply(self, head: Manifest | None, number: int, now_ms: int) -> Next[Manifest, None]:
        assert head is not None
        return Next(replace(head, quarantine=Quarantine("damaged", "segment", now_ms)), None)


def test_it_says_what_describe_and_explain_say(
    warehouse: lithify.Warehouse, admin: lithify.Admin, clock: HandClock
) -> None:
    users = warehouse.create_topic("users", 2, COMPACTED | {"retention.ms": str(DAY_MS)})
    for _ in range(3):
        fill(users)
        clock.now_ms += 1000
    with closing(lithify.Compactor(warehouse, engine="local")) as compactor:
        compactor.run_once()
    fill(users)
    users.consumer("slow", partitions=[1]).close()
    admin.create_checkpoint("users", "c", partition=0)
    users.partition(0).begin_upload()
    warehouse.create_topic("empty")
    job = admin.submit("users", 1)
    clock.now_ms += 5000
    found = admin.overview()
    assert (found.failed, found.at_ms, found.age_ms) == ((), clock.now_ms, 0)
    assert [(each.topic, each.partition) for each in found.partitions] == [("empty", 0), ("users", 0), ("users", 1)]
    for each in found.partitions:
        told, why = admin.describe(each.topic, each.partition), admin.explain(each.topic, each.partition)
        for name in (
            *("manifest_id", "compactor_epoch", "log_start_offset", "next_offset", "bytes", "rows", "dirty_ratio"),
            *("logical_bytes", "logical_rows", "dirty_bytes", "oldest_dirty_ms", "quarantine"),
        ):
            assert getattr(each, name) == getattr(told, name), name
        assert (each.l0_segments, each.runs) == (len(told.l0), len(told.runs))
        assert each.last_compacted_at_ms == told.last_compacted_at
        assert (each.clean_bytes, each.young_bytes) == (why.owed.clean_bytes, why.owed.young_bytes)
        assert each.action == why.action
        assert [debt.work for debt in each.debts[:1]] == [kind for kind in (told.due_kind,) if kind]
        assert each.compactor == (why.compactor.name if why.compactor else "")
        assert each.consumers.lag == max((consumer.lag for consumer in told.consumers), default=0)
    _, first, second = found.partitions
    assert (first.checkpoints, second.checkpoints) == ({"user": 1}, {})
    assert (first.uploads, second.uploads) == (1, 0)
    assert (second.consumers.count, second.consumers.slowest) == (1, "slow")
    assert [(each.id, each.status, each.kind) for each in second.jobs] == [(job.id, "submitted", None)]
    assert (first.waiting.segments, first.waiting.manifests) == (3, 0)
    assert [(debt.debt, debt.since_ms) for debt in first.debts] == [("dirty", clock.now_ms - 5000)]
    assert first.debts[0].bytes == first.bytes


def test_retention_that_overtakes_a_consumer_and_work_that_waits(
    warehouse: lithify.Warehouse, admin: lithify.Admin, clock: HandClock
) -> None:
    topic = warehouse.create_topic("clicks", 1, {"retention.ms": str(DAY_MS)})
    fill(topic)
    topic.partition(0).consumer("lost").close()
    warehouse.driver.run(topic.partition(0)._files.manifest.commit(Quarantining()))
    clock.now_ms += 2 * DAY_MS
    (found,) = admin.overview().partitions
    assert (found.consumers.overtaken, found.consumers.lost, found.consumers.lag) == (1, 2, 0)
    assert (found.quarantine, found.quarantined_at_ms) == ("damaged", clock.now_ms - 2 * DAY_MS)
    assert [(debt.debt, debt.segments, debt.since_ms) for debt in found.debts] == [
        ("floor", 1, clock.now_ms - 2 * DAY_MS)
    ]
    assert found.overdue is not None
    assert "2.0 d" in found.overdue


@pytest.mark.parametrize("known_for_ms", [0, 5 * DAY_MS])
def test_old_records_that_were_just_appended_are_not_due_for_long(
    warehouse: lithify.Warehouse, admin: lithify.Admin, clock: HandClock, known_for_ms: int
) -> None:
    """As an import of last year's records makes them. A topic may be older than that import."""
    old_ms = clock.now_ms - 330 * DAY_MS
    topic = warehouse.create_topic("users", 1, COMPACTED | {"min.cleanable.dirty.ratio": "0"})
    clock.now_ms += known_for_ms
    began_ms = clock.now_ms
    for number in range(3):
        topic.append([lithify.Record(b"k", b"v", old_ms + number)])
        clock.now_ms += 1_000
    (found,) = admin.overview().partitions
    assert found.debts
    assert {debt.since_ms for debt in found.debts} == {began_ms}
    assert found.overdue is None
    assert admin.health().checks[0].verdict == "ok"
    before = requests(warehouse)
    clock.now_ms += 2 * 3_600_000
    (found,) = admin.overview().partitions
    assert {debt.since_ms for debt in found.debts} == {began_ms}
    assert found.overdue is not None
    assert found.overdue.endswith("seems to have been due for 2.0 h, judging by the append")
    assert requests(warehouse) - before < 12


def test_an_append_whose_manifest_is_gone_is_not_older_than_its_topic(
    warehouse: lithify.Warehouse, admin: lithify.Admin, clock: HandClock
) -> None:
    old_ms, created_ms = clock.now_ms - 330 * DAY_MS, clock.now_ms
    topic = warehouse.create_topic("users", 1, COMPACTED | {"min.cleanable.dirty.ratio": "0"})
    clock.now_ms += DAY_MS
    topic.append([lithify.Record(b"k", b"v", old_ms)])
    files = topic.partition(0)._files
    (segment,) = warehouse.driver.run(files.head()).l0
    topic.append([lithify.Record(b"k", b"v", old_ms)])
    assert admin.explain("users", 0).debt  # it knows the newest manifest from now on
    warehouse.store.delete([files.keys.manifest.key(segment.added_at)])
    (found,) = admin.overview().partitions
    assert {debt.since_ms for debt in found.debts} == {created_ms}


def test_nothing_is_asked_while_it_is_fresh(
    warehouse: lithify.Warehouse, admin: lithify.Admin, clock: HandClock
) -> None:
    fill(warehouse.create_topic("users", 3))
    first = admin.overview()
    before = requests(warehouse)
    clock.now_ms += SURVEY_MS - 1
    assert replace(admin.overview(), age_ms=0) == first
    assert admin.overview().age_ms == SURVEY_MS - 1
    assert requests(warehouse) == before
    clock.now_ms += 1
    again = admin.overview()
    assert (again.age_ms, again.at_ms) == (0, clock.now_ms)
    assert requests(warehouse) - before == 2 + 3 * 2  # the listing, the topic, and two GETs for each partition


@pytest.mark.slow
def test_changes_and_collections_are_seen(warehouse: lithify.Warehouse, admin: lithify.Admin, clock: HandClock) -> None:
    """Also where the files between the one that was seen and the newest were collected."""
    topic = warehouse.create_topic("users", 1, COMPACTED)
    fill(topic)
    collector = lithify.Collector(warehouse, grace_ms=GRACE_MS_MIN)
    for wait_ms, times, changes in ((SURVEY_MS, 1, 1), (PROOF_MS, 1, 2), (PROOF_MS + 1, 1, 3), (GRACE_MS_MIN, 4, 300)):
        seen = admin.overview().partitions[0].manifest_id
        for _ in range(changes):
            fill(topic)
        for _ in range(times):
            collector.run_once()
            clock.now_ms += wait_ms
        (found,) = admin.overview().partitions
        assert found.manifest_id == topic.partition(0).describe().manifest_id == seen + changes
    assert warehouse.store.get(keys_of(warehouse, "users", 0).manifest.key(seen + 1)) is None


def test_one_survey_for_fifty_who_ask_at_once(warehouse: lithify.Warehouse, store: Slow) -> None:
    fill(warehouse.create_topic("users", 3))
    lithify.Admin(warehouse).overview()
    before = requests(warehouse)
    lithify.Admin(warehouse).overview()
    one = requests(warehouse) - before
    admin = lithify.Admin(warehouse)
    store.go.clear()
    with ThreadPoolExecutor(50) as pool:
        asked = [pool.submit(admin.overview) for _ in range(50)]
        store.go.set()
        answers = [each.result() for each in asked]
    assert answers == answers[:1] * 50
    assert requests(warehouse) - before == 2 * one


def test_a_damaged_partition_and_a_damaged_topic_are_faults_and_stop_no_other(
    warehouse: lithify.Warehouse, admin: lithify.Admin
) -> None:
    for name in ("a", "b"):
        fill(warehouse.create_topic(name, 2))
    damage_head(warehouse, "a", 1)
    (key,) = [info.key for info in warehouse.store.list("b/config/").objects]
    warehouse.store.put(key, b"{")
    found = admin.overview()
    assert [(each.topic, each.partition) for each in found.partitions] == [("a", 0)]
    assert [(each.topic, each.partition, each.fault.kind) for each in found.failed] == [
        ("a", 1, ErrorKind.CORRUPT),
        ("b", None, ErrorKind.CORRUPT),
    ]


def test_a_topic_that_is_deleted_meanwhile_is_no_fault(
    warehouse: lithify.Warehouse, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in ("a", "b"):
        fill(warehouse.create_topic(name, 2))
    known = KnownPartitions(warehouse.driver)
    run, lock = known.run, threading.Lock()

    def deleting(*arguments: object, **more: object) -> object:
        with lock:  # partitions are asked in several threads
            if "a" in warehouse.topics():
                warehouse.delete_topic("a")
        return run(*arguments, **more)  # type: ignore[arg-type]

    monkeypatch.setattr(known, "run", deleting)
    found = Surveyor(known).overview()
    assert ([each.topic for each in found.partitions], found.failed) == (["b", "b"], ())


def test_a_failure_is_told_to_all_who_waited_and_the_next_asks_again(
    warehouse: lithify.Warehouse, store: Slow, admin: lithify.Admin
) -> None:
    store.away = {"list"}
    with pytest.raises(Unavailable):
        admin.overview()
    store.go.clear()
    store.asked.clear()
    with ThreadPoolExecutor(8) as pool:
        asked = [pool.submit(admin.overview) for _ in range(8)]
        store.asked.wait()
        store.go.set()
        failures = [each.exception() for each in asked]
    assert {type(each) for each in failures} == {Unavailable}
    store.away = set()
    assert admin.overview().partitions == ()


def test_a_first_look_gets_what_there_is_so_far(one_hangs: tuple[lithify.Warehouse, Hanging]) -> None:
    """A cold server of many partitions showed nothing until it had read all of them."""
    warehouse, store = one_hangs
    before = requests(warehouse)
    admin, whole = lithify.Admin(warehouse), lithify.Admin(warehouse).overview()
    one = requests(warehouse) - before
    store.go.clear()
    first = admin.overview(wait_ms=0)
    assert not first.whole
    assert store.asked.wait(60)
    while len((found := admin.overview(wait_ms=0)).partitions) < 3:  # the others do not wait for it
        pass
    assert [each.partition for each in found.partitions] == [0, 1, 3]
    assert (found.whole, found.failed) == (False, ())
    store.go.set()
    last = admin.overview(wait_ms=WAIT_MS_MAX)
    assert (last.whole, last.partitions) == (True, whole.partitions)
    assert admin.overview() == last
    assert requests(warehouse) - before == 2 * one, "one survey for all of these"


def test_a_later_look_gets_the_last_survey_while_the_next_is_made(
    one_hangs: tuple[lithify.Warehouse, Hanging], clock: HandClock
) -> None:
    warehouse, store = one_hangs
    admin = lithify.Admin(warehouse)
    first = admin.overview(wait_ms=WAIT_MS_MAX)
    assert first.whole
    clock.now_ms += SURVEY_MS
    store.go.clear()
    found = admin.overview(wait_ms=0)
    assert found == replace(first, age_ms=SURVEY_MS), "and its age is its own"
    store.go.set()
    assert admin.overview(wait_ms=WAIT_MS_MAX).at_ms == clock.now_ms


def test_a_first_survey_that_fails_is_told_and_the_next_look_asks_again(
    warehouse: lithify.Warehouse, store: Slow, admin: lithify.Admin
) -> None:
    store.away = {"list"}
    with pytest.raises(Unavailable):
        admin.overview(wait_ms=WAIT_MS_MAX)
    store.away = set()
    assert admin.overview(wait_ms=WAIT_MS_MAX).whole


def test_a_survey_that_failed_is_told_until_the_next_has_ended(
    one_hangs: tuple[lithify.Warehouse, Hanging],
) -> None:
    warehouse, store = one_hangs
    admin = lithify.Admin(warehouse)
    store.away = True
    with pytest.raises(Unavailable):
        admin.overview(wait_ms=WAIT_MS_MAX)
    store.away = False
    store.go.clear()
    with pytest.raises(Unavailable):
        admin.overview(wait_ms=0)
    assert store.asked.wait(60), "the next one is under way"
    with pytest.raises(Unavailable):
        admin.overview(wait_ms=0)
    store.go.set()
    assert admin.overview(wait_ms=WAIT_MS_MAX).whole


@pytest.mark.parametrize("wait_ms", [-1, WAIT_MS_MAX + 1])
def test_a_wait_has_its_bounds(wait_ms: int, admin: lithify.Admin) -> None:
    with pytest.raises(lithify.InvalidRequest, match="wait_ms"):
        admin.overview(wait_ms=wait_ms)


@pytest.mark.slow
def test_a_store_that_does_not_answer_is_not_asked_for_every_partition(
    warehouse: lithify.Warehouse, store: Slow, admin: lithify.Admin
) -> None:
    fill(warehouse.create_topic("users", 10 * AWAY_MAX))
    store.away = {"get"}
    before = requests(warehouse)
    found = admin.overview()
    assert (len(found.failed), found.partitions) == (10 * AWAY_MAX, ())
    assert {type(each.fault) for each in found.failed} == {Fault}
    at_once = STRIDES_FIRST + STRIDES_FIRST_SMALL  # what is asked of a partition before its first answer
    assert requests(warehouse) - before <= 3 + (AWAY_MAX + THREADS) * at_once
