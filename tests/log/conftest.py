"""A warehouse in each kind of store, with a clock of the tests' own."""

import contextlib
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from lithify.log.latest import Latest
from lithify.log.producer import Producer
from lithify.log.producer_config import parse_producer_config
from lithify.log.warehouse import Warehouse
from lithify.store.driver import Driver
from lithify.store.errors import LithifyError
from lithify.store.file import FileStore
from lithify.store.memory import MemoryStore
from lithify.store.metered import Metered
from lithify.store.s3 import S3Store
from lithify.testing.server import S3Server
from tests.clock import HandClock

TEN_SECONDS_MS = 10_000  # the docs promise that clients know of a change by then; not taken from the product


@pytest.fixture
def clock() -> HandClock:
    return HandClock()


@pytest.fixture(scope="module", params=["near", "far"])
def near_and_far(request: pytest.FixtureRequest) -> Iterator[None]:
    """Stores in memory are far: partitions are asked side by side, in a thread's turn."""
    with pytest.MonkeyPatch.context() as patch:
        if request.param == "far":
            patch.setattr(MemoryStore, "far", property(lambda _: True))
        yield


@pytest.fixture
def no_waiting(monkeypatch: pytest.MonkeyPatch) -> None:
    """Pauses between attempts take no time."""
    monkeypatch.setattr("lithify.store.driver.pause", lambda ms: None)


@pytest.fixture
def warehouse(clock: HandClock) -> Warehouse:
    return Warehouse(Driver(Metered(MemoryStore()), clock))


@pytest.fixture(params=["memory", "file", pytest.param("s3", marks=pytest.mark.slow)])
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


Make = Callable[..., Producer]


@pytest.fixture
def producer_of() -> Iterator[Make]:
    """Makes producers with a clock of the test's own."""
    made: list[Producer] = []

    def make(warehouse: Warehouse, name: str = "t", producer_id: str | None = None, clock: Any = None, **config: int):
        topic = warehouse.topic(name)
        settings = parse_producer_config({key.replace("_", "."): value for key, value in config.items()})
        partitions = [topic.partition(number) for number in range(topic.partitions)]
        clock = clock or HandClock()
        latest = Latest(name, lambda: topic.parsed_config, lambda: True, lambda: None)
        producer = Producer(warehouse.driver, name, partitions, latest, settings, producer_id, clock)
        made.append(producer)
        return producer

    yield make
    for producer in made:
        with contextlib.suppress(LithifyError):  # the test has judged it
            producer.close()
