"""The engine of a simulated compactor: each task is an actor of its own, and outlives the coordinator that began it.

A worker that crashes is started again, as Spark does, and may have left a half of its outputs behind. A worker that was
told to stop writes on for a while. The engine itself may die over its tasks, and be down for a while.
"""

import itertools
from dataclasses import dataclass, field
from typing import Any

import msgspec

from lithify.compactor.engine import (
    NextResults,
    PrepareTasks,
    SplitRanges,
    StartTasks,
    StopTasks,
    VerifyOutputs,
    WeighSegment,
)
from lithify.compactor.verification import STRETCH_MS
from lithify.manifest.categories import Category
from lithify.manifest.homes import where
from lithify.manifest.jobs import KeyRange
from lithify.segment.task import JobTask, MergeTask, TaskFailure, TaskResult
from lithify.store.errors import Corrupt, NotFound, Unavailable
from lithify.store.port import Pause, Request
from lithify.work.outcome import failure_of
from tests.sim.cast import WORKER, Actor, Author, Violation
from tests.sim.oracle import Oracle
from tests.sim.places import place
from tests.sim.rows import checksum, key_bytes, key_text, merge, move
from tests.sim.wishes import Leaving
from tests.sim.world import World

__all__ = ["Engine"]

WHOLE_TAKES = 4  # times as long as the footer
DIED = "engine died"
PREPARING_SHARE = 0.5
HELD_LOOK_MS = 50
HELD_LOOKS_MAX = 200


class _NeverStarted(Exception):
    """Tasks that were only prepared."""


@dataclass(eq=False)
class _Batch:
    """The tasks of one attempt."""

    tasks: tuple[JobTask, ...] = ()
    results: list[TaskResult | TaskFailure] = field(default_factory=list)
    stopped: bool = False
    held: bool = False  # its tasks may read, and not write


