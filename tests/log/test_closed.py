"""Use after close is refused alike, whatever the store and whatever is used."""

import contextlib
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

import lithify
from lithify.store.driver import new_id
from lithify.store.port import Create
from lithify.store.refused import Closed
from lithify.testing.server import S3Server

RECORDS = [lithify.Record(b"k%d" % number, b"v") for number in range(5)]


class Held:
    """What a program may still have in its hands."""

    def __init__(self, warehouse: lithify.Warehouse) -> None:
        self.warehouse = warehouse
        self.topic = warehouse.create_topic("users", config={"cleanup.policy": "compact"}, probe=False)
        self.topic.append(RECORDS)
        self.partition = self.topic.partition(0)
        self.snapshot = self.partition.snapshot()
        self.all_of_it = self.topic.snapshot()
        self.reading = self.partition.read()
        self.following = self.partition.read(follow=True)
        self.consumer = self.partition.consumer("audit")
        self.producer = self.topic.producer()
        self.admin = lithify.Admin(warehouse)
        self.compactor = lithify.Compactor(warehouse, engine="local")

    def produce(self) -> None:
        self.producer.append(b"k", b"v")
        self.producer.flush()


USES: dict[str, Callable[[Held], Any]] = {
    "names": lambda held: held.warehouse.topics(),
    "a topic by name": lambda held: held.warehouse.topic("users"),
    "a new topic": lambda held: held.warehouse.create_topic("orders"),
    "settings": lambda held: held.warehouse.describe(),
    "append": lambda held: held.topic.append(RECORDS),
    "scan": lambda held: held.topic.scan().read_all(),
    "get": lambda held: held.topic.get(b"k1"),
    "describe": lambda held: held.topic.describe(),
    "read": lambda held: list(held.partition.read()),
    "a follower": lambda held: next(held.following),
    "a snapshot": lambda held: list(held.snapshot.read()),
    "a topic's snapshot": lambda held: held.all_of_it.scan().read_all(),
    "a consumer": lambda held: held.consumer.poll(),
    "a producer": lambda held: held.produce(),
    "admin": lambda held: held.admin.topics(),
    "a compactor": lambda held: held.compactor.run_once(),
    "a collector": lambda held: lithify.Collector(held.warehouse).run_once(),
}


@pytest.fixture(params=["memory", "file", "s3"])
def held(request: pytest.FixtureRequest, tmp_path: Path) -> Held:
    match request.param:
        case "memory":
            url, options = f"memory://{new_id()}", None
        case "file":
            url, options = tmp_path.as_uri(), None
        case _:
            server: S3Server = request.getfixturevalue("lithify_s3")
            url, options = server.url(f"{server.create_bucket()}/w"), server.options
    return Held(lithify.open(url, storage_options=options))


@pytest.mark.slow
def test_use_after_close_is_refused_alike(held: Held) -> None:
    held.warehouse.close()
    held.warehouse.close()
    told: dict[str, str] = {}
    for name, use in USES.items():
        with pytest.raises(lithify.InvalidRequest) as refused:
            use(held)
        told[name] = str(refused.value)
    unclear = {name: text for name, text in told.items() if "this warehouse was closed; open it again" not in text}
    assert unclear == {}


def test_a_store_that_was_closed_says_that_nobody_was_asked() -> None:
    """So a commit of which this was the first request did not happen (tests/protocol/test_p01_sent_twice.py)."""
    warehouse = lithify.open(f"memory://{new_id()}")
    warehouse.close()

    async def commit() -> None:
        await Create("t/1.x", b"")

    with pytest.raises(Closed):
        warehouse.driver.run(commit())


def test_an_iterator_shows_no_part_of_the_rest(held: Held) -> None:
    """What it had fetched from a far store before is whole; else it is refused as everything else."""
    held.warehouse.close()
    read: list[bytes | None] = []
    with contextlib.suppress(lithify.InvalidRequest):
        read.extend(record.value for record in held.reading)
    assert read in ([], [record.value for record in RECORDS])


def test_another_handle_of_the_same_place_stays_open() -> None:
    url = f"memory://{new_id()}"
    first, second = lithify.open(url), lithify.open(url)
    first.create_topic("users", probe=False)
    first.close()
    assert second.topics() == ["users"]
