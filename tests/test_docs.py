"""docs/: the configuration tables are the code's, Kafka's names are all answered, commands exist, and the index names
every page."""

import re
import shlex
from pathlib import Path

import click
import msgspec
import pytest

from lithify.cli.main import cli
from lithify.manifest import jobs, model, runs
from lithify.manifest.config import config_table
from lithify.manifest.config_kafka import INSTEAD
from lithify.manifest.warehouse_settings import warehouse_table

DOCS = Path(__file__).resolve().parent.parent / "docs"


def rows() -> list[str]:
    return [f"| `{name}` | `{default}` | {meaning} |" for name, default, meaning in config_table() + warehouse_table()]


def test_the_configuration_page_is_the_codes_tables() -> None:
    page = (DOCS / "configuration.md").read_text(encoding="utf-8").splitlines()
    assert [line for line in page if line.startswith("| `")] == rows()


def section(title: str) -> dict[str, str]:
    """Each name in the first column of a section of from-kafka.md, and the second column of its row."""
    page = (DOCS / "from-kafka.md").read_text(encoding="utf-8")
    (text,) = re.findall(rf"^## {title}\n(.*?)(?=^## |\Z)", page, re.MULTILINE | re.DOTALL)
    told = [line.strip("| ").split(" | ") for line in text.splitlines() if line.startswith("| `")]
    named = [(name, row[1]) for row in told for name in re.findall(r"`([^`]+)`", row[0])]
    assert len(dict(named)) == len(named)
    return dict(named)


def test_every_configuration_is_compared_with_kafkas() -> None:
    assert list(section("Topic configuration")) == [name for name, _, _ in config_table()]


def test_every_refused_name_of_kafka_is_answered_as_the_code_answers() -> None:
    assert section("Names that are refused") == INSTEAD


def test_the_index_names_every_page() -> None:
    index = (DOCS / "README.md").read_text(encoding="utf-8")
    pages = [page.relative_to(DOCS).as_posix() for page in DOCS.rglob("*.md") if page.name != "README.md"]
    assert pages
    assert [page for page in pages if f"({page})" not in index] == []


def test_every_section_that_the_code_names_exists() -> None:
    """As in: docs/cli.md, "Settings"."""
    root = DOCS.parent
    folders = [*sorted(path.parent for path in root.glob("*/__init__.py")), root / "tests", root / "benchmarks"]
    texts = [file.read_text(encoding="utf-8") for folder in folders for file in folder.rglob("*.py")]
    named = {name for text in texts for name in re.findall(r'(docs/[\w/-]+\.md), "([^"\n]+)"', text)}
    assert ("docs/cli.md", "Settings") in named
    titles = {page: (root / page).read_text(encoding="utf-8").splitlines() for page, _ in named}
    missing = [
        (page, title) for page, title in named if not {f"{n * '#'} {title}" for n in (1, 2, 3)} & {*titles[page]}
    ]
    assert missing == []


def test_every_test_that_a_comment_or_a_page_names_exists() -> None:
    """The changelog alone may name what has gone since."""
    root = DOCS.parent
    pages = [root / "CONTRIBUTING.md", root / "README.md", *DOCS.rglob("*.md")]
    sources = [file for start in root.glob("*/__init__.py") for file in start.parent.rglob("*.py")]
    named = {
        (file.relative_to(root).as_posix(), path)
        for file in [*pages, *sources]
        for path in re.findall(r"\btests/[\w/]+\.py\b", file.read_text(encoding="utf-8"))
    }
    assert ("manifest/commit.py", "tests/protocol/test_p03_head_search.py") in named
    assert [(file, path) for file, path in sorted(named) if not (root / path).is_file()] == []


