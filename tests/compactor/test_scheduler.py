"""The loop that looks and gives turns, with work that ends when the test says so."""

import contextlib
import queue
import threading
from collections.abc import Callable, Iterator
from typing import Any

import pytest

from lithify.compactor.scheduler import Scheduler, Turned
from lithify.compactor.turns import Turns, Want

JOB = Want((5, 0), 10_000)
SHORT = Want((7, 0), 10, short=True)
EDIT = Want((1_000, 0))


class Stage:
    """Partitions by name, and what each wants. A turn goes on until `let_go`, a look until it is over."""

    def __init__(self, concurrency: int = 1, interval_ms: int = 1, **wants: Want | None) -> None:
        self.wants = wants
        self.after: dict[str, list[Turned]] = {}  # what turns come to, one after the other; then nothing
        self.held: set[str] = set()  # whose turns wait
        self.slow: set[str] = set()  # looks at whom wait
        self.events: queue.SimpleQueue[str] = queue.SimpleQueue()
        self.log: list[str] = []
        self.rounds = 0
        self.round_hook: Callable[[], None] = lambda: None
        self._go: dict[str, threading.Event] = {}
        self._busy: set[str] = set()
        self.scheduler: Scheduler[str] = Scheduler(self, Turns(concurrency), concurrency, interval_ms)

    def find(self) -> tuple[str, ...]:
        self.rounds += 1
        self.round_hook()
        self._note("round")
        return tuple(self.wants)

    def look(self, key: str) -> Want | None:
        assert key not in self._busy, "it has a turn"
        if key in self.slow:
            self._note(f"look at {key}")
            assert self._event(key).wait(60)
        return self.wants.get(key)

    def turn(self, key: str, want: Want) -> Turned:
        assert key not in self._busy, "one turn at a time"
        self._busy.add(key)
        self._note(key)
        if key in self.held:
            assert self._event(key).wait(60)
        turned = self.after[key].pop(0) if self.after.get(key) else Turned(None)
        self.wants[key] = turned.want
        self._busy.discard(key)
        return turned

    def let_go(self, key: str) -> None:
        self._event(key).set()

    def until(self, what: str, times: int = 1) -> None:
        while times:
            times -= self.events.get(timeout=60) == what

    def until_all(self, what: str, times: int = 1) -> None:
        """As `until`, in whichever order things come."""
        while self.log.count(what) < times:
            self.events.get(timeout=60)

    @contextlib.contextmanager
    def between_rounds(self) -> Iterator[None]:
        """All were looked at after this was called, and nobody is looked at now."""
        may_begin = threading.Semaphore(0)

        def hook() -> None:
            self.events.put("a round waits")
            assert may_begin.acquire(timeout=60)

        self.round_hook = hook
        self.until("a round waits")
        may_begin.release()
        self.until("a round waits")
        yield
        self.round_hook = lambda: None
        may_begin.release()

    def _event(self, key: str) -> threading.Event:
        return self._go.setdefault(key, threading.Event())

    def _note(self, what: str) -> None:
        self.log.append(what)
        self.events.put(what)

    @property
    def turns(self) -> list[str]:
        return [what for what in self.log if what != "round" and not what.startswith("look at")]


class Run:
    def __init__(self, stage: Stage, *, once: bool) -> None:
        self._stage = stage
        self._thread = threading.Thread(target=self._run, args=(once,))
        self.raised: BaseException | None = None

    def _run(self, once: bool) -> None:
        try:
            self._stage.scheduler.run(once=once)
        except BaseException as error:  # noqa: BLE001 - asserted on by the test
            self.raised = error

    def __enter__(self) -> "Run":
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._thread.join(60)
        assert not self._thread.is_alive()


def test_once_ends_when_nobody_wants_a_turn_and_the_most_urgent_came_first() -> None:
    stage = Stage(1, 60_000, a=Want((7, 0), 5), b=Want((1, 0), 5), c=None, d=Want((3, 0), 5))
    stage.after = {"d": [Turned(JOB), Turned(EDIT)]}
    stage.scheduler.run(once=True)
    assert stage.turns == ["b", "d", "d", "d", "a"]
    assert (stage.rounds, stage.scheduler.leaving) == (1, True)


def test_while_a_job_runs_everything_else_is_looked_at() -> None:
    stage = Stage(big=JOB, small=None, asked=None)
    stage.held = {"big"}
    with Run(stage, once=True):
        stage.until("big")
        stage.until("round", times=3)
        stage.wants |= {"small": SHORT, "asked": Want((0, 0), 10_000, asked=True)}
        stage.until("small")
        stage.until("round", times=2)
        stage.wants["small"] = EDIT
        stage.until("small")
        stage.let_go("big")
    assert stage.turns[0] == "big"
    assert sorted(stage.turns[1:]) == ["asked", "small", "small"]


def test_no_turn_waits_for_the_thread_of_a_look() -> None:
    """With a store that is slow, all looks and edits that may be are under way, and every worker is busy."""
    jobs, edits, slow = (tuple(f"{what} {number}" for number in range(4)) for what in ("job", "edit", "slow"))
    stage = Stage(4, 1, **dict.fromkeys(jobs, JOB), pressed=EDIT, **dict.fromkeys(edits, EDIT))
    stage.after, stage.held = {"pressed": [Turned(SHORT)]}, {*jobs, *edits, "pressed"}
    with Run(stage, once=True) as run:
        for name in ("pressed", *edits[:3], *jobs):
            stage.until_all(name)
        stage.wants |= dict.fromkeys(slow, None)
        stage.slow = set(slow)
        for name in slow:
            stage.until_all(f"look at {name}")
        stage.let_go("pressed")
        stage.until_all("pressed", times=2)
        for name in (*jobs, *edits, *slow):
            stage.let_go(name)
    assert stage.turns.count("pressed") == 2
    assert run.raised is None


