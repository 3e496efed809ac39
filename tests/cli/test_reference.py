"""docs/cli.md and `--help` say what the commands do."""

import re
from collections.abc import Iterator
from pathlib import Path

import click
import pytest

from lithify.cli.failures import exit_codes_table
from lithify.cli.main import cli
from lithify.cli.settings import SETTINGS, Setting, setting, settings_table
from lithify.store.errors import InvalidRequest
from tests.cli.conftest import Lithify

PAGE = (Path(__file__).resolve().parents[2] / "docs" / "cli.md").read_text(encoding="utf-8")


def leaves(group: click.Group, path: str) -> Iterator[tuple[str, click.Command]]:
    context = click.Context(group)
    for name in group.list_commands(context):
        found = group.get_command(context, name)
        assert found is not None
        if isinstance(found, click.Group):
            yield from leaves(found, f"{path} {name}")
        else:
            yield f"{path} {name}", found


COMMANDS = dict(leaves(cli, "lithify"))


def test_the_page_holds_both_tables_as_they_are() -> None:
    assert settings_table() in PAGE
    assert exit_codes_table() in PAGE


def test_the_page_names_every_command_and_no_other() -> None:
    named = {re.split(r" [A-Z\[]", row)[0] for row in re.findall(r"^\| `(lithify [^`]*)` \|", PAGE, re.MULTILINE)}
    assert set(COMMANDS) <= named
    assert named - set(COMMANDS) <= {"lithify demo", "lithify dev"}


@pytest.mark.parametrize("name", [each.name for each in SETTINGS])
def test_a_setting_is_a_flag_a_variable_and_a_default_of_the_commands_it_names(name: str) -> None:
    it: Setting = setting(name)
    flag = it.flag.split("/")[0]
    takers = {
        path.removeprefix("lithify "): option
        for path, command in COMMANDS.items()
        for option in command.params
        if isinstance(option, click.Option) and flag in option.opts
    }
    if it.commands == "every command":
        takers = {path: option for path, option in takers.items() if path not in ("demo", "dev")}
        assert len(takers) == len(COMMANDS.keys() - {"lithify demo", "lithify dev"})
        (outermost,) = [option for option in cli.params if flag in option.opts]
        assert outermost.envvar == it.variable
        return
    mine = {path: option for path, option in takers.items() if path not in ("demo", "dev")}
    assert set(mine) == set(it.commands.split(", "))
    variable = it.variable if it.by_variable else None
    if name == "engine":  # by size
        assert {mine.pop(command).default for command in ("export", "append", "verify")} == {None}
    assert all((option.envvar, option.default) == (variable, it.default) for option in mine.values())


@pytest.mark.parametrize("path", COMMANDS)
def test_every_command_helps(path: str) -> None:
    result = Lithify("")(*path.split()[1:], "--help")
    assert result.exit_code == 0
    assert "Usage: lithify" in result.stdout


def test_help_lists_the_settings_of_the_service(lithify: Lithify) -> None:
    text = lithify.ok("compactor", "run", "--help")
    for each in SETTINGS:
        if "compactor run" in each.commands:
            assert each.variable in re.sub(r"\s+", "", text)


@pytest.mark.parametrize(
    ("given", "read"),
    [
        (("a=b",), {"a": "b"}),
        (("anon=true", "client_kwargs.verify=false"), {"anon": True, "client_kwargs": {"verify": False}}),
        (("config_kwargs.max_pool_connections=5", "x=1.5"), {"config_kwargs": {"max_pool_connections": 5}, "x": 1.5}),
        (("key=123", "secret=true", "token=null"), {"key": "123", "secret": "true", "token": "null"}),
        (('project="007"', "y=null", "z={}", "e="), {"project": "007", "y": "null", "z": "{}", "e": ""}),
        (("url=a=b",), {"url": "a=b"}),
        (
            (
                "homes.s3://cold.bucket/v1.x/p.client_kwargs.endpoint_url=http://h:9",
                "homes.s3://cold.bucket/v1.x/p.key=k",
            ),
            {"homes": {"s3://cold.bucket/v1.x/p": {"client_kwargs": {"endpoint_url": "http://h:9"}, "key": "k"}}},
        ),
        (('homes={"s3://b/v1.2": {"key": "k"}}',), {"homes": {"s3://b/v1.2": {"key": "k"}}}),
        (
            ("homes.s3://b/p.secret=1e5", 'homes={"s3://b/p": {"key": "1"}, "gs://c.d": {}}'),
            {"homes": {"s3://b/p": {"secret": "1e5", "key": "1"}, "gs://c.d": {}}},
        ),
    ],
)
def test_storage_options_nest_and_secrets_stay_text(given: tuple[str, ...], read: dict[str, object]) -> None:
    from lithify.cli.invocation import parse_storage_options

    assert parse_storage_options(given) == read


@pytest.mark.parametrize("given", ["homes.gs://my.bucket.token=x", "homes=[]", "homes=s3://b"])
def test_options_of_homes_that_may_mean_anything_are_refused(given: str) -> None:
    from lithify.cli.invocation import parse_storage_options

    with pytest.raises(InvalidRequest, match="JSON"):
        parse_storage_options([given])


def test_a_flag_after_the_command_wins(lithify: Lithify) -> None:
    lithify.ok("topic", "create", "users")
    elsewhere = lithify("--warehouse", "memory://elsewhere-unused", "topic", "list", "--warehouse", lithify.url)
    assert elsewhere.stdout == "users\n"
