"""What a newcomer types first: a version, a completion, a topic twice, a mistyped warehouse; what a REPL answers."""

import importlib.metadata
import re
import subprocess
import sys
from pathlib import Path

import pytest

import lithify as face
from tests.cli.conftest import Lithify, changes


def test_the_version_is_that_of_the_package(lithify: Lithify) -> None:
    assert face.__version__ == importlib.metadata.version("lithify")
    assert lithify.ok("--version") == f"lithify {face.__version__}\n"
    assert "__version__" in dir(face)


@pytest.mark.slow
def test_the_package_is_the_command() -> None:
    command = [sys.executable, "-m", "lithify", "--version"]
    assert subprocess.run(command, capture_output=True, check=True, text=True).stdout.startswith("lithify ")


@pytest.mark.parametrize("shell", ["bash", "zsh", "fish"])
def test_a_shell_completes_by_one_command(lithify: Lithify, shell: str) -> None:
    script = lithify.ok("completion", shell)
    assert "_LITHIFY_COMPLETE" in script
    assert lithify("completion", env={"SHELL": f"/bin/{shell}"}).stdout == script
    assert lithify.json("completion", shell)["shell"] == shell
    words = {
        "_LITHIFY_COMPLETE": f"{shell}_complete",
        "COMP_WORDS": "lithify comp",
        "COMP_CWORD": "comp" if shell == "fish" else "1",
    }
    assert "completion" in lithify(env=words).stdout


def test_a_shell_that_is_not_known_is_asked_for(lithify: Lithify) -> None:
    result = lithify("completion", env={"SHELL": "/bin/csh"})
    assert (result.exit_code, result.stderr) == (2, "lithify: name the shell: bash, zsh, fish\n")


def test_a_topic_is_created_if_it_does_not_exist(lithify: Lithify) -> None:
    words = ("topic", "create", "users", "--if-not-exists", "--partitions", "2")
    assert lithify.ok(*words) == "topic users created with 2 partitions\n"
    assert lithify.ok(*words[:-1], "9") == "topic users already exists, and stays as it is\n"
    assert lithify.json(*words)["partitions"] == 2
    lithify.refused(*words[:3], code=4, saying="exists")


def test_a_topic_may_exist_in_python_too() -> None:
    with face.open("memory://exist-ok") as warehouse:
        first = warehouse.create_topic("users", partitions=2, probe=False)
        assert warehouse.create_topic("users", partitions=7, exist_ok=True).topic_id == first.topic_id
        with pytest.raises(face.AlreadyExists):
            warehouse.create_topic("users")
        warehouse.delete_topic("users")
        assert warehouse.create_topic("users", exist_ok=True).topic_id != first.topic_id


COMMANDS = [
    ("topic", "list"),
    ("warehouse", "describe"),
    ("verify", "--engine", "local"),
    ("gc", "run", "--once"),
    ("gc", "run", "--dry-run"),
    ("compactor", "run", "--once", "--engine", "local"),
    ("topic", "describe", "users"),
    ("append", "users"),
    ("read", "users"),
]


@pytest.mark.parametrize("words", COMMANDS, ids=" ".join)
def test_a_mistyped_warehouse_is_named_as_such(on_files: Lithify, words: tuple[str, ...]) -> None:
    on_files.refused(*words, code=3, saying=f"there is no warehouse at {on_files.url}", input="")
    on_files.ok("topic", "create", "users")
    on_files.ok(*words, input="")
    on_files.ok("topic", "delete", "users", "--yes")
    told = on_files(*words, input="").stderr
    assert "no warehouse" not in told, "it is one, though without topics"


def test_doctor_warns_of_it(on_files: Lithify) -> None:
    assert "there is no warehouse at" in on_files.ok("doctor", "--rounds", "1")
    on_files.ok("topic", "create", "users")
    assert "there is no warehouse at" not in on_files.ok("doctor", "--rounds", "1")


