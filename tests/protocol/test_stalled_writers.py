"""P3, P4, P16, P20, P22: writers, readers and collectors that stand still for as long as they like, at any request,
while checkpoints come and go and numbers are collected and created anew. What is true is kept here, from the bytes that
the store was given."""

import json
import random
from collections.abc import Callable, Coroutine
from dataclasses import dataclass
from typing import Any

import pytest

from lithify.compactor import job_edits
from lithify.gc.collect import collect, sweep
from lithify.log import checkpoints
from lithify.manifest.appends import Append
from lithify.manifest.partition import PartitionFiles
from lithify.manifest.pins import CreateCheckpoint
from lithify.manifest.transactions import TransactionStamp
from lithify.manifest.uploads import AppendUploaded, BeginUpload
from lithify.store.errors import CommitUnknown, LithifyError
from lithify.store.port import Delete, Get, Head, Pause, Request, Together
from tests.everyday import seeds
from tests.protocol.days import Partition, put
from tests.protocol.scene import GRACE_MS, KEYS, L0_MAX, Held, creates_manifest, job, replacing, segment, upload

STALLED_MAX = 6
ACTS = 120
TTL_MS = 7 * 86_400_000


class Past(dict[str, tuple[bytes, int]]):
    """The objects of a store, which keeps what each manifest's number held first, while it was alive."""

    def __init__(self, objects: dict[str, tuple[bytes, int]]) -> None:
        super().__init__()
        self.lived: dict[int, dict[str, Any]] = {}
        self.boundary = 0
        for key, value in objects.items():
            self[key] = value

    def __setitem__(self, key: str, value: tuple[bytes, int]) -> None:
        super().__setitem__(key, value)
        number = KEYS.manifest.number(key)
        if number is not None and number > self.boundary and number not in self.lived:
            self.lived[number] = json.loads(value[0])
        if KEYS.boundary.number(key) is not None:
            self.boundary = max(self.boundary, json.loads(value[0]).get("manifest", 0))

    @property
    def head(self) -> int:
        return max(self.lived)

    def segments(self, number: int) -> dict[str, int]:
        """The base offsets of its L0 segments, and -1 for each of a run, by id."""
        found = self.lived[number]
        of_runs = {ref["id"]: -1 for run in found.get("runs", ()) for ref in run["segments"]}
        return of_runs | {ref["id"]: ref["base_offset"] for ref in found.get("l0", ())}

    def pinned(self) -> set[int]:
        return {pin["manifest"] for pin in self.lived[self.head].get("checkpoints", ())}


@dataclass
class Stalled:
    """`ended` is told what came of it: a result, or an error."""

    held: Held
    ended: Callable[[Any], None]


STOPS: dict[str, Callable[[Request[Any]], bool]] = {
    "before its commit": creates_manifest,
    "after a lost race": lambda request: isinstance(request, Pause),
    "before a look": lambda request: isinstance(request, Get | Head | Together),
    "before a delete": lambda request: isinstance(request, Delete),
}


