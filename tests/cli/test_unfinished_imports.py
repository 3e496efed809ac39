"""An import stops part-way, its source is mended, and the same command is started again: the file has another name by
its content, and its first rows are in. It is refused, and told how to go on (docs/rfcs/0011).

Tried, and caught: no check at all; parts of a batch in the order of partitions; keyless rows that begin wherever the
content says; `end` of what this run looked at alone; an earlier import that is idle for long; one that is complete.
"""

import re
import shlex
from collections import Counter
from pathlib import Path
from typing import Any

import pytest

from lithify.cli.records.imports import Import
from lithify.cli.records.unfinished import KEYLESS_PLACES
from lithify.log.partition import Partition
from lithify.log.record import Record
from lithify.log.warehouse import Warehouse
from lithify.store.driver import Driver
from lithify.store.errors import CommitUnknown, InvalidRequest, Unavailable
from lithify.store.memory import MemoryStore
from lithify.store.metered import Metered
from tests.cli.conftest import Lithify, lines
from tests.cli.test_imports import ROWS, Faults, new_store, send, stored

TEXT = lines(*({"key": f"k{n}", "value": str(n)} for n in range(1, 21))).splitlines(keepends=True)
BAD = [*TEXT[:14], "bad\n", *TEXT[15:]]
PATH = "in.jsonl-01234567"
BEFORE, MENDED, NEXT = (f"{PATH}-{n:016x}" for n in range(3))


class Job:
    """The same command, started again and again on one path."""

    def __init__(self, lithify: Lithify, path: Path) -> None:
        self.lithify, self.path = lithify, path

    def __call__(self, text: list[str], *flags: str) -> tuple[int, str]:
        self.path.write_text("".join(text))
        size = () if "--batch-size" in flags else ("--batch-size", "5")
        told = self.lithify("append", "users", "--from", str(self.path), *size, *flags)
        return told.exit_code, told.stdout + told.stderr

    def stops(self, *flags: str) -> None:
        code, said = self(BAD, *flags)
        assert (code, "line 15 is not" in said) == (2, True)

    def values(self) -> Counter[int]:
        return Counter(int(line["value"]) for line in self.lithify.records("read", "users"))


@pytest.fixture(params=[1, 4])
def job(request: pytest.FixtureRequest, on_files: Lithify, tmp_path: Path) -> Job:
    on_files.ok("topic", "create", "users", "--partitions", str(request.param))
    return Job(on_files, tmp_path / "in.jsonl")


def day(key: str) -> list[str]:
    return [line.replace(': "k', f': "{key}') for line in TEXT]


def advised(said: str) -> list[str]:
    found = re.search(r"again with (--source-id .*?), which appends the rest without duplicates\. If it", said)
    assert found is not None, said
    return shlex.split(found[1])


ALL = Counter(range(1, 21))


def test_a_mended_source_is_refused_and_what_is_told_goes_on_with_it(job: Job) -> None:
    job.stops()
    before = job.values()
    assert before == Counter(range(1, 11))
    for _ in range(2):
        code, said = job(TEXT)
        assert (code, job.values()) == (2, before)
        assert "users/0: an earlier import of this path, in.jsonl-" in said or "users/" in said
        assert "If it is a different source, give --new-source. If the earlier import is still running, wait" in said
        assert said.endswith("Nothing was appended\n")
    assert job(TEXT, *advised(said))[0] == 0
    assert job.values() == ALL
    # It came to its end, in every partition: the next day's file is nobody's concern.
    assert job(day("x"))[0] == 0
    assert job.values() == ALL + ALL


@pytest.mark.slow
def test_another_source_of_the_path_is_one_flag_and_is_not_asked_again(job: Job) -> None:
    job.stops()
    assert job(day("x"))[0] == 2
    assert job(day("x"), "--new-source")[0] == 0
    assert job.values() == ALL + Counter(range(1, 11))
    for n in range(3):
        assert job(day(f"x{n}"))[0] == 0
    # And whoever gave it by mistake still goes on exactly.
    known = job.lithify.json("transaction", "list", "users")[0]["transaction"]["application"]
    assert job(TEXT, "--source-id", known.removeprefix("import ").rpartition(" over ")[0])[0] == 0
    assert job.values()[20] == 5
    assert max(job.values().values()) == 5