def test_every_subtle_comment_names_its_test() -> None:
    root = DOCS.parent
    packages = [start.parent for start in root.glob("*/__init__.py") if start.parent.name != "benchmarks"]
    texts = {file: file.read_text(encoding="utf-8") for start in packages for file in start.rglob("*.py")}
    # To the end of the comment: of a docstring, or of lines that begin with #.
    ends = {'"': r'.*?"""', "#": r".*?\n(?!\s*#)"}
    found = [
        (file.name, re.match(ends["#" if "#" in before.rpartition("\n")[2] else '"'], text[len(before) :], re.DOTALL))
        for file, text in texts.items()
        for before in (text[: at.start()] for at in re.finditer("SUBTLE!", text))
    ]
    assert len(found) > 70
    assert [(name, said and said[0][:80]) for name, said in found if said is None or "tests/" not in said[0]] == []


def test_every_stored_field_is_told_and_no_other() -> None:
    modules = (model, runs, jobs)
    structs = [c for m in modules for c in vars(m).values() if isinstance(c, type) and c.__module__ == m.__name__]
    fields = [field for c in structs if issubclass(c, msgspec.Struct) for field in msgspec.structs.fields(c)]
    arrays = {
        field.encode_name
        for c in (model.Bucket, model.Stretch, model.UploadAppended)
        for field in msgspec.structs.fields(c)
    }
    told = {"MergeCounts", "Estimate"}  # by one word each
    inner = {field.encode_name for c in structs if c.__name__ in told for field in msgspec.structs.fields(c)}
    page = (DOCS / "formats.md").read_text(encoding="utf-8")
    named = set(re.findall(r"`([a-z_0-9]+)`", page))
    assert {field.encode_name for field in fields} - arrays - inner - named == set()
    columns = (re.findall(r"`([a-z_0-9]+)`", line.split(" | ")[0]) for line in page.splitlines() if line[:3] == "| `")
    known = {field.encode_name for field in fields} | {"kind", "file_xxh3"}
    assert {name for names in columns for name in names} - known == set()


def command_lines() -> list[str]:
    """In the code blocks of the pages, without what is said of them two spaces on, and in the text."""
    found: set[str] = set()
    for name in (
        *("operations.md", "runbook.md", "deploy.md"),
        "from-kafka.md",
        "kafka-promises.md",
        "configuration.md",
    ):
        text = (DOCS / name).read_text(encoding="utf-8")
        found |= {line.split("  ")[0] for line in re.findall(r"^lithify .*$", text, re.MULTILINE)}
        found |= set(re.findall(r"`(lithify [a-z][^`]*)`", text))
    return sorted(found)


@pytest.mark.parametrize("line", command_lines())
def test_every_command_on_the_pages_exists_with_its_flags_and_arguments(line: str) -> None:
    words = shlex.split(line)[1:]
    command: click.Command = cli
    while isinstance(command, click.Group) and words:
        found = command.get_command(click.Context(command), words.pop(0))
        assert found is not None
        command = found
    if not words:
        return  # it is only named
    words = ["0" if word in ("N", "OFFSET") else word for word in words]
    command.make_context(command.name, words, resilient_parsing=False)


def test_each_picture_is_there_light_and_dark_for_a_desktop_and_a_phone() -> None:
    """As the reader's system and screen are; and nothing lies there that no page shows."""
    kept = {path.name for path in (DOCS / "pictures").iterdir()}
    shown: set[str] = set()
    for page in (*DOCS.glob("*.md"), DOCS.parent / "README.md"):
        text = page.read_text(encoding="utf-8")
        named = re.findall(r'(?:srcset|src)="[^"]*pictures/([^"]+)"|\]\([^)]*pictures/([^)]+)\)', text)
        shown |= {one or other for one, other in named}
        for picture in re.findall(r"<picture>.*?</picture>", text, re.DOTALL):
            (name,) = re.findall(r'<img alt="[^"]+" src="[^"]*pictures/(\w+)-desktop-light\.png">', picture)
            for media, kind in (
                ("(max-width: 600px) and (prefers-color-scheme: dark)", "phone-dark"),
                ("(max-width: 600px)", "phone-light"),
                ("(prefers-color-scheme: dark)", "desktop-dark"),
            ):
                assert re.search(f'media="{re.escape(media)}" srcset="[^"]*pictures/{name}-{kind}\\.png"', picture), (
                    name
                )
    assert kept == shown
