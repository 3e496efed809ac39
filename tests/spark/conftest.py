"""A warehouse in a folder, which every process of Spark reaches, and the format registered."""

import os
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pyspark_lithify
import pytest

import lithify


@pytest.fixture
def spark(spark_session: Any) -> Any:
    spark_session.dataSource.register(pyspark_lithify.LithifyDataSource)
    return spark_session


@pytest.fixture
def url(tmp_path: Path) -> str:
    return f"file://{tmp_path}/warehouse"


@pytest.fixture
def warehouse(url: str) -> lithify.Warehouse:
    return lithify.open(url)


@pytest.fixture(autouse=True)
def _tracebacks_are_shown() -> Iterator[None]:
    """A data source's error in this process sets this for a process that is about to end, which this one is not."""
    yield
    os.environ.pop("SPARK_HIDE_TRACEBACK", None)
