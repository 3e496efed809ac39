"""Reading a plan as an engine does: each task travels, in any order, some of them twice."""

import pickle
import random
from collections.abc import Sequence
from typing import Any

import pyarrow as pa

from lithify.log.read_task import read_task
from lithify.segment.read_task import ReadTask
from lithify.segment.schema import RECORDS
from lithify.store.port import Store

Row = dict[str, Any]


def rows_of(task: ReadTask, store: Store) -> list[Row]:
    table = read_task(pickle.loads(pickle.dumps(task)), store).read_all()
    assert table.schema == pa.schema([RECORDS.field(name) for name in task.columns])
    return table.to_pylist()


def union(tasks: Sequence[ReadTask], store: Store, seed: int = 0) -> list[Row]:
    """The rows of all tasks, in the order of the plan."""
    dice, found = random.Random(seed), dict[int, list[Row]]()
    for number in dice.sample(range(len(tasks)), len(tasks)):
        found[number] = rows_of(tasks[number], store)
        if dice.random() < 0.2:
            assert rows_of(tasks[number], store) == found[number]
    return [row for number in range(len(tasks)) for row in found[number]]


def within(row: Row, low: bytes | None, high: bytes | None, start: int, end: int | None) -> bool:
    """Whether a filter keeps it, told by the words of docs/rfcs/0021."""
    key, offset = row["key"], row["offset"]
    if offset < start or (end is not None and offset >= end):
        return False
    if key is None:
        return low is None
    return (low is None or low <= key) and (high is None or key < high)


def named(rows: Sequence[Row], columns: Sequence[str] | None) -> list[Row]:
    return [{name: row[name] for name in columns} for row in rows] if columns is not None else list(rows)


def in_any_order(rows: Sequence[Row]) -> list[str]:
    return sorted(map(repr, rows))
