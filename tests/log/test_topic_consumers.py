"""Consumers of one name on a topic that grows, over a store of which any request fails, as their callers see them.

The oracle knows what was appended, what each caller was handed, and when it came back for more. Nothing else.
"""

from collections import defaultdict
from contextlib import suppress
from typing import Any

import pytest
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule

from lithify.log.follow import Gap
from lithify.log.topic import Topic
from lithify.log.topic_consumer import TopicConsumer
from lithify.log.warehouse import Warehouse
from lithify.store.driver import Driver
from lithify.store.errors import AccessDenied, CommitUnknown, Corrupt, Fenced, InvalidRequest, LithifyError, Unavailable
from lithify.store.port import Outcome, Pause
from tests.clock import HandClock
from tests.log.conftest import TEN_SECONDS_MS
from tests.log.failing import FailingStore, FarFailingStore
from tests.log.test_follow import EXPIRING, append

PARTITIONS_MAX = 5
FAILURES: list[type[LithifyError]] = [Unavailable, Corrupt, AccessDenied]
NUMBERS = st.integers(0, PARTITIONS_MAX - 1)
FILES = st.sampled_from(["segments", "manifest"])


OVER = object()  # what an iterator answers that has ended


class _Caller:
    """An instance, and what its caller was handed: `given` and not come back after yet."""

    def __init__(self, consumer: TopicConsumer) -> None:
        self.consumer = consumer
        self.given: list[tuple[int, range]] = []


