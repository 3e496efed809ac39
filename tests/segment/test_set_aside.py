"""Objects that are set aside are looked at again after a while (lithify.segment.set_aside)."""

import gc
import sys
import weakref
from collections.abc import Iterator
from types import SimpleNamespace

import pytest

from lithify.segment import set_aside
from tests.clock import HandClock


class Model:
    def __init__(self) -> None:
        self.itself = self


@pytest.fixture
def worker(monkeypatch: pytest.MonkeyPatch) -> Iterator[HandClock]:
    """This process looks like a worker that PySpark's daemon forked. Gives its clock."""
    clock = HandClock()
    monkeypatch.setattr(sys.modules["__main__"], "__spec__", SimpleNamespace(name="pyspark.daemon"))
    monkeypatch.setattr(set_aside, "monotonic_ms", clock)
    monkeypatch.setattr(set_aside, "_done_ms", [])
    yield clock
    gc.unfreeze()


def test_what_is_no_longer_wanted_goes_after_a_minute(worker: HandClock) -> None:
    model = Model()
    found = weakref.ref(model)
    set_aside.set_aside()
    del model
    for passed_ms, is_there in ((0, True), (59_999, True), (1, False)):
        worker.now_ms += passed_ms
        set_aside.set_aside()
        gc.collect()
        assert (found() is not None) is is_there, passed_ms
    assert gc.get_freeze_count()


def test_elsewhere_nothing_is_set_aside(worker: HandClock, monkeypatch: pytest.MonkeyPatch) -> None:
    before = gc.get_freeze_count()
    for spec in (None, SimpleNamespace(name="pytest.__main__")):
        monkeypatch.setattr(sys.modules["__main__"], "__spec__", spec)
        set_aside.set_aside()
    assert gc.get_freeze_count() == before
