"""Whose turn it is, under a simulated clock: any partitions, jobs, lengths and urgencies.

What the ranking promises is reckoned here from what happened, not by its own functions. Tried, and caught here: no turn
for who has waited longest, no order by urgency, a job more than workers, more bytes than may be, a job beside one that
runs alone, and others that begin before who waits for room.
"""

import heapq
import random
from dataclasses import dataclass, field

import pytest
from hypothesis import given
from hypothesis import strategies as st

from lithify.compactor.turns import FAIR_EVERY, Turns, Want

LONG = Want((5, 0), 10_000)
SHORT = Want((7, 0), 10, short=True)


def edit(rank: int = 1_000) -> Want:
    return Want((rank, 0))


def begun(turns: Turns[str]) -> list[str]:
    """All that may begin now, in order."""
    names: list[str] = []
    while (turn := turns.begin()) is not None:
        names.append(turn[0])
    return names


def looked(turns: Turns[str], **wants: Want) -> None:
    for key, want in wants.items():
        turns.looked(key, want)


def test_the_most_urgent_begins_and_then_all_are_ranked_anew() -> None:
    turns: Turns[str] = Turns(1)
    looked(turns, hot=Want((3, 0), 5), late=Want((7, 0), 5), never=Want((9, 0), 5))
    assert begun(turns) == ["hot"]
    turns.looked("late", Want((1, 0), 5))  # overdue since
    turns.end("hot", Want((3, 0), 5))
    assert begun(turns) == ["late"]


def test_equals_take_turns() -> None:
    turns: Turns[str] = Turns(1)
    looked(turns, a=LONG, b=LONG, c=LONG)
    order: list[str] = []
    for _ in range(7):
        order += begun(turns)
        turns.end(order[-1], LONG)
    assert order == [*"abcabca"]


def test_one_turn_in_four_goes_to_who_has_waited_longest() -> None:
    turns: Turns[str] = Turns(1)
    looked(turns, forgotten=Want((6, 0), 5), hot=Want((3, 0), 5))
    order: list[str] = []
    for _ in range(FAIR_EVERY + 1):
        order += begun(turns)
        turns.end(order[-1], Want((3, 0), 5) if order[-1] == "hot" else None)
    assert order == ["hot"] * 3 + ["forgotten", "hot"]


def test_there_is_always_room_for_one_short_job_one_that_was_asked_for_and_edits() -> None:
    turns: Turns[str] = Turns(1)
    asked = Want((0, 0), 10_000, asked=True)
    looked(turns, big=Want((2, 0), 10_000), bigger=LONG)
    assert begun(turns) == ["big"]
    looked(turns, s1=SHORT, s2=SHORT, r1=asked, r2=asked, e1=edit(), e2=edit())
    assert begun(turns) == ["e1", "r1", "s1"]
    turns.end("s1", None)
    turns.end("e1", None)
    assert begun(turns) == ["e2", "s2"]
    turns.end("big", None)
    assert begun(turns) == [], "three run, and one worker is there"
    turns.end("r1", None)
    assert begun(turns) == ["r2"], "the most urgent, and not the second short one"


def test_who_finds_no_room_waits_for_those_that_run_and_no_longer() -> None:
    turns: Turns[str] = Turns(3, bytes_max=100)
    looked(turns, first=Want((1, 0), 60), wide=Want((2, 0), 90), a=Want((3, 0), 30), b=Want((3, 0), 30))
    assert begun(turns) == ["first", "a"]
    turns.end("a", None)
    assert begun(turns) == ["b"], "while the first one runs, others use the room that is left"
    looked(turns, c=Want((0, 0), 30))
    turns.end("first", None)
    assert begun(turns) == [], "now nothing begins before it"
    turns.end("b", None)
    assert begun(turns) == ["wide"]
    turns.end("wide", None)
    assert begun(turns) == ["c"]


