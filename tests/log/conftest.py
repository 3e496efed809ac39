"""A warehouse in each kind of store, with a clock of the tests' own."""

from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from lithify.log.warehouse import Warehouse
from lithify.store.driver import Driver
from lithify.store.file import FileStore
from lithify.store.memory import MemoryStore
from lithify.store.metered import Metered
from lithify.store.s3 import S3Store
from lithify.testing.server import S3Server


class HandClock:
    """Milliseconds since 1970; they pass when a test says so."""

    def __init__(self) -> None:
        self.now_ms = 1_700_000_000_000

    def __call__(self) -> int:
        return self.now_ms


@pytest.fixture
def clock() -> HandClock:
    return HandClock()


@pytest.fixture
def warehouse(clock: HandClock) -> Warehouse:
    return Warehouse(Driver(Metered(MemoryStore()), clock))


@pytest.fixture(params=["memory", "file", "s3"])
def any_warehouse(request: pytest.FixtureRequest, tmp_path: Path, clock: HandClock) -> Iterator[Warehouse]:
    def s3() -> S3Store:
        server: S3Server = request.getfixturevalue("lithify_s3")
        bucket = server.create_bucket()
        request.addfinalizer(lambda: server.delete_bucket(bucket))
        return S3Store(bucket, "some/prefix", server.options, pause=lambda _: None)

    make: dict[str, Callable[[], MemoryStore | FileStore | S3Store]] = {
        "memory": MemoryStore,
        "file": lambda: FileStore(tmp_path / "warehouse"),
        "s3": s3,
    }
    with Warehouse(Driver(Metered(make[request.param]()), clock)) as opened:
        yield opened
