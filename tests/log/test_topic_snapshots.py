"""A topic by a checkpoint: what was shown when it was made is shown, however the topic grows afterwards (RFC 0013)."""

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from lithify.log.record import Record
from lithify.log.topic import Topic
from lithify.log.warehouse import Warehouse
from lithify.manifest.model import GROWTHS_MAX
from lithify.store.driver import Driver
from lithify.store.errors import InvalidRequest, NotFound, Unavailable
from lithify.store.memory import MemoryStore
from tests.clock import HandClock
from tests.log.conftest import TEN_SECONDS_MS
from tests.log.failing import FailingStore
from tests.log.test_growth import CLEANED, KEYS, clean, key_of, scanned
from tests.log.test_topic_consumer import opened


def pin(topic: Topic, name: str = "before", ttl: int | None = None) -> None:
    for number in range(topic.partitions):
        topic.partition(number).snapshot(pin=name, ttl=ttl)


def shown(found: Any) -> dict[str, Any]:
    """All that a topic, or what a checkpoint pins of it, answers."""
    return {
        "scan": found.scan().read_all().to_pylist(),
        "tombstones": found.scan(tombstones=True).read_all().to_pylist(),
        "get": {key: found.get(key) for key in KEYS},
    }


def logs(topic: Topic) -> list[list[Record]]:
    return [list(topic.partition(number).read()) for number in range(topic.partitions)]


WRITE = st.tuples(st.sampled_from(KEYS), st.sampled_from([None, b"a", b"b", b"c"]))
STEPS = st.lists(st.one_of(WRITE, WRITE, WRITE, st.integers(1, 3), st.sampled_from(["clean", "pin"])), max_size=25)


@pytest.mark.slow
@given(first=st.integers(1, 3), steps=STEPS)
def test_what_was_shown_when_it_was_pinned_is_shown_whatever_came_since(
    first: int, steps: list[tuple[bytes, bytes | None] | int | str]
) -> None:
    """Over growth of any kind, and cleaning. Sabotages that were tried in log/topic_snapshot.py, and are caught by one
    of the tests here: the places of now; no look at where the logs ended."""
    clock = HandClock()
    warehouse = Warehouse(Driver(MemoryStore(), clock))
    topic = warehouse.create_topic("t", partitions=first, config=CLEANED, probe=False)
    reader = warehouse.topic("t")
    pinned: list[tuple[dict[str, Any], list[list[Record]]]] = []
    for step in [*steps, "pin", 2, (KEYS[0], b"last"), "clean"]:
        if isinstance(step, int):
            topic.alter(partitions=topic.partitions + step)
        elif step == "clean":
            clean(warehouse, clock)
        elif isinstance(step, str):
            pin(topic, f"pin {len(pinned)}")
            pinned.append((shown(topic), logs(topic)))
        else:
            topic.append([Record(*step)])
    clock.now_ms += TEN_SECONDS_MS
    for number, (then, records) in enumerate(pinned):
        for handle in (topic, reader):
            found = handle.pinned(f"pin {number}")
            assert shown(found) == then
            assert [list(snapshot.read()) for snapshot in found.partitions] == records


def grown(warehouse: Warehouse, *counts: int, keys: int = 20) -> Topic:
    """Pinned when it had the first of these partition counts."""
    topic = warehouse.create_topic("t", partitions=counts[0])
    topic.append([Record(b"%d" % number, b"v") for number in range(keys)])
    pin(topic)
    for count in counts[1:]:
        topic.alter(partitions=count)
        topic.append([Record(b"%d" % number, b"later") for number in range(keys)])
    return topic


def test_keys_live_where_they_did_when_it_was_pinned(warehouse: Warehouse) -> None:
    moves, came = key_of((1, 0), (2, 1), (3, 1)), key_of((1, 0), (2, 0), (3, 2))
    topic = warehouse.create_topic("t")
    topic.append([Record(moves, b"left behind"), Record(came, b"old")])
    topic.alter(partitions=2)
    topic.append([Record(came, b"then")])
    pin(topic)
    topic.alter(partitions=3)
    topic.append([Record(moves, b"now"), Record(came, b"now")])
    then = topic.pinned("before")
    assert {row["key"]: row["value"] for row in then.scan().read_all().to_pylist()} == {came: b"then"}
    assert (then.get(moves), (then.get(came) or Record(None, None)).value) == (None, b"then")
    assert scanned(topic) == {moves: b"now", came: b"now"}
    with pytest.raises(InvalidRequest, match="a key is bytes"):
        then.get(7)  # type: ignore[arg-type]


