"""No character of users' data, names or files steers the terminal of whoever looks at it.

Tried on cli/terminal.py, and caught: C1, DEL, or the isolates of direction left out of either pattern; on
cli/output.py, lines.py, failures.py and logs.py: each printed as it is.
"""

import base64
import json
import os
import re
import sys
import unicodedata
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

import lithify as face
from lithify.cli.logs import set_up_logs
from lithify.cli.output import Output
from lithify.cli.terminal import plain, plain_bytes, plain_json
from lithify.manifest.transactions import TransactionStamp
from tests.cli.conftest import Lithify, lines

CLI = Path(__file__).resolve().parents[2] / "cli"
DIRECTIONS = {"LRE", "RLE", "LRO", "RLO", "PDF", "LRI", "RLI", "FSI", "PDI"}


def steering(codes: Iterable[int]) -> str:
    return "".join(
        character
        for character in map(chr, codes)
        if unicodedata.category(character) in ("Cc", "Zl", "Zp") or unicodedata.bidirectional(character) in DIRECTIONS
    )


STEERING = steering([*range(0xD800), *range(0xE000, 0x1_0000)])
MARKS = "\u061c\u200e\u200f"  # of direction: bidirectional() tells them from letters by nothing
ALL = STEERING + MARKS
SHOWN = re.compile(r"\x1b\[[0-9;?]*[A-Za-z]|\r")  # what tables and progress bars of our own are made with


def steers(output: bytes) -> str:
    """The characters of a command's output that a terminal would obey."""
    return "".join(sorted(set(ALL) & set(SHOWN.sub("", output.decode())) - {"\n"}))


@pytest.mark.slow
def test_there_are_no_others() -> None:
    assert steering(range(0x1_0000, sys.maxunicode + 1)) == ""


def test_every_one_of_them_is_escaped() -> None:
    assert len(STEERING) == 65 + 2 + 9
    assert plain(ALL) == "".join(f"\\u{ord(character):04x}" for character in ALL)
    assert plain("\udc80") == "\\udc80"
    assert plain_bytes(b"\xff\x1b[2J\n\x9b") == "\\xff\\u001b[2J\n\\x9b"
    assert plain("Zürich 東京 🙂") == "Zürich 東京 🙂"


@given(st.text(st.sampled_from(ALL + 'aü"\\🙂')))
def test_json_stays_what_it_is(text: str) -> None:
    document = plain_json(msgspec.json.encode({text: [text]}))
    assert steers(document) == ""
    assert json.loads(document) == {text: [text]}


@pytest.fixture
def hostile(on_files: Lithify) -> Lithify:
    """Such characters stand wherever users can put them."""
    on_files.ok("topic", "create", "users", "--config", "cleanup.policy=compact")
    topic = face.open(on_files.url).topic("users")
    part = topic.partition(0)
    record = face.Record(ALL.encode(), ALL.encode(), 5, ((ALL, ALL.encode()),))
    part.append_prepared(topic.prepare([record]), transaction=TransactionStamp(ALL, 1))  # as an earlier release took it
    part.append([face.Record(b"k", None)], txn=("plain", 1))
    return on_files


COMMANDS: dict[str, tuple[str, ...]] = {
    "read": ("read", "users"),
    "follow": ("read", "users", "--follow", "--limit", "2"),
    "scan": ("scan", "users"),
    "get": ("get", "users", "--base64", base64.b64encode(ALL.encode()).decode()),
    "export": ("export", "users", "--to", "-"),
    "manifest": ("manifest", "show", "users"),
    "manifest by JSON": ("manifest", "show", "users", "--json"),
    "describe": ("topic", "describe", "users"),
    "describe by JSON": ("topic", "describe", "users", "--json"),
    "transactions": ("transaction", "list", "users"),
    "transactions by JSON": ("transaction", "list", "users", "--json"),
    "explain": ("compaction", "explain", "users"),
    "verify": ("verify", "--engine", "local"),
    "unknown topic": ("read", ALL.replace("\0", "")),
    "unknown topic by JSON": ("--json", "read", ALL),
    "unknown application": ("transaction", "forget", "users", f"no {ALL}"),
    "unknown consumer": ("consumer", "reset", "users", f"no {ALL}", "--to-earliest"),
    "unknown checkpoint": ("scan", "users", "--checkpoint", f"no {ALL}"),
    "unknown command": (f"no {ALL}",),
    "unknown flag": ("topic", "list", f"--no{ALL}"),
    "unknown compaction": ("compaction", "status", f"users/0/{ALL}"),
    "unknown source": ("append", "users", "--from", f"/nowhere/{ALL}".replace("\0", "")),
    "bad configuration": ("topic", "create", "t", "--config", f"{ALL}=1"),
    "bad value": ("topic", "create", "t", "--config", f"cleanup.policy={ALL}"),
}


