"""Verification in stretches: each takes seconds, all of them answer as one look would, and what failed begins anew."""

import threading
from typing import Any

import pytest

import lithify
from lithify.compactor.answers import Budget, CompactionAnswers
from lithify.compactor.engine import VerifyOutputs
from lithify.compactor.verification import STRETCH_MS
from lithify.manifest.model import SegmentRef
from lithify.store.driver import Driver
from lithify.store.errors import Unavailable
from lithify.store.memory import MemoryStore
from lithify.store.port import Store
from tests.e2e.workload import partition_files

READ_MS = 1_500
NEVER: Any = None  # an engine that nobody starts


class SlowReads:
    def __init__(self) -> None:
        self._alone = threading.Lock()
        self.now_ms = 1_000_000
        self.inner = MemoryStore("verification", lambda: self.now_ms)
        self.reads = 0
        self.away = False

    def once(self) -> Any:
        return self

    def __getattr__(self, name: str) -> Any:
        return getattr(self.inner, name)

    view = Store.view  # a read, as any other

    def read(self, key: str, start: int, length: int) -> bytes:
        if self.away:
            raise Unavailable("no answer")
        with self._alone:  # several are asked together
            self.now_ms += READ_MS
            self.reads += 1
        return self.inner.read(key, start, length)


class Scene:
    def __init__(self) -> None:
        self.store = SlowReads()
        warehouse = lithify.Warehouse(Driver(self.store))
        part = warehouse.create_topic("t", probe=False).partition(0)
        for number in range(4):
            part.append([lithify.Record(b"%d" % number, b"%0300d" % row) for row in range(20)])
        files = partition_files(warehouse, "t")
        self.keys = files.keys
        self.segments: tuple[SegmentRef, ...] = warehouse.driver.run(files.head()).l0
        self.ask = CompactionAnswers(warehouse.driver, NEVER, Budget(), lambda: False, lambda: False)

    def request(self, *, whole: bool = True) -> VerifyOutputs:
        return VerifyOutputs(self.keys, self.segments, whole=whole)

    def harm(self) -> frozenset[str]:
        """One is missing, another one has another bit."""
        missing, flipped = self.segments[0], self.segments[2]
        self.store.inner.delete([self.keys.segment(missing.id)])
        key = self.keys.segment(flipped.id)
        found = self.store.inner.get(key)
        assert found is not None
        at = len(found.body) // 3
        self.store.inner.put(key, found.body[:at] + bytes([found.body[at] ^ 1]) + found.body[at + 1 :])
        return frozenset((missing.id, flipped.id))


@pytest.fixture
def scene(monkeypatch: pytest.MonkeyPatch) -> Scene:
    monkeypatch.setattr("lithify.segment.verify._STEP_BYTES", 200)
    return Scene()


def stretches(scene: Scene, request: VerifyOutputs) -> tuple[int, frozenset[str]]:
    """How many it takes, and what the last one answers."""
    for count in range(1, 1_000):
        began_ms = scene.store.now_ms
        found = scene.ask(request)
        assert scene.store.now_ms - began_ms <= STRETCH_MS + READ_MS
        if found is not None:
            return count, found
    raise AssertionError("it comes to no end")


@pytest.mark.parametrize("whole", [True, False])
def test_stretches_answer_as_one_look_would(scene: Scene, whole: bool) -> None:
    count, found = stretches(scene, scene.request(whole=whole))
    assert count > 1
    assert not found
    bad = scene.harm()
    assert stretches(scene, scene.request(whole=whole))[1] == (bad if whole else frozenset((scene.segments[0].id,)))


def test_what_failed_begins_anew(scene: Scene) -> None:
    assert scene.ask(scene.request()) is None
    scene.store.away = True
    with pytest.raises(Unavailable):
        scene.ask(scene.request())
    scene.store.away = False
    bad = scene.harm()  # of what it had read already, too
    assert stretches(scene, scene.request())[1] == bad


def test_a_look_is_gone_on_with_within_its_step_alone(scene: Scene) -> None:
    for other in (scene.ask.step_ended, lambda: stretches(scene, scene.request(whole=False))):
        assert scene.ask(scene.request()) is None
        other()
        before = scene.store.reads
        stretches(scene, scene.request())
        rest = scene.store.reads - before
        before = scene.store.reads
        stretches(scene, scene.request())
        assert rest == scene.store.reads - before, "all was read again"
