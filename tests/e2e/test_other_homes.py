"""A segment in another home (`home` is set) cannot be read yet: every door refuses it, and nobody deletes it.

Its id may well be a key of the warehouse, too (a copy that was moved leaves its bytes behind), so a door that overlooks
the home reads, verifies or deletes what is not meant.
"""

from typing import Any

import msgspec
import pytest
import structlog
from click.testing import CliRunner
from msgspec.structs import replace

import lithify
from lithify.admin.client import Admin
from lithify.admin.verify import Verifier, local_checks
from lithify.cli.main import cli
from lithify.compactor.answers import Budget, CompactionAnswers
from lithify.compactor.engine import StartTasks, VerifyOutputs, WeighSegment
from lithify.compactor.engines.local import LocalEngine
from lithify.gc.objects import delete, gone
from lithify.gc.reachable import Garbage, collectable
from lithify.log.warehouse import Warehouse
from lithify.manifest.bounds import EVERYTHING
from lithify.manifest.edits import Next
from lithify.manifest.homes import HERE, ONLY_HERE, Where, reachable, where
from lithify.manifest.jobs import MergeRules
from lithify.manifest.keys import PartitionKeys
from lithify.manifest.model import FORMAT_HOMES, Manifest, Quarantine, Retired, SegmentRef
from lithify.manifest.partition import PartitionFiles
from lithify.segment.execute import execute
from lithify.segment.task import MergeTask
from lithify.store.driver import drive, new_id
from lithify.store.errors import InvalidRequest
from lithify.store.homes import only_here
from lithify.store.port import Delete, OwnHome
from tests.clock import HandClock
from tests.log.compaction import files_of

GRACE_MS = 60_000
REFUSED = r"users/0: segment \d+-\w+ is in another home \('cold'\), which this lithify cannot read: upgrade lithify"


class Put:
    """Changes the head as a later lithify would: its own edits are not there yet."""

    repeatable = True
    frees = False

    def __init__(self, change: Any) -> None:
        self._change = change

    def apply(self, head: Manifest | None, number: int, now_ms: int) -> Next[Manifest, None]:
        assert head is not None
        return Next(replace(self._change(head), format=FORMAT_HOMES, homes=("cold",)), None)


@pytest.fixture
def warehouse(clock: HandClock) -> Warehouse:
    """Two appends; the older one has moved, and its bytes were left in the warehouse."""
    opened = lithify.open(f"memory://{new_id()}", clock=clock)
    topic = opened.create_topic("users", config={"cleanup.policy": "compact", "l0.segments.tier": 2}, probe=False)
    for value in (b"old", b"new"):
        topic.partition(0).append([lithify.Record(key=value, value=value)])
    change(opened, lambda head: replace(head, l0=(replace(head.l0[0], home="cold"), *head.l0[1:])))
    return opened


def change(warehouse: Warehouse, how: Any) -> None:
    warehouse.driver.run(files_of(warehouse, "users").manifest.commit(Put(how)))


def head(warehouse: Warehouse) -> Manifest:
    return warehouse.driver.run(files_of(warehouse, "users").head())


def moved(warehouse: Warehouse) -> tuple[PartitionKeys, SegmentRef]:
    return files_of(warehouse, "users").keys, head(warehouse).l0[0]


def everything(warehouse: Warehouse) -> set[str]:
    return {found.key for found in warehouse.store.list("", None).objects}


@pytest.mark.parametrize("how", ["read", "scan", "get"])
def test_no_reader_takes_it_for_one_of_the_warehouse(warehouse: Warehouse, how: str) -> None:
    part = warehouse.topic("users").partition(0)
    reads: dict[str, Any] = {
        "read": lambda: list(part.read()),
        "scan": lambda: part.scan().read_all(),
        "get": lambda: part.get(b"old"),
    }
    with pytest.raises(InvalidRequest, match=REFUSED):
        reads[how]()


def test_a_get_is_refused_only_for_a_key_that_it_may_hold(warehouse: Warehouse) -> None:
    """Of keys outside its bounds nothing is asked of it, so nothing is missing."""
    snapshot = warehouse.topic("users").partition(0).snapshot()
    found = snapshot.get(b"new")
    assert found is not None
    assert found.value == b"new"
    assert snapshot.get(b"absent") is None
    with pytest.raises(InvalidRequest, match=REFUSED):
        snapshot.get(b"old")


def test_an_export_is_refused_not_short(warehouse: Warehouse) -> None:
    try:
        done = CliRunner().invoke(cli, ["export", "users", "--to", "-"], env={"LITHIFY_WAREHOUSE": warehouse.url})
    finally:
        structlog.reset_defaults()
    assert (done.exit_code, "in another home" in done.stderr) == (2, True)


def test_verify_does_not_count_it_as_checked(warehouse: Warehouse) -> None:
    (check,) = Verifier(warehouse.driver, local_checks).verify().partitions
    (finding,) = check.findings
    assert (finding.kind, "another home" in finding.message) == ("unreadable", True)
    assert (check.segments, moved(warehouse)[1].id in finding.object) == (1, True)


