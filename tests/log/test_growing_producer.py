"""Producers whose topic grows while the store is away, in part or in whole (RFC 0013): nobody waits for added
partitions, no record goes to another partition than the one that its key has by then, and of an id one instance runs.
"""

import threading
from collections.abc import Callable

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from lithify.log.batches import Delivery
from lithify.log.producer import Producer
from lithify.log.topic import Topic
from lithify.log.warehouse import Warehouse
from lithify.segment.partitioner import partition_for_key
from lithify.store.driver import Driver
from lithify.store.errors import AccessDenied, Fenced, LithifyError, Unavailable
from lithify.store.memory import MemoryStore
from lithify.store.metered import Metered
from lithify.store.port import Object, Outcome
from lithify.testing.faults import FaultyStore
from tests.clock import HandClock
from tests.log.conftest import TEN_SECONDS_MS
from tests.log.producing import WAIT_MS, values
from tests.log.test_growth import key_of

pytestmark = pytest.mark.usefixtures("no_waiting")

PATIENT = {"linger.ms": 10**9, "delivery.timeout.ms": 10**9, "max.block.ms": 0}
MOVES, STAYS = key_of((1, 0), (4, 3)), key_of((1, 0), (4, 0))


class Away(FaultyStore):
    """Whoever asks for an object of one of `partitions`, or for any where `all_of_it`, is refused; before each create
    of a key that ends so `before` is called."""

    def __init__(self, warehouse: Warehouse) -> None:
        super().__init__(warehouse.store, [])
        self.partitions: set[int] = set()
        self.all_of_it = False
        self.before: Callable[[str], object] = lambda _: None

    def _up(self, key: str) -> None:
        parts = key.split("/")
        mine = int(parts[2]) if len(parts) > 3 and parts[2].isdigit() else None
        if self.all_of_it or mine in self.partitions:
            raise Unavailable(f"{key}: away in this test")

    def get(self, key: str) -> Object | None:
        self._up(key)
        return super().get(key)

    def put(self, key: str, body: bytes) -> None:
        self._up(key)
        super().put(key, body)

    def create(self, key: str, body: bytes, frees: bool = False) -> Outcome:
        self._up(key)
        self.before(key)
        return super().create(key, body, frees)


@pytest.fixture
def store(warehouse: Warehouse) -> Away:
    return Away(warehouse)


@pytest.fixture
def topic(warehouse: Warehouse, store: Away, clock: HandClock) -> Topic:
    """Seen through `store`."""
    warehouse.create_topic("t", probe=False)
    return Warehouse(Driver(store, clock)).topic("t")


def grows(warehouse: Warehouse, clock: HandClock, partitions: int = 4) -> None:
    warehouse.topic("t").alter(partitions=partitions)
    clock.now_ms += TEN_SECONDS_MS


@pytest.mark.parametrize("producer_id", [None, "me"])
@pytest.mark.parametrize("away", [{0}, {3}, {0, 1, 2, 3}])
def test_records_are_taken_while_added_partitions_cannot_be_opened(
    warehouse: Warehouse, store: Away, topic: Topic, clock: HandClock, producer_id: str | None, away: set[int]
) -> None:
    """By the present count, as by a producer without an id. Before, each one was refused, with an empty buffer. Tried
    on log/producer.py, and caught: an opening by whoever appends."""
    with topic.producer(producer_id, PATIENT) as producer:
        producer.append(MOVES, b"0")
        grows(warehouse, clock)
        topic.partitions_now()
        store.partitions = away
        places = [producer.append(key, b"%d" % number).partition for number in (1, 2) for key in (MOVES, STAYS)]
        store.partitions = set()
    assert places == [3, 0, 3, 0]
    assert (values(topic, 0), values(topic, 3)) == ([b"0", b"1", b"2"], [b"1", b"2"])


def test_other_partitions_go_on_while_an_added_one_is_away(
    warehouse: Warehouse, store: Away, topic: Topic, clock: HandClock
) -> None:
    producer = topic.producer("me", {"linger.ms": 0, "delivery.timeout.ms": 0})
    grows(warehouse, clock)
    store.partitions = {3}
    assert producer.append(STAYS, b"v").offset(WAIT_MS) == 0
    assert producer.sequences == (1, 0, 0, 0)
    refused = producer.append(MOVES, b"v")
    with pytest.raises(Unavailable, match=r"^t/3: the producer's id cannot be opened in this partition, .* away in"):
        refused.offset(WAIT_MS)
    with pytest.raises(Unavailable, match="Nothing was appended"):
        producer.close()
    store.partitions = set()
    assert values(topic, 3) == []