def test_reprs_are_short_however_much_there_is(lithify: Lithify, tmp_path: Path) -> None:
    lithify.ok("topic", "create", "users", "--partitions", "12", "--config", "cleanup.policy=compact")
    lithify.ok("append", "users", "--batch-size", "10", input=changes(200, keys=40))
    with face.open(lithify.url) as warehouse:
        topic, admin = warehouse.topic("users"), face.Admin(warehouse)
        compactor = face.Compactor(warehouse, engine="local")
        answers = [
            *(topic.describe(), topic.partition(0).describe(), admin.explain("users", 0), admin.topics()),
            *(compactor.run_once(), topic.partition(0).describe(), admin.compactions()[0], admin.verify("users")),
            face.Collector(warehouse).run_once(dry_run=True),
        ]
        compactor.close()
    for answer in answers:
        assert len(repr(answer)) < 2_000, type(answer)
        assert repr(answer).startswith(f"{type(answer).__name__}(")
        assert "k1" not in repr(answer), "keys are contents of records"


def test_reprs_say_what_it_is_in_a_line(tmp_path: Path) -> None:
    """However long the names are: a REPL and a debugger show them again and again."""
    long = "n" * 249
    url = (tmp_path / ("f" * 200)).as_uri()
    with face.open(url) as warehouse:
        topic = warehouse.create_topic(long, 2, {"cleanup.policy": "compact"}, probe=False)
        topic.append([face.Record(b"a", b"1"), face.Record(b"b", b"2")])
        collector = face.Collector(warehouse)
        compactor = face.Compactor(warehouse, engine="local")
        with topic.producer() as producer, topic.consumer(long) as all_of_it:
            consumer = topic.partition(0).consumer("c" * 249)
            shown = {
                "Admin": face.Admin(warehouse),
                "RemoteAdmin": face.Admin("http://" + "h" * 200 + ":1"),
                "Collector": collector,
                "Compactor": compactor,
                "Consumer": consumer,
                "GcReport": collector.run_once(),
                "MaintenanceReport": compactor.run_once(),
                "Partition": topic.partition(0),
                "Producer": producer,
                "Snapshot": topic.partition(0).snapshot(),
                "Topic": topic,
                "TopicConsumer": all_of_it,
                "TopicSnapshot": topic.snapshot(),
                "Warehouse": warehouse,
            }
            texts = {name: repr(each) for name, each in shown.items()}
            consumer.close()
        compactor.close()
    for name, text in texts.items():
        assert text.startswith(f"{name}("), text
        assert len(text) <= 200, text
    assert re.search(r"2 partitions, batches_waiting=0\)", texts["Producer"])
    assert texts["TopicSnapshot"].endswith("2 partitions, 2 offsets)")
    assert texts["GcReport"] == "GcReport(2 partitions, 0 objects of 0 bytes)"
    assert re.fullmatch(r"MaintenanceReport\(2 partitions, [0-9] jobs?, more_work=False\)", texts["MaintenanceReport"])
    assert "LocalEngine, 2 jobs at once)" in texts["Compactor"]
    assert "closed" in repr(compactor)


def test_reprs_show_no_secrets_of_a_url() -> None:
    warehouse = face.open("memory://me:hush@w")
    for each in (
        warehouse,
        face.Admin(warehouse),
        face.Compactor(warehouse, engine="local"),
        face.Collector(warehouse),
    ):
        assert "hush" not in repr(each)
        assert "@w" in repr(each)


@pytest.mark.parametrize("words", [(), ("topic",), ("compaction",), ("consumer",), ("transaction",), ("gc",)])
def test_help_tells_the_whole_sentence_of_each_command(lithify: Lithify, words: tuple[str, ...]) -> None:
    told = lithify.ok(*words, "--help").partition("Commands:")[2]
    assert told
    assert "..." not in told


def test_a_topic_of_one_partition_is_counted_as_one() -> None:
    with face.open("memory://counted") as warehouse:
        assert repr(warehouse.create_topic("users", probe=False)) == "Topic('users', 1 partition)"
