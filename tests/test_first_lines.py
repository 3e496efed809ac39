"""docs/first-lines.md: its blocks run in order, in one folder, and print what they show."""

import re
import subprocess
import sys
from itertools import groupby
from pathlib import Path

import pytest

from tests.test_readme import ROOT, blocks, environment, run

PAGE = (ROOT / "docs" / "first-lines.md").read_text(encoding="utf-8")


@pytest.mark.slow
@pytest.mark.timeout(1800)  # thirty processes, one after the other
@pytest.mark.long
def test_every_block_runs(tmp_path: Path) -> None:
    """A warehouse is said once, so each shell begins with it."""
    env = environment() | {"LITHIFY_WAREHOUSE": str(tmp_path / "warehouse"), "PYTHONWARNINGS": "default"}
    for (language, _), found in groupby(blocks(PAGE), key=lambda block: (block.language, block.heading)):
        if language == "sh":
            for block in found:
                run([block], tmp_path, env)
            continue
        for block in found:
            command = [sys.executable, "-W", "error::FutureWarning", "-c", block.text]
            done = subprocess.run(command, cwd=tmp_path, env=env, capture_output=True, check=False, text=True)
            assert done.returncode == 0, done.stderr
            assert "assert " in block.text


@pytest.mark.parametrize("tool", ["kafka-", "kcat "])
def test_ten_invocations_of_each_tool_are_there(tool: str) -> None:
    assert len(re.findall(rf"^# {tool}", PAGE, re.MULTILINE)) >= (10 if tool == "kafka-" else 8)
