"""Importing the product with one line of it sabotaged; no file is touched."""

import importlib.abc
import importlib.machinery
import importlib.util
from collections.abc import Sequence
from pathlib import Path
from types import ModuleType
from typing import Any

from tests.sim.sabotage_line import Sabotage

__all__ = ["Finder"]

ROOT = Path(__file__).resolve().parents[2]


class _Loader(importlib.machinery.SourceFileLoader):
    def __init__(self, name: str, path: str, sabotage: Sabotage) -> None:
        super().__init__(name, path)
        self._sabotage = sabotage

    def get_code(self, fullname: str) -> Any:
        source = Path(self.path).read_text(encoding="utf-8")
        if self._sabotage.old not in source:
            raise ValueError(f"sabotage {self._sabotage.name!r}: {self._sabotage.file} has no such line any more")
        return compile(source.replace(self._sabotage.old, self._sabotage.new, 1), self.path, "exec")


class Finder(importlib.abc.MetaPathFinder):
    def __init__(self, sabotage: Sabotage) -> None:
        self._sabotage = sabotage
        self._module = "lithify." + sabotage.file.removesuffix(".py").replace("/", ".")

    def find_spec(
        self, fullname: str, path: Sequence[str] | None, target: ModuleType | None = None
    ) -> importlib.machinery.ModuleSpec | None:
        if fullname != self._module:
            return None
        file = str(ROOT / self._sabotage.file)
        return importlib.util.spec_from_file_location(fullname, file, loader=_Loader(fullname, file, self._sabotage))
