"""Every command with every argument that it takes, made from the commands themselves: whatever they are given, they end
with a documented code, and an error is one line on standard error and nothing on standard output."""

import itertools
import json
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import click
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

import lithify
from lithify.admin import daemon
from lithify.admin.http.server import Serving
from lithify.cli.failures import exit_codes_table
from lithify.cli.main import cli
from lithify.store.driver import new_id
from lithify.work import java
from tests.admin.http.test_client import answering
from tests.admin.served import served
from tests.cli.conftest import Lithify

pytestmark = pytest.mark.slow

CODES = {int(code) for code in re.findall(r"^\| (\d+) \|", exit_codes_table(), re.M)} - {lithify.LithifyError.exit_code}
CONTENTS, SECRET, TOKEN = "contents-of-a-record", "a-secret-of-the-store", "t" * 40
REPORTS = {("compaction", "list"), ("compactor", "run"), ("doctor",), ("gc", "run"), ("topic", "list"), ("verify",)}
NOT_ENDING = {"demo", "dev", "read --follow"}  # each has tests of its own

TEXTS = [
    *(
        "",
        " ",
        "users",
        "users ",
        "nobody",
        "c",
        "mine",
        "nightly",
        "a b",
        "-",
        "--",
        "-x",
        "--x",
        "=",
        "k=v",
        ",",
        "null",
    ),
    *(".", "..", "/", "a/b", "../x", ".lithify-x", "*", "%00", "~", "$HOME", "a" * 249, "a" * 250, "a" * 5_000),
    *(
        "NaN",
        "0",
        "-1",
        "日本",
        "é",
        "\u202e",
        "\n",
        "a\nb",
        "a\r\nX: b",
        "\x1b[31m",
        "\x7f",
        "\ud800",
        "\udcff",
        "a\udcffb",
    ),
    *("users/0/000000000042-1a2b3c4d", "users/0/x", "users/-1/x", "users/9999999999/x", "users/٠/x", "users//", "full"),
    *("retention.ms=1", "retention.ms=", "retention.ms=NaN", "retention.ms=\udcff", "cleanup.policy=compact,delete"),
    *("retention.ms=" + "9" * 5_000, "retention.records=" + "9" * 30, "\udcff=1", "retention.ms"),
]
NUMBERS = [
    *(
        "0",
        "1",
        "2",
        "-1",
        "-0",
        "+1",
        "01",
        "1.0",
        "1e3",
        "NaN",
        "inf",
        "",
        " 1",
        "1 ",
        "1_0",
        "0x1",
        "١",
        "²",
        "x",
        "\udcff",
    ),
    *(str(2**31), str(2**63 - 1), str(2**63), str(-(2**63)), str(2**64), "9" * 40, "9" * 5_000, "-" + "9" * 40),
]
PLACES = [
    *("", ".", "..", "missing", "missing/x", "file", "file/x", "folder", "folder/", "~nobody/x", "-", "file.parquet"),
    *("new.jsonl", "new.parquet", "new.csv", "a" * 300, "\udcff", "a\nb", "file://", "file:///", "file://x", "file:x"),
    *("memory://", "memory://x", "s3://", "s3:///x", "s3a://", "nosuch://x", "://", "http://", "http://[::1", "ftp://"),
]
URLS = [
    *(
        "http://127.0.0.1:1",
        "http://127.0.0.1:0",
        "http://127.0.0.1:99999",
        "http://127.0.0.1:x",
        "http://u:p@127.0.0.1:1",
    ),
    *(
        "https://127.0.0.1:1",
        "http://[::1]:1",
        "http://[::1",
        "http://",
        "http://a..b:1",
        "127.0.0.1:1",
        "ftp://127.0.0.1",
    ),
    *(
        "http://127.0.0.1:1/x?y=1",
        "http://127.0.0.1:1/#x",
        "http://127.0.0.1:1/\udcff",
        "http://127.0.0.1:1/a b",
        "http://é",
    ),
    *("http://127.0.0.1:" + "9" * 5_000, "http://" + "a" * 300, "http://127.0.0.1:1/" + "a" * 5_000),
]
ADDRESSES = [
    *("127.0.0.1:0", "127.0.0.1:1:1", "127.0.0.1", ":0", "0.0.0.0:0", "[::]:0", "[::1]:0", "[::1", "127.0.0.1:-1"),
    *(
        "127.0.0.1:99999",
        "127.0.0.1:" + "9" * 5_000,
        "127.0.0.1:²",
        "a..b:0",
        "\udcff:0",
        "127.0.0.1\n:0",
        "x" * 300 + ":0",
    ),
]
INPUTS = [
    b"",
    b"y\n",
    b"n\n",
    b"nonsense\n",
    b'{"key": "a", "value": "b"}\n',
    b'{"key": "a"}\n',
    b'{"key": "a", "value": "b", "timestamp_ms": 99999999999999999999}\n',
    b'{"key": "\\ud800", "value": "b"}\n',
    b"\xff\xfe\x00",
    b"[" * 100_000,
    CONTENTS.encode(),
]
BY_NAME = {
    **dict.fromkeys(["from_", "source", "target", "warehouse", "log", "latest", "to"], PLACES),
    "url": URLS,
    "http": ADDRESSES,
    "master": ["local[1]", "\udcff", ""],
    "rounds": ["1", "0", "-1", "NaN"],
    "storage_option": [f"secret={SECRET}", f"key={SECRET}", "a.b=1", "a=1", "a", "", "=x", "\udcff=1", "a.=1", ".=1"],
    "engine": ["local", "nosuch", "", "\udcff"],  # Spark takes its time
}
Words = tuple[str, ...]


