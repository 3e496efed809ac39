"""Threads that append at once share commits (docs/rfcs/0024): who commits for whom, and what becomes of the others when
one of them is interrupted."""

import threading
from collections import deque
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import pytest

import lithify
from lithify.log.append import outcome, partition_of
from lithify.log.commit_queue import CommitQueue, Member
from lithify.log.warehouse import Warehouse
from lithify.manifest.appends import Append
from lithify.manifest.keys import SegmentId
from lithify.manifest.partition import PartitionFiles
from lithify.manifest.producers import ProducerStamp
from lithify.manifest.transactions import TransactionStamp
from lithify.store.driver import Answer
from lithify.store.errors import AccessDenied, CommitUnknown, InvalidRequest, LithifyError, Unavailable
from lithify.store.port import Create, Get, Outcome, Put, Request
from tests.log.compaction import files_of
from tests.log.producing import WAIT_MS
from tests.protocol.scene import L0_MAX, segment


class Arrivals(deque[Member]):
    """The queue, which tells when somebody has joined."""

    def __init__(self) -> None:
        super().__init__()
        self.joined = threading.Semaphore(0)

    def append(self, member: Member) -> None:
        super().append(member)
        self.joined.release()


class Crowd:
    """Members in threads of their own, that join one after the other while a first commit is in flight."""

    def __init__(self, warehouse: Warehouse) -> None:
        self.warehouse = warehouse
        self.keys = files_of(warehouse, "t").keys
        self.queue = CommitQueue(self.keys)
        self.arrivals = Arrivals()
        vars(self.queue)["_waiting"] = self.arrivals
        self.told: dict[int, range | BaseException] = {}
        self.threads: list[threading.Thread] = []

    def edit(self, number: int, **stamps: Any) -> Append:
        return Append(segment(SegmentId.for_append(1, f"{number:016x}")), L0_MAX, **stamps)

    def member(
        self, number: int, answer: Answer | None = None, deadline_ms: int | None = None, **stamps: Any
    ) -> Member:
        files = PartitionFiles(self.keys)
        return Member(self.edit(number, **stamps), files, answer or self.warehouse.driver.answer, deadline_ms)

    def joins(self, number: int, member: Member) -> None:
        def run() -> None:
            try:
                self.told[number] = self.queue.commit(member)
            except BaseException as error:  # noqa: BLE001 - for the test to judge
                self.told[number] = error

        self.threads.append(threading.Thread(target=run))
        self.threads[-1].start()
        assert self.arrivals.joined.acquire(timeout=WAIT_MS / 1000)

    def behind(self, *members: Member) -> None:
        """All of these, in this order, join while number 0 is being committed; returns once all are done."""
        plain, joined = self.warehouse.driver.answer, False

        def answer(request: Request[Any]) -> Any:
            nonlocal joined
            if not joined:
                joined = True
                for number, member in enumerate(members, 1):
                    self.joins(number, member)
            return plain(request)

        self.joins(0, self.member(0, answer))
        for thread in self.threads:
            thread.join(WAIT_MS / 1000)
            assert not thread.is_alive(), "somebody waits for ever"

    def commits(self) -> list[list[str]]:
        """The segments of each commit, by the last digits of their ids."""
        head = self.warehouse.driver.run(PartitionFiles(self.keys).head())
        found: dict[int, list[str]] = {}
        for ref in head.l0:
            found.setdefault(ref.added_at, []).append(ref.id.lstrip("0-")[-1])
        return list(found.values())


@pytest.fixture
def crowd(warehouse: Warehouse) -> Crowd:
    warehouse.create_topic("t")
    return Crowd(warehouse)


def test_those_who_come_while_a_commit_is_in_flight_make_the_next_one(crowd: Crowd) -> None:
    crowd.behind(*(crowd.member(number) for number in range(1, 5)))
    assert crowd.commits() == [["0"], ["1", "2", "3", "4"]]
    assert crowd.told == {number: range(number, number + 1) for number in range(5)}


