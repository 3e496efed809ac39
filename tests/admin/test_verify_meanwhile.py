"""What happens to a warehouse while it is verified, or a key is traced, is no damage."""

from collections.abc import Callable, Generator

import pytest

import lithify
from lithify.admin.verify import Finding, Verifier, local_checks
from lithify.segment.check import CheckTask
from lithify.store.homes import Homes
from lithify.store.memory import MemoryStore
from lithify.store.port import Object
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


Look = Callable[[lithify.Warehouse], object]


def verify(warehouse: lithify.Warehouse) -> object:
    return lithify.Admin(warehouse).verify("users", engine="local").findings


def trace(warehouse: lithify.Warehouse) -> object:
    return lithify.Admin(warehouse).history("users", b"k", 0, trace=True).versions[1:]


@pytest.mark.parametrize("suffix", [".manifest", ".runs"])
@pytest.mark.parametrize("look", [verify, trace])
def test_a_checkpoint_that_is_released_and_collected_meanwhile_is_no_damage(
    warehouse: lithify.Warehouse,
    clock: HandClock,
    users: lithify.Topic,
    monkeypatch: pytest.MonkeyPatch,
    suffix: str,
    look: Look,
) -> None:
    """Between the look at the head and that at the manifest which it pinned, or at its run list."""
    monkeypatch.setattr("lithify.manifest.list_layout.INLINE_MAX", 0)
    compacted(warehouse)
    users.partition(0).snapshot(pin="before")
    files = files_of(warehouse, "users")
    pinned = warehouse.driver.run(files.head())
    users.partition(0).append([lithify.Record(b"k", b"newer")])
    compacted(warehouse)
    collected(warehouse, clock)
    here = {".manifest": files.keys.manifest.key(pinned.id), ".runs": files.keys.run_list(pinned.lists[0].id)}[suffix]
    get, went = MemoryStore.get, list[str]()

    def released(store: MemoryStore, key: str) -> Object | None:
        if key == here and not went:
            went.append(key)
            lithify.Admin(warehouse).delete_checkpoint("users", "before", 0)
            collected(warehouse, clock)
            assert get(store, key) is None
        return get(store, key)

    monkeypatch.setattr(MemoryStore, "get", released)
    assert look(warehouse) == ()
    assert went


def test_what_a_checkpoint_still_pins_is_damage_if_it_is_missing(
    warehouse: lithify.Warehouse, clock: HandClock, users: lithify.Topic
) -> None:
    users.partition(0).snapshot(pin="before")
    files = files_of(warehouse, "users")
    lost = files.keys.manifest.key(warehouse.driver.run(files.head()).id)
    compacted(warehouse)
    collected(warehouse, clock)
    warehouse.store.delete([lost])
    findings = lithify.Admin(warehouse).verify("users", engine="local").findings
    assert [(each.kind, each.object) for each in findings] == [("missing", lost)]
    with pytest.raises(lithify.Corrupt, match="is pinned by checkpoint before, but missing"):
        trace(warehouse)
