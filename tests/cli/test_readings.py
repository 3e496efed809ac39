"""How the rows of a source are read is a part of what an import is: a corrected --key-column is neither taken for the
import of before nor for a new one, in silence (docs/rfcs/0011)."""

import itertools
import random
import string
from pathlib import Path

import pytest

from lithify.cli.records.readings import Reading, parse_application, reading_of, told
from lithify.cli.records.roles import Roles
from lithify.cli.records.source_ids import SOURCE_ID_CHARACTERS_MAX
from lithify.log.names import NAME_CHARACTERS_MAX
from lithify.store.driver import new_id
from tests.cli.conftest import Lithify

TABLE = "a,b,t,gone\n1,2,1000,no\n3,4,2000,no\n"
ROLES = ["--key-column", "a"]


@pytest.fixture(params=[1, 4])
def topic(request: pytest.FixtureRequest, lithify: Lithify) -> Lithify:
    lithify.ok("topic", "create", "t", "--partitions", str(request.param))
    return lithify


@pytest.fixture
def rows(tmp_path: Path) -> str:
    path = tmp_path / "rows.csv"
    path.write_text(TABLE)
    return str(path)


def keys(lithify: Lithify) -> list[str]:
    return sorted(record["key"] for record in lithify.records("read", "t"))


@pytest.mark.parametrize(
    ("before", "after"),
    [
        (ROLES, ["--key-column", "b"]),
        (ROLES, [*ROLES, "--value-column", "b"]),
        ([*ROLES, "--value-column", "b"], ROLES),
        (ROLES, [*ROLES, "--timestamp-column", "t"]),
        (ROLES, [*ROLES, "--delete-column", "gone"]),
        (["--format", "json", "-K", ","], ROLES),
        (["--format", "json", "-K", ","], ["--format", "json", "-K", ":"]),
        (ROLES, ["--value-column", "a"]),
    ],
)
def test_the_same_source_read_in_another_way_is_refused_and_both_ways_are_named(
    topic: Lithify, tmp_path: Path, before: list[str], after: list[str]
) -> None:
    path = tmp_path / "rows.csv"
    path.write_text(TABLE)
    if "-K" in before:
        path = path.rename(tmp_path / "rows")
        after = after if "-K" in after else [*after, "--format", "csv"]
    source = ("append", "t", "--from", str(path))
    count = topic.json(*source, *before)["appended"]
    line = topic.refused(*source, *after, code=2, saying="add --new-source")
    assert f"imported with {told_flags(before)} before" in line
    assert f"read with {told_flags(after)}, add" in line
    assert "Nothing was appended" in line
    assert len(topic.records("read", "t")) == count


def told_flags(flags: list[str]) -> str:
    """As they are shown: the format comes last, and lines with -K have none."""
    if "-K" in flags:
        return f"-K {flags[-1]}"
    return " ".join(flags)


BOTH = {
    "rows.jsonl": '{"key":"k1","value":"v1"}\n{"key":"k2","value":"v2"}\n',
    "rows.csv": "key,value\nk1,v1\nk2,v2\n",
}
WAYS = ([], ["--key-column", "key"], ["--key-column", "value"], ["--value-column", "value"])


@pytest.mark.slow
@pytest.mark.parametrize("name", BOTH)
@pytest.mark.parametrize("named", [[], ["--source-id", "mine"]])
@pytest.mark.parametrize("partitions", [1, 8])
def test_of_any_two_ways_to_read_a_source_the_second_is_refused(
    on_files: Lithify, tmp_path: Path, name: str, named: list[str], partitions: int
) -> None:
    """Also if its rows are lithify's own records, and go elsewhere."""
    path = tmp_path / name
    path.write_text(BOTH[name])
    for number, (before, after) in enumerate(itertools.permutations(WAYS, 2)):
        topic = f"t{number}"
        on_files.ok("topic", "create", topic, "--partitions", str(partitions))
        source = ("append", topic, "--from", str(path), *named)
        assert on_files.json(*source, *before)["appended"] == 2
        line = on_files.refused(*source, *after, code=2, saying="another --source-id" if named else "--new-source")
        assert f"imported {told(flags_text(before))} before" in line
        assert "Nothing was appended" in line
        assert len(on_files.records("read", topic)) == 2
        assert on_files.json(*source, *before)["already_there"] == 2