class Play:
    def __init__(self, seed: int) -> None:
        self.say = random.Random(seed)
        self.partition = Partition()
        self.world = self.partition.world
        self.past = self.world.objects = Past(self.world.objects)
        self.stalled: list[Stalled] = []
        self.sources: set[str] = set()  # of the job that is under way
        self.failed: dict[str, str] = {}  # segments that were certainly not appended, with what was said
        self.counted = 0

    def name(self) -> str:
        self.counted += 1
        return f"n{self.counted}"

    def start(self, coroutine: Coroutine[Any, Any, Any], ended: Callable[[Any], None]) -> None:
        try:
            stalled = Stalled(Held(self.world, coroutine), ended)
        except LithifyError as error:
            ended(error)
            return
        self.stalled.append(stalled)
        self.advance(stalled, self.say.choice([*STOPS.values()]))

    def advance(self, stalled: Stalled, stop: Callable[[Request[Any]], bool] | None = None) -> None:
        """By one request, up to a stop, or to its end."""
        stop = stop or self.say.choice([*[lambda _: True] * 4, *STOPS.values(), lambda _: False])
        held = stalled.held
        try:
            if held.request is not None:
                held.go()
            while held.request is not None and not stop(held.request):
                held.go()
        except LithifyError as error:
            self.stalled.remove(stalled)
            stalled.ended(error)
            return
        if held.request is None:
            self.stalled.remove(stalled)
            stalled.ended(held.result)

    # What is begun, and may stand still.

    def files(self) -> PartitionFiles:
        files = PartitionFiles(KEYS)
        if self.say.random() < 0.5:
            self.world.alone(files.heads())
        return files

    def append(self, transaction: TransactionStamp | None = None) -> None:
        files = self.files()
        ref = self.world.alone(upload(files))
        self.start(
            self._appended(files, Append(ref, L0_MAX, transaction=transaction)), self._judged(ref.id, transaction)
        )

    async def _appended(self, files: PartitionFiles, edit: Append) -> range:
        return (await files.manifest.commit(edit)).result

    def _judged(self, segment_id: str, transaction: TransactionStamp | None) -> Callable[[Any], None]:
        def judge(told: Any) -> None:
            if isinstance(told, range):
                lived = [self.past.segments(number).get(segment_id) for number in self.past.lived]
                if transaction is not None and told.start not in lived:
                    assert any(
                        told.start in self.past.segments(number).values()
                        and self.past.lived[number].get("transactions")
                        for number in self.past.lived
                    ), f"a transaction is told {told}, which never lived"
                else:
                    assert told.start in lived, f"{segment_id} is said to be at {told}, which never lived"
            elif not isinstance(told, CommitUnknown):
                self.failed[segment_id] = repr(told)

        return judge

    def transaction(self) -> None:
        """Its sender, and another one that goes on in its place."""
        stamp = TransactionStamp(self.name(), 1)
        self.append(stamp)
        if self.say.random() < 0.5:
            self.partition.append()
        self.append(stamp)

    def uploaded(self) -> None:
        """An upload, and its commit: once, or by a driver and its successor."""
        files = self.files()
        try:
            begun = self.world.alone(files.manifest.commit(BeginUpload(f"{self.counted:016x}", TTL_MS))).result
        except LithifyError:
            return
        self.counted += 1
        ref = segment(f"{begun.name}-{'a' * 16}")
        self.world.alone(put(KEYS.segment(ref.id)))
        for _ in range(self.say.choice((1, 1, 2))):
            edit = AppendUploaded(begun.name, (ref,), L0_MAX)
            self.start(self.files().manifest.commit(edit), self._upload_judged(ref.id))

    def _upload_judged(self, segment_id: str) -> Callable[[Any], None]:
        def judge(told: Any) -> None:
            if not isinstance(told, LithifyError):
                assert any(segment_id in self.past.segments(number) for number in self.past.lived), "it never lived"

        return judge

    def checkpoint(self) -> None:
        name = self.name()
        self.start(self.files().manifest.commit(CreateCheckpoint(name, name, None)), self._checkpoint_judged)

    def _checkpoint_judged(self, told: Any) -> None:
        if not isinstance(told, LithifyError):
            number = told.result.manifest
            pins = self.past.lived[number].get("checkpoints", ())
            assert any(pin["id"] == told.result.id for pin in pins), "a checkpoint pins what never lived"

    def job(self) -> None:
        head = self.partition.head
        if self.sources or not head.l0:
            return
        name, sources = f"{head.id:012}-0000beef", tuple(ref.id for ref in head.l0)
        self.world.alone(self.partition.files.compactor_state())
        admitted = job(name, segments=sources, sources=sources)
        self.world.alone(self.partition.files.compactor.commit(job_edits.Admit(self.partition.epoch, admitted, "w")))
        edit = replacing(head, head.l0, self.partition.epoch, job=name)
        for ref in edit.run.segments:
            self.world.alone(put(KEYS.segment(ref.id)))
        self.sources = set(sources)
        self.start(self.files().manifest.commit(edit), self._job_judged(name, edit.run.segments[0].id))

    def _job_judged(self, name: str, output: str) -> Callable[[Any], None]:
        def judge(told: Any) -> None:
            lived = any(output in self.past.segments(number) for number in self.past.lived)
            assert isinstance(told, LithifyError) or lived, f"{name} is said to be done, and never was"
            if not isinstance(told, CommitUnknown):
                self.sources = set()
                self.world.alone(self.partition.files.compactor_state())
                over = job_edits.Finish(self.partition.epoch, name, "completed" if lived else "canceled", "")
                self.world.alone(self.partition.files.compactor.commit(over))

        return judge

    def read(self) -> None:
        begun = self.past.head

        def judge(told: Any) -> None:
            if not isinstance(told, LithifyError):
                assert told.id >= begun, f"a reader that began at {begun} is given {told.id}"
                assert told.nonce == self.past.lived[told.id]["nonce"], (
                    f"a reader is given {told.id}, which never lived"
                )

        self.start(PartitionFiles(KEYS).head(), judge)

    def read_checkpoint(self) -> None:
        pins = self.partition.head.checkpoints
        if pins:

            def judge(told: Any) -> None:
                if not isinstance(told, LithifyError):
                    manifest, pin = told
                    lived = self.past.segments(pin.manifest)
                    assert {ref.id for ref in manifest.segments()} == lived.keys(), "it is given what was not pinned"

            self.start(checkpoints.pinned(self.files(), self.say.choice(pins).name), judge)

    def collector(self) -> None:
        which = self.say.choice((collect, collect, sweep))
        self.start(which(PartitionFiles(KEYS), GRACE_MS), lambda _: None)

    # What happens at once.

    def compact(self) -> None:
        if any(ref.id not in self.sources for ref in self.partition.head.l0):
            self.partition.compact(without=self.sources)

    def pin(self) -> None:
        name = self.name()
        self.world.alone(self.partition.files.manifest.commit(CreateCheckpoint(name, name, None)))

    def unpin(self, number: int = 0) -> None:
        pins = [pin for pin in self.partition.head.checkpoints if number in (0, pin.manifest)]
        if pins:
            pin = self.say.choice(pins)
            self.world.alone(checkpoints.delete(self.partition.files, pin.name))
            if self.say.random() < 0.5:
                self.swept()  # before a pass looks at what it kept

    def days(self) -> None:
        """So many appends and collections that numbers die and are deleted."""
        for _ in range(2):
            self.partition.append()
            self.compact()
            self.partition.collect(3)

    def collected(self) -> None:
        self.world.alone(collect(PartitionFiles(KEYS), GRACE_MS))

    def swept(self) -> None:
        self.world.alone(sweep(PartitionFiles(KEYS), GRACE_MS))

    def meet(self) -> None:
        """What makes it likelier that a stalled writer's number is taken, then dead, then free, and then created."""
        waiting = [(each, each.held.request.key) for each in self.stalled if creates_manifest(each.held.request)]
        if not waiting:
            return
        stalled, key = self.say.choice(waiting)
        number = KEYS.manifest.number(key)
        if number == self.past.head + 1:
            self.say.choice((self.pin, self.partition.append))()
        elif number > self.past.boundary:
            self.days() if self.say.random() < 0.5 else self.advance(stalled, STOPS["after a lost race"])
        elif number in self.past.pinned():
            self.unpin(number)
        elif key not in self.past:
            self.advance(stalled, lambda _: True)
        else:
            self.say.choice((self.swept, self.collected))()

    def check(self) -> None:
        """Of the head and of what is pinned everything is there, and nothing lives that was said to have failed."""
        past = self.past
        for number in {past.head, *past.pinned()}:
            assert KEYS.manifest.key(number) in past, f"manifest {number} is gone"
            gone = [each for each in past.segments(number) if KEYS.segment(each) not in past]
            assert not gone, f"manifest {number} names {gone}, which is gone"
        again = [self.failed[each] for each in past.segments(past.head) if each in self.failed]
        assert not again, f"it was said to have failed, and is there: {again}"

    def run(self) -> None:
        begins = [self.append, self.append, self.transaction, self.uploaded, self.uploaded, self.checkpoint]
        begins += [self.checkpoint, self.job, self.read, self.read_checkpoint, self.collector]
        at_once = [self.compact, self.pin, self.pin, self.unpin, self.days, self.collected, self.partition.append]
        for _ in range(ACTS):
            if self.stalled and self.say.random() < 0.4:
                self.advance(self.say.choice(self.stalled))
            elif self.say.random() < 0.3:
                self.meet()
            elif len(self.stalled) < STALLED_MAX and self.say.random() < 0.5:
                self.say.choice(begins)()
            else:
                self.say.choice(at_once)()
            self.check()
        while self.stalled:
            self.advance(self.stalled[0])
            self.check()


@pytest.mark.parametrize("seed", seeds(10, 200))
def test_what_comes_late_is_believed_by_nobody(seed: int) -> None:
    Play(seed).run()