def test_a_job_that_always_says_so_goes_on_with_what_it_left_itself(job: Job) -> None:
    job.stops("--new-source")
    job.stops("--new-source")
    assert job.values() == Counter(range(1, 11))


@pytest.mark.slow
def test_the_same_content_another_path_and_a_name_by_hand_go_on_as_ever(job: Job, tmp_path: Path) -> None:
    job.stops()
    job.stops()
    assert job.values() == Counter(range(1, 11))
    assert job(TEXT, "--source-id", "mine")[0] == 0
    assert job.lithify("append", "users", input="".join(TEXT)).exit_code == 0
    Job(job.lithify, tmp_path / "other.jsonl")(TEXT)
    (tmp_path / "folder").mkdir()
    Job(job.lithify, tmp_path / "folder" / "in.jsonl")(TEXT)
    assert job.values()[20] == 4


def test_both_names_at_once_are_refused(job: Job) -> None:
    code, said = job(TEXT, "--new-source", "--source-id", "mine")
    assert (code, "give either --source-id or --new-source" in said) == (2, True)


def test_for_machines_it_is_told_in_fields(job: Job) -> None:
    job.stops()
    _, said = job(TEXT)
    source_id = advised(said)[1]
    job.path.write_text("".join(TEXT))
    told = job.lithify("append", "users", "--from", str(job.path), "--skip", "3", "--json")
    assert f'"source_id":"{source_id}","skip":' in told.stderr.replace(": ", ":").replace(", ", ",")


def test_what_was_passed_over_stays_passed_over(job: Job) -> None:
    """Also where the mended file is started without the flag: the first rows are not of the earlier import."""
    job.stops("--skip", "4")
    code, said = job(TEXT)
    assert code == 2
    assert advised(said)[2:] in (["--skip", "4"], ["--skip", "14"])
    assert job(TEXT, *advised(said))[0] == 0
    found = job.values()
    assert max(found.values()) == 1
    assert set(found) >= set(range(5, 21))


@pytest.mark.parametrize("length", [8, 10])
def test_a_run_with_nothing_but_passed_over_records_ends_nothing(job: Job, length: int) -> None:
    """What it is told goes on with a file that was cut short: the import is not at its end, so the guard stays."""
    job.stops()
    before = job.values()
    _, said = job(TEXT)
    assert "0 records appended" in job(TEXT[:length], *advised(said)[:2], "--skip", "10")[1]
    code, again = job(TEXT)
    assert (code, advised(again), job.values()) == (2, advised(said), before)
    assert job(TEXT, *advised(said))[0] == 0
    assert job.values() == ALL


def test_what_is_idle_for_long_counts_as_forgotten(job: Job) -> None:
    job.lithify.ok("topic", "alter", "users", "--config", "transactional.id.expiration.ms=1")
    job.stops()
    assert job(TEXT)[0] == 0


def test_where_only_saying_that_it_ended_failed_nobody_is_refused(job: Job, monkeypatch: pytest.MonkeyPatch) -> None:
    def away(*_: Any, **__: Any) -> None:
        raise Unavailable("the store is away; retry")

    with monkeypatch.context() as failing:
        failing.setattr(Partition, "end_transaction", away)
        assert job(TEXT, "--batch-size", "7")[0] == 0
    assert job(day("x"))[0] == 0


def on(store: MemoryStore, source_id: str, partition: int | None = None, skip: int = 0, **more: Any) -> Import:
    return Import(Warehouse(Driver(Metered(store))).topic("t"), source_id, partition, skip, **more)