class TopicConsumers(RuleBasedStateMachine):
    made_of: type[FailingStore] = FailingStore

    def __init__(self) -> None:
        super().__init__()
        self.clock, self.store = HandClock(), self.made_of()
        self.callers: list[_Caller] = []  # the last one is the newest
        self.rightful: _Caller | None = None  # whom nobody has replaced, as far as anybody tried
        self.handed: dict[int, set[int]] = defaultdict(set)  # offsets that some caller was handed, gaps included
        self.dealt: dict[int, set[int]] = defaultdict(set)  # and came back after
        self.first = 0  # partitions that there were when the name was first used
        self.skipped: dict[int, int] = {}  # where it began in these
        self.requests_left = -1  # until a request fails; below 0: none does

    @initialize(partitions=st.integers(1, 3), reset=st.sampled_from(["earliest", "latest"]))
    def begin(self, partitions: int, reset: Any) -> None:
        self.reset = reset
        self.topic = self._opened().create_topic("t", partitions=partitions, config=EXPIRING, probe=False)
        for number in range(partitions):
            append(self.topic.partition(number), "a", "b")

    def _opened(self) -> Warehouse:
        driver = Driver(self.store, self.clock)
        answer = driver.answer
        driver.answer = lambda request: None if isinstance(request, Pause) else answer(request)
        return Warehouse(driver)

    @rule(after=st.integers(0, 25), lasts=st.integers(1, 12), failure=st.sampled_from(FAILURES), stores=st.booleans())
    def arm(self, after: int, lasts: int, failure: type[LithifyError], stores: bool) -> None:
        """Of a client's requests from now on, some fail; a create is not answered, and was done or not."""
        self.requests_left = after
        self.store.stores = stores
        ends = -lasts

        def before(request: str, key: str) -> Outcome | None:
            self.requests_left -= 1
            if self.requests_left >= 0:
                return None
            if self.requests_left <= ends:
                self._disarm()
            if request == "create":
                return Outcome.UNKNOWN
            raise failure(f"{request} {key}: told by the test")

        self.armed = before

    @rule(number=NUMBERS, lasts=st.integers(1, 3), failure=st.sampled_from(FAILURES), of=FILES)
    def arm_one(self, number: int, lasts: int, failure: type[LithifyError], of: str) -> None:
        """The next requests for one partition's segments or manifests fail, and no others."""
        left = [failure] * lasts

        def before(request: str, key: str) -> None:
            if f"/{number % self.topic.partitions:05d}/{of}" in key and request != "create" and left:
                raise left.pop()(f"{request} {key}: told by the test")

        self.armed = before

    armed: Any = None

    def _disarm(self) -> None:
        self.armed = None
        self.store.before = lambda _request, _key: None

    def _suffer(self) -> None:
        if self.armed is not None:
            self.store.before = self.armed

    def _rest(self) -> None:
        self.store.before = lambda _request, _key: None

    @rule()
    def open(self) -> None:
        topic = self._topic_of_its_own()
        if not any(self.topic.partition(number).consumers() for number in range(self.topic.partitions)):
            self.first = self.topic.partitions  # earlier attempts came to nothing
        for number in range(self.first):
            if not self.topic.partition(number).consumers():
                self.skipped[number] = self._start(number)
        self.rightful = None
        self._suffer()
        try:
            consumer = topic.consumer("c", auto_offset_reset=self.reset, auto_commit_interval_ms=4_000)
        except (Unavailable, CommitUnknown, Corrupt):
            return
        finally:
            self._rest()
        self.rightful = _Caller(consumer)
        self.callers.append(self.rightful)

    def _topic_of_its_own(self) -> Topic:
        return self._opened().topic("t")

    def _start(self, number: int) -> int:
        """Where a new name begins."""
        now = self.topic.partition(number).snapshot()
        return now.log_start_offset if self.reset == "earliest" else now.next_offset

    def _end(self, number: int) -> int:
        return self.topic.partition(number).snapshot().next_offset

    def _caller(self, which: int) -> _Caller:
        return self.callers[-1 - which % len(self.callers)]

    @precondition(lambda self: self.callers)
    @rule(which=st.integers(0, 1), most=st.integers(1, 9))
    def poll(self, which: int, most: int) -> None:
        self._poll(self._caller(which), most)

    def _poll(self, caller: _Caller, most: int) -> None:
        self._came_back(caller)
        for number, item in self._call(caller, lambda: caller.consumer.poll(0, max_records=most)) or ():
            self._hand(caller, number, item)

    @precondition(lambda self: self.callers)
    @rule(which=st.integers(0, 3), most=st.integers(1, 6))
    def iterate(self, which: int, most: int) -> None:
        """So often, or until there is nothing. The caller comes back for each, also after it was told of a failure."""
        caller = self._caller(which)
        caller.consumer._stop = stop = _After(1)
        items = iter(caller.consumer)
        for _ in range(most):
            stop.asked = 0
            self._came_back(caller)
            found = self._call(caller, lambda: next(items, OVER))
            if found is OVER:
                break
            if found is not None:
                self._hand(caller, *found)
        caller.consumer._stop = None

    def _hand(self, caller: _Caller, number: int, item: Any) -> None:
        offsets = (
            range(item.start_offset, item.end_offset) if isinstance(item, Gap) else range(item.offset, item.offset + 1)
        )
        caller.given.append((number, offsets))
        self.handed[number].update(offsets)

    def _came_back(self, caller: _Caller) -> None:
        for number, offsets in caller.given:
            self.dealt[number].update(offsets)
        caller.given.clear()

    def _call(self, caller: _Caller, call: Any) -> Any:
        self._suffer()
        try:
            return call()
        except Fenced:
            assert caller is not self.rightful, "the newest instance was refused"
        except (Unavailable, CommitUnknown, Corrupt):
            pass
        finally:
            self._rest()
        return None

    @precondition(lambda self: self.callers)
    @rule(which=st.integers(0, 3))
    def commit(self, which: int) -> None:
        caller = self._caller(which)
        self._came_back(caller)
        self._call(caller, caller.consumer.commit)

    @precondition(lambda self: len(self.callers) > 1)
    @rule(which=st.integers(0, 3), again=st.booleans(), asks=st.booleans())
    def close(self, which: int, again: bool, asks: bool) -> None:
        caller = self._caller(which)
        self._came_back(caller)
        self._call(caller, caller.consumer.close)
        if asks:
            self._ask_closed(caller)
        if again:
            self._call(caller, caller.consumer.close)
        self._leave(caller)

    @precondition(lambda self: len(self.callers) > 1)
    @rule(which=st.integers(0, 3), closes=st.booleans(), asks=st.booleans())
    def fail(self, which: int, closes: bool, asks: bool) -> None:
        """Its block ends with an error: what it was handed last is not dealt with."""
        caller = self._caller(which)
        error = ZeroDivisionError()
        self._call(caller, lambda: caller.consumer.__exit__(ZeroDivisionError, error, None))
        if asks:
            self._ask_closed(caller)
        if closes:
            self._call(caller, caller.consumer.close)
        self._leave(caller)

    def _ask_closed(self, caller: _Caller) -> None:
        """It is over, whatever is asked, and opens no partition; what it was handed last is no more dealt with."""
        before = set(caller.consumer.positions)
        self.clock.now_ms += 4_000
        with pytest.raises(InvalidRequest, match="closed; open another one"):
            caller.consumer.poll(1_000)
        assert list(caller.consumer) == []
        assert set(caller.consumer.positions) == before

    def _leave(self, caller: _Caller) -> None:
        self.callers.remove(caller)
        if caller is self.rightful:
            self.rightful = None

    @rule(count=st.integers(1, 3), everywhere=st.booleans(), number=NUMBERS)
    def append_some(self, number: int, count: int, everywhere: bool) -> None:
        for each in range(self.topic.partitions) if everywhere else [number % self.topic.partitions]:
            append(self.topic.partition(each), *"abc"[:count])

    @precondition(lambda self: self.topic.partitions < PARTITIONS_MAX)
    @rule(by=st.integers(1, 2), filled=st.booleans())
    def grow(self, by: int, filled: bool) -> None:
        before = self.topic.partitions
        self.topic.alter(partitions=min(before + by, PARTITIONS_MAX))
        for number in range(before, self.topic.partitions) if filled else ():
            append(self.topic.partition(number), "a")

    @rule(ms=st.sampled_from([600, 4_000, TEN_SECONDS_MS]))
    def pass_time(self, ms: int) -> None:
        """Enough of it and what is there expires."""
        self.clock.now_ms += ms

    @invariant()
    def a_position_is_committed_only_for_what_was_dealt_with(self) -> None:
        for number in range(self.topic.partitions):
            for known in self.topic.partition(number).consumers():
                undealt = set(range(self.skipped.get(number, 0), known.offset)) - self.dealt[number]
                assert not undealt, (
                    f"partition {number} is committed to {known.offset}, and nobody dealt with {undealt}"
                )

    def teardown(self) -> None:
        """Time for everybody to see everything; then one instance, new or not, reads to the end."""
        self._disarm()
        self.clock.now_ms += TEN_SECONDS_MS
        if self.rightful is None:
            self.open()
        caller = self.rightful
        assert caller is not None
        # What each history ends with, since few have it after their last opening: growth, and one partition that fails.
        self.topic.alter(partitions=self.topic.partitions + 1)
        self.append_some(0, 2, everywhere=True)
        self.clock.now_ms += TEN_SECONDS_MS
        self.arm_one(self.topic.partitions - 1, 1, Unavailable, "manifest")
        self._poll(caller, 9)
        self.arm_one(0, 1, Corrupt, "segments")
        self._poll(caller, 9)
        self._disarm()
        idle = 0
        while idle < 3:  # where something failed before, that may be told once more
            found = None
            with suppress(Unavailable, Corrupt, CommitUnknown):
                found = caller.consumer.poll()
            idle = 0 if found else idle + 1
            for number, item in found or ():
                self._hand(caller, number, item)
            self._came_back(caller)
        caller.consumer.close()
        for number in range(self.topic.partitions):
            wanted = set(range(self.skipped.get(number, 0), self._end(number)))
            assert not wanted - self.handed[number], (
                f"partition {number}: {wanted - self.handed[number]} was handed to nobody"
            )
        self.a_position_is_committed_only_for_what_was_dealt_with()


class _After:
    """True once it was asked so often."""

    def __init__(self, times: int) -> None:
        self.times, self.asked = times, 0

    def __call__(self) -> bool:
        self.asked += 1
        return self.asked > self.times


class FarTopicConsumers(TopicConsumers):
    made_of = FarFailingStore


TestTopicConsumers = pytest.mark.slow(TopicConsumers.TestCase)
TestFarTopicConsumers = pytest.mark.slow(FarTopicConsumers.TestCase)
TestTopicConsumers.settings = TestFarTopicConsumers.settings = settings(stateful_step_count=40)
