"""Imports of a CSV file, of lines of JSON and of a folder of Parquet, killed five times each and started again with the
same command: every row is there once, in order (docs/rfcs/0011, 0029). `python -m benchmarks.killed_imports` does it at
full size."""

import os
import random
from pathlib import Path

import pytest

from benchmarks.killed_imports import KILLS, import_killed, sources

VARIABLE = "LITHIFY_TEST_SEED"
SEED = int(os.environ.get(VARIABLE, "20261126"))


@pytest.mark.soak
@pytest.mark.long
def test_an_import_killed_again_and_again_is_exact(tmp_path: Path) -> None:
    dice = random.Random(SEED)
    for number, source in enumerate(sources(tmp_path, 600_000, 60_000_000, 1_200_000)):
        it = import_killed(tmp_path / f"warehouse-{number}", source, dice)
        assert it.kills == KILLS, f"{VARIABLE}={SEED}"