@dataclass
class Engine:
    world: World
    oracle: Oracle
    splits: tuple[str, ...]  # where key ranges are cut
    reading_ms: int = 0  # what it takes to read the footer of one object, at most
    poison: frozenset[str] = frozenset()  # tasks over a key range that begins so fail always
    older_share: float = 0.0  # of tasks that a worker of an earlier release does: it counts no bytes
    _batches: dict[Author, _Batch] = field(default_factory=dict)
    _count: int = 0
    _looks: dict[Author, tuple[VerifyOutputs, int]] = field(default_factory=dict)  # with the time that each still takes
    _leaving: Leaving = field(init=False)

    def __post_init__(self) -> None:
        self._leaving = Leaving(self.world)

    def answer(self, actor: Actor, request: Request[Any]) -> Any:
        match request:
            case WeighSegment():
                return self._weigh(actor, request)
            case SplitRanges():
                cuts = [None, *map(key_bytes, self.splits), None]
                return tuple(KeyRange(low, high) for low, high in itertools.pairwise(cuts))
            case VerifyOutputs():
                return self._verify(actor, request)
            case PrepareTasks(tasks, _):
                return self._prepare(actor, tasks)
            case StartTasks(tasks, _):
                return self._start(actor, tasks)
            case NextResults(timeout_ms):
                return self._next(actor, timeout_ms)
            case StopTasks():
                self._stop(actor)
                return None
            case _:
                raise TypeError(f"no answer for {type(request).__name__}")

    def _look(self, actor: Actor) -> None:
        self.world.merging.discard(actor.author)
        if actor.author in self.oracle.begun:
            self._leaving.looks(actor)

    def _verify(self, actor: Actor, request: VerifyOutputs) -> frozenset[str] | None:
        self._look(actor)
        asked, left_ms = self._looks.pop(actor.author, (request, -1))
        if left_ms < 0 or asked != request:
            times = WHOLE_TAKES if request.whole else 1
            left_ms = int(actor.luck.random() * times * self.reading_ms) * len(request.segments)
        actor.wake_ms = self.world.now_ms + min(left_ms, STRETCH_MS)
        if left_ms > STRETCH_MS:
            self._looks[actor.author] = request, left_ms - STRETCH_MS
            return None
        truth, bad = self.oracle.truth(request.keys), set[str]()
        for ref in request.segments:
            key, harm = request.keys.segment(ref.id), truth.harms.now.get(ref.id)
            there = self.world.store.there(place(ref), key) and (harm is None or not harm.shows)
            if there and (self._whole(key, ref) or not request.whole):
                truth.ledger.looked[actor.author, ref.id] = self.world.steps
            else:
                bad.add(ref.id)
                self.oracle.own_failure(actor.author, request.keys)
        return frozenset(bad)

    def _whole(self, key: str, ref: Any) -> bool:
        found = self.world.objects[key] if self.world.store.there(place(ref), key) else None
        return found is not None and checksum(found[0]) == ref.checksum

    def _weigh(self, actor: Actor, request: WeighSegment) -> tuple[Any, ...]:
        """To read a footer takes its time."""
        self._look(actor)
        actor.wake_ms = self.world.now_ms + int(actor.luck.random() * self.reading_ms)
        ref = request.segment
        self.oracle.truth(request.keys).readings.begin(actor.author, self.world.steps)
        key = where(request.keys, ref).key
        if not self.world.store.there(place(ref), key):
            raise NotFound(f"{key} does not exist")
        if not self._whole(key, ref):
            raise Corrupt(f"{key} is damaged")
        return ()

    def _prepare(self, actor: Actor, tasks: tuple[JobTask, ...]) -> None:
        """Some engines let tasks read that are about to be started."""
        if actor.say.random() < PREPARING_SHARE and not self._down():
            self._stop(actor)
            self.oracle.prepares(actor.author, tasks)
            self._begin(actor, _Batch(tasks, held=True))

    def _start(self, actor: Actor, tasks: tuple[JobTask, ...]) -> None:
        prepared = self._batches.get(actor.author, _Batch())
        failed = any(isinstance(result, TaskFailure) for result in prepared.results)
        begun = prepared.held and not prepared.stopped and not failed and prepared.tasks == tasks
        if not begun:
            self._stop(actor)
            self.oracle.prepares(actor.author, ())
        self._leaving.begins_tasks(actor)
        self.world.merging.add(actor.author)
        if self._down():
            self._fails(actor, tasks, "engine down")
        self.oracle.starts(actor.author, tasks)
        if begun:
            self.world.counts["tasks begun early"] += 1
            prepared.held = False
        else:
            self._begin(actor, _Batch(tasks))

    def _begin(self, actor: Actor, batch: _Batch) -> None:
        self._batches[actor.author] = batch
        for task in batch.tasks:
            self._count += 1
            self.world.start(f"{actor.name}{WORKER}{self._count}", self._worker(task, batch))

    def _worker(self, task: JobTask, batch: _Batch) -> Any:
        async def work(actor: Actor) -> None:
            if isinstance(task, MergeTask) and task.bounds.low is not None and key_text(task.bounds.low) in self.poison:
                batch.results.append(TaskFailure(task.range_index, Category.ENGINE, "the worker ran out of something"))
                return
            if batch.stopped and actor.say.random() < 0.5:
                return
            try:
                result: TaskResult | TaskFailure
                if isinstance(task, MergeTask):
                    result = await merge(task, lambda: self._may_write(batch))
                else:
                    result = await move(task)
            except _NeverStarted:
                return
            except NotFound as error:
                result = TaskFailure(task.range_index, Category.MISSING, "a source is missing", str(error))
            except Corrupt as error:
                result = TaskFailure(task.range_index, Category.CORRUPT, "a source is damaged", str(error))
            except Unavailable as error:
                result = failure_of(task, error)
            if isinstance(task, MergeTask) and isinstance(result, TaskResult) and actor.say.random() < self.older_share:
                result = msgspec.structs.replace(result, kept_bytes=(), lost_bytes=())
            batch.results.append(result)

        return work

    async def _may_write(self, batch: _Batch) -> None:
        """Raises _NeverStarted. Whoever prepared it may have died."""
        for _ in range(HELD_LOOKS_MAX):
            if batch.stopped or not batch.held:
                break
            await Pause(HELD_LOOK_MS)
        if batch.held:
            batch.stopped = True
            raise _NeverStarted

    def _next(self, actor: Actor, timeout_ms: int) -> None:
        batch = self._batches.get(actor.author, _Batch())
        if timeout_ms > 0 and actor.author in self.world.told_to_stop:
            raise Violation(f"{actor.name} was told to stop, and waits for its tasks (P12)")
        if batch.tasks and (self._down() or actor.luck.random() < self.world.climate.engine_share):
            self._stop(actor)
            self._fails(actor, batch.tasks, DIED)
        actor.wake_ms = self.world.now_ms + timeout_ms
        actor.ready = lambda: bool(batch.results)

        def drain() -> tuple[TaskResult | TaskFailure, ...]:
            found = tuple(batch.results)
            batch.results.clear()
            if any(isinstance(result, TaskFailure) and result.category.blames_job for result in found):
                task = batch.tasks[0]
                keys = task.keys
                self.oracle.own_failure(actor.author, keys)
            for result in found:
                for ref in result.outputs if isinstance(result, TaskResult) else ():
                    self.oracle.truth(batch.tasks[0].keys).ledger.landed[ref.id] = self.world.steps
            return found

        actor.late_reply = drain

    def _down(self) -> bool:
        return any(first <= self.world.steps < end for first, end in self.world.climate.engine_outages)

    def _fails(self, actor: Actor, tasks: tuple[JobTask, ...], what: str) -> None:
        self.world.note(actor, what)
        self.oracle.engine_gone(actor.author, tasks, died=what == DIED)
        raise Unavailable(f"{what}; it may come back")

    def _stop(self, actor: Actor) -> None:
        batch = self._batches.get(actor.author)
        if batch is not None:
            batch.stopped = True