def test_who_waits_for_a_turn_is_looked_at_too_and_may_become_more_urgent() -> None:
    stage = Stage(big=JOB, a=Want((6, 0), 9_000), b=Want((7, 0), 9_000))
    stage.held = {"big"}
    with Run(stage, once=True):
        stage.until("round", times=3)
        stage.wants["b"] = Want((1, 0), 9_000)
        with stage.between_rounds():
            stage.let_go("big")
            stage.until("a")
    assert stage.turns == ["big", "b", "a"]


def test_who_waits_need_not_wait_for_the_end_of_a_round_too() -> None:
    """Of a thousand partitions a round takes minutes, and the workers would rest as long between two jobs."""
    stage = Stage(big=JOB, waits=Want((6, 0), 9_000))
    stage.held = {"big"}
    with Run(stage, once=True):
        stage.until("big")
        stage.until("round", times=2)
        stage.wants["late"] = None
        stage.slow = {"late"}
        stage.until("look at late")
        stage.let_go("big")
        stage.until("waits")
        stage.let_go("late")
    assert stage.turns == ["big", "waits"]


def test_what_is_not_there_any_more_has_no_turn() -> None:
    stage = Stage(big=JOB, gone=Want((6, 0), 9_000))
    stage.held = {"big"}
    with Run(stage, once=True):
        stage.until("big")
        del stage.wants["gone"]
        with stage.between_rounds():
            stage.let_go("big")
    assert stage.turns == ["big"]


def test_between_two_rounds_it_rests_even_if_all_have_turns(monkeypatch: pytest.MonkeyPatch) -> None:
    """Else a service of one partition would list the topics without end while its job runs."""
    now_ms = [0]
    monkeypatch.setattr("lithify.compactor.scheduler.monotonic_ms", lambda: now_ms[0])
    stage = Stage(1, 10, big=JOB)
    stage.held = {"big"}
    with Run(stage, once=True):
        stage.until("big")
        for _ in range(5):
            stage.scheduler._mailbox.put(None)  # woken, as by a signal
        assert stage.rounds == 1
        now_ms[0] = 10
        stage.scheduler._mailbox.put(None)
        stage.until("round")
        stage.let_go("big")
    assert stage.rounds == 2


def test_told_to_leave_it_begins_nothing_and_waits_for_what_runs() -> None:
    stage = Stage(2, big=JOB, other=JOB, third=JOB)
    stage.held = {"big", "other"}
    with Run(stage, once=False) as run:
        stage.until("big")
        stage.scheduler.leave()
        stage.let_go("big")
        stage.let_go("other")
    assert run.raised is None
    assert set(stage.turns) <= {"big", "other"}


def test_told_to_leave_it_sleeps_until_what_runs_has_ended() -> None:
    """It begins no round any more, so the time of the next one, which comes, is none of its business: it took all of a
    processor's time away from those that record what has finished."""
    stage = Stage(1, 1, big=JOB)
    stage.held = {"big"}
    mailbox = stage.scheduler._mailbox = Mailbox(stage)
    with Run(stage, once=False):
        stage.until("big")
        stage.scheduler.leave()
        stage.until("waits while leaving")
        stage.let_go("big")
    assert {timeout for leaving, timeout in mailbox.waits if leaving} == {None}


class Mailbox(queue.SimpleQueue[Any]):
    """Notes how long the loop is about to wait."""

    def __init__(self, stage: Stage) -> None:
        self.waits: list[tuple[bool, float | None]] = []
        self._stage = stage

    def get(self, block: bool = True, timeout: float | None = None) -> Any:
        if block:
            self.waits.append((self._stage.scheduler.leaving, timeout))
            if self.waits[-1][0]:
                self._stage.events.put("waits while leaving")
        return super().get(block, timeout)


def test_it_may_be_told_to_leave_before_it_begins() -> None:
    stage = Stage(a=JOB)
    stage.scheduler.leave()
    stage.scheduler.run(once=False)
    assert stage.turns == []


@pytest.mark.parametrize("error", [KeyError("a fault"), KeyboardInterrupt()])
def test_a_fault_of_the_loops_own_work_ends_it_after_what_runs(error: BaseException) -> None:
    stage = Stage(2, big=JOB)
    stage.held = {"big"}

    def fail() -> None:
        if stage.rounds > 1:
            raise error

    stage.round_hook = fail
    with Run(stage, once=False) as run:
        stage.until("big")
        while not stage.scheduler.leaving:
            pass
        stage.let_go("big")
    assert run.raised is error
    assert stage.turns == ["big"]


def test_who_was_deferred_has_its_turn_when_there_is_room() -> None:
    stage = Stage(2, a=Want((1, 0), 60), b=Want((2, 0), 30))
    stage.held = {"a"}
    stage.after = {"b": [Turned(Want((2, 0), 30), deferred=True)]}
    with Run(stage, once=True):
        stage.until("b")
        stage.until("round", times=2)
        assert stage.turns == ["a", "b"], "not tried again and again"
        stage.let_go("a")
    assert stage.turns == ["a", "b", "b"]
