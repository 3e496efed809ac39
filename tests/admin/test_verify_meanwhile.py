"""What happens to a warehouse while it is verified is no damage."""

from collections.abc import Callable, Generator

import pytest

import lithify
from lithify.admin.verify import Finding, Verifier, local_checks
from lithify.segment.check import CheckTask
from lithify.store.homes import Homes
from tests.clock import HandClock
from tests.log.compaction import files_of

GRACE_MS = 60_000
EAGER = {"cleanup.policy": "compact", "min.cleanable.dirty.ratio": "0"}


def collected(warehouse: lithify.Warehouse, clock: HandClock) -> None:
    for _ in range(3):
        clock.now_ms += 2 * GRACE_MS
        lithify.Collector(warehouse, grace_ms=GRACE_MS).run_once(sweep=True)


def compacted(warehouse: lithify.Warehouse) -> None:
    lithify.Compactor(warehouse, engine="local").run_once()


def deleted(warehouse: lithify.Warehouse) -> None:
    warehouse.delete_topic("users")


def made_anew(warehouse: lithify.Warehouse) -> None:
    warehouse.delete_topic("users")
    warehouse.create_topic("users", 2, EAGER)


@pytest.fixture
def users(warehouse: lithify.Warehouse) -> lithify.Topic:
    topic = warehouse.create_topic("users", 2, EAGER)
    for number in range(2):
        for value in (b"old", b"new"):
            topic.partition(number).append([lithify.Record(b"k", value)])
    return topic


def verified(warehouse: lithify.Warehouse, meanwhile: Callable[[], None]) -> list[Finding]:
    def run(homes: Homes, tasks: list[CheckTask]) -> Generator[tuple[Finding, ...]]:
        meanwhile()
        yield from local_checks(homes, tasks)

    return list(Verifier(warehouse.driver, run).verify().findings)


@pytest.mark.parametrize("happens", [compacted, deleted, made_anew])
@pytest.mark.usefixtures("users")
def test_what_is_replaced_and_collected_meanwhile_is_not_missing(
    warehouse: lithify.Warehouse, clock: HandClock, happens: Callable[[lithify.Warehouse], None]
) -> None:
    def meanwhile() -> None:
        happens(warehouse)
        collected(warehouse, clock)

    assert verified(warehouse, meanwhile) == []


@pytest.mark.parametrize("pinned", [True, False])
def test_what_is_still_named_is_missing(
    warehouse: lithify.Warehouse, clock: HandClock, users: lithify.Topic, pinned: bool
) -> None:
    """Compacted and collected too, but for what a pin keeps; then one object is taken away."""
    files = files_of(warehouse, "users")
    lost = files.keys.segment(warehouse.driver.run(files.head()).l0[0].id)
    if pinned:
        users.partition(0).snapshot(pin="before")

    def meanwhile() -> None:
        if pinned:
            compacted(warehouse)
            collected(warehouse, clock)
            assert users.partition(0).describe().l0 == ()
        warehouse.store.delete([lost])

    assert [(finding.kind, finding.object) for finding in verified(warehouse, meanwhile)] == [("missing", lost)]
