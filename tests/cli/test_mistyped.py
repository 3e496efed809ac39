"""A warehouse or a topic whose name is mistyped: said as such, with what was probably meant."""

from collections.abc import Iterator
from pathlib import Path

import click
import pytest

from lithify.cli.main import cli
from lithify.testing.server import S3Server
from tests.cli.conftest import Lithify, changes
from tests.cli.test_reference import leaves

# Commands that do not look for something in a warehouse, or wait for it; the others are tried where there is none.
ELSEWHERE = {"append", "compactor run", "completion", "demo", "dev", "doctor", "gc run", "serve", "topic create"}


def invocations() -> Iterator[tuple[str, ...]]:
    """Each command with as much as it asks for."""
    asked = {
        "topic alter": ["--partitions", "2"],
        "topic delete": ["--yes"],
        "topic delete-records": ["--yes", "--before", "1"],
        "warehouse alter": ["--config", "num.partitions=2"],
        "compaction submit": ["--full"],
        "consumer reset": ["--to-latest"],
        "export": ["--to", "-"],
        "verify": ["--engine", "local"],
        "top": ["--once"],
    }
    for path, command in leaves(cli, ""):
        name = path.strip()
        if name not in ELSEWHERE:
            arguments = [
                "users/0/000000000001-00000000" if each.name == "compaction_id" else "users"
                for each in command.params
                if isinstance(each, click.Argument) and each.required
            ]
            yield (*name.split(), *arguments, *asked.get(name, []))


@pytest.mark.parametrize("words", list(invocations()), ids=" ".join)
def test_every_command_names_a_mistyped_warehouse(on_files: Lithify, folder: Path, words: tuple[str, ...]) -> None:
    on_files.refused(*words, code=3, saying=f"there is no warehouse at {on_files.url}", input="")
    assert not folder.exists(), "looking for something makes nothing"
    (folder / "photos" / "2026").mkdir(parents=True)
    (folder.parent / "music").mkdir()
    before = set(folder.parent.rglob("*"))
    on_files.refused(*words, code=3, saying=f"there is no warehouse at {on_files.url}", input="")
    assert set(folder.parent.rglob("*")) == before, "nor does looking around"


def test_a_folder_of_very_many_others_is_no_warehouse(on_files: Lithify, folder: Path) -> None:
    for number in range(300):
        (folder / f"{number}").mkdir(parents=True)
    on_files.refused("topic", "list", code=3, saying="That folder exists, but it is not a warehouse.")


def test_the_warehouse_that_was_meant_is_named(folder: Path) -> None:
    Lithify(folder.as_uri()).ok("topic", "create", "users")
    for mistyped in ("warehuose", "Warehouse", "warehouse/users", ".", "warehouses/"):
        at = Lithify(str(folder.parent / mistyped))
        at.refused("topic", "list", code=3, saying=f"check the URL. Did you mean {folder.as_uri()}? To begin one")
    elsewhere = folder.parent / "nowhere"
    told = Lithify(f"{elsewhere}/deep").refused("topic", "list", code=3, saying="there is no warehouse")
    assert f"The nearest folder that exists is {folder.parent}. To begin one there: 'lithify topic create'" in told
    (elsewhere / "deep" / "photos").mkdir(parents=True)
    said = "That folder exists, but it is not a warehouse."
    Lithify(f"{elsewhere}/deep").refused("topic", "list", code=3, saying=said)


def test_a_warehouse_in_s3_that_was_meant_is_named(lithify_s3: S3Server) -> None:
    bucket = lithify_s3.create_bucket()
    options = [
        f"--storage-option={name}={value}"
        for name, value in {
            "key": "test",
            "secret": "test",
            "client_kwargs.endpoint_url": lithify_s3.endpoint_url,
            "client_kwargs.region_name": "us-east-1",
        }.items()
    ]
    Lithify(f"s3://{bucket}/logs/main", *options).ok("topic", "create", "users")
    mistyped = Lithify(f"s3://{bucket}/logs/mian", *options)
    mistyped.refused("topic", "list", code=3, saying=f"Did you mean s3://{bucket}/logs/main?")
    lithify_s3.delete_bucket(bucket)


def test_settings_alone_begin_a_warehouse_if_asked_to(on_files: Lithify) -> None:
    words = ("warehouse", "alter", "--config", "auto.create.topics.enable=true")
    on_files.refused(*words, code=3, saying="To begin one there: 'lithify warehouse alter --create'")
    on_files.ok(*words, "--create")
    on_files.ok("append", "users", input=changes(3))


@pytest.mark.parametrize("words", [("topic", "describe"), ("read",), ("topic", "delete", "--yes")], ids=" ".join)
def test_the_topic_that_was_meant_is_named(lithify: Lithify, words: tuple[str, ...]) -> None:
    lithify.ok("topic", "create", "users")
    lithify.ok("topic", "create", "orders")
    for mistyped in ("usres", "Users", "user"):
        lithify.refused(*words, mistyped, code=3, saying="check the name. Did you mean users?")
    assert "Did you mean" not in lithify.refused(*words, "clicks", code=3, saying="check the name")
    lithify.ok("topic", "delete", "users", "--yes")
    assert "Did you mean" not in lithify.refused(*words, "usres", code=3, saying="check the name")
