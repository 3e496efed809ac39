"""What holds the two codecs together: one history through both leaves the same rows, horizons and manifests, but for
the names and sizes of objects. So what 10,000 histories show over rows they show over Parquet."""

import random
from collections.abc import Iterator
from typing import Any

import msgspec
import pytest

from lithify.compactor.engine import Engine
from lithify.compactor.engines.local import LocalEngine
from lithify.manifest.model import SegmentRef
from lithify.store.driver import new_id
from tests.clock import HandClock
from tests.properties.history import History, config_of
from tests.properties.log import Log
from tests.properties.model import Row
from tests.properties.parquet import ParquetLog
from tests.properties.rows import RowLog

CHUNK = 10
STEPS = 14
NAMES_AND_SIZES = ("id", "nonce", "topic", "topic_id", "bytes", "raw", "xxh3")


@pytest.fixture(scope="module")
def local() -> Iterator[Engine]:
    engine = LocalEngine(2)
    yield engine
    engine.close()


def stored(log: Log) -> list[tuple[str, list[Row]]]:
    """The rows of every live segment as they lie in it, and the order they are said to be in."""

    def rows(ref: SegmentRef) -> tuple[str, list[Row]]:
        return ref.order, log.rows(ref)

    return [rows(ref) for ref in log.head().segments()]


def shape(value: Any) -> Any:
    """A manifest as plain data, without names and sizes."""
    match value:
        case dict():
            return {name: shape(held) for name, held in value.items() if name not in NAMES_AND_SIZES}
        case list() | tuple():
            return [shape(held) for held in value]
        case _:
            return value


def manifest(log: Log) -> Any:
    head = log.head()
    told = shape(msgspec.to_builtins(head))
    told["time_index"] = [(bucket.start, bucket.max_timestamp_ms, bucket.rows) for bucket in head.time_index]
    return head.id, told


@pytest.mark.slow
@pytest.mark.parametrize("chunk", range(3))
def test_one_history_leaves_the_same_through_both_codecs(chunk: int, local: Engine) -> None:
    for seed in range(chunk * CHUNK, (chunk + 1) * CHUNK):
        config = config_of(random.Random(seed), 1, by_bytes=False)
        clocks = HandClock(), HandClock()
        rows = History(seed, RowLog(clocks[0], config), clocks[0], by_bytes=False)
        parquet = ParquetLog(clocks[1], config, local, f"memory://{new_id()}")
        real = History(seed, parquet, clocks[1], by_bytes=False)
        for number in range(STEPS):
            rows.step(number)
            real.step(number)
            assert rows.story == real.story
            assert stored(rows.log) == stored(real.log), (seed, rows.story)
            assert manifest(rows.log) == manifest(real.log), (seed, rows.story)
