"""How many rounds of requests a compaction waits for, one after the other (docs/rfcs/0030)."""

from typing import Any

from lithify.compactor.answers import Budget, CompactionAnswers
from lithify.compactor.coordinator import Coordinator
from lithify.compactor.engine import VerifyOutputs, WeighSegment
from lithify.compactor.engines.local import LocalEngine
from lithify.log.record import Record
from lithify.log.warehouse import Warehouse
from lithify.manifest.config import parse
from lithify.manifest.partition import PartitionFiles
from lithify.segment.segments import Segments
from lithify.store.driver import Driver
from lithify.store.port import Create, Get, Head, Together
from tests.compactor.scripted_engine import ScriptedEngine
from tests.compactor.simulated_engine import attempt, with_engine
from tests.far import FarStore, waves
from tests.protocol.scene import CONFIG, KEYS, ROWS, Held, append_rows, creates_in, new_partition

ONE_RANGE = {"cleanup.policy": "compact", "l0.segments.tier": "4"}


def rounds(held: Held) -> list[Any]:
    """Of numbered files."""
    return [
        each for each in held.asked_for(Get, Head, Create, Together) if "/segments/" not in getattr(each, "key", "")
    ]


def test_a_first_step_with_its_claim_and_its_job() -> None:
    """Heads (3: cold); claim (2 and 2); admission with the first attempt (2); each further record (2); the last record
    (2), the topic beside it; the commit (2) and the job's end (2)."""
    world = new_partition()
    world.alone(append_rows(PartitionFiles(KEYS), ROWS))
    held = Held(world, with_engine(KEYS, Coordinator(PartitionFiles(KEYS), "me:1").step(CONFIG), []))
    assert held.end().outcome == "worked"
    kinds = [creates_in(each)[0].key.rpartition(".")[2] for each in rounds(held) if creates_in(each)]
    records = kinds.count("compactor") - 3
    assert kinds == ["manifest", *["compactor"] * (2 + records), "manifest", "compactor"]
    assert len(rounds(held)) <= 3 + 2 + 2 + 2 + 2 * records + 2 + 2


def test_a_first_job_of_one_range_is_admitted_with_its_claim_and_looked_at_beside_its_record() -> None:
    """Heads (3: cold); claim (2), and the admission in its second write (2); the record (2), the topic and the look at
    its output beside it; the commit (2) and the job's end (2)."""
    world = new_partition()
    world.alone(append_rows(PartitionFiles(KEYS), ROWS))
    engine, step = ScriptedEngine(), Coordinator(PartitionFiles(KEYS), "me:1").step(parse(ONE_RANGE))
    engine.look = lambda _: (world.alone(attempt(KEYS, engine.pending.popleft(), [])),)  # type: ignore[method-assign]
    held = Held(world, step)
    while held.request is not None:
        engine.advance(held)
    assert held.result.job.status == "completed"
    kinds = [creates_in(each)[0].key.rpartition(".")[2] for each in rounds(held) if creates_in(each)]
    assert kinds == ["manifest", "compactor", "compactor", "manifest", "compactor"]
    assert len(rounds(held)) == 3 + 2 + 2 + 2 + 2 + 2
    (beside,) = (each for each in held.asked_for(Together) if any(isinstance(r, VerifyOutputs) for r in each.requests))
    assert [each.key for each in creates_in(beside)] == [KEYS.compactor.key(2)]
    assert not held.asked_for(VerifyOutputs)


def test_an_owner_looks_in_two_rounds_and_a_rest_costs_no_more() -> None:
    world, owner = new_partition(), Coordinator(PartitionFiles(KEYS), "me:1")
    world.alone(append_rows(PartitionFiles(KEYS), ROWS))
    world.alone(with_engine(KEYS, owner.step(CONFIG), []))
    held = Held(world, with_engine(KEYS, owner.step(CONFIG), []))
    assert held.end().outcome == "idle"
    assert len(rounds(held)) == 2
    held = Held(world, owner.changed())
    assert held.end() is False
    assert len(rounds(held)) == 1


def test_the_footers_of_a_plan_are_asked_for_together() -> None:
    store = FarStore("weighed")
    driver = Driver(store)
    part = Warehouse(driver).create_topic("t", 1, {"cleanup.policy": "compact"}, probe=False).partition(0)
    for number in range(9):
        part.append([Record(b"%d" % number, b"v")])
    files = part._files
    refs = driver.run(files.head()).l0
    answers = CompactionAnswers(driver, LocalEngine(1), Budget(), lambda: False, lambda: False)
    with waves(store) as found:
        weights = [answers(WeighSegment(files.keys, ref, refs[at:])) for at, ref in enumerate(refs, 1)]
    assert (found.count, found.largest) == (1, 9)
    assert all(len(each) == 1 for each in weights)
    reader = Segments(files.keys, driver.homes).reader(refs[4])
    assert weights[4][0].min_key == reader.row_groups[0].min_key


def test_a_footer_that_cannot_be_read_is_asked_for_again() -> None:
    store = FarStore("weighed again")
    driver = Driver(store)
    part = Warehouse(driver).create_topic("t", 1, {"cleanup.policy": "compact"}, probe=False).partition(0)
    part.append([Record(b"k", b"v")])
    files = part._files
    (ref,) = driver.run(files.head()).l0
    read, failing = store.read, [ValueError("once")]

    def once(key: str, start: int, length: int) -> bytes:
        if failing:
            raise failing.pop()
        return read(key, start, length)

    store.read = once  # type: ignore[method-assign]
    answers = CompactionAnswers(driver, LocalEngine(1), Budget(), lambda: False, lambda: False)
    for fails in (True, False):
        try:
            answers(WeighSegment(files.keys, ref))
        except ValueError:
            assert fails
        else:
            assert not fails
