"""The number of key ranges that `explain` gives is the number that runs, whatever the keys are like."""

from collections.abc import Sequence
from typing import Any
from unittest.mock import patch

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

import lithify
from lithify.admin import explain as explain_module
from lithify.compactor.engines.local import LocalEngine
from lithify.segment.task import MergeTask
from lithify.store.driver import new_id
from lithify.store.homes import Homes

KINDS = {
    "even": lambda row: b"%08d" % row,
    "few": lambda row: b"%d" % (row % 3),
    "one": lambda _: b"k",
    "beyond a boundary": lambda row: b"x" * 80 + b"%08d" % row,
}


class Counting(LocalEngine):
    def __init__(self) -> None:
        super().__init__()
        self.tasks: list[int] = []

    def start(self, homes: Homes, tasks: Sequence[MergeTask], label: str) -> Any:
        self.tasks.append(len(tasks))
        return super().start(homes, tasks, label)


def filled(policy: str, appends: int, rows: int, keys: str, output_bytes: int) -> lithify.Warehouse:
    warehouse = lithify.open(f"memory://{new_id()}")
    config = {"cleanup.policy": policy, "compaction.output.bytes": output_bytes, "l0.segments.tier": 2}
    part = warehouse.create_topic("users", 1, config).partition(0)
    for at in range(appends):
        named = [KINDS[keys](at + appends * row) for row in range(rows)]
        values = pa.array([b"v" * 40] * rows, pa.binary())
        part.append(pa.table({"key": pa.array(named, pa.binary()), "value": values}))
    return warehouse


@given(
    policy=st.sampled_from(["compact", "delete"]),
    appends=st.integers(2, 5),
    rows=st.integers(1, 400),
    keys=st.sampled_from(sorted(KINDS)),
    output_bytes=st.integers(1 << 10, 1 << 16),
)
def test_what_explain_says_is_what_runs(policy: str, appends: int, rows: int, keys: str, output_bytes: int) -> None:
    engine = Counting()
    with (
        patch("lithify.compactor.estimate.SPLIT_BYTES_MIN", 1 << 10),
        filled(policy, appends, rows, keys, output_bytes) as warehouse,
    ):
        explained = lithify.Admin(warehouse).explain("users", 0)
        compactor = lithify.Compactor(warehouse, engine=engine)
        compactor.run_once()
        compactor.close()
    assert explained.action == "propose", explained
    assert explained.ranges_exact
    assert explained.estimate is not None
    assert explained.estimate.ranges == engine.tasks[0]


def test_a_job_of_too_many_segments_is_estimated_and_says_so(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("lithify.compactor.estimate.SPLIT_BYTES_MIN", 1 << 10)
    monkeypatch.setattr(explain_module, "WEIGHED_MAX", 1)
    with filled("compact", 3, 300, "even", 1 << 10) as warehouse:
        explained = lithify.Admin(warehouse).explain("users", 0)
    assert explained.estimate is not None
    assert explained.estimate.ranges > 1
    assert not explained.ranges_exact
