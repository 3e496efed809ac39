"""README.md never lies: its blocks are run, and must print what it says they print.

Under a heading, every block of sh or python is run in order, in one empty folder; a block of text is the whole
output of the block before it.
"""

import os
import re
import shlex
import signal
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path

import click
import msgspec
import pytest

from lithify.cli.main import cli
from tests.processes import running

ROOT = Path(__file__).resolve().parent.parent
README = (ROOT / "README.md").read_text(encoding="utf-8")


@dataclass(frozen=True, slots=True)
class Block:
    heading: str
    language: str
    text: str
    shown: str | None  # what it must print


def blocks(page: str = README) -> list[Block]:
    found: list[Block] = []
    heading = ""
    fence = re.compile(r"^## (?P<heading>[^\n]+)$|^```(?P<language>\w*)\n(?P<text>.*?)^```$", re.MULTILINE | re.DOTALL)
    for match in fence.finditer(page):
        if match["heading"]:
            heading = match["heading"]
        elif match["language"] == "text":
            last = found.pop()
            assert last.language in ("sh", "python"), f"a text block after nothing that is run: {match['text']}"
            found.append(Block(last.heading, last.language, last.text, match["text"]))
        else:
            found.append(Block(heading, match["language"], match["text"], None))
    return found


def under(heading: str) -> list[Block]:
    found = [block for block in blocks() if block.heading == heading]
    assert found, f"README.md has no blocks under {heading!r}"
    return found


def environment() -> dict[str, str]:
    """The machine's, without its own settings of lithify and S3, and with this lithify first on PATH."""
    kept = {name: value for name, value in os.environ.items() if not name.startswith(("LITHIFY_", "AWS_"))}
    return kept | {"PATH": f"{Path(sys.executable).parent}{os.pathsep}{kept['PATH']}", "PYTHONWARNINGS": "error"}


def run(shell: list[Block], folder: Path, env: dict[str, str]) -> None:
    """One shell for all blocks, so that what one exports the next one sees; the output of each is told apart."""
    script = "".join(f"{block.text}\necho; echo '=== {number}'\n" for number, block in enumerate(shell))
    done = subprocess.run(
        ["bash", "-euo", "pipefail", "-c", script],
        cwd=folder,
        env=env,
        capture_output=True,
        check=False,
        text=True,
        timeout=300,
    )
    assert done.returncode == 0, done.stderr
    printed = re.split(r"\n=== \d+\n", done.stdout)
    for block, output in zip(shell, printed, strict=False):
        if block.shown is not None:
            assert output == block.shown, block.text


@pytest.mark.slow
def test_the_tour_on_a_local_folder(tmp_path: Path) -> None:
    tour = under("Five minutes on a local folder")
    assert sum(block.shown is not None for block in tour) >= 2
    run(tour, tmp_path, environment())
    assert (tmp_path / "users.parquet").stat().st_size


@pytest.mark.slow
def test_the_same_on_s3(tmp_path: Path) -> None:
    serve, *tour = under("The same on S3")
    command = [sys.executable, "-m", "lithify.cli.main", *shlex.split(serve.text)[1:], "--port", "0", "--json"]
    with running(command, env=environment(), stdout=subprocess.PIPE) as server:
        assert server.stdout is not None
        try:
            exports = msgspec.json.decode(server.stdout.readline(), type=dict[str, str])
            run(tour, tmp_path, environment() | exports)
        finally:
            server.send_signal(signal.SIGTERM)
        assert server.wait(60) == 0


def test_the_library_snippet(tmp_path: Path) -> None:
    for block in under("As a library"):
        done = subprocess.run(
            [sys.executable, "-c", block.text],
            cwd=tmp_path, env=environment(), capture_output=True, check=False, text=True, timeout=120,
        )  # fmt: skip
        assert done.returncode == 0, done.stderr
        assert "assert " in block.text


def test_every_block_is_known_to_a_test() -> None:
    known = {"Five minutes on a local folder", "The same on S3", "As a library", "Running it"}
    assert {block.heading for block in blocks() if block.language in ("sh", "python")} == known
    assert {block.language for block in blocks()} == {"", "sh", "python"}


def command_lines() -> list[str]:
    """In blocks that are run, and in the text."""
    lines = [line for block in blocks() if block.language == "sh" for line in block.text.splitlines()]
    found = {line[line.index("lithify ") :] for line in lines if re.search(r"(^|\| )lithify ", line)}
    return sorted(found | set(re.findall(r"`(lithify [a-z][^`]*)`", README)))


@pytest.mark.parametrize("line", command_lines())
def test_every_command_and_flag_exists(line: str) -> None:
    words = shlex.split(line)[1:]
    command: click.Command = cli
    while isinstance(command, click.Group):
        found = command.get_command(click.Context(command), words.pop(0))
        assert found is not None
        command = found
    flags = {flag for parameter in command.params for flag in parameter.opts}
    assert {word for word in words if word.startswith("-") and word != "-"} <= flags


@pytest.mark.slow
def test_the_service_of_the_readme_starts_and_leaves_when_told(tmp_path: Path) -> None:
    (block,) = under("Running it")
    command = [sys.executable, "-m", "lithify.cli.main", *shlex.split(block.text)[1:]]
    env = environment() | {"LITHIFY_WAREHOUSE": str(tmp_path / "warehouse")}
    with running(command, env=env, stderr=subprocess.PIPE, text=True) as service:
        assert service.stderr is not None
        try:
            assert any("started" in line for line in service.stderr)  # first, it misses a warehouse
        finally:
            service.send_signal(signal.SIGTERM)
        assert service.wait(60) == 0


def test_its_links_lead_somewhere() -> None:
    links = [link for link in re.findall(r"\]\(([^)]+)\)", README) if "://" not in link]
    assert links
    assert [link for link in links if not (ROOT / link).exists()] == []


def test_its_make_targets_exist() -> None:
    targets = set(re.findall(r"^([a-z]+):", (ROOT / "Makefile").read_text(encoding="utf-8"), re.MULTILINE))
    named = set(re.findall(r"(?:^|`)make ([a-z]+)", README, re.MULTILINE))
    assert named
    assert named <= targets