@pytest.mark.slow
@pytest.mark.parametrize("partitions", [2, 5, 40])
@pytest.mark.parametrize("key", [b"k", None])
@pytest.mark.parametrize("sizes", [(10, 1), (3, 7)])
def test_it_is_met_before_anything_is_appended(partitions: int, key: bytes | None, sizes: tuple[int, int]) -> None:
    """The first row's partition knows an import that any knows, however it is cut, and wherever keyless rows go."""
    rows = [Record(key and key + str(n).encode(), str(n).encode()) for n in range(1, 11)]
    whole = Faults(new_store(partitions))
    send(Import(Warehouse(whole).topic("t"), BEFORE, None), sizes[0], rows)
    for at in range(1, whole.requests, 4 if partitions > 5 else 1):
        store = new_store(partitions)
        try:
            send(Import(Warehouse(Faults(store, "one request fails", at)).topic("t"), BEFORE, None), sizes[0], rows)
        except (Unavailable, CommitUnknown):
            before = stored(store)
            if before.total() in (0, 10):
                continue
            mended = on(store, MENDED)
            with pytest.raises(InvalidRequest, match=f"an earlier import of this path, {BEFORE}, has not finished"):
                send(mended, sizes[1], rows)
            assert stored(store) == before
            said = mended.how_far()
            assert (said.source_id, str(said)) == (BEFORE, "Nothing was appended")
            send(on(store, BEFORE, skip=said.skip or 0, given=True), sizes[1], rows[said.skip or 0 :])
        assert set(stored(store).values()) <= {1}


def test_a_run_that_begins_with_a_later_row_meets_it_too() -> None:
    """With --skip alone, as whoever counts by himself gives it: its first row may go where the earlier one has none."""
    rows = [Record(f"k{n}".encode(), str(n).encode()) for n in range(1, 11)]
    for skip in range(1, 10):
        store = new_store(4)
        on(store, BEFORE).append(rows[:1], 1, last=False)
        with pytest.raises(
            InvalidRequest,
            match=f"an earlier import of this path, {BEFORE}, has not finished: it has reached record 1 ",
        ):
            on(store, MENDED, skip=skip).append(rows[skip : skip + 1], skip + 1, last=False)
        assert stored(store) == Counter([1])


def test_what_it_costs() -> None:
    """Beside the looks for other readings: nothing where rows have keys; else the heads of a few partitions."""
    store = new_store(200)
    looks = 2 * 2 * 200
    for key, more in ((b"k", 3), (None, 3 + 4 * KEYLESS_PLACES)):
        driver = Faults(store)
        Warehouse(driver).topic("t", for_append=True).append([Record(b"k", b"1")])
        an_append = driver.requests
        driver = Faults(store)
        started = Import(Warehouse(driver).topic("t", for_append=True), f"{PATH}-{more:016x}", None)
        started.append([Record(key, b"1")], 1, last=True)
        started.end()
        assert driver.requests <= an_append + looks + more


@pytest.mark.slow
def test_rows_without_a_key_begin_elsewhere_with_another_content() -> None:
    store = new_store(12)
    for n in range(100):
        on(store, f"{PATH}-{n * 0x9E3779B97F4A7C15 % 2**64:016x}", new_source=True).append(
            [Record(None, b"1")], 1, last=True
        )
    topic = Warehouse(Driver(Metered(store))).topic("t")
    assert all(topic.partition(number).read() for number in range(12))


def test_one_that_still_runs_goes_on_and_the_other_one_is_refused() -> None:
    store = new_store()
    running = on(store, BEFORE)
    running.append(ROWS[:4], 1, last=False)
    with pytest.raises(InvalidRequest, match="If the earlier import is still running, wait until"):
        send(on(store, MENDED), 3)
    running.append(ROWS[4:], 5, last=True)
    running.end()
    assert stored(store) == Counter(range(1, 11))