def test_a_retry_does_not_lift_a_quarantine_by_other_bytes(warehouse: Warehouse) -> None:
    ref = moved(warehouse)[1]
    change(warehouse, lambda head: replace(head, quarantine=Quarantine("damaged", ref.id, 0)))
    with pytest.raises(InvalidRequest, match=REFUSED):
        Admin(warehouse).retry("users", 0)
    assert head(warehouse).quarantine is not None


def test_no_compaction_begins_with_it(warehouse: Warehouse) -> None:
    report = lithify.Compactor(warehouse, engine="local").run_once()
    (part,) = report.partitions
    assert (part.outcome, "in another home" in part.detail) == ("failed", True)
    state = warehouse.driver.run(files_of(warehouse, "users").compactor_state())
    assert state is None or not (state.jobs or state.history), "nothing was admitted"
    assert head(warehouse).l0[0].home == "cold"


def test_neither_coordinator_nor_worker_opens_it(warehouse: Warehouse) -> None:
    keys, ref = moved(warehouse)
    task = MergeTask(
        keys=keys,
        job="j",
        attempt=1,
        range_index=0,
        bounds=EVERYTHING,
        sources=((ref,),),
        rules=MergeRules(),
        output_bytes=1_000,
    )
    engine = LocalEngine(1)
    answers = CompactionAnswers(warehouse.driver, engine, Budget(), lambda: False, lambda: False)
    for ask in (
        lambda: execute(task, only_here(warehouse.store)),
        lambda: answers(StartTasks((task,), "t")),
        lambda: answers(WeighSegment(keys, ref)),
        lambda: answers(VerifyOutputs(keys, (ref,), whole=True)),
    ):
        with pytest.raises(InvalidRequest, match=REFUSED):
            ask()
    engine.close()


def test_gc_neither_deletes_nor_forgets_what_lies_elsewhere(warehouse: Warehouse, clock: HandClock) -> None:
    """Its bytes would be deleted here, where they are not, and its entry forgotten: the bytes there stay for ever."""
    keys, ref = moved(warehouse)
    warehouse.store.put(keys.segment(ref.id), b"another object of the same name")
    warehouse.delete_topic("users")
    for sweep in (False, True, False, True):
        clock.now_ms += 2 * GRACE_MS
        lithify.Collector(warehouse, grace_ms=GRACE_MS).run_once(sweep=sweep)
    kept = warehouse.driver.run(PartitionFiles(keys).head())
    assert [(entry.id, entry.home) for entry in kept.retired] == [(ref.id, "cold")]
    assert keys.segment(ref.id) in everything(warehouse)
    dry = lithify.Collector(warehouse, grace_ms=GRACE_MS).run_once(dry_run=True)
    (told,) = [garbage for part in dry.partitions for garbage in part.kept]
    assert "in another home ('cold')" in told.reason
    assert (told.home, told.key) == ("cold", keys.segment(ref.id))
    assert [part.waiting for part in dry.partitions] == [1]


def test_what_lies_elsewhere_is_never_collectable() -> None:
    here = Retired(id="s", bytes=1, rows=1, added_at=1, retired_at=2)
    both = (here, replace(here, id="t", home="cold"))
    manifest = Manifest(format=1, id=9, topic="t", topic_id="i", partition=0, retired=both)
    assert collectable(manifest, 5, ONLY_HERE) == [here]


def test_the_place_of_a_reference_is_told_whatever_its_home() -> None:
    keys = PartitionKeys("t", "0" * 16, 3)
    entry = Retired(id="s", home="cold", bytes=1, rows=1, added_at=1, retired_at=2)
    assert where(keys, entry) == Where("cold", keys.segment("s"))
    assert where(keys, replace(entry, home=HERE)) == Where(HERE, keys.segment("s"))
    assert [reachable(entry, ONLY_HERE), reachable(replace(entry, home=HERE), ONLY_HERE)] == [False, True]


def test_a_home_that_nobody_knows_is_refused(warehouse: Warehouse) -> None:
    assert warehouse.driver.homes.store(HERE) is warehouse.store
    for ask in (
        lambda: warehouse.driver.homes.store("cold"),
        lambda: warehouse.driver.answer(Delete(("k",), "cold")),
    ):
        with pytest.raises(InvalidRequest, match="this lithify cannot reach home 'cold': upgrade lithify"):
            ask()


def test_garbage_is_deleted_in_its_own_home() -> None:
    """And what a store refuses is told apart by home and key."""
    asked: list[Any] = []

    def answer(request: Any) -> Any:
        asked.append(request)
        return {"t/i/k": "locked"} if request == Delete(("t/i/k",), "cold") else {}

    garbage = [Garbage("t/i/k", 1, "old"), Garbage("t/i/k", 1, "old", "cold"), Garbage("t/i/l", 1, "old")]
    refused = drive(delete(garbage), answer)
    assert asked == [Delete(("t/i/k", "t/i/l")), OwnHome("cold", "t/i/home.json"), Delete(("t/i/k",), "cold")]
    assert refused == [Garbage("t/i/k", 1, "locked", "cold")]
    assert gone(garbage, refused) == (garbage[0], garbage[2])
    assert msgspec.json.encode(garbage[0]) == b'{"key":"t/i/k","bytes":1,"reason":"old"}'