def flags_text(flags: list[str]) -> str:
    return "=".join(flags).removeprefix("--").replace("-column", "")


PLACES = ([], ["--partition", "0"], ["--partition", "2"])


@pytest.mark.parametrize(("before", "after"), itertools.permutations(PLACES, 2))
def test_a_source_that_is_in_is_not_sent_to_another_place_in_silence(
    lithify: Lithify, rows: str, before: list[str], after: list[str]
) -> None:
    lithify.ok("topic", "create", "t", "--partitions", "4")
    source = ("append", "t", "--from", rows, *ROLES)
    lithify.ok(*source, *before)
    line = lithify.refused(*source, *after, code=2, saying="Nothing was appended")

    def way(flags: list[str]) -> str:
        return f"with {' '.join(flags)}" if flags else "without --partition"

    assert f"this source was imported {way(before)} before, and is in the log" in line
    assert f"To append it once more, {way(after)}, add --new-source" in line
    assert lithify.json(*source, *after, "--new-source")["appended"] == 2
    for again in (before, after):
        assert lithify.json(*source, *again)["already_there"] == 2


def test_another_column_and_another_place_are_both_told(lithify: Lithify, rows: str) -> None:
    lithify.ok("topic", "create", "t", "--partitions", "4")
    lithify.ok("append", "t", "--from", rows, *ROLES)
    other = ("append", "t", "--from", rows, "--key-column", "b", "--partition", "1")
    line = lithify.refused(*other, code=2, saying="imported with --key-column a and without --partition before")
    assert "once more, read with --key-column b and with --partition 1, add --new-source" in line


def test_a_name_that_a_person_gave_may_stand_for_one_source_in_each_partition(lithify: Lithify, rows: str) -> None:
    lithify.ok("topic", "create", "t", "--partitions", "4")
    for number in range(4):
        flags = ("--source-id", "dump", "--partition", str(number))
        assert lithify.json("append", "t", "--from", rows, *ROLES, *flags)["appended"] == 2


def test_new_source_appends_it_once_more_and_once_only(topic: Lithify, rows: str) -> None:
    topic.ok("append", "t", "--from", rows, "--key-column", "a")
    anew = ("append", "t", "--from", rows, "--key-column", "b")
    assert topic.json(*anew, "--new-source")["appended"] == 2
    assert keys(topic) == ["1", "2", "3", "4"]
    for again in ([*anew, "--new-source"], [*anew], ["append", "t", "--from", rows, "--key-column", "a"]):
        assert topic.json(*again)["already_there"] == 2
    assert keys(topic) == ["1", "2", "3", "4"]


def test_an_import_that_stopped_is_not_continued_with_another_column(topic: Lithify, tmp_path: Path) -> None:
    path = tmp_path / "rows.jsonl"
    text = '{"a":"1","b":"2"}\n{"a":"3","b":"4"}\n'
    path.write_text(text + "bad\n")
    first = ("append", "t", "--from", str(path), "--batch-size", "1", "--key-column", "a")
    topic.refused(*first, code=2, saying="line 3")
    line = topic.refused(*first[:-1], "b", code=2, saying="imported with --key-column a before")
    assert "run the command with --key-column a" in line
    path.write_text(text + '{"a":"5","b":"6"}\n')
    if topic.json("topic", "describe", "t")["partitions"] == 1:
        line = topic.refused(*first[:-1], "b", code=2, saying="has not finished")
        assert "again with --key-column a and --source-id rows.jsonl-" in line
    assert topic.json(*first[:-1], "b", "--new-source")["appended"] == 3
    assert keys(topic) == ["1", "2", "3", "4", "6"]


def test_a_source_with_a_name_is_refused_too_and_told_to_take_another(topic: Lithify, rows: str) -> None:
    named = ("append", "t", "--from", rows, "--source-id", "mine")
    topic.ok(*named, "--key-column", "a")
    line = topic.refused(*named, "--key-column", "b", code=2, saying="imported with --key-column a before")
    assert "give another --source-id" in line
    assert topic.json("append", "t", "--from", rows, "--source-id", "other", "--key-column", "b")["appended"] == 2


def test_standard_input_with_a_name_is_no_exception(topic: Lithify) -> None:
    named = ("append", "t", "--format", "csv", "--source-id", "mine")
    topic.ok(*named, "--key-column", "a", input=TABLE)
    topic.refused(*named, "--key-column", "b", code=2, saying="--key-column a --format csv before", input=TABLE)


