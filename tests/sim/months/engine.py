"""An engine whose tasks take their bytes by a rate: so many at a time, in turns of the attempts (RFC 0014)."""

import itertools
from collections import deque
from collections.abc import Callable, Iterator, Sequence
from typing import Any

from lithify.manifest.homes import where
from lithify.manifest.jobs import MergeCounts
from lithify.manifest.model import SegmentRef
from lithify.segment.ranges import Weight
from lithify.segment.task import JobTask, MergeTask, TaskFailure, TaskResult
from lithify.store.errors import Corrupt, NotFound, Unavailable
from lithify.work.outcome import failure_of
from tests.sim.clients.fibres import Wait, ask
from tests.sim.months.bucket import Bucket
from tests.sim.months.clock import Process, Spend
from tests.sim.months.contents import Contents, inputs, outputs, size_within, weights

__all__ = ["VirtualEngine", "steps_of_a_look", "weights_of"]

TASK_MS = 700  # to begin and end one
LOOK_BYTES = 256 << 20  # of one step of a look at a whole object
SLOTS, BYTES_PER_MS = 4, 10_000  # 10 MB/s of each


class VirtualEngine:
    name = "virtual"

    def __init__(self, process: Process, bucket: Bucket, done: Callable[[MergeTask, int], None]) -> None:
        """`done` is told of each task that ended well, and of the bytes it wrote."""
        self.process = process
        self.bucket = bucket
        self.done = done
        self._waiting: deque[Attempt] = deque()
        self._free = SLOTS
        self._short_is_free = True  # the slot of short jobs
        self._nonces = (f"{number:08x}" for number in itertools.count(process.clock.dice.getrandbits(30)))

    def start(self, homes: Any, tasks: Sequence[JobTask], label: str) -> "Attempt":
        """Requires: no topic here has a cold home."""
        attempt = Attempt(self, [task for task in tasks if isinstance(task, MergeTask)])
        assert len(attempt.left) == len(tasks)
        self._waiting.append(attempt)
        self._go_on()
        return attempt

    def close(self) -> None:
        self._waiting.clear()

    def ended(self, *, short: bool) -> None:
        """A task in the slot of `short` ones, or in any other."""
        if short:
            self._short_is_free = True
        else:
            self._free += 1
        self._go_on()

    def _go_on(self) -> None:
        while self._free and (attempt := self._next(short=False)) is not None:
            self._free -= 1
            attempt.begin(attempt.left.popleft(), short=False)
        if self._short_is_free and (attempt := self._next(short=True)) is not None:
            self._short_is_free = False
            attempt.begin(attempt.left.popleft(), short=True)

    def _next(self, *, short: bool) -> "Attempt | None":
        """Whose turn it is; it goes to the end."""
        self._waiting = deque(attempt for attempt in self._waiting if attempt.left)
        for attempt in self._waiting:
            if attempt.left[0].short or not short:
                self._waiting.remove(attempt)
                self._waiting.append(attempt)
                return attempt
        return None

    @property
    def nonces(self) -> Iterator[str]:
        return self._nonces


class Attempt:
    def __init__(self, engine: VirtualEngine, tasks: Sequence[MergeTask]) -> None:
        self.left = deque(tasks)
        self._engine = engine
        self._under_way = 0
        self._landed: list[TaskResult | TaskFailure] = []
        self._stopped = False

    def begin(self, task: MergeTask, *, short: bool) -> None:
        """By a worker of its own, which does not wait for others."""
        engine = self._engine
        try:
            size = size_within(task, self._sources(task))
        except NotFound:
            size = 0  # it ends so, too
        self._under_way += 1
        engine.process.clock.after(TASK_MS + size // BYTES_PER_MS, lambda: self._ends(task, short=short))

    def _ends(self, task: MergeTask, *, short: bool) -> None:
        engine = self._engine
        if not engine.process.alive:
            return
        self._under_way -= 1
        if not self._stopped:
            self._landed.append(self._outcome(task))
        engine.ended(short=short)

    def _outcome(self, task: MergeTask) -> TaskResult | TaskFailure:
        engine = self._engine
        try:
            if engine.bucket.away:
                raise Unavailable("the store does not answer a worker")
            sources = self._sources(task)
            row_bytes = sources[0][1].row_bytes if sources else 1
            if not sources:
                return TaskResult(range_index=task.range_index, outputs=(), counts=MergeCounts())
            result, written = outputs(task, inputs(task, sources), row_bytes, engine.nonces)
        except (NotFound, Unavailable) as error:
            return failure_of(task, error)
        for ref, contents in zip(result.outputs, written, strict=True):
            engine.bucket.put_now(engine.process, where(task.keys, ref).key, contents)
        engine.done(task, sum(len(each) for each in written))
        return result

    def _sources(self, task: MergeTask) -> list[tuple[SegmentRef, Contents]]:
        found: list[tuple[SegmentRef, Contents]] = []
        for ref in (ref for source in task.sources for ref in source):
            key = where(task.keys, ref).key
            entry = self._engine.bucket.find(key)
            if entry is None:
                self._engine.process.clock.fail(f"a task reads {key}, which is gone (P16)")
                raise NotFound(f"{key} does not exist", key, ref.id)
            found.append((ref, entry.body))
        return found

    def results(self, timeout_ms: int) -> Sequence[TaskResult | TaskFailure]:
        if not self._landed and timeout_ms > 0:
            ask(Wait(lambda: bool(self._landed), timeout_ms))
        landed, self._landed = self._landed, []
        return landed

    def stop(self) -> None:
        self.left.clear()
        self._stopped = True


def steps_of_a_look(store: Any, key: str, ref: SegmentRef, *, whole: bool) -> Iterator[None]:
    """As lithify.segment.verify has it: by size, and the whole of it by its bytes."""
    found = store.head(key)
    if found is None:
        raise NotFound(f"{key} does not exist")
    if found.size != ref.bytes:
        raise Corrupt(f"{key} has {found.size} bytes")
    for begun in range(0, ref.bytes if whole else 0, LOOK_BYTES):
        ask(Spend(min(ref.bytes - begun, LOOK_BYTES) // (SLOTS * BYTES_PER_MS)))
        yield


def weights_of(opened: tuple[Any, str, SegmentRef]) -> list[Weight]:
    store, key, _ = opened
    found = store.get(key)
    if found is None:
        raise NotFound(f"{key} does not exist")
    return weights(found.body)