@pytest.mark.parametrize("held", ["the topic", "its first partition"])
def test_nobody_waits_for_the_locks_of_whoever_asks_the_store(
    warehouse: Warehouse, topic: Topic, clock: HandClock, held: str
) -> None:
    """As a read that hangs holds them. Tried on log/topic.py, and caught: partitions that are handed out under the lock
    by which the store is asked."""
    producer = topic.producer("me", PATIENT)
    grows(warehouse, clock)
    topic.partitions_now()
    lock = (topic if held == "the topic" else topic.partition(0))._lock.mine()
    taken: list[Delivery] = []
    appending = threading.Thread(target=lambda: taken.append(producer.append(MOVES, b"v")), daemon=True)
    with lock:
        appending.start()
        appending.join(WAIT_MS / 1000)
        assert [delivery.partition for delivery in taken] == [3], "it waits"
    producer.close()


def test_an_opening_is_tried_until_the_time_of_its_batch_is_over(
    warehouse: Warehouse, store: Away, topic: Topic, clock: HandClock, monkeypatch: pytest.MonkeyPatch
) -> None:
    hand = HandClock()
    topic._driver.monotonic_ms = hand
    pauses: list[int] = []

    def pause(ms: int) -> None:
        pauses.append(ms)
        hand.now_ms += ms
        if len(pauses) == 5:
            store.partitions = set()

    monkeypatch.setattr("lithify.store.driver.pause", pause)
    with topic.producer("me", {"linger.ms": 10**9}) as producer:
        grows(warehouse, clock)
        store.partitions = {3}
        delivery = producer.append(MOVES, b"v")
        producer.flush()
        assert (delivery.offset(), producer.sequences) == (0, (0, 0, 0, 1))
    assert pauses == [100, 200, 400, 800, 1600]


def test_who_is_denied_access_to_an_added_partition_is_told_at_once(
    warehouse: Warehouse, store: Away, topic: Topic, clock: HandClock
) -> None:
    def denied(key: str) -> None:
        raise AccessDenied(f"{key}: denied in this test")

    producer = topic.producer("me", PATIENT)
    grows(warehouse, clock)
    producer.append(MOVES, b"v")
    store.before = denied
    with pytest.raises(AccessDenied):
        producer.close()


def once(store: Away, ends_with: str, action: Callable[[], object]) -> None:
    """Before the next create in a folder of that name."""

    def before(key: str) -> None:
        if f"/{ends_with}/manifest/" in key:
            store.before = lambda _: None
            action()

    store.before = before


def test_who_is_replaced_while_it_opens_an_added_partition_sends_nothing_there(
    warehouse: Warehouse, store: Away, topic: Topic, clock: HandClock
) -> None:
    """Its successor has read how many records there are, for good. Tried on log/producer_stamps.py, and caught: no
    second look into the first partition."""
    older = topic.producer("me", PATIENT)
    grows(warehouse, clock)
    delivery = older.append(MOVES, b"older")
    newer: list[Producer] = []
    once(store, "00003", lambda: newer.append(warehouse.topic("t").producer("me", PATIENT)))
    with pytest.raises(Fenced, match="another instance"):
        older.close()
    with pytest.raises(Fenced, match="another instance"):
        delivery.offset()
    assert newer[0].sequences == (0, 0, 0, 0)
    assert values(topic, 3) == []
    newer[0].append(MOVES, b"newer")
    with pytest.raises(Fenced):  # it loses nothing, and is opened again
        newer[0].close()
    with warehouse.topic("t").producer("me", PATIENT) as newest:
        assert newest.sequences == (0, 0, 0, 0)
        newest.append(MOVES, b"newest")
    assert values(topic, 3) == [b"newest"]


def test_who_was_replaced_fences_its_successor_in_no_added_partition(
    warehouse: Warehouse, topic: Topic, clock: HandClock
) -> None:
    """Tried on log/producer_stamps.py, and caught: no first look into the first partition."""
    older = topic.producer("me", {"linger.ms": 0})
    with warehouse.topic("t").producer("me", {"linger.ms": 0}) as newer:
        grows(warehouse, clock)
        assert newer.append(MOVES, b"newer").offset(WAIT_MS) == 0
        with pytest.raises(Fenced, match="another instance"):
            older.append(MOVES, b"older").offset(WAIT_MS)
        assert newer.append(MOVES, b"newer").offset(WAIT_MS) == 1
    with pytest.raises(Fenced):
        older.close()


