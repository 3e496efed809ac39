"""A producer in an outage takes records as before: what it knew last serves, and delivery.timeout.ms decides."""

import threading

import pytest

from lithify.log.topic import Topic
from lithify.log.warehouse import Warehouse
from lithify.store.driver import Driver
from lithify.store.errors import InvalidRequest, NotFound, Unavailable
from lithify.store.port import Object, Outcome
from lithify.testing.faults import FaultyStore
from tests.clock import HandClock
from tests.log.conftest import TEN_SECONDS_MS
from tests.log.producing import WAIT_MS, values

pytestmark = pytest.mark.usefixtures("no_waiting")

PATIENT = {"linger.ms": 10**9, "delivery.timeout.ms": 10**9}


class Outage(FaultyStore):
    """While it is `down` every request is refused; while `hangs` is not set, whoever reads a topic's file waits."""

    def __init__(self, warehouse: Warehouse) -> None:
        super().__init__(warehouse.store, [])
        self.down = False
        self.reads = 0
        self.hangs = threading.Event()
        self.hangs.set()

    def get(self, key: str) -> Object | None:
        if key.endswith(".topic"):
            self.reads += 1
            assert self.hangs.wait(WAIT_MS / 1000)
        self._up()
        return super().get(key)

    def put(self, key: str, body: bytes) -> None:
        self._up()
        super().put(key, body)

    def create(self, key: str, body: bytes, frees: bool = False) -> Outcome:
        self._up()
        return super().create(key, body, frees)

    def _up(self) -> None:
        if self.down:
            raise Unavailable(f"{self.url}: out of reach in this test")


@pytest.fixture
def store(warehouse: Warehouse) -> Outage:
    return Outage(warehouse)


@pytest.fixture
def clock() -> HandClock:
    return HandClock()


@pytest.fixture
def topic(warehouse: Warehouse, store: Outage, clock: HandClock) -> Topic:
    warehouse.create_topic("t")
    return Warehouse(Driver(store, clock)).topic("t")


def no_more_readers() -> None:
    for thread in threading.enumerate():
        if thread.name.startswith("lithify-latest"):
            thread.join(WAIT_MS / 1000)


def test_records_are_taken_while_the_configuration_cannot_be_read(
    topic: Topic, store: Outage, clock: HandClock
) -> None:
    with topic.producer(config=PATIENT) as producer:
        for number in range(50):
            clock.now_ms += TEN_SECONDS_MS
            store.down = True
            producer.append(b"k", b"%d" % number)
        store.down = False
        producer.flush()
    assert values(topic) == [b"%d" % number for number in range(50)]


def test_a_read_that_hangs_keeps_nobody_waiting_for_longer_than_max_block_ms(
    topic: Topic, store: Outage, clock: HandClock, warehouse: Warehouse
) -> None:
    warehouse.topic("t").alter({"cleanup.policy": "compact"})
    own_clock = HandClock()
    topic._driver.monotonic_ms = own_clock
    with topic.producer(config=PATIENT | {"max.block.ms": 0}) as producer:
        clock.now_ms += TEN_SECONDS_MS
        store.reads = 0
        store.hangs.clear()
        for _ in range(20):
            producer.append(None, b"as far as is known it may be without a key")
        assert store.reads <= 1
        store.hangs.set()
        no_more_readers()
        own_clock.now_ms += 1  # a producer looks once a millisecond
        with pytest.raises(InvalidRequest, match="has no key"):
            producer.append(None, b"v")
        store.hangs.set()
    assert len(values(topic)) == 20


def test_the_first_to_find_an_outage_waits_and_nobody_after(topic: Topic, store: Outage, clock: HandClock) -> None:
    with topic.producer(config=PATIENT) as producer:
        clock.now_ms += TEN_SECONDS_MS
        store.down, store.reads = True, 0
        producer.append(b"k", b"v")
        store.hangs.clear()
        for _ in range(20):
            producer.append(b"k", b"v")  # a test in which these wait takes 100 seconds
        reads = store.reads
        store.hangs.set()
        store.down = False  # before what is asserted, or the end of the block waits for the store
    assert reads <= 2


def test_sending_does_not_ask_for_the_configuration_either(topic: Topic, store: Outage, clock: HandClock) -> None:
    with topic.producer(config=PATIENT) as producer:
        producer.append(b"k", b"v")
        clock.now_ms += TEN_SECONDS_MS
        store.hangs.clear()
        producer.flush()
        store.hangs.set()
    assert values(topic) == [b"v"]


def test_records_are_taken_while_the_store_does_not_tell_the_time(warehouse: Warehouse) -> None:
    """The producer's own clock goes on from what the store told last. Tried on log/producer.py, and caught: all records
    of an outage have the time at which it began."""
    warehouse.create_topic("t")
    store_clock = HandClock()
    out = False

    def tell() -> int:
        if out:
            raise Unavailable("the store's clock is out of reach in this test")
        return store_clock()

    driver, own_clock = Driver(warehouse.store, tell), HandClock()
    driver.monotonic_ms = own_clock
    topic = Warehouse(driver).topic("t")
    began_ms = store_clock.now_ms
    with topic.producer(config=PATIENT) as producer:
        for is_out, passing_ms in ((False, 0), (True, 0), (True, 5), (True, 7), (False, 1_000), (True, 1)):
            out = is_out
            own_clock.now_ms += passing_ms
            producer.append(b"k", b"v")
            store_clock.now_ms += 100  # nobody is told of it in an outage
        out = False
    times = [(record.timestamp_ms or 0) - began_ms for record in topic.partition(0).read()]
    assert times == [0, 0, 5, 12, 400, 401]


def test_a_deleted_topic_is_noticed(topic: Topic, clock: HandClock, warehouse: Warehouse) -> None:
    with topic.producer(config=PATIENT) as producer:
        warehouse.delete_topic("t")
        clock.now_ms += TEN_SECONDS_MS
        for _ in range(2):
            with pytest.raises(NotFound, match="does not exist here any more"):
                producer.append(b"k", b"v")
