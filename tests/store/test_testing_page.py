"""docs/testing.md: its blocks are test files, and pass as a user would run them."""

import re
import subprocess
import sys
from pathlib import Path

import pytest

from lithify.testing.faulty_s3 import FaultyS3

PAGE = (Path(__file__).resolve().parents[2] / "docs" / "testing.md").read_text(encoding="utf-8")
BLOCKS = re.findall(r"```python\n(.*?)```", PAGE, re.DOTALL)


@pytest.mark.slow
def test_its_blocks_pass_in_an_empty_folder(tmp_path: Path) -> None:
    for number, block in enumerate(BLOCKS):
        (tmp_path / f"test_block_{number}.py").write_text(block, encoding="utf-8")
    command = [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", str(tmp_path)]
    ran = subprocess.run(command, cwd=tmp_path, check=False, capture_output=True, text=True, timeout=300)
    assert ran.returncode == 0, ran.stdout
    assert f"{sum(block.count('def test_') for block in BLOCKS)} passed" in ran.stdout


def test_every_method_that_fails_is_in_its_table() -> None:
    ways = {name for name, made in vars(FaultyS3).items() if callable(made) and not name.startswith("_")} - {"close"}
    assert {f"`{name}(" for name in ways} == set(re.findall(r"^\| (`\w+\()", PAGE, re.MULTILINE))


def test_of_two_troubles_each_counts_its_own_requests(lithify_faulty_s3: FaultyS3) -> None:
    import boto3

    client = boto3.client(
        "s3",
        aws_access_key_id="test",
        aws_secret_access_key="test",
        region_name="us-east-1",
        endpoint_url=lithify_faulty_s3.env["AWS_ENDPOINT_URL_S3"],
    )
    with lithify_faulty_s3.slow_down(every=3):
        for _ in range(3):
            client.list_objects_v2(Bucket=lithify_faulty_s3.bucket)
    assert (lithify_faulty_s3.requests, lithify_faulty_s3.failed) == (4, 1), "boto3 repeated the third"
    with pytest.raises(ValueError, match="at least 1"), lithify_faulty_s3.slow(1, every=0):
        pass
    client.close()
