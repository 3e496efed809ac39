"""Fixtures for whoever tests against a warehouse. Loaded in every pytest run: imports nothing but pytest here."""

from collections.abc import Iterator
from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from lithify.log.warehouse import Warehouse
    from lithify.testing.faulty_s3 import FaultyS3
    from lithify.testing.server import S3Server

__all__ = ["lithify_faulty_s3", "lithify_s3", "lithify_warehouse"]


@pytest.fixture(scope="session")
def lithify_s3() -> "Iterator[S3Server]":
    """An atomic S3 on loopback, one for the session (one per worker of pytest-xdist)."""
    from lithify.testing import s3

    with s3() as server:
        yield server


@pytest.fixture
def lithify_warehouse(lithify_s3: "S3Server") -> "Iterator[Warehouse]":
    """An open warehouse in a bucket of its own, deleted afterwards."""
    import lithify

    bucket = lithify_s3.create_bucket()
    warehouse = lithify.open(lithify_s3.url(f"{bucket}/warehouse"), storage_options=lithify_s3.options)
    yield warehouse
    warehouse.close()
    lithify_s3.delete_bucket(bucket)


@pytest.fixture
def lithify_faulty_s3(lithify_s3: "S3Server") -> "Iterator[FaultyS3]":
    """A bucket of its own on an S3 that fails when it is told to (docs/testing.md). Deleted afterwards."""
    from lithify.testing.faulty_s3 import FaultyS3

    with FaultyS3(lithify_s3) as faulty:
        yield faulty