@pytest.mark.slow
@pytest.mark.parametrize("color", ["", "1"], ids=["a pipe", "a terminal"])
@pytest.mark.parametrize("name", COMMANDS)
def test_no_command_lets_them_through(hostile: Lithify, name: str, color: str) -> None:
    result = hostile(*COMMANDS[name], env={"FORCE_COLOR": color} if color else None)
    assert result.output_bytes
    assert result.exit_code != 70, result.stderr
    if not color and name == "manifest by JSON":
        return  # the stored bytes, for a file or another program
    assert steers(result.output_bytes) == ""


def test_records_come_back_as_they_were(hostile: Lithify) -> None:
    (found, _) = hostile.records("read", "users")
    assert (found["key"], found["value"], found["headers"]) == (ALL, ALL, {ALL: ALL})
    hostile.ok("append", "users", input=lines(found))
    again = hostile.records("read", "users")[-1]
    assert (again["key"], again["value"], again["headers"]) == (ALL, ALL, {ALL: ALL})


def test_a_damaged_file_whose_bytes_are_told(hostile: Lithify, folder: Path) -> None:
    head = max(folder.rglob("*.manifest"))
    stored = json.loads(head.read_bytes())
    del stored["file_xxh3"]
    head.write_text(json.dumps(stored | {"topic": ALL, "l0": [{ALL: ALL}]}))
    for command in (("read", "users"), ("verify", "--engine", "local"), ("manifest", "show", "users", "--number", "3")):
        result = hostile(*command, env={"FORCE_COLOR": "1"})
        assert result.exit_code == 9
        assert steers(result.output_bytes) == ""


@pytest.mark.parametrize("form", [(), ("--json",)], ids=["text", "json"])
def test_names_of_files_that_are_not_utf_8(hostile: Lithify, folder: Path, form: tuple[str, ...]) -> None:
    """Older tools and archives leave such; one ended a sweep as a fault of lithify, after it had deleted."""
    (part,) = folder.glob("users/*/00000")
    for where in (part, part / "segments", folder):
        Path(os.fsdecode(os.fsencode(where) + b"/caf\xe9.txt")).write_bytes(b"x")
        Path(os.fsdecode(os.fsencode(where) + b"/d\xe9")).mkdir()
    sweep = hostile("gc", "run", "--once", "--sweep", *form)
    assert sweep.exit_code == 0, sweep.stderr
    assert sweep.stdout.count("caf\\udce9.txt") == 2
    for command in (("topic", "list"), ("doctor",), ("verify", "--engine", "local"), ("read", "users")):
        assert hostile(*command, *(() if command[0] == "read" else form)).exit_code == 0
    missing = hostile("append", "users", "--from", "/nowhere/\udce9", *form)
    assert "\\udce9" in missing.stderr
    assert missing.exit_code not in (0, 70)


@pytest.mark.parametrize("form", ["text", "json"])
def test_log_lines(form: str, capfd: pytest.CaptureFixture[str]) -> None:
    import structlog

    set_up_logs(form, "info")
    log: Any = structlog.get_logger()
    log.info("started", topic=ALL, other="\x9b")
    assert steers(capfd.readouterr().err.encode()) == ""


def test_what_is_printed_goes_through_it() -> None:
    """The demo prints what it made itself; the rest calls these, or hands over bytes that have passed."""
    may = {"output.py", "terminal.py", "failures.py", "manifests.py", "logs.py", "dev.py"}
    for file in sorted(CLI.glob("*.py")):
        if file.name not in may and not file.name.startswith("demo"):
            assert not re.search(r"click\.echo|\bprint\(", file.read_text(encoding="utf-8")), file.name


def test_lines_titles_and_cells(capsys: pytest.CaptureFixture[str]) -> None:
    output = Output(as_json=False)
    output.line(ALL)
    output.table(("#n", "name"), [(1, ALL)], title=ALL)
    assert steers(capsys.readouterr().out.encode()) == ""
