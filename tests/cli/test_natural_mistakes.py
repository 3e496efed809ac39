"""What people type who know Kafka, kcat and S3, and what they feed: each mistake is answered with what to do."""

import json
from collections.abc import Callable
from pathlib import Path

import pytest

import lithify as face
from lithify.admin.client import Admin
from lithify.cli.main import cli
from lithify.cli.meant import meant
from lithify.store.driver import new_id
from tests.cli.conftest import Lithify, lines
from tests.cli.test_reference import leaves


@pytest.mark.parametrize(
    ("words", "command"),
    [
        (["list"], "lithify topic list"),
        (["ls"], "lithify topic list"),
        (["topics"], "lithify topic list"),
        (["produce", "users"], "lithify append"),
        (["consume", "users"], "lithify read"),
        (["rm", "users"], "lithify topic delete"),
        (["topic", "ls"], "lithify topic list"),
        (["topic", "rm", "users"], "lithify topic delete"),
        (["topic", "creat", "users"], "lithify topic create"),
        (["compaction", "show", "users"], "lithify compaction status"),
    ],
)
def test_a_command_that_does_not_exist_suggests_one(lithify: Lithify, words: list[str], command: str) -> None:
    lithify.refused(*words, code=2, saying=f"Did you mean '{command}'? Try 'lithify ")
    for machine in ([*words, "--json"], ["--json", *words]):
        told = json.loads(lithify(*machine).stderr)["error"]
        assert (told["kind"], told["exit_code"]) == ("Usage", 2)
        assert f"Did you mean '{command}'?" in told["message"]


@pytest.mark.parametrize("words", [("compaction", "explain"), ("topic", "describe"), ("read",), ("append",)])
def test_a_partition_where_a_topic_is_wanted(lithify: Lithify, words: tuple[str, ...]) -> None:
    lithify.ok("topic", "create", "users")
    lithify.refused(*words, "users/0", code=2, saying="users/0 is a partition: give users --partition 0")
    lithify.refused(*words, "users/x", code=2, saying="topic name 'users/x' is not allowed")


def test_a_file_without_its_flag(lithify: Lithify) -> None:
    said = "unexpected extra argument (in.csv): give it as --from in.csv. Try 'lithify append --help'"
    lithify.refused("append", "users", "in.csv", code=2, saying=said)


def test_nothing_is_suggested_for_what_is_like_nothing(lithify: Lithify) -> None:
    for word in ("xyzzyq", "frobnicate"):
        told = lithify.refused(word, code=2, saying=f"No such command '{word}'. Try 'lithify --help'")
        assert "mean" not in told


@pytest.mark.parametrize(
    ("words", "saying"),
    [
        (
            ("topic", "alter", "t", "--config", "retention.ms=1d"),
            "a whole number: for 1d, write 86400000 (milliseconds)",
        ),
        (("topic", "create", "u", "--config", "segment.bytes=1GB"), "for 1GB, write 1073741824 (bytes)"),
        (("warehouse", "alter", "--config", "default.retention.ms=2h"), "for 2h, write 7200000 (milliseconds)"),
        (("append", "t", "--linger-ms", "1s"), "for 1s, write 1000 (milliseconds)"),
        (("topic", "alter", "t", "retention.ms=1d"), "(retention.ms=1d): give it as --config retention.ms=1d. Try"),
    ],
    ids=lambda given: " ".join(given) if isinstance(given, tuple) else "",
)
def test_a_number_with_a_unit_is_answered_with_the_number(
    lithify: Lithify, words: tuple[str, ...], saying: str
) -> None:
    lithify.ok("topic", "create", "t")
    lithify.refused(*words, code=2, saying=saying)


def test_suggested_commands_exist() -> None:
    from lithify.cli import meant as of

    paths = {path.strip() for path, _ in leaves(cli, "")}
    assert set(of.WORDS.values()) <= paths
    parts = {path.split()[-1] for path in paths}
    assert {each for found in of.IN_GROUPS.values() for each in found} <= parts
    assert not of.WORDS.keys() & {path.split()[0] for path in paths}, "a command that exists needs no suggestion"
    assert meant("LS", ["list"], within=True) == "list"


@pytest.mark.parametrize(
    "call",
    [
        lambda warehouse: warehouse.topic("users"),
        lambda warehouse: warehouse.topic("users", for_append=True),
        lambda warehouse: warehouse.delete_topic("users"),
        lambda warehouse: Admin(warehouse).topic("users"),
        lambda warehouse: Admin(warehouse).explain("users", 0),
        lambda warehouse: Admin(warehouse).submit("users", 0, "full"),
        lambda warehouse: Admin(warehouse).homes("users", 0),
    ],
    ids=["topic", "append", "delete", "admin", "explain", "submit", "homes"],
)
def test_a_mistyped_warehouse_is_named_in_python(call: Callable[[face.Warehouse], object]) -> None:
    mistyped = f"memory://{new_id()}"
    told = rf"there is no warehouse at {mistyped}.*; check the URL"
    with face.open(mistyped) as warehouse, pytest.raises(face.NotFound, match=told):
        call(warehouse)
    with face.open(f"memory://{new_id()}") as warehouse:
        warehouse.create_topic("others", probe=False)
        with pytest.raises(face.NotFound, match="topic users does not exist here; create it, or check the name"):
            call(warehouse)


