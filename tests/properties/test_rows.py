"""R1-R4, D1-D9 over random histories: tier, clean, drop, collection, alteration, failure, in any order, through a row
codec on the production coroutines and the kernel's own decision (`fate`, `stamped`).

10,000 histories in all, every one a seed: 1,500 in each run of the tests, the others with `make soak`.
"""

import random

import pytest

from lithify.manifest import appends, time_index
from tests.clock import HandClock
from tests.properties.history import History, config_of, play
from tests.properties.rows import ROW_BYTES, RowLog

CHUNK = 100  # histories of one test
EVERYDAY, ALL = 6, 60  # chunks
STEPS_MIN = 14
BUCKETS_FEW = 4


def row_history(seed: int) -> History:
    clock, dice = HandClock(), random.Random(seed)
    return History(seed, RowLog(clock, config_of(dice, ROW_BYTES)), clock)


def play_chunk(chunk: int, monkeypatch: pytest.MonkeyPatch) -> None:
    if chunk % 4 == 3:  # joined buckets, without the 128 appends that it takes
        for module in (appends, time_index):
            monkeypatch.setattr(module, "TIME_INDEX_MAX", BUCKETS_FEW)
    for seed in range(chunk * CHUNK, (chunk + 1) * CHUNK):
        play(row_history(seed), STEPS_MIN + seed % 13)


@pytest.mark.slow
@pytest.mark.parametrize("chunk", range(EVERYDAY))
def test_every_history_is_the_models(chunk: int, monkeypatch: pytest.MonkeyPatch) -> None:
    play_chunk(chunk, monkeypatch)


@pytest.mark.soak
@pytest.mark.parametrize("chunk", range(EVERYDAY, ALL))
def test_every_history_is_the_models_at_length(chunk: int, monkeypatch: pytest.MonkeyPatch) -> None:
    play_chunk(chunk, monkeypatch)