def commands(group: click.Group, words: Words = ()) -> Iterator[tuple[Words, click.Command]]:
    context = click.Context(group)
    for name in group.list_commands(context):
        found = group.get_command(context, name)
        assert found is not None
        if isinstance(found, click.Group):
            yield from commands(found, (*words, name))
        elif name not in NOT_ENDING:
            yield (*words, name), found


COMMANDS = dict(commands(cli))


def values(parameter: click.Parameter) -> st.SearchStrategy[str]:
    name = (parameter.name or "").removesuffix("_url").removesuffix("_options")
    name = "storage_option" if name == "storage" else name
    long = next((each for each in parameter.opts if each.startswith("--")), "").removeprefix("--").replace("-", "_")
    for known in (long, name):
        if known in BY_NAME:
            return st.sampled_from(BY_NAME[known])
    match parameter.type:
        case click.Choice(choices=choices):
            return st.sampled_from([*map(str, choices), "nosuch", "", "\udcff"])
        case click.Path():
            return st.sampled_from(PLACES)
        case click.types.IntParamType() | click.types.FloatParamType():
            return st.sampled_from(NUMBERS) | st.integers(-3, 3).map(str)
        case _:
            return st.sampled_from(TEXTS) | st.text(max_size=8).filter(lambda text: "\0" not in text)


@st.composite
def arguments(draw: st.DrawFn, words: Words) -> list[str]:
    """The words of a command, some of its options, and usually all of its arguments."""
    command = COMMANDS[words]
    found: list[str] = []
    options = [each for each in command.params if isinstance(each, click.Option) and each.name != "help"]
    for option in options:
        flag = draw(st.sampled_from([*option.opts, *option.secondary_opts]))
        often = 2 if option.required else 8
        if f"{words[-1]} {flag}" in NOT_ENDING or draw(st.integers(0, often)) != 1:
            continue
        found += [flag] if option.is_flag else draw(values(option).map(lambda given, flag=flag: [flag, given]))
    if any("--engine" in each.opts for each in options) and "--engine" not in found:
        found += ["--engine", "local"]
    if words[0] in ("compactor", "gc") and draw(st.booleans()):
        found += ["--once"]
    given = [draw(st.just("users") | values(each)) for each in command.params if isinstance(each, click.Argument)]
    found = [*found, *(["--"] if draw(st.booleans()) else []), *given] if draw(st.integers(0, 9)) else found
    return [*words, *found]


@pytest.fixture(scope="module")
def strangers() -> Iterator[list[str]]:
    """Servers that are none of lithify."""
    html, answer = {"Content_Type": "text/html"}, {"Content_Type": "application/json"}
    problem = {
        "type": "a",
        "title": "b",
        "status": 404,
        "detail": "c\n\x1b[31m",
        "kind": "NotFound",
        "retryable": False,
    }
    deep = b'{"items": ' + b'{"x":' * 50_000
    with (
        answering(200, b"<html>", **html) as first,
        answering(200, b'{"items": [], "next": "x"}', **answer) as second,
        answering(200, deep, **answer) as third,
        answering(404, json.dumps(problem).encode(), **answer) as fourth,
    ):
        yield [first, second, third, fourth]