def test_into_one_partition_it_holds_as_well(topic: Lithify, rows: str) -> None:
    one = ("append", "t", "--from", rows, "--partition", "0", "--key-column")
    topic.ok(*one, "a")
    topic.refused(*one, "b", code=2, saying="imported with --key-column a before")


def test_flags_that_change_nothing_leave_it_the_same_import(topic: Lithify, rows: str) -> None:
    topic.ok("append", "t", "--from", rows, *ROLES)
    assert topic.json("append", "t", "--from", rows, *ROLES, "--format", "csv")["already_there"] == 2


def test_new_source_of_what_is_in_says_how_it_would_be_appended_again(topic: Lithify, rows: str) -> None:
    """The same command, started again by a scheduler, must append nothing: only a name of its own makes it another."""
    same = ("append", "t", "--from", rows, *ROLES, "--new-source")
    topic.ok(*same)
    said = topic.ok(*same)
    assert "0 records appended to t; 2 of this source already in the log" in said
    assert "--new-source is for other content or other columns; to append the same records once more, give" in said
    assert "another --source-id" in said
    assert topic.json("append", "t", "--from", rows, *ROLES, "--source-id", "again")["appended"] == 2


def test_a_file_that_has_grown_is_appended_whole_and_that_is_said(topic: Lithify, rows: str) -> None:
    source = ("append", "t", "--from", rows, *ROLES)
    assert "before" not in topic.ok(*source)
    Path(rows).write_text(TABLE + "5,6,3000,no\n")
    said = topic.ok(*source)
    assert said.startswith("3 records appended to t\n  this path had other content before, which is in the log, too")
    assert "--source-id" in said
    assert "0 records appended to t; 3 of this source already in the log" in topic.ok(*source)


def test_of_a_file_with_a_name_only_what_was_added_is_appended(topic: Lithify, rows: str) -> None:
    source = ("append", "t", "--from", rows, *ROLES, "--source-id", "mine")
    topic.ok(*source)
    Path(rows).write_text(TABLE + "5,6,3000,no\n")
    assert topic.ok(*source).startswith("1 record appended to t; 2 of this source already in the log\n  partition")
    assert keys(topic) == ["1", "3", "5"]


def test_a_source_id_cannot_pass_for_a_reading(lithify: Lithify, rows: str) -> None:
    lithify.ok("topic", "create", "t")
    flags = ("append", "t", "--from", rows, "--key-column", "b", "--source-id")
    lithify.refused(*flags, "mine by key=a", code=2, saying="must not end in ' by key=a'")
    assert lithify.json(*flags, "sales by region")["appended"] == 2


@pytest.mark.parametrize("seed", range(50))
def test_names_tell_readings_apart_and_fit(seed: int) -> None:
    chance = random.Random(seed)

    def text() -> str:
        alphabet = string.printable.strip() + " äß=%/\t"
        return "".join(chance.choice(alphabet) for _ in range(chance.choice([1, 3, 300])))

    def some() -> Roles:
        return Roles(text(), tuple(text() for _ in range(chance.randrange(3))), chance.choice([None, text()]))

    readings = [reading_of("in.csv", chance.choice([None, "tsv"]), some(), None) for _ in range(4)]
    for source_id in (new_id(), "x" * SOURCE_ID_CHARACTERS_MAX):
        names = {f"import {reading.within(source_id)} over 10000" for reading in readings}
        assert len(names) == len(set(readings))
        for name in names:
            assert len(name) <= NAME_CHARACTERS_MAX
            assert name.isprintable()
            parsed = parse_application(name)
            assert parsed is not None
            assert (parsed.source_id, parsed.over) == (source_id, 10_000)
            assert parsed.reading in {reading.named(source_id) for reading in readings}


def test_a_reading_is_told_as_the_flags_that_ask_for_it() -> None:
    reading = reading_of("in.txt", "csv", Roles("the id", ("a", "b")), None)
    assert told(reading.text) == "with --key-column 'the id' --value-column a --value-column b --format csv"
    assert told(reading_of("-", "json", Roles(), b"\t").text) == "with -K '\t'"
    assert told("") == "without --key-column and the like"
    assert told(Reading("key=" + "x" * 300).named("a")) == "with other columns or another format"