@pytest.mark.parametrize(
    ("flags", "text", "saying"),
    [
        (["--format", "csv"], "id;name\n1;a\n", "seem to be separated by semicolons, not by commas: convert it"),
        (["--format", "csv", "--key-column", "id"], "id\tname\n1\ta\n", "by tabs, not by commas: give --format tsv"),
        (["--format", "tsv", "--key-column", "id"], "id,name\n1,a\n", "by commas, not by tabs: give --format csv"),
        (["--format", "csv"], "a,2\nb,4\n", "its first line must name the columns, but looks like a row"),
        (
            ["--format", "csv", "--key-column", "ID"],
            "id,name\n1,a\n",
            "no column 'ID' (--key-column); it has id, name (in CSV the first",
        ),
        ([], "id,name\n1,a\n", "line 1 is not a JSON object: for CSV give --format csv"),
        ([], '{"key": "k", "value": NaN}\n', "line 1 is not a JSON object: JSON has no NaN or Infinity; write null"),
        (["--key-column", "k"], '{"k": "a", "v": -Infinity}\n', "JSON has no NaN or Infinity; write null"),
        (
            ["--format", "csv", "--key-column", "id", "--timestamp-column", "at"],
            "id,at\n1,NaN\n",
            "neither milliseconds since 1970 nor ISO 8601; leave it empty if it has none",
        ),
    ],
)
def test_what_is_fed_in_another_shape_is_recognised(lithify: Lithify, flags: list[str], text: str, saying: str) -> None:
    lithify.ok("topic", "create", "users")
    lithify.refused("append", "users", *flags, code=2, saying=saying, input=text)


@pytest.mark.parametrize(
    "words",
    [
        ("get", "users", "k"),
        ("scan", "users"),
        ("read", "users"),
        ("export", "users", "--to", "-"),
        ("append", "users"),
    ],
    ids=lambda words: words[0],
)
def test_a_server_is_not_ignored_by_what_needs_the_store(lithify: Lithify, words: tuple[str, ...]) -> None:
    lithify.ok("topic", "create", "users")
    lithify.refused(*words, "--url", "http://127.0.0.1:1", code=2, saying="give --warehouse URL, not --url", input="")


def test_explain_says_what_comes_next_in_plain_words(lithify: Lithify) -> None:
    lithify.ok("topic", "create", "users", "--config", "cleanup.policy=compact")
    lithify.ok("append", "users", input='{"key": "k", "value": "v"}\n')
    assert lithify.ok("compaction", "explain", "users").startswith("users/0: start a job: clean dirty records: ")
    lithify.ok("compaction", "submit", "users", "--full")
    assert lithify.ok("compaction", "explain", "users").startswith("users/0: decide on a request: ")


def test_a_value_given_twice_is_refused_and_a_setting_is_overridden(lithify: Lithify) -> None:
    """A container's arguments come after those of its image."""
    lithify.ok("topic", "create", "users")
    twice = ("--format", "csv", "--key-column", "a", "--key-column", "b")
    lithify.refused("append", "users", *twice, input="a,b\n1,2\n", code=2, saying="--key-column takes one value")
    lithify.ok("compactor", "run", "--once", "--engine", "spark", "--engine", "local")


def test_two_that_contradict_are_refused(lithify: Lithify) -> None:
    lithify.ok("topic", "create", "users")
    both = ("--url", "http://127.0.0.1:1", "--warehouse", lithify.url)
    lithify.refused("topic", "list", *both, code=2, saying="give either --url or --warehouse")
    backwards = ("read", "users", "--from-offset", "3", "--to-offset", "1")
    lithify.refused(*backwards, code=2, saying="--to-offset 1 must not be less than --from-offset 3")
    export = ("export", "users", "--to", "-", "--latest", "--log")
    lithify.refused(*export, code=2, saying="give either --log or --latest")


def test_a_folder_of_parquet_files_is_named_with_its_slash(lithify: Lithify, tmp_path: Path) -> None:
    lithify.ok("topic", "create", "users")
    lithify.refused(
        "append", "users", "--from", str(tmp_path), code=2, saying=f"write {tmp_path}/ for a folder of Parquet"
    )


def test_an_offset_that_is_gone_is_told_with_those_that_are_there(lithify: Lithify) -> None:
    lithify.ok("topic", "create", "users")
    lithify.ok("append", "users", input='{"value": "a"}\n{"value": "b"}\n')
    lithify.ok("topic", "delete-records", "users", "--before", "1", "--yes")
    said = "users/0: offset 0 lies outside the log, which begins at 1 and ends before 2"
    flags = ("--limit", "1", "--auto-offset-reset", "error")
    lithify.refused("read", "users", "--from-offset", "0", *flags, code=10, saying=said)


def test_an_append_that_never_began_says_so(lithify: Lithify) -> None:
    """Its records may have come through a pipe."""
    told = lithify("append", "nobody", input=lines({"key": "a", "value": "1"}))
    assert told.exit_code == 3
    assert told.stderr.rstrip().endswith(". Nothing was appended")