@pytest.mark.parametrize("has", [(0,), (0, 2), (1,), (1, 2, 3), (0, 1, 2), (0, 1, 3)])
def test_where_some_partitions_do_not_have_it_they_are_named(warehouse: Warehouse, has: tuple[int, ...]) -> None:
    """No count was three, and when it was two another partition had it, too."""
    topic = grown(warehouse, 2, 4)
    topic.partition(0).delete_checkpoint("before")
    topic.partition(1).delete_checkpoint("before")
    for number in has:
        topic.partition(number).snapshot(pin="before")
    without = ", ".join(str(number) for number in range(4) if number not in has)
    with pytest.raises(NotFound, match=rf"t: .*'before'.*partitions? {without}\b"):
        topic.pinned("before")


def test_pinned_by_hand_in_the_first_partitions_is_no_topic_of_before(warehouse: Warehouse) -> None:
    """These were appended to since the topic grew: what the others held is missing."""
    topic = grown(warehouse, 2, 4)
    for number in range(2):
        topic.partition(number).delete_checkpoint("before")
        topic.partition(number).snapshot(pin="before")
    with pytest.raises(NotFound, match=r"partitions 2, 3\b"):
        topic.pinned("before")


def test_made_again_after_growth_it_is_read_as_the_topic_is_now(warehouse: Warehouse) -> None:
    topic = grown(warehouse, 2, 4)
    pin(topic)
    assert len(topic.pinned("before").partitions) == 4
    assert topic.pinned("before").places == topic.key_places()


def test_one_that_has_expired_anywhere_is_none(warehouse: Warehouse, clock: HandClock) -> None:
    topic = warehouse.create_topic("t", partitions=2)
    pin(topic, ttl=1_000)
    topic.alter(partitions=4)
    for number in (2, 3):
        topic.partition(number).snapshot(pin="before", ttl=500)
    assert len(topic.pinned("before").partitions) == 4
    clock.now_ms += 600
    with pytest.raises(NotFound, match=r"expired.* partitions 2, 3\b"):
        topic.pinned("before")  # it was made after growth, whatever its partitions of then still have
    clock.now_ms += 600
    with pytest.raises(NotFound, match="expired"):
        topic.pinned("before")


def test_where_an_end_is_not_known_nothing_is_guessed(warehouse: Warehouse) -> None:
    topic = warehouse.create_topic("t", partitions=1)
    pin(topic)
    for count in range(2, GROWTHS_MAX + 3):
        topic.alter(partitions=count)
    with pytest.raises(NotFound, match="partitions 1, 2, 3"):
        topic.pinned("before")
    assert list(topic.partition(0).pinned("before").read()) == []


def test_no_checkpoint_of_that_name_and_no_name(warehouse: Warehouse) -> None:
    topic = grown(warehouse, 1, 2)
    with pytest.raises(NotFound, match="no checkpoint 'gone'"):
        topic.pinned("gone")
    with pytest.raises(InvalidRequest):
        topic.pinned("")
    warehouse.delete_topic("t")
    with pytest.raises(NotFound, match="deleted"):
        topic.pinned("before")


def test_a_partition_that_does_not_answer_is_not_one_without_it(clock: HandClock) -> None:
    store = FailingStore()
    topic = grown(opened(store, clock), 2, 4)

    def before(request: str, key: str) -> None:
        if "/00002/" in key:
            raise Unavailable("told by the test")

    store.before = before
    with pytest.raises(Unavailable, match="told by the test"):
        topic.pinned("before")


def test_a_handle_that_does_not_know_of_growth_yet_reads_it_as_well(warehouse: Warehouse, clock: HandClock) -> None:
    topic, elsewhere = warehouse.create_topic("t"), warehouse.topic("t")
    topic.append([Record(b"k", b"v")])
    pin(topic)
    topic.alter(partitions=2)
    assert shown(elsewhere.pinned("before")) == shown(topic.pinned("before"))
    topic.partition(0).delete_checkpoint("before")
    pin(topic)
    clock.now_ms += TEN_SECONDS_MS
    assert len(elsewhere.pinned("before").partitions) == 2
