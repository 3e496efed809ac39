"""Processes that know nothing of each other append to one partition (P1, P2, P6)."""

from pathlib import Path

import pytest

from tests.log.many_processes import append_at_once


@pytest.mark.slow
def test_eight_processes_append_at_once(tmp_path: Path) -> None:
    part = append_at_once(f"file://{tmp_path}/warehouse", processes=8, appends=5, rows=3)
    assert part.describe().manifest_id == 1 + 8 * 5
