"""The files of this checkout, for the tests that read sources."""

import ast
import tomllib
from collections.abc import Iterator
from functools import cache
from pathlib import Path
from typing import Any

__all__ = [
    "FOLDERS",
    "IGNORED",
    "PLACES",
    "PROJECT",
    "ROOT",
    "SETUPTOOLS",
    "package_files",
    "relative",
    "syntax",
    "tree_files",
]

ROOT = Path(__file__).resolve().parent.parent
PROJECT: dict[str, Any] = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))
SETUPTOOLS: dict[str, Any] = PROJECT["tool"]["setuptools"]
PLACES: dict[str, str] = SETUPTOOLS["package-dir"]  # package -> folder
FOLDERS = sorted({folder.split("/")[0] for folder in PLACES.values()})
IGNORED = {".debian", ".git", ".hypothesis", ".java", ".pytest_cache", ".ruff_cache", ".venv", "__pycache__"} | {
    "artifacts", "build", "dist", "lithify.egg-info", "metastore_db", "results", "spark-warehouse",
}  # fmt: skip


def package_files() -> list[Path]:
    return sorted(file for folder in FOLDERS for file in (ROOT / folder).rglob("*.py"))


def tree_files(folder: Path = ROOT) -> Iterator[Path]:
    """Every file of the checkout but what tools left there; links are not followed."""
    for entry in sorted(folder.iterdir()):
        if entry.name in IGNORED or entry.is_symlink():
            continue
        if entry.is_dir():
            yield from tree_files(entry)
        else:
            yield entry


def relative(file: Path) -> str:
    return file.relative_to(ROOT).as_posix()


@cache
def syntax(file: Path) -> ast.Module:
    return ast.parse(file.read_text(encoding="utf-8"), relative(file))