def check(lithify_: Lithify, given_words: list[str], input_: bytes) -> None:
    env = {"LITHIFY_HTTP_TOKEN": TOKEN, "LITHIFY_HTTP_TOKENS": f"read:{TOKEN}", "LITHIFY_URL": ""}
    result = lithify_(*given_words, input=input_, env=env)
    told = f"{result.exit_code}\n{result.stdout[:500]}\n{result.stderr[:2_000]}"
    assert isinstance(result.exception, SystemExit | None), told
    assert result.exit_code in CODES, told
    assert "Traceback" not in result.stderr, told
    for hidden in (CONTENTS, SECRET, TOKEN):
        assert hidden not in result.stderr, told
    if result.exit_code and (tuple(given_words[:2]) in REPORTS or tuple(given_words[:1]) in REPORTS) and result.stdout:
        return  # the report says what failed
    if result.exit_code:
        assert result.stdout == "" or result.stdout.endswith("[y/N]: "), told
        if "--help" in result.stderr and result.stderr.startswith("Usage:"):
            return  # a group without a command shows its help
        lines = [line for line in result.stderr.splitlines() if line.startswith(("lithify: ", '{"error":'))]
        assert len(lines) == 1, told
        assert result.stderr.splitlines()[-1] == lines[0], told


@pytest.mark.parametrize("words", COMMANDS, ids=" ".join)
def test_whatever_it_is_given(
    words: Words, strangers: list[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "folder").mkdir()
    (tmp_path / "file").write_text(CONTENTS)
    (tmp_path / "file.parquet").write_text(CONTENTS)
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(daemon, "run_together", closed)
    monkeypatch.setitem(BY_NAME, "url", [*URLS, *strangers])

    @settings(derandomize=True, suppress_health_check=list(HealthCheck))  # --hypothesis-profile=wide: ten times as many
    @given(arguments(words), st.sampled_from(INPUTS))
    def tried(given_words: list[str], input_: bytes) -> None:
        url = f"memory://{new_id()}"
        with lithify.open(url) as warehouse:
            topic = warehouse.create_topic("users", 2, probe=False)
            topic.append([lithify.Record(CONTENTS.encode(), CONTENTS.encode())])
            topic.consumer("c").close()
            topic.partition(0).snapshot(pin="mine")
        check(Lithify(url), given_words, input_)

    tried()


@pytest.fixture(scope="module")
def far() -> Iterator[str]:
    """The URL of a server of lithify."""
    with lithify.open(f"memory://{new_id()}") as warehouse:
        warehouse.create_topic("users", probe=False)
        with served(lithify.Admin(warehouse)) as server:
            yield server.url


ODD = ["\udcff", "retention.ms=\udcff", "\udcff=1", "a\nb", "a/b", "..", "%2e%2e", "x" * 70_000]


@pytest.mark.parametrize("words", COMMANDS, ids=" ".join)
def test_each_text_in_turn(words: Words, far: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Alone, so that nothing else is refused before it; here, and of a server."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(daemon, "run_together", closed)
    command = COMMANDS[words]
    texts = [it for it in command.params if isinstance(it.type, click.types.StringParamType)]
    for one, odd in itertools.product(texts, ODD):
        given_words = [odd if each is one else "users" for each in command.params if isinstance(each, click.Argument)]
        given_words += [one.opts[-1], odd] if isinstance(one, click.Option) else []
        for flags in ("--yes", "--to-latest", "--once"), ("--engine", "local"):
            known = [each.opts[0] for each in command.params]
            given_words += flags if flags[0] in known else [flag for flag in flags if flag in known]
        url = f"memory://{new_id()}"
        with lithify.open(url) as warehouse:
            warehouse.create_topic("users", probe=False)
        for asked in ([], ["--url", far]) if one.name not in ("url", "warehouse_url") else ([],):
            check(Lithify(url), [*words, *asked, *given_words], b"")


def closed(parts: list[Any]) -> None:
    """In place of services that run until they are told to end. A server has bound its address; to run and end it takes
    a tenth of a second, a hundred times."""
    for part in parts:
        part.stop()
        if isinstance(part, Serving):
            part._address.close()


@pytest.fixture(autouse=True)
def no_java(monkeypatch: pytest.MonkeyPatch) -> None:
    """What Java there is takes two processes to find out, each time that `doctor` is tried."""
    monkeypatch.setattr(java, "find_java", lambda: None)


def test_every_command_is_tried() -> None:
    assert len(COMMANDS) > 30
    assert {words[0] for words in COMMANDS} | NOT_ENDING >= set(cli.list_commands(click.Context(cli)))