def test_one_short_job_at_a_time_waits_for_no_room_and_puts_nobody_off() -> None:
    """A job larger than all that may be read holds everything else for hours, once before it begins and once while it
    runs. What relieves pressure is not held, or appends would stop."""
    turns: Turns[str] = Turns(3, bytes_max=100)
    looked(turns, first=Want((1, 0), 60), big=Want((2, 0), 1_000))
    assert begun(turns) == ["first"]
    looked(turns, s1=Want((0, 0), 50, short=True), s2=SHORT, other=Want((3, 0), 10))
    assert begun(turns) == ["s1", "other"]
    turns.end("first", None)
    looked(turns, late=Want((0, 0), 10))
    turns.end("s1", None)
    assert begun(turns) == ["s2"], "and nobody else, since the big one's time has come"
    turns.end("other", None)
    assert begun(turns) == ["big"], "beside the short one"
    turns.end("s2", None)
    looked(turns, s3=SHORT, s4=SHORT)
    assert begun(turns) == ["s3"]
    turns.end("big", None)
    assert begun(turns) == ["late", "s4"]


def test_not_even_a_short_job_begins_before_who_must_run_alone() -> None:
    turns: Turns[str] = Turns(2)
    looked(turns, first=LONG, guilty=Want((1, 0), 5, alone=True))
    turns.look("guilty")
    assert begun(turns) == ["first"]
    turns.looked("guilty", Want((1, 0), 5, alone=True))
    looked(turns, s1=SHORT, s2=SHORT)
    assert begun(turns) == ["s1"], "while the first one runs"
    turns.end("first", None)
    turns.end("s1", None)
    assert begun(turns) == ["guilty"]
    assert begun(turns) == []
    turns.end("guilty", None)
    assert begun(turns) == ["s2"]


def test_who_is_refused_by_those_who_count_is_tried_when_a_job_has_ended() -> None:
    turns: Turns[str] = Turns(3, bytes_max=100)
    looked(turns, a=Want((1, 0), 50), b=Want((2, 0), 50))
    assert begun(turns) == ["a", "b"]
    turns.end("b", Want((2, 0), 50), deferred=True)  # `a` reads more than was known
    assert begun(turns) == []
    turns.end("a", None)
    assert begun(turns) == ["b"]


def test_who_runs_alone_runs_alone() -> None:
    turns: Turns[str] = Turns(2)
    looked(turns, guilty=Want((1, 0), 5, alone=True), other=LONG, shape=edit())
    assert begun(turns) == ["shape", "guilty"]
    turns.end("guilty", None)
    assert begun(turns) == ["other"]


def test_who_is_being_looked_at_has_no_turn_and_keeps_its_place() -> None:
    turns: Turns[str] = Turns(1)
    looked(turns, a=LONG, b=LONG)
    turns.look("a")
    assert begun(turns) == ["b"]
    turns.looked("a", LONG)
    looked(turns, c=LONG)
    turns.end("b", None)
    assert begun(turns) == ["a"]
    turns.looked("c", None)
    turns.end("a", None)
    assert turns.at_rest


@pytest.mark.parametrize("alone", [False, True])
def test_who_has_waited_for_room_is_not_passed_over_while_it_is_being_looked_at(alone: bool) -> None:
    """A round looks at everybody who waits. With a slow store a look takes seconds, and each time a job ends."""
    turns: Turns[str] = Turns(2, 100)
    large = Want((0, 0), 100, alone=alone)
    looked(turns, first=Want((5, 0), 60))
    assert begun(turns) == ["first"]
    looked(turns, large=large)
    assert begun(turns) == [], "it waits for the first"
    looked(turns, second=Want((5, 0), 60), short=SHORT)
    turns.look("large")
    turns.end("first", None)
    assert begun(turns) == ([] if alone else ["short"]), "which puts nobody off but who runs alone"
    turns.looked("large", large)
    assert begun(turns) == ["large"]
    turns.end("large", None)
    assert begun(turns) == (["second", "short"] if alone else ["second"])


@pytest.mark.parametrize("between", range(FAIR_EVERY - 1))
def test_a_turn_that_found_no_room_is_not_the_one_in_four(between: int) -> None:
    """Who counts what jobs read may know of more of them than the ranking does."""
    turns: Turns[str] = Turns(2)
    looked(turns, runs=LONG)
    assert begun(turns) == ["runs"]
    for _ in range(between):
        looked(turns, hot=Want((3, 0), 5))
        assert begun(turns) == ["hot"]
        turns.end("hot", None)
    looked(turns, refused=Want((2, 0), 5))
    assert begun(turns) == ["refused"]
    turns.end("refused", None, deferred=True)
    order: list[str] = []
    looked(turns, forgotten=Want((6, 0), 5), hot=Want((3, 0), 5))
    while "forgotten" not in order:
        order += begun(turns)
        turns.end(order[-1], Want((3, 0), 5))
    assert order == ["hot"] * (FAIR_EVERY - 2 - between) + ["forgotten"]