def test_a_lone_append_asks_what_it_always_asked(warehouse: Warehouse) -> None:
    part = warehouse.create_topic("t").partition(0)
    part.append([lithify.Record(b"k", b"1")])
    before = warehouse.store.requests()
    part.append([lithify.Record(b"k", b"2")])
    spent = warehouse.store.requests() - before
    assert (spent.puts, spent.creates, spent.gets, spent.total) == (1, 1, 1, 3)
    known: PartitionFiles = vars(part)["_files"]
    assert known.manifest.seen.value is not None
    assert known.manifest.seen.value.next_offset == 2, "the handle knows the manifest of its append"


def test_two_handles_of_one_process_share_what_they_know(tmp_path: Any) -> None:
    one, other = (lithify.open(str(tmp_path)) for _ in range(2))
    one.create_topic("t", probe=False).partition(0).append([lithify.Record(b"k", b"1")])
    part = other.topic("t").partition(0)
    part.append([lithify.Record(b"k", b"2")])
    one.topic("t").partition(0).append([lithify.Record(b"k", b"3")])
    before = other.store.requests()
    part.append([lithify.Record(b"k", b"4")])
    spent = other.store.requests() - before
    assert (spent.creates, spent.conflicts) == (1, 0), "no race was lost"


def test_a_refused_member_fails_nobody_else(crowd: Crowd) -> None:
    refused = crowd.member(2, producer=ProducerStamp("unknown", 3, 0))
    crowd.behind(crowd.member(1), refused, crowd.member(3))
    assert isinstance(crowd.told[2], InvalidRequest)
    assert crowd.commits() == [["0"], ["1", "3"]]
    assert (crowd.told[1], crowd.told[3]) == (range(1, 2), range(2, 3))


def test_the_next_of_an_application_is_in_the_next_commit(crowd: Crowd) -> None:
    stamps = [TransactionStamp("a", version) for version in (1, 2, 2)]
    versions = [crowd.member(number, transaction=stamp) for number, stamp in enumerate(stamps, 1)]
    crowd.behind(*versions, crowd.member(4))
    assert crowd.commits() == [["0"], ["1"], ["2"], ["4"]]
    assert crowd.told[3] == crowd.told[2] == range(2, 3), "a repeat"
    assert crowd.told[4] == range(3, 4)