def test_what_was_sent_to_a_partition_that_was_added_meanwhile_is_counted(
    warehouse: Warehouse, store: Away, topic: Topic, clock: HandClock
) -> None:
    """By a handle that does not know of it. Tried on log/producer_stamps.py, and caught: the partitions that were known
    before the first was opened."""
    older = warehouse.topic("t").producer("me", {"linger.ms": 0})

    def sends() -> None:
        grows(warehouse, clock)
        assert older.append(MOVES, b"older").offset(WAIT_MS) == 0

    once(store, "00000", sends)
    with topic.producer("me", PATIENT) as newer:
        assert newer.sequences == (0, 0, 0, 1)
    older.close()


KEYS = [b"%d" % number for number in range(8)]
STEPS = st.lists(
    st.tuples(st.just("append"), st.sampled_from(KEYS))
    | st.tuples(st.just("append"), st.sampled_from(KEYS))
    | st.tuples(st.just("append"), st.sampled_from(KEYS))
    | st.tuples(st.just("away"), st.sets(st.integers(0, 5)))
    | st.tuples(st.sampled_from(["grows", "time passes", "flush", "again", "all away"]), st.none()),
    min_size=3,
    max_size=40,
)


@given(st.sampled_from([None, "me"]), STEPS)
@settings(deadline=None)
def test_outages_and_growth(producer_id: str | None, steps: list[tuple[str, object]]) -> None:
    """Every record is taken at once, for the partition that its key has by what was announced ten seconds ago or later;
    it is there once, and in order. An instance that is opened again is told what is there.

    Tried on log/producer.py, and caught: growth that is not seen, places by the former count, an opening by whoever
    appends; on log/producer_stamps.py: a sequence that stays as it was opened.
    """
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("lithify.store.driver.pause", lambda ms: None)
        Growing(producer_id).play(steps)


class Growing:
    def __init__(self, producer_id: str | None) -> None:
        self.producer_id = producer_id
        self.clock = HandClock()
        self.whole = Warehouse(Driver(Metered(MemoryStore()), self.clock))
        self.whole.create_topic("t", probe=False)
        self.announced = [(1, self.clock.now_ms)]
        self.sent: dict[int, list[bytes]] = {}
        self.number = 0
        self.open()

    def open(self) -> None:
        self.store = Away(self.whole)
        self.topic = Warehouse(Driver(self.store, self.clock)).topic("t")
        self.producer = self.topic.producer(self.producer_id, PATIENT)
        if self.producer_id is not None:
            known = self.producer.sequences
            assert known == tuple(len(self.sent.get(number, [])) for number in range(self.announced[-1][0]))

    def play(self, steps: list[tuple[str, object]]) -> None:
        for step in steps:
            match step:
                case "append", bytes(key):
                    self.append(key)
                case "away", set(partitions):
                    self.store.partitions = partitions  # pyright: ignore
                case "all away", _:
                    self.store.all_of_it = True
                case "grows", _:
                    count = self.announced[-1][0]
                    if count < 6:
                        self.whole.topic("t").alter(partitions=count + 1)
                        self.announced.append((count + 1, self.clock.now_ms))
                case "time passes", _:
                    self.clock.now_ms += TEN_SECONDS_MS // 2
                case "flush", _:
                    self.well()
                    self.producer.flush()
                case _:
                    self.well()
                    self.producer.close()
                    self.open()
        self.well()
        self.producer.close()
        for number in range(self.announced[-1][0]):
            assert values(self.whole.topic("t"), number) == self.sent.get(number, [])

    def well(self) -> None:
        self.store.partitions, self.store.all_of_it = set(), False

    def append(self, key: bytes) -> None:
        value = b"%d" % self.number
        self.number += 1
        reachable = not self.store.all_of_it
        delivery = self.producer.append(key, value)
        old_enough = [count for count, at_ms in self.announced if at_ms <= self.clock.now_ms - TEN_SECONDS_MS]
        least = old_enough[-1] if old_enough and reachable else 1
        counts = range(least, self.announced[-1][0] + 1)
        assert delivery.partition in {partition_for_key(key, count) for count in counts}, "not where its key lives"
        self.sent.setdefault(delivery.partition, []).append(value)


def test_a_failure_to_open_is_told_as_what_it_is(
    warehouse: Warehouse, store: Away, topic: Topic, clock: HandClock
) -> None:
    """Not as unknown: the record was certainly not appended."""
    producer = topic.producer("me", PATIENT | {"delivery.timeout.ms": 0})
    grows(warehouse, clock)
    delivery = producer.append(MOVES, b"v")

    create = store.inner.create
    try:
        store.inner.create = lambda *_, **__: Outcome.UNKNOWN  # pyright: ignore
        with pytest.raises(LithifyError):
            producer.close()
    finally:
        store.inner.create = create  # pyright: ignore
    with pytest.raises(Unavailable, match="Nothing was appended"):
        delivery.offset()
    assert values(topic, 3) == []
