"""`append --skip N`: skipped rows are neither stored nor missing, and are not appended after later rows
(docs/rfcs/0011)."""

import contextlib
import re
import shlex
from collections import Counter
from pathlib import Path

import pytest

from lithify.cli.records.imports import Import
from lithify.log.record import Record
from lithify.log.warehouse import Warehouse
from lithify.store.driver import Driver
from lithify.store.errors import CommitUnknown, InvalidRequest, Unavailable
from lithify.store.memory import MemoryStore
from lithify.store.metered import Metered
from tests.cli.conftest import Lithify, lines
from tests.cli.test_imports import HOW, MADE, ROWS, Faults, Killed, entries, new_store, stored

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


@pytest.mark.slow
@pytest.mark.parametrize("partitions", [1, 2])
@pytest.mark.parametrize("size", [1, 3, 10])
@pytest.mark.parametrize("skip", [0, 1, 4, 9, 10, 12])
def test_a_run_without_it_appends_nothing_behind_later_rows(partitions: int, size: int, skip: int) -> None:
    store = new_store(partitions)
    first = run(on(store), 4, skip)
    came = max(10 - skip, 0)
    assert (first.appended, first.already_there) == (came, 0)
    assert stored(store) == Counter(range(skip + 1, 11))
    if 0 < skip < 10:
        with pytest.raises(InvalidRequest, match=rf"skipped earlier .*Give --skip {skip} to leave them out"):
            run(on(store), size)
    skip = skip if skip < 10 else 0  # then no row came after them
    again = run(on(store), size, skip)
    assert (again.appended, again.already_there) == (10 - skip - came, came)
    found = stored(store)
    assert max(found.values()) == 1
    assert set(found) >= set(range(skip + 1, 11))
    # A partition that later rows did not go to knows of no --skip; there they come in order.
    topic = Warehouse(on(store)).topic("t")
    for number in range(partitions):
        values = [int(record.value or b"") for record in topic.partition(number).read()]
        assert values == sorted(values)


def test_one_that_goes_on_further_leaves_a_gap_that_stays() -> None:
    store = new_store(2)
    started = Import(Warehouse(on(store)).topic("t"), MADE, None)
    started.append(ROWS[:3], 1, last=False)
    assert run(on(store), 2, 7).appended == 3
    for skip in (5, 0):
        refused = Import(Warehouse(on(store)).topic("t"), MADE, None, skip)
        with pytest.raises(InvalidRequest, match="Give --skip 7 to"):
            go_on(refused, 10, skip)
        assert refused.how_far().skip == 7
    assert run(on(store), 10, 7).already_there == 3
    assert stored(store) == Counter([1, 2, 3, 8, 9, 10])


@pytest.mark.slow
@pytest.mark.parametrize("how", HOW)
@pytest.mark.parametrize("skip", [4, 0, 6])
def test_interrupted_anywhere_the_same_command_goes_on(how: str, skip: int) -> None:
    whole = Faults(new_store())
    run(whole, 3, skip)
    for at in range(1, whole.requests + 1, 2):
        store = new_store()
        with contextlib.suppress(Killed, KeyboardInterrupt, Unavailable, CommitUnknown):
            run(Faults(store, how, at), 3, skip)
        run(on(store), 4, skip)
        assert stored(store) == Counter(range(skip + 1, 11)), (how, at)


def test_a_rival_that_passes_over_more_stops_the_one_that_has_fallen_behind() -> None:
    store = new_store(1)
    one, other = (Import(Warehouse(on(store)).topic("t"), MADE, None, skip) for skip in (0, 5))
    one.append(ROWS[:2], 1, last=False)
    other.append(ROWS[5:8], 6, last=False)
    with pytest.raises(InvalidRequest, match="records 3 to 5 of the source were skipped"):
        one.append(ROWS[2:6], 3, last=False)
    assert str(one.how_far()) == (
        "2 records were appended; to append the rest without duplicates, run the command again with --source-id "
        "rows-0123456789abcdef --skip 5"
    )
    other.append(ROWS[8:], 9, last=True)
    assert stored(store) == Counter([1, 2, 6, 7, 8, 9, 10])