def test_a_commit_holds_so_many_members_and_bytes(crowd: Crowd, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("lithify.log.commit_queue.GROUP_MAX", 3)
    crowd.behind(*(crowd.member(number) for number in range(1, 6)))
    assert crowd.commits() == [["0"], ["1", "2", "3"], ["4", "5"]]
    monkeypatch.setattr("lithify.log.commit_queue.GROUP_BYTES_MAX", 200)
    again = Crowd(crowd.warehouse)
    again.edit = lambda number, **_: Append(segment(SegmentId.for_append(1, f"{number + 6:016x}")), L0_MAX)
    again.behind(*(again.member(number) for number in range(1, 4)))
    assert again.commits()[3:] == [["6"], ["7", "8"], ["9"]], "100 bytes each"


def test_those_whose_time_is_limited_are_among_themselves(crowd: Crowd) -> None:
    """They end with the earliest of their limits, which is harmless to a producer and to nobody else."""
    asked: list[str] = []

    def answers(name: str) -> Answer:
        def answer(request: Request[Any]) -> Any:
            asked.append(name)
            return crowd.warehouse.driver.answer(request)

        return answer

    limits = {2: 90, 3: 20, 4: None}
    crowd.behind(crowd.member(1), *(crowd.member(n, answers(f"{n}"), limits[n]) for n in limits))
    assert crowd.commits() == [["0"], ["1"], ["2", "3"], ["4"]]
    assert set(asked) == {"3", "4"}


REQUESTS = 7  # of a commit, about


@pytest.mark.parametrize("asked", [False, True])
@pytest.mark.parametrize("at", range(REQUESTS))
@pytest.mark.parametrize("fault", [KeyboardInterrupt, MemoryError])
def test_who_is_interrupted_leaves_the_others_whole(
    crowd: Crowd, at: int, asked: bool, fault: type[BaseException]
) -> None:
    """At each request of the commit that it leads, before it was made or after. A MemoryError ends the commit."""
    plain, requests, interrupted = crowd.warehouse.driver.answer, 0, False

    def answer(request: Request[Any]) -> Any:
        nonlocal requests, interrupted
        requests += 1
        if requests - 1 != at:
            return plain(request)
        interrupted = True
        if asked:
            plain(request)
        raise fault

    crowd.behind(crowd.member(1, answer), crowd.member(2), crowd.member(3))
    stored = [name for commit in crowd.commits() for name in commit]
    if interrupted:
        assert isinstance(crowd.told[1], fault)
    for number in (2, 3):
        told = crowd.told[number]
        if isinstance(told, range):
            assert stored.count(str(number)) == 1
        else:
            assert isinstance(told, CommitUnknown)
            assert fault is MemoryError, "only if the commit itself had ended"
            files = PartitionFiles(crowd.keys)
            found = crowd.warehouse.driver.run(outcome(files, told.token, settle=True))
            assert (found is not None) == (str(number) in stored)
            assert told.token.startswith(partition_of(files))
    assert stored.count("1") <= 1
    crowd.joins(9, crowd.member(9))
    crowd.threads[-1].join(WAIT_MS / 1000)
    assert isinstance(crowd.told[9], range), "the queue goes on"


class Doomed:
    """In place of what a member waits for: its thread is interrupted there, before or after the wait."""

    def __init__(self, *, waits: bool = False) -> None:
        self._lock = threading.Lock()
        self._lock.acquire()
        self._waits = waits
        self.locked, self.release = self._lock.locked, self._lock.release

    def acquire(self) -> bool:
        if self._waits:
            self._lock.acquire()
        raise KeyboardInterrupt


def test_who_is_interrupted_in_the_queue_leaves_it(crowd: Crowd) -> None:
    """Its wait is interrupted, as by Ctrl-C in the main thread."""
    gone: Any = crowd.member(2)
    gone.news = Doomed()
    crowd.behind(crowd.member(1), gone, crowd.member(3))
    assert isinstance(crowd.told[2], KeyboardInterrupt)
    assert crowd.commits() == [["0"], ["1", "3"]]


@pytest.mark.parametrize("error", [AccessDenied("no"), Unavailable("away")])
def test_what_fails_the_commit_each_is_told_by_an_error_of_its_own(crowd: Crowd, error: LithifyError) -> None:
    def answer(request: Request[Any]) -> Any:
        if isinstance(request, Create):
            raise error
        return crowd.warehouse.driver.answer(request)

    crowd.behind(crowd.member(1, answer), crowd.member(2))
    assert [type(crowd.told[number]) for number in (1, 2)] == [type(error)] * 2
    assert crowd.told[1] is not crowd.told[2]
    assert crowd.commits() == [["0"]]


def test_of_an_unknown_commit_each_has_a_token_of_its_own(
    crowd: Crowd, monkeypatch: pytest.MonkeyPatch, no_waiting: None
) -> None:
    monkeypatch.setattr("lithify.manifest.commit_point.CREATE_ATTEMPTS_MAX", 2)

    def answer(request: Request[Any]) -> Any:
        reply = crowd.warehouse.driver.answer(request)
        return Outcome.UNKNOWN if isinstance(request, Create) else reply

    crowd.behind(crowd.member(1, answer), crowd.member(2))
    part = crowd.warehouse.topic("t").partition(0)
    for number in (1, 2):
        told = crowd.told[number]
        assert isinstance(told, CommitUnknown)
        assert part.outcome(told.token) == range(number, number + 1)


def test_threads_of_one_handle_append_each_once(warehouse: Warehouse) -> None:
    part = warehouse.create_topic("t").partition(0)
    told: list[tuple[bytes, range]] = []

    def append(name: int) -> None:
        for index in range(5):
            value = b"%d.%d" % (name, index)
            told.append((value, part.append([lithify.Record(b"k", value)])))

    threads = [threading.Thread(target=append, args=(number,)) for number in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert sorted((offsets.start, value) for value, offsets in told) == [(r.offset, r.value) for r in part.read()]


def uploads_meet(part: lithify.Partition, meets: Callable[[], None]) -> None:
    driver: Any = vars(part)["_driver"]
    plain = driver.answer

    def answer(request: Request[Any]) -> Any:
        if isinstance(request, Put):
            meets()
        return plain(request)

    driver.answer = answer


def test_uploads_are_made_side_by_side(warehouse: Warehouse) -> None:
    """Each waits, in the middle of its upload, for the other's."""
    part = warehouse.create_topic("t").partition(0)
    both = threading.Barrier(2, timeout=WAIT_MS / 1000)
    uploads_meet(part, both.wait)  # type: ignore[arg-type]
    threads = [threading.Thread(target=part.append, args=([lithify.Record(b"k", b"v")],)) for _ in range(2)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert part.describe().next_offset == 2


def test_reads_go_on_while_an_append_waits_for_its_upload(warehouse: Warehouse) -> None:
    part = warehouse.create_topic("t").partition(0)
    begun, go = threading.Event(), threading.Event()

    def meets() -> None:
        begun.set()
        assert go.wait(WAIT_MS / 1000)

    uploads_meet(part, meets)
    thread = threading.Thread(target=part.append, args=([lithify.Record(b"k", b"v")],))
    thread.start()
    assert begun.wait(WAIT_MS / 1000)
    assert part.describe().next_offset == 0
    go.set()
    thread.join()
    assert part.describe().next_offset == 1


def test_a_commit_after_a_lost_race_takes_the_whole_group_along(crowd: Crowd) -> None:
    plain, rivals = crowd.warehouse.driver.answer, []

    def answer(request: Request[Any]) -> Any:
        if isinstance(request, Create) and not rivals:
            rivals.append(crowd.warehouse.topic("t").partition(0).append([lithify.Record(b"k", b"rival")]))
        return plain(request)

    crowd.behind(crowd.member(1, answer), crowd.member(2))
    assert rivals == [range(1, 2)]
    assert [crowd.told[1], crowd.told[2]] == [range(2, 3), range(3, 4)]


def test_a_get_is_asked_again_by_who_takes_over(crowd: Crowd) -> None:
    asked: list[Request[Any]] = []
    plain = crowd.warehouse.driver.answer

    def interrupted(request: Request[Any]) -> Any:
        if isinstance(request, Get):
            asked.append(request)
            raise KeyboardInterrupt
        return plain(request)

    def goes_on(request: Request[Any]) -> Any:
        asked.append(request)
        return plain(request)

    crowd.behind(crowd.member(1, interrupted), crowd.member(2, goes_on))
    assert asked[0] == asked[1]
    assert isinstance(asked[0], Get)


def test_a_clock_without_a_hash_is_like_no_other(tmp_path: Any) -> None:
    """Such as a dataclass that can be called."""

    @dataclass
    class Clock:
        now_ms: int

        def __call__(self) -> int:
            return self.now_ms

    one, other = (lithify.open(str(tmp_path), clock=Clock(7)) for _ in range(2))
    assert one.create_topic("t", probe=False).partition(0).append([lithify.Record(b"k", b"1")]) == range(1)
    assert other.topic("t").partition(0).append([lithify.Record(b"k", b"2")]) == range(1, 2)
