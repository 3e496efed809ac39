"""The share of the months that the tests play, and that their harness holds."""

import subprocess
import sys
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from benchmarks.rows import KEY_DIGITS
from lithify.store.errors import Unavailable
from lithify.store.memory import MemoryStore
from lithify.store.port import Create, Delete, Folders, Get, List, Outcome, Pause
from tests.sim.clients.fibres import Wait, ask
from tests.sim.elsewhere import told_elsewhere
from tests.sim.months.bucket import Bucket
from tests.sim.months.clock import START_MS, Clock, Process, Spend
from tests.sim.months.contents import smallest_key
from tests.sim.months.history import play
from tests.sim.months.sabotage import SABOTAGES
from tests.sim.months.served import Served, Span
from tests.sim.sabotage_line import Sabotage

ROOT = Path(__file__).resolve().parents[3]
SECOND_MS = 1_000


@pytest.mark.slow
def test_six_hours_break_no_bound() -> None:
    found = play(1, days=0.25, rests=False)
    assert found.violation is None
    assert found.counts["append"] > 100
    assert found.site.bytes_compacted > 0


@pytest.mark.soak
@pytest.mark.long
def test_a_day_breaks_no_bound_and_comes_to_rest() -> None:
    found = play(0)
    assert found.violation is None, "python -m tests.sim.months --days 1"
    assert {"compactor stopped", "compactor killed"} & found.counts.keys()
    assert {"pin", "alter", "outage", "sweep"} <= found.counts.keys()


@pytest.mark.slow
def test_a_seed_is_a_history_whatever_the_process() -> None:
    program = "\n".join(
        (
            "from tests.sim.months.history import play",
            "found = play(3, days=0.1, rests=False)",
            "print(found.violation, sorted(found.counts.items()), sorted(found.ledger.written.items()))",
        )
    )
    assert len(told_elsewhere(program)) == 1


@pytest.mark.parametrize("sabotage", SABOTAGES, ids=lambda sabotage: sabotage.name)
def test_a_sabotage_changes_one_place(sabotage: Sabotage) -> None:
    assert (ROOT / sabotage.file).read_text(encoding="utf-8").count(sabotage.old) == 1


@pytest.mark.soak
@pytest.mark.long
def test_each_sabotage_is_noticed() -> None:
    """In processes of their own: there the sources are imported sabotaged."""
    command = [sys.executable, "-m", "tests.sim.months.mutations"]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr


def _world() -> tuple[Clock, Bucket]:
    clock = Clock("test")
    clock.store = bucket = Bucket(clock)
    return clock, bucket


def test_threads_go_on_when_their_time_has_come() -> None:
    clock, _ = _world()
    told: list[tuple[str, int]] = []

    def main(name: str, ms: int) -> None:
        def body(_: Process) -> None:
            for _turn in range(3):
                ask(Spend(ms))
                told.append((name, clock.now_ms - START_MS))

        clock.process(name, "test", body)

    main("slow", 50)
    main("quick", 20)
    clock.run(START_MS + SECOND_MS)
    assert told == [("quick", 20), ("quick", 40), ("slow", 50), ("quick", 60), ("slow", 100), ("slow", 150)]
    assert clock.now_ms == START_MS + SECOND_MS


def test_whoever_waits_goes_on_as_soon_as_it_is_so_or_when_its_time_is_over() -> None:
    clock, _ = _world()
    things: list[str] = []
    told: list[tuple[str, int]] = []

    def waits(_: Process) -> None:
        ask(Wait(lambda: bool(things), None))
        told.append(("came", clock.now_ms - START_MS))
        ask(Wait(lambda: False, 70))
        told.append(("over", clock.now_ms - START_MS))

    def comes(_: Process) -> None:
        ask(Spend(30))
        things.append("it")
        ask(Spend(500))

    clock.process("waits", "test", waits)
    clock.process("comes", "test", comes)
    clock.run(START_MS + SECOND_MS)
    assert told == [("came", 30), ("over", 100)]


def test_a_process_that_is_killed_does_nothing_more() -> None:
    clock, bucket = _world()
    ended: list[BaseException | None] = []

    def main(_: Process) -> None:
        try:
            ask(Spend(100))
        finally:
            ask(Create("a/b", b""))

    process = clock.process("dies", "test", main)
    process.ended = ended.append
    clock.after(50, process.kill)
    clock.run(START_MS + SECOND_MS)
    assert (list(bucket.keys("")), ended, process.alive) == ([], [None], False)


def test_a_store_that_is_away_answers_nobody() -> None:
    clock, bucket = _world()
    told: list[object] = []

    def main(_: Process) -> None:
        told.append(ask(Create("a/b", b"1")))
        bucket.away_until_ms = clock.now_ms + 100 * SECOND_MS
        told.append(ask(Create("a/c", b"1")))
        with pytest.raises(Unavailable):
            ask(Get("a/b"))
        ask(Pause(400 * SECOND_MS))
        told.append(ask(Create("a/b", b"2")))

    clock.process("asks", "test", main)
    clock.run(START_MS + 1_000 * SECOND_MS)
    assert told == [Outcome.CREATED, Outcome.UNKNOWN, Outcome.EXISTS]


KEYS = st.lists(st.sampled_from(["a/b/c", "a/b/d", "a/c", "b/c", "ab/c", "b/c/d/e"]), unique=True)


@given(KEYS, KEYS, st.sampled_from(["", "a/", "a/b/", "b/"]))
def test_the_bucket_lists_as_a_store_does(keys: list[str], gone: list[str], prefix: str) -> None:
    clock, bucket = _world()
    store = MemoryStore(clock=lambda: 0)
    process = Process("test", clock, "test")
    for key in keys:
        bucket.put_now(process, key, b"123")
        store.put(key, b"123")
    bucket.answer(process, Delete(tuple(gone)))
    store.delete(gone)
    assert bucket.answer(process, Folders(prefix)) == tuple(store.folders(prefix))
    listed = [(each.key, each.size) for each in bucket.answer(process, List(prefix or "a/")).objects]
    assert listed == [(each.key, each.size) for each in store.list(prefix or "a/").objects]


@given(st.integers(0, 10**KEY_DIGITS - 1), st.text("0123456789", max_size=14))
def test_a_bound_is_the_smallest_key_that_is_not_below_it(key: int, digits: str) -> None:
    bound = digits.encode()
    assert (b"%0*d" % (KEY_DIGITS, key) >= bound) == (key >= smallest_key(bound))


def test_served_time_counts_while_somebody_serves() -> None:
    served = Served(0)
    served.disturbed(0, 100, there=True)
    part = Span(0, served)
    part.turn(400, runs=False)
    part.turn(600, runs=True)
    served.settle(700)
    served.disturbed(1_000, 50, there=True)
    served.settle(2_000)
    assert served.at(1_000) == 900
    assert served.since(1_000, 2_000) == 950
    assert part.since(0, 1_000) == 700
    assert served.was_disturbed(999, 1_000)
    assert not served.was_disturbed(1_000, 3_000)