def test_nothing_of_a_batch_is_appended_where_one_partition_would_be_out_of_order() -> None:
    store = new_store(2)
    ahead = Import(Warehouse(on(store)).topic("t"), MADE, None, 5)
    ahead.append(ROWS[5:6], 6, last=False)
    before = stored(store)
    with pytest.raises(InvalidRequest, match="Give --skip 5 to"):
        run(on(store), 10)
    assert stored(store) == before


@pytest.mark.parametrize("skip", [5, 10, 12])
def test_an_import_whose_other_rows_are_all_passed_over_gives_way_to_nobody(
    monkeypatch: pytest.MonkeyPatch, skip: int
) -> None:
    """Its first rows would come again, once another application has its place."""
    monkeypatch.setattr("lithify.manifest.transactions.TRANSACTIONS_MAX", 1)
    store = new_store(1)
    Import(Warehouse(on(store)).topic("t"), MADE, None).append(ROWS[:5], 1, last=False)
    run(on(store), 10, skip, ROWS[:skip])
    with pytest.raises(Unavailable, match="remembers 1 transaction applications"):
        Warehouse(on(store)).topic("t").partition(0).append([Record(b"x", b"0")], txn=("another", 1))
    assert (run(on(store), 10).appended, stored(store)) == (5, Counter(range(1, 11)))


def test_with_the_number_it_goes_on_where_the_name_is_forgotten() -> None:
    """As after its expiration: by the name alone the first rows would come twice."""
    store = new_store(1)
    started = Import(Warehouse(on(store)).topic("t"), MADE, None)
    started.append(ROWS[:4], 1, last=False)
    Warehouse(on(store)).topic("t").partition(0).forget_transaction(started.application)
    with pytest.raises(InvalidRequest, match="forgotten by this partition"):
        started.append(ROWS[4:], 5, last=True)
    assert "--source-id rows-0123456789abcdef --skip 4" in str(started.how_far())
    assert run(on(store), 10, 4).appended == 6
    assert stored(store) == Counter(range(1, 11))


def test_where_it_is_forgotten_and_no_number_is_exact_nothing_is_advised() -> None:
    store = new_store(2)
    started = Import(Warehouse(on(store)).topic("t"), MADE, None)
    run(on(store), 10, rows=ROWS[:8], source_id="ahead")
    ahead = Import(Warehouse(on(store)).topic("t"), "ahead", None)
    ahead.append(ROWS[:4], 1, last=False)
    Warehouse(on(store)).topic("t").partition(0).forget_transaction(ahead.application)
    with pytest.raises(InvalidRequest, match="forgotten by this partition"):
        ahead.append(ROWS, 1, last=False)
    assert started.how_far().skip is None
    assert str(ahead.how_far()).endswith("compare the log with the source first")


def test_advice_can_be_pasted_into_a_shell() -> None:
    store = new_store(1)
    started = Import(Warehouse(on(store)).topic("t"), "mine & 'yours'", None)
    started.append(ROWS[:1], 1, last=False)
    words = shlex.split(str(started.how_far()).partition("again with ")[2])
    assert words == ["--source-id", "mine & 'yours'", "--skip", "1"]


def test_how_to_go_on_says_what_was_passed_over() -> None:
    store = new_store(2)
    ahead = run(on(store), 10, rows=ROWS[:6], source_id="mine")
    assert ahead.appended == 6
    started = Import(Warehouse(on(store)).topic("t"), "mine", None, 2)
    started.append(ROWS[2:4], 3, last=False)
    assert str(started.how_far()).endswith("run the command again with --source-id mine --skip 2")
    assert started.how_far().passed_over == 2


def test_an_import_may_be_passed_over_in_many_places_but_not_in_any_number() -> None:
    rows = [Record(b"k", str(n).encode()) for n in range(1, 101)]
    store = new_store(1)

    def one_more(skip: int) -> None:
        Import(Warehouse(on(store)).topic("t"), MADE, None, skip).append(rows[skip : skip + 1], skip + 1, last=False)

    for skip in range(2, 2 + 2 * 16, 2):
        one_more(skip)
    with pytest.raises(InvalidRequest, match=r"skipped versions in 16 places, its limit.*another --source-id"):
        one_more(60)
    assert run(on(store), 7, 60, rows=rows, source_id="another").appended == 40


