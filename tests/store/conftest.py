"""The stores that one contract is held against."""

from collections.abc import Callable, Iterator
from pathlib import Path
from types import SimpleNamespace

import botocore.endpoint
import pytest

from lithify.store.file import FileStore
from lithify.store.fsspec_store import FsspecStore
from lithify.store.memory import MemoryStore
from lithify.store.port import Store
from lithify.store.s3 import S3Store
from lithify.testing.server import S3Server
from tests import endpoint


@pytest.fixture(autouse=True)
def no_waiting(monkeypatch: pytest.MonkeyPatch) -> None:
    """botocore waits up to seconds between its attempts, by no injected clock."""
    monkeypatch.setattr(botocore.endpoint, "time", SimpleNamespace(sleep=lambda _: None))


@pytest.fixture
def bucket(lithify_s3: S3Server) -> Iterator[str]:
    name = lithify_s3.create_bucket()
    yield name
    lithify_s3.delete_bucket(name)


@pytest.fixture
def s3_store(lithify_s3: S3Server, bucket: str) -> Iterator[S3Store]:
    store = S3Store(bucket, "some/prefix", lithify_s3.options, pause=lambda _: None)
    yield store
    store.close()


@pytest.fixture
def endpoint_store() -> Iterator[S3Store]:
    """In a bucket of the endpoint that the environment names (tests/endpoint.py)."""
    place = endpoint.Endpoint.named()
    name = place.create_bucket()
    store = S3Store(name, "some/prefix", place.options, pause=lambda _: None)
    yield store
    store.close()
    place.delete_bucket(name)
    place.close()


@pytest.fixture(params=["memory", "file", "s3", "fsspec", *(["endpoint"] if endpoint.PRESENT else [])])
def store(request: pytest.FixtureRequest, tmp_path: Path) -> Store:
    """`proven`: fsspec's local files are not atomic, and here nobody races."""
    make: dict[str, Callable[[], Store]] = {
        "memory": MemoryStore,
        "file": lambda: FileStore(tmp_path / "warehouse"),
        "s3": lambda: request.getfixturevalue("s3_store"),
        "endpoint": lambda: request.getfixturevalue("endpoint_store"),
        "fsspec": lambda: FsspecStore(f"file://{tmp_path}/warehouse", proven=True),
    }
    return make[request.param]()
