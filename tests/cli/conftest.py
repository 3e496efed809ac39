"""The command line, called in process."""

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner, Result

from lithify.cli.main import cli
from lithify.store.driver import new_id

Run = Callable[..., Result]


class Lithify:
    """`lithify` on one warehouse; `ok` and `json` insist on success."""

    def __init__(self, url: str, *flags: str) -> None:
        self.url = url
        self._flags = flags

    def __call__(self, *words: str, input: str | bytes | None = None, env: dict[str, str] | None = None) -> Result:  # noqa: A002
        # The probe of a warehouse's first topic takes half a second, and has tests of its own.
        variables = {"LITHIFY_WAREHOUSE": self.url, "LITHIFY_COMPACTOR_PROBE": "false"} | (env or {})
        return CliRunner().invoke(cli, [*self._flags, *words], input=input, env=variables)

    def ok(self, *words: str, input: str | bytes | None = None) -> str:  # noqa: A002
        result = self(*words, input=input)
        assert result.exit_code == 0, result.stderr
        return result.stdout

    def json(self, *words: str, input: str | bytes | None = None) -> Any:  # noqa: A002
        return json.loads(self.ok(*words, "--json", input=input))

    def records(self, *words: str) -> list[dict[str, Any]]:
        return [json.loads(line) for line in self.ok(*words).splitlines()]

    def refused(self, *words: str, code: int, saying: str, input: str | bytes | None = None) -> str:  # noqa: A002
        """One clear line on standard error, and the code."""
        result = self(*words, input=input)
        assert result.exit_code == code, (result.exit_code, result.stderr)
        (line,) = result.stderr.splitlines()
        assert line.startswith("lithify: ")
        assert saying in line
        return line


@pytest.fixture
def lithify() -> Lithify:
    """On a warehouse in memory."""
    return Lithify(f"memory://{new_id()}")


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    return tmp_path / "warehouse"


@pytest.fixture
def on_files(folder: Path) -> Lithify:
    return Lithify(folder.as_uri())


def lines(*records: dict[str, Any]) -> str:
    return "".join(json.dumps(record) + "\n" for record in records)


def changes(count: int, keys: int = 7) -> str:
    return lines(*({"key": f"k{n % keys}", "value": f"v{n}"} for n in range(count)))
