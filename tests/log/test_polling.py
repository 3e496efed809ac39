"""How long a poll takes, what it needs no clock for, and what cannot be asked of it."""

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from lithify.log.topic import Topic
from lithify.log.warehouse import Warehouse
from lithify.store.driver import Driver
from lithify.store.errors import InvalidRequest, Unavailable
from lithify.store.memory import MemoryStore
from lithify.store.port import Create, Get, Head, Pause, Request, Together
from tests.clock import HandClock
from tests.log.test_consumer import stored
from tests.log.test_follow import append, shown

KINDS = ["partition", "topic"]


class Slow:
    """A store of which each answer takes so long; who waits lets that time pass."""

    def __init__(self, partitions: int, answer_ms: int) -> None:
        self.clock, self.requests = HandClock(), 0
        driver = Driver(MemoryStore(), self.clock)
        answer = driver.answer

        def slowly(request: Request[Any]) -> Any:
            if isinstance(request, Pause):
                assert request.ms > 0
                self.clock.now_ms += request.ms
                return None
            if isinstance(request, Get | Head | Create | Together):
                self.clock.now_ms += answer_ms
                self.requests += len(request.requests) if isinstance(request, Together) else 1
            return answer(request)

        driver.answer, driver.monotonic_ms = slowly, self.clock
        self.topic: Topic = Warehouse(driver).create_topic("t", partitions=partitions, probe=False)

    def consumer(self, kind: str, poll_ms: int) -> Any:
        opener: Any = self.topic if kind == "topic" else self.topic.partition(0)
        return opener.consumer("c", auto_commit_interval_ms=None, poll_ms=poll_ms)


@pytest.mark.parametrize("kind", KINDS)
@given(
    partitions=st.integers(1, 6),
    answer_ms=st.sampled_from([0, 1, 40, 700]),
    poll_ms=st.sampled_from([1, 10, 100, 1_000]),
    timeout_ms=st.integers(0, 1_500),
)
def test_a_poll_takes_no_longer_than_it_may_or_than_one_look_at_each(
    kind: str, partitions: int, answer_ms: int, poll_ms: int, timeout_ms: int
) -> None:
    """Before, only its own pauses counted: with many partitions 35 s of 1 s."""
    slow = Slow(partitions, answer_ms)
    consumer = slow.consumer(kind, poll_ms)
    consumer.poll()
    began_ms, asked = slow.clock.now_ms, slow.requests
    assert consumer.poll(timeout_ms) == []
    took_ms, asked = slow.clock.now_ms - began_ms, slow.requests - asked
    looks = 1 if kind == "partition" else partitions
    look_ms = 4 * answer_ms  # of one partition, and of the topic's file
    assert took_ms <= max(timeout_ms, looks * look_ms) + look_ms
    assert took_ms >= timeout_ms
    assert asked >= looks


@pytest.mark.parametrize("kind", KINDS)
def test_what_waits_is_handed_out_though_nobody_knows_the_time(
    clock: HandClock, kind: str, caplog: pytest.LogCaptureFixture
) -> None:
    """Before, each poll raised what had kept it from asking whether an automatic commit is due."""
    known = True

    def now() -> int:
        if not known:
            raise Unavailable("the store's clock is not known")
        return clock()

    topic = Warehouse(Driver(MemoryStore(), now)).create_topic("t", probe=False)
    append(topic.partition(0), "a", "b", "c", "d")
    consumer: Any = topic.partition(0).consumer("c") if kind == "partition" else topic.consumer("c", [0])
    found: list[Any] = []
    for known in (True, False, False, True):  # noqa: B007 - `now` looks at it
        clock.now_ms += 5_000
        items = consumer.poll(max_records=1)
        found += shown(items if kind == "partition" else [item for _, item in items])
    assert found == [0, 1, 2, 3]
    assert stored(topic.partition(0)) == 3
    assert sum("clock is not known" in record.getMessage() for record in caplog.records) == 1


@pytest.mark.parametrize("poll_ms", [2**63 - 1, 10**30, 24 * 3_600_000 + 1, 0, -1, 1.5, "9", True, None])
@pytest.mark.parametrize("kind", [*KINDS, "follow", "scan"])
def test_a_wait_that_no_machine_can_do_is_refused(warehouse: Warehouse, kind: str, poll_ms: Any) -> None:
    topic = warehouse.create_topic("t")
    part = topic.partition(0)
    use: dict[str, Any] = {
        "partition": lambda: part.consumer("c", poll_ms=poll_ms),
        "topic": lambda: topic.consumer("c", poll_ms=poll_ms),
        "follow": lambda: part.read(follow=True, poll_ms=poll_ms),
        "scan": lambda: part.scan_and_follow("c", poll_ms=poll_ms),
    }
    with pytest.raises(InvalidRequest, match="poll_ms"):
        use[kind]()
    assert part.consumers() == ()


@pytest.mark.parametrize("partitions", [5, 0, [0, "1"], ["0"], "01", [None], [0.0], [True], [], [[0]], {}, -1])
def test_partitions_that_are_none_are_refused(warehouse: Warehouse, partitions: Any) -> None:
    topic = warehouse.create_topic("t", partitions=3)
    with pytest.raises(InvalidRequest, match="t: partitions must be a list"):
        topic.consumer("c", partitions)
    assert topic.consumer("c", (2, 0, 2)).positions == {0: 0, 2: 0}
