"""Forty processes append to one partition, over files and over S3."""

from pathlib import Path

import pytest

from lithify.testing.server import S3Server
from tests.log.many_processes import append_at_once

pytestmark = pytest.mark.slow
STORM = [pytest.mark.soak, pytest.mark.long]


def test_forty_processes_over_files(tmp_path: Path) -> None:
    part = append_at_once(f"file://{tmp_path}/warehouse", processes=40, appends=10, rows=2)
    assert part.describe().manifest_id == 1 + 40 * 10


@pytest.mark.parametrize(("processes", "appends"), [(12, 5), pytest.param(40, 2, marks=STORM)])
def test_processes_over_s3(lithify_s3: S3Server, processes: int, appends: int) -> None:
    """What it takes grows with the square of their number: each append is tried anew for every one that was faster."""
    bucket = lithify_s3.create_bucket()
    url = lithify_s3.url(f"{bucket}/warehouse")
    part = append_at_once(url, processes, appends, rows=2, options=lithify_s3.options)
    assert part.describe().manifest_id == 1 + processes * appends
    lithify_s3.delete_bucket(bucket)
