"""Every pair of operations on what a partition remembers of its users (consumers, checkpoints, transactions): the one
runs as a whole between any two requests of the other, and both answer, and leave the partition, as if they had come one
after the other (docs/rfcs/0009, 0011, 0016)."""

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from datetime import timedelta
from functools import cache
from itertools import product
from typing import Any, Literal, TypeAlias

import pytest

from lithify.log.consumer import Consumer
from lithify.log.partition import Partition
from lithify.log.record import Record
from lithify.log.warehouse import Warehouse
from lithify.store.driver import Driver
from lithify.store.errors import LithifyError
from lithify.store.memory import MemoryStore
from lithify.store.metered import Metered
from tests.clock import HandClock
from tests.log.failing import FailingStore
from tests.log.test_follow import shown

Reset: TypeAlias = Literal["earliest", "latest", "error"]


@dataclass
class Scene:
    """A log of the offsets 2 to 5 with consumer "c" at 4, checkpoint "k" and application "a" at version 1. `held`: the
    instance of "c" that has read to offset 5 and committed 4."""

    store: FailingStore
    clock: HandClock
    held: Consumer

    def partition(self) -> Partition:
        """As another process has it."""
        return Warehouse(Driver(Metered(self.store), self.clock)).topic("t").partition(0)


def a_scene() -> Scene:
    store, clock = FailingStore(), HandClock()
    for key, body in what_all_scenes_have().items():
        store.create(key, body)
    held = Warehouse(Driver(Metered(store), clock)).topic("t").partition(0).consumer("c", auto_commit_interval_ms=None)
    held.poll(max_records=2)
    held.commit()
    held.poll(max_records=1)
    return Scene(store, clock, held)


@cache
def what_all_scenes_have() -> dict[str, bytes]:
    store = MemoryStore()
    part = Warehouse(Driver(Metered(store), HandClock())).create_topic("t").partition(0)
    part.append([Record(b"%d" % each, b"x") for each in range(5)])
    part.append([Record(b"5", b"x")], txn=("a", 1))
    part.delete_records(2)
    part.snapshot(pin="k", ttl=timedelta(days=1))
    found = {info.key: store.get(info.key) for info in store.list("").objects}
    return {key: each.body for key, each in found.items() if each is not None}


Operation: TypeAlias = Callable[[Scene, Partition], Any]


def opens(name: str, reset: Reset) -> Operation:
    def run(_: Scene, part: Partition) -> None:
        part.consumer(name, auto_offset_reset=reset, auto_commit_interval_ms=None)  # the state tells its position

    return run


def rebuilds(name: str) -> Operation:
    def run(_: Scene, part: Partition) -> list[int]:
        found = part.scan_and_follow(name, auto_commit_interval_ms=None)
        state: list[int] = sorted(found.state.read_all()["offset"].to_pylist())
        assert found.consumer is not None
        return state + shown(found.consumer.poll())  # what is appended in between is in one of them

    return run


def opens_the_topic(reset: Reset) -> Operation:
    def run(scene: Scene, _: Partition) -> None:
        topic = Warehouse(Driver(Metered(scene.store), scene.clock)).topic("t")
        topic.consumer("c", auto_offset_reset=reset, auto_commit_interval_ms=None)

    return run


def appends(txn: tuple[str, int] | None) -> Operation:
    return lambda _, part: part.append([Record(b"new", b"y")], txn)


OPERATIONS: dict[str, Operation] = {
    "open c": opens("c", "earliest"),
    "open c at the end": opens("c", "latest"),
    "open c or fail": opens("c", "error"),
    "open d": opens("d", "earliest"),
    "open c of the topic": opens_the_topic("earliest"),
    "rebuild c": rebuilds("c"),
    "reset c to the start": lambda _, part: part.reset_consumer("c", "earliest"),
    "reset c to the end": lambda _, part: part.reset_consumer("c", "latest"),
    "reset c to 3": lambda _, part: part.reset_consumer("c", 3),
    "delete c": lambda _, part: part.delete_consumer("c"),
    "commit c": lambda scene, _: scene.held.commit(),
    "append": appends(None),
    "append a/1 again": appends(("a", 1)),
    "append a/2": appends(("a", 2)),
    "forget a": lambda _, part: part.forget_transaction("a"),
    "end a": lambda _, part: part.end_transaction("a"),
    "delete records": lambda _, part: part.delete_records(5),
    "pin k": lambda _, part: len(list(part.snapshot(pin="k", ttl=timedelta(days=2)).read())),
    "pin n": lambda _, part: len(list(part.snapshot(pin="n", ttl=timedelta(days=2)).read())),
    "read k": lambda _, part: len(list(part.pinned("k").read())),
    "refresh k": lambda _, part: part.refresh_checkpoint("k", timedelta(days=3)).expires_at_ms,
    "delete k": lambda _, part: part.delete_checkpoint("k"),
}

CHANGES = [name for name in OPERATIONS if not name.startswith("read")]
DELETIONS = ("delete c", "delete k", "forget a")


def outcome(operation: Operation, scene: Scene, part: Partition) -> Any:
    try:
        return operation(scene, part)
    except LithifyError as error:
        return type(error).__name__


def state_of(scene: Scene) -> Any:
    part = scene.partition()
    info = part.describe()
    return (
        (info.log_start_offset, info.next_offset),
        [(known.name, known.offset, known.missed_to) for known in part.consumers()],
        [(known.name, known.expires_at_ms) for known in part.checkpoints()],
        [(known.application, known.version) for known in part.transactions()],
    )


Result: TypeAlias = tuple[Any, Any, Any]  # what the first operation answered, the second, and the state afterwards


def in_turn(first: str, second: str, *, swapped: bool) -> Result:
    scene = a_scene()
    mine, other = scene.partition(), scene.partition()
    if swapped:
        told = outcome(OPERATIONS[second], scene, other)
        return outcome(OPERATIONS[first], scene, mine), told, state_of(scene)
    answer = outcome(OPERATIONS[first], scene, mine)
    return answer, outcome(OPERATIONS[second], scene, other), state_of(scene)


def within(first: str, second: str) -> Iterator[tuple[int, Result]]:
    """The results with `second` right before each request of `first`."""
    for place in range(1_000):
        found = at(place, first, second)
        if found is None:
            return
        yield place, found
    raise AssertionError(f"{first!r} makes requests without end")


def at(place: int, first: str, second: str) -> Result | None:
    """None: `first` makes no more than `place` requests."""
    scene = a_scene()
    mine, other = scene.partition(), scene.partition()
    passed = 0
    told: list[Any] = []

    def before(_request: str, _key: str) -> None:
        nonlocal passed
        passed += 1
        if passed == place + 1:
            scene.store.before = quiet
            told.append(outcome(OPERATIONS[second], scene, other))

    scene.store.before = before
    answer = outcome(OPERATIONS[first], scene, mine)
    scene.store.before = quiet
    return (answer, told[0], state_of(scene)) if told else None


def quiet(_request: str, _key: str) -> None:
    pass


@pytest.mark.slow
@pytest.mark.usefixtures("no_waiting")
@pytest.mark.parametrize(("first", "second"), product(OPERATIONS, CHANGES))
def test_two_operations_are_as_one_after_the_other(first: str, second: str) -> None:
    allowed = [in_turn(first, second, swapped=swapped) for swapped in (False, True)]
    if first == second and first in DELETIONS:
        allowed.append((None, None, allowed[0][2]))  # what one deleted, the other need not miss
    for place, result in within(first, second):
        assert result in allowed, (f"{second!r} right before request {place} of {first!r}", result, allowed)
