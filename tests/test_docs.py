"""docs/: the configuration table is the code's, and the index names every page."""

from pathlib import Path

from lithify.manifest.config import config_table

DOCS = Path(__file__).resolve().parent.parent / "docs"


def rows() -> list[str]:
    return [f"| `{name}` | `{default}` | {meaning} |" for name, default, meaning in config_table()]


def test_the_configuration_page_is_the_codes_table() -> None:
    page = (DOCS / "configuration.md").read_text(encoding="utf-8").splitlines()
    assert [line for line in page if line.startswith("| `")] == rows()


def test_the_index_names_every_page() -> None:
    index = (DOCS / "README.md").read_text(encoding="utf-8")
    pages = [page.relative_to(DOCS).as_posix() for page in DOCS.rglob("*.md") if page.name != "README.md"]
    assert pages
    assert [page for page in pages if f"({page})" not in index] == []
