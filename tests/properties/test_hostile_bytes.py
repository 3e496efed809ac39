"""Histories over real Parquet whose records look like the format, or whose keys lie where bounds are cut, in many
outputs and key ranges. After every step all is read, scanned and asked for by key; at the end all is verified and
exported."""

import random
from collections.abc import Callable, Iterator
from unittest.mock import patch

import pytest

import lithify
from lithify.admin.verify import Verifier, local_checks
from lithify.cli.records.sinks import open_sink
from lithify.compactor.engine import Engine
from lithify.compactor.engines.local import LocalEngine
from lithify.store.driver import new_id
from tests.clock import HandClock
from tests.properties.history import Alphabet, History, config_of, play
from tests.properties.hostile import bounds, lookalikes
from tests.properties.parquet import ParquetLog

CHUNK = 5  # histories of one test
EVERYDAY, ALL = 3, 15  # chunks
STEPS_MIN = 10


@pytest.fixture(scope="module")
def local() -> Iterator[Engine]:
    engine = LocalEngine(2)
    yield engine
    engine.close()


def play_chunk(chunk: int, engine: Engine, alphabet_of: Callable[[random.Random], Alphabet]) -> None:
    for seed in range(chunk * CHUNK, (chunk + 1) * CHUNK):
        dice, clock, url = random.Random(f"hostile {seed}"), HandClock(), f"memory://{new_id()}"
        config = config_of(dice, ParquetLog.row_bytes) | {"compaction.output.bytes": "1024"}
        log = ParquetLog(clock, config, engine, url)
        history = History(seed, log, clock, alphabet=alphabet_of(dice))
        step_bytes, range_bytes, group_bytes = dice.choice((1, 200, 4096)), dice.choice((1, 1_500, 1 << 25)), 1
        with (
            patch("lithify.segment.outputs._STEP_BYTES_MIN", step_bytes),
            patch("lithify.segment.outputs._ROW_GROUP_BYTES_MIN", group_bytes),
            patch("lithify.compactor.estimate.SPLIT_BYTES_MIN", range_bytes),
        ):
            play(history, STEPS_MIN + seed % 5)
        ends_well(history, url, clock)


def ends_well(history: History, url: str, clock: HandClock) -> None:
    warehouse = lithify.open(url, clock)
    report = Verifier(warehouse.driver, local_checks, deep=True).verify()
    assert report.findings == ()
    shown = history.log.view()
    with open_sink(f"memory://{new_id()}.parquet", {}) as sink:
        for batch in warehouse.topic("t").partition(0).read_batches():
            sink.write(batch, 0)
    assert sink.rows == len(shown.read)


@pytest.mark.slow
@pytest.mark.parametrize("chunk", range(EVERYDAY))
def test_what_looks_like_the_format_is_kept(chunk: int, local: Engine) -> None:
    play_chunk(chunk, local, lookalikes)


@pytest.mark.soak
@pytest.mark.parametrize("chunk", range(EVERYDAY, ALL))
def test_more_that_looks_like_the_format_is_kept(chunk: int, local: Engine) -> None:
    play_chunk(chunk, local, lookalikes)


@pytest.mark.slow
@pytest.mark.parametrize("chunk", range(EVERYDAY))
def test_keys_that_are_alike_where_bounds_are_cut_are_kept_apart(chunk: int, local: Engine) -> None:
    play_chunk(chunk, local, lambda dice: bounds(dice, dice.choice((0, 0, 5_000))))


@pytest.mark.soak
@pytest.mark.parametrize("chunk", range(EVERYDAY, ALL))
def test_more_keys_that_are_alike_are_kept_apart(chunk: int, local: Engine) -> None:
    play_chunk(chunk, local, lambda dice: bounds(dice, dice.choice((0, 0, 64 << 10))))


@pytest.mark.slow
def test_the_longest_keys_are_kept_apart(local: Engine) -> None:
    play_chunk(0, local, lambda dice: bounds(dice, (1 << 20) - 1_000))