def test_met_in_the_midst_it_says_how_to_go_on_where_that_is_known() -> None:
    """Its first row's partition has forgotten the earlier one, by hand."""
    store = new_store(2)
    on(store, BEFORE).append(ROWS[:6], 1, last=False)
    topic = Warehouse(Driver(Metered(store))).topic("t")
    home = next(n for n in range(2) if b"1" in [each.value for each in topic.partition(n).read()])
    topic.partition(home).forget_transaction(f"import {BEFORE} over 2")
    mended = on(store, MENDED)
    rows = [Record(b"k1", b"1"), *ROWS[1:]]
    with pytest.raises(InvalidRequest, match=rf"again with --source-id {BEFORE} --skip [1-9], which"):
        send(mended, 1, rows)
    said = mended.how_far()
    assert re.fullmatch("[0-9]+ records? (was|were) appended", str(said))
    again = on(store, MENDED)
    with pytest.raises(
        InvalidRequest,
        match=r"compare the log with it by hand: this run has already appended records as well\. If it is",
    ):
        send(again, 10, rows)
    assert again.how_far().skip is None


def test_after_growth_all_partitions_are_asked() -> None:
    store = new_store(2)
    on(store, BEFORE).append(ROWS[:4], 1, last=False)
    Warehouse(Driver(Metered(store))).topic("t").alter(partitions=5)
    with pytest.raises(InvalidRequest, match=BEFORE):
        on(store, MENDED)
    send(on(store, BEFORE, given=True), 4)
    assert stored(store) == Counter(range(1, 11))
    on(store, MENDED)


def test_into_one_partition_it_is_another_matter() -> None:
    store = new_store(2)
    on(store, BEFORE, 0).append(ROWS[:4], 1, last=False)
    elsewhere = [f"{PATH}-{n:016x}" for n in (3, 4)]
    for name, partition in zip(elsewhere, (1, None), strict=True):
        send(on(store, name, partition), 4)
    with pytest.raises(InvalidRequest, match=f"again with --source-id {BEFORE} --skip 4,"):
        send(on(store, MENDED, 0), 4)
    on(store, NEXT, 0, new_source=True).append(ROWS[:4], 1, last=True)
    send(on(store, MENDED, 0), 4)


def test_one_of_an_earlier_lithify_with_this_content_is_told() -> None:
    store = new_store(1)
    former = MENDED.replace("-01234567", "")
    on(store, former).append(ROWS[:4], 1, last=False)
    with pytest.raises(InvalidRequest, match=f"again with --source-id {former} --skip 4, which"):
        send(on(store, MENDED), 4)
    send(on(store, NEXT), 4)  # what it is known by is its content


def test_the_last_row_ends_it_also_where_this_run_did_not_go() -> None:
    """There nobody said so. The partition that came furthest says it, and the path's next source is let in anywhere."""
    store = new_store(4)
    on(store, BEFORE).append(ROWS[:9], 1, last=False)
    rest = on(store, BEFORE, skip=9, given=True)
    rest.append(ROWS[9:], 10, last=True)
    rest.end()
    topic = Warehouse(Driver(Metered(store))).topic("t")
    known = [each for n in range(4) for each in topic.partition(n).transactions()]
    assert {each.ended for each in known} == {True, False}
    the_next_are_let_in(store)


def the_next_are_let_in(store: MemoryStore) -> None:
    for n, row in enumerate(ROWS):
        send(on(store, f"{PATH}-{n + 5:016x}"), 1, [row])


def test_saying_that_it_ended_may_be_interrupted_after_the_first_one(monkeypatch: pytest.MonkeyPatch) -> None:
    """Where the batch size divides the records, no append could say it."""
    store = new_store(4)
    ending = on(store, BEFORE)
    ending.append(ROWS[:9], 1, last=False)
    ending.append(ROWS[9:], 10, last=False)
    end, asked = Partition.end_transaction, []

    def interrupted(partition: Partition, *args: Any, **more: Any) -> None:
        asked.append(partition)
        if len(asked) > 1:
            raise KeyboardInterrupt
        end(partition, *args, **more)

    with monkeypatch.context() as interrupting:
        interrupting.setattr(Partition, "end_transaction", interrupted)
        with pytest.raises(KeyboardInterrupt):
            ending.end()
    the_next_are_let_in(store)
