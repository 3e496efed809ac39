"""`append --skip N`: what was passed over is neither in nor missing for the run that did so, and a later one without it
appends it (docs/rfcs/0011)."""

import contextlib
import json
from collections import Counter
from pathlib import Path

import pytest

from lithify.admin.imports import Import
from lithify.log.record import Record
from lithify.log.warehouse import Warehouse
from lithify.store.driver import Driver
from lithify.store.errors import CommitUnknown, InvalidRequest, Unavailable
from lithify.store.memory import MemoryStore
from lithify.store.metered import Metered
from tests.admin.conftest import Lithify, lines
from tests.admin.test_imports import HOW, MADE, ROWS, Faults, Killed, entries, new_store, stored

LINES = lines(*({"key": f"k{n}", "value": str(n)} for n in range(1, 21)))


def run(
    driver: Driver, size: int, skip: int = 0, rows: list[Record] = ROWS, source_id: str = MADE, *, new: bool = False
) -> Import:
    started = Import(Warehouse(driver).topic("t"), source_id, None, skip, new=new)
    return go_on(started, size, skip, rows)


def go_on(started: Import, size: int, skip: int = 0, rows: list[Record] = ROWS) -> Import:
    for at in range(skip, len(rows), size):
        started.append(rows[at : at + size], at + 1, last=at + size >= len(rows))
    started.end()
    return started


def on(store: MemoryStore) -> Driver:
    return Driver(Metered(store))


@pytest.mark.parametrize("partitions", [1, 2])
@pytest.mark.parametrize("size", [1, 3, 10])
@pytest.mark.parametrize("skip", [0, 1, 4, 9, 10, 12])
def test_a_run_without_it_appends_what_was_passed_over(partitions: int, size: int, skip: int) -> None:
    store = new_store(partitions)
    first = run(on(store), 4, skip)
    came = max(10 - skip, 0)
    assert (first.appended, first.already_there) == (came, 0)
    assert stored(store) == Counter(range(skip + 1, 11))
    again = run(on(store), size)
    assert (again.appended, again.already_there) == (10 - came, came)
    assert stored(store) == Counter(range(1, 11))
    whole = run(on(store), 5)
    assert (whole.appended, whole.already_there) == (0, 10)


def test_one_that_goes_on_further_leaves_a_gap_that_another_fills() -> None:
    store = new_store(2)
    started = Import(Warehouse(on(store)).topic("t"), MADE, None)
    started.append(ROWS[:3], 1, last=False)
    assert run(on(store), 2, 7).appended == 3
    assert run(on(store), 2, 5).appended == 2  # some of the gap
    last = run(on(store), 10)
    assert (last.appended, last.already_there) == (2, 8)
    assert stored(store) == Counter(range(1, 11))


@pytest.mark.parametrize("how", HOW)
@pytest.mark.parametrize(("skip", "then"), [(4, 0), (0, 6), (6, 3)])
def test_interrupted_anywhere_each_row_is_there_once_whoever_skipped(how: str, skip: int, then: int) -> None:
    whole = Faults(new_store())
    run(whole, 3, skip)
    for at in range(1, whole.requests + 1, 2):
        store = new_store()
        with contextlib.suppress(Killed, KeyboardInterrupt, Unavailable, CommitUnknown):
            run(Faults(store, how, at), 3, skip)
        run(on(store), 4, then)
        run(on(store), 3)
        assert stored(store) == Counter(range(1, 11)), (how, at)


def test_a_rival_that_passes_over_more_and_one_that_passes_over_nothing_share_the_rows() -> None:
    store = new_store(2)
    one, other = (Import(Warehouse(on(store)).topic("t"), MADE, None, skip) for skip in (0, 5))
    one.append(ROWS[:2], 1, last=False)
    other.append(ROWS[5:8], 6, last=False)
    one.append(ROWS[2:6], 3, last=False)
    other.append(ROWS[8:], 9, last=True)
    one.append(ROWS[6:], 7, last=True)
    assert stored(store) == Counter(range(1, 11))
    assert one.appended + other.appended == 10


def test_how_to_go_on_says_what_was_passed_over() -> None:
    store = new_store(2)
    ahead = run(on(store), 10, rows=ROWS[:6], source_id="mine")
    assert ahead.appended == 6
    started = Import(Warehouse(on(store)).topic("t"), "mine", None, 2)
    started.append(ROWS[2:4], 3, last=False)
    assert str(started.how_far()).endswith(
        "go on with --source-id mine --skip 2, which appends what is missing and nothing twice"
    )
    assert started.how_far().passed_over == 2


def test_an_import_may_be_passed_over_in_many_places_but_not_in_any_number() -> None:
    rows = [Record(b"k", str(n).encode()) for n in range(1, 101)]
    store = new_store(1)

    def one_more(skip: int) -> None:
        Import(Warehouse(on(store)).topic("t"), MADE, None, skip).append(rows[skip : skip + 1], skip + 1, last=False)

    for skip in range(2, 2 + 2 * 16, 2):
        one_more(skip)
    with pytest.raises(InvalidRequest, match=r"passed over in 16 places, its limit.*without --skip"):
        one_more(60)
    assert run(on(store), 7, rows=rows).appended == 84
    assert stored(store) == Counter(range(1, 101))


def test_an_end_that_comes_late_is_not_said_of_one_that_goes_on() -> None:
    store = new_store(1)
    late = Import(Warehouse(on(store)).topic("t"), MADE, None, 5)
    late.append(ROWS[5:], 6, last=False)
    going_on = Import(Warehouse(on(store)).topic("t"), MADE, None)
    going_on.append(ROWS[:2], 1, last=False)
    late.end()
    assert not any(known.ended for known in entries(store))
    go_on(going_on, 10)
    assert all(known.ended for known in entries(store))


def test_the_command_says_it_and_appends_it_later(on_files: Lithify, tmp_path: Path) -> None:
    path = tmp_path / "in.jsonl"
    path.write_text(LINES)
    on_files.ok("topic", "create", "users")
    told = on_files.ok("append", "users", "--from", str(path), "--skip", "10")
    assert "10 records appended to users" in told
    assert "the first 10 were passed over; without --skip those that are missing are appended" in told
    (known,) = on_files.json("transaction", "list", "users")
    assert known["transaction"]["passed_over"] == [[1, 10]]
    assert "1 to 10 passed over" in on_files.ok("transaction", "list", "users")
    answer = on_files.json("append", "users", "--from", str(path))
    assert (answer["appended"], answer["already_there"]) == (10, 10)
    found = Counter(int(line["value"]) for line in on_files.records("read", "users"))
    assert found == Counter(range(1, 21))
    answer = json.loads(on_files.ok("append", "users", "--from", str(path), "--json"))
    assert (answer["appended"], answer["already_there"]) == (0, 20)