def test_an_end_that_comes_late_is_not_said_of_one_that_goes_on() -> None:
    store = new_store(1)
    late = Import(Warehouse(on(store)).topic("t"), MADE, None, 5)
    late.append(ROWS[5:], 6, last=False)
    more = [*ROWS, *ROWS]
    going_on = Import(Warehouse(on(store)).topic("t"), MADE, None, 5)
    going_on.append(more[5:12], 6, last=False)
    late.end()
    assert not any(known.ended for known in entries(store))
    go_on(going_on, 20, 5, more)
    assert all(known.ended for known in entries(store))


def test_the_command_says_it_and_does_not_take_it_back(on_files: Lithify, tmp_path: Path) -> None:
    path = tmp_path / "in.jsonl"
    path.write_text(LINES)
    on_files.ok("topic", "create", "users")
    told = on_files.ok("append", "users", "--from", str(path), "--skip", "10")
    assert "10 records appended to users" in told
    assert "the first 10 were skipped" in told
    assert "if you run it again, give the same --skip" in told
    (known,) = on_files.json("transaction", "list", "users")
    assert known["transaction"]["passed_over"] == [[1, 10]]
    assert "1 to 10 skipped" in on_files.ok("transaction", "list", "users")
    told = on_files.refused("append", "users", "--from", str(path), code=2, saying="Give --skip 10 to leave them out")
    assert "users/0: records 1 to 10 of the source were skipped earlier (--skip), and later records are" in told
    answer = on_files.json("append", "users", "--from", str(path), "--skip", "10")
    assert (answer["appended"], answer["already_there"]) == (0, 10)
    found = Counter(int(line["value"]) for line in on_files.records("read", "users"))
    assert found == Counter(range(11, 21))


@pytest.mark.parametrize("flags", ["--skip 10", "--source-id {} --skip 10", "--source-id {}"])
def test_a_bad_line_is_mended_and_whatever_is_then_repeated_doubles_nothing(
    on_files: Lithify, tmp_path: Path, flags: str
) -> None:
    """Also the number alone, as somebody who counts gives it: the repaired file has another name."""
    path = tmp_path / "in.jsonl"
    on_files.ok("topic", "create", "users")
    text = LINES.splitlines(keepends=True)
    path.write_text("".join([*text[:10], "bad\n", *text[11:]]))
    told = on_files.refused(
        "append", "users", "--from", str(path), "--batch-size", "5", code=2, saying="line 11 is not"
    )
    said = re.search(r"again with --source-id (in\.jsonl-\S+) --skip 10\b", told)
    assert said is not None
    path.write_text(LINES)
    again = ("append", "users", "--from", str(path), *flags.format(said[1]).split())
    if "--source-id" not in flags:
        on_files.refused(*again, code=2, saying=f"again with --source-id {said[1]} --skip 10, which")
        again = (*again, "--source-id", said[1])
    assert "if you run it again, give the same --source-id" in on_files.ok(*again)
    on_files.ok("append", "users", "--from", str(path), "--source-id", said[1])
    assert [int(line["value"]) for line in on_files.records("read", "users")] == [*range(1, 21)]


def test_the_latest_of_a_key_is_the_sources_last(on_files: Lithify, tmp_path: Path) -> None:
    path = tmp_path / "in.jsonl"
    path.write_text(lines({"key": "k", "value": "old"}, {"key": "k", "value": "new"}))
    on_files.ok("topic", "create", "users", "--config", "cleanup.policy=compact")
    on_files.ok("append", "users", "--from", str(path), "--skip", "1")
    on_files.refused("append", "users", "--from", str(path), code=2, saying="record 1 of the source was skipped")
    assert [line["value"] for line in on_files.records("scan", "users")] == ["new"]