def test_nobody_begins_before_the_end_of_whom_it_waits_for() -> None:
    turns: Turns[str] = Turns(1, None, lambda key: f"beside {key}")
    looked(turns, big=LONG)
    assert begun(turns) == ["big"]
    turns.looked("beside big", SHORT)
    assert begun(turns) == ["beside big"]
    turns.end("big", LONG)
    assert begun(turns) == []
    turns.end("beside big", None)
    assert begun(turns) == ["big"]


@dataclass
class Partition:
    """Jobs come due from time to time; some are never done with."""

    wants: list[Want]
    every_ms: int
    hot: bool
    waits_since: int | None = None  # as a count of jobs that any could have had
    turns: int = 0
    due: list[Want] = field(default_factory=list)


class Service:
    """Plays a service of many partitions on a simulated clock, and checks each beginning against what it saw."""

    def __init__(self, dice: random.Random, concurrency: int, bytes_max: int | None, partitions: int) -> None:
        self.dice = dice
        self.turns: Turns[int] = Turns(concurrency, bytes_max)
        self.concurrency, self.bytes_max = concurrency, bytes_max
        self.partitions = [self._partition() for _ in range(partitions)]
        self.alone = any(want.alone for partition in self.partitions for want in partition.wants)
        self.running: dict[int, Want] = {}
        self.jobs_begun = 0
        self.now_ms = 0
        self.events: list[tuple[int, int, str, int]] = []
        self.no_room: set[int] = set()  # who waits, and at some time found a worker but no room

    def _partition(self) -> Partition:
        dice = self.dice
        wants = [self._want() for _ in range(dice.randint(1, 3))]
        return Partition(wants, dice.choice((0, 50, 1_000)), dice.random() < 0.2)

    def _want(self) -> Want:
        dice = self.dice
        if dice.random() < 0.2:
            return edit(dice.choice((1, 1_000)))
        size = dice.choice((1, 10, 60, 100, 500))
        rank = dice.randint(0, 8), dice.choice((0, 0, 5, -5))
        return Want(
            rank, size, short=size <= 10, asked=rank[0] == 0 and dice.random() < 0.5, alone=dice.random() < 0.03
        )

    def later(self, ms: int, what: str, key: int) -> None:
        heapq.heappush(self.events, (self.now_ms + ms, len(self.events) + self.dice.randrange(1000), what, key))

    def play(self, steps: int) -> None:
        for key in range(len(self.partitions)):
            self.later(self.dice.randrange(100), "due", key)
        for _ in range(steps):
            if not self.events:
                break
            self.now_ms, _, what, key = heapq.heappop(self.events)
            self._end(key) if what == "end" else self._due(key)
            self._begin_all()
        self._drain()

    def _drain(self) -> None:
        """Nothing more comes due: everybody has a turn, and then there is rest."""
        for partition in self.partitions:
            partition.hot, partition.every_ms = False, 0
        for _ in range(20 * len(self.partitions) + 100):
            if not self.events:
                break
            self.now_ms, _, what, key = heapq.heappop(self.events)
            if what == "end":
                self._end(key)
                self._begin_all()
        assert self.turns.at_rest, "somebody waits for ever"

    def _due(self, key: int) -> None:
        partition = self.partitions[key]
        if not self.turns.has_turn(key):
            want = self.dice.choice(partition.wants)
            self.turns.looked(key, want)
            if partition.waits_since is None:
                partition.waits_since = self.jobs_begun
            partition.due = [want]
        if partition.every_ms:
            self.later(1 + self.dice.randrange(partition.every_ms), "due", key)

    def _end(self, key: int) -> None:
        partition = self.partitions[key]
        del self.running[key]
        again = self.dice.choice(partition.wants) if partition.hot or self.dice.random() < 0.2 else None
        partition.due = [again] if again else []
        partition.waits_since = self.jobs_begun if again else None
        self.turns.end(key, again)

    def _begin_all(self) -> None:
        while (turn := self._begun()) is not None:
            key, want = turn
            self._check(key, want)
            uncounted = self._is_uncounted(want) and bool(self.no_room)  # it begins before who waits for room
            self.jobs_begun += bool(want.bytes) and len(self._jobs()) < self.concurrency and not uncounted
            self.running[key] = want
            partition = self.partitions[key]
            partition.waits_since, partition.due = None, []
            partition.turns += 1
            self.no_room.discard(key)
            self.later(self.dice.choice((1, 10, 100, 5_000)) if want.bytes else 1, "end", key)
        assert not self._startable_edit(), "an edit waits although it may begin"

    def _begun(self) -> tuple[int, Want] | None:
        self.no_room |= {k for k, w in self._waiting() if w.bytes and self._has_worker(w) and not self._has_room(w)}
        return self.turns.begin()

    def _jobs(self) -> list[Want]:
        return [want for want in self.running.values() if want.bytes]

    def _waiting(self) -> list[tuple[int, Want]]:
        return [(key, p.due[0]) for key, p in enumerate(self.partitions) if p.due and key not in self.running]

    def _startable_edit(self) -> bool:
        edits = sum(not want.bytes for want in self.running.values())
        return edits < self.concurrency and any(not want.bytes for _, want in self._waiting())

    def _has_worker(self, want: Want) -> bool:
        jobs = self._jobs()
        extra = (want.short and not any(j.short for j in jobs)) or (want.asked and not any(j.asked for j in jobs))
        return len(jobs) < self.concurrency or extra

    def _has_room(self, want: Want) -> bool:
        jobs = self._jobs()
        if jobs and (want.alone or any(job.alone for job in jobs)):
            return False
        counted = sorted(jobs, key=lambda job: (job.short, job.bytes))
        if counted and counted[-1].short:
            counted.pop()
        if not counted or self.bytes_max is None or self._is_uncounted(want):
            return True
        return sum(job.bytes for job in counted) + want.bytes <= self.bytes_max

    def _is_uncounted(self, want: Want) -> bool:
        return want.short and not any(job.short for job in self._jobs())

    def _check(self, key: int, want: Want) -> None:
        if not want.bytes:
            return
        assert self._has_worker(want), "more jobs than workers"
        assert self._has_room(want), "more is read at once than may be"
        mine = self.partitions[key].waits_since
        assert mine is not None
        for other, wanted in self._waiting():
            if other == key or not wanted.bytes:
                continue
            if not (self._has_worker(wanted) and self._has_room(wanted)):
                continue
            since = self.partitions[other].waits_since or 0
            if wanted.rank < want.rank:
                # Only who has waited longer, or was put off for want of room, comes before the more urgent.
                first = mine <= since or key in self.no_room
                assert first or (self.no_room and self._is_uncounted(want)), (want, wanted)
            most = FAIR_EVERY * (len(self.partitions) + 1) * (1 if self.bytes_max is None and not self.alone else 2)
            assert self.jobs_begun - since <= most, "it waits and waits"


@given(
    seed=st.integers(0, 2**32),
    concurrency=st.integers(1, 4),
    bytes_max=st.sampled_from((None, None, 100, 600)),
    partitions=st.integers(1, 25),
)
def test_nobody_starves_and_no_bound_is_passed(
    seed: int, concurrency: int, bytes_max: int | None, partitions: int
) -> None:
    Service(random.Random(seed), concurrency, bytes_max, partitions).play(400)


@pytest.mark.parametrize("urgent", [1, 5, 50])
def test_however_much_is_more_urgent_each_has_its_turn_within_four_times_their_number(urgent: int) -> None:
    turns: Turns[str] = Turns(1)
    for number in range(urgent):
        turns.looked(f"hot {number}", Want((1, 0), 5))
    turns.looked("patient", Want((6, 0), 5))
    order: list[str] = []
    while "patient" not in order:
        order += begun(turns)
        turns.end(order[-1], Want((1, 0), 5))
        assert len(order) <= FAIR_EVERY * (urgent + 1)
