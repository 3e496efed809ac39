"""The policy ends: what it writes, how many files it leaves, and that every job lessens the debt it names (RFC 0008).

Rows in arrays instead of Parquet, the rest as in production: benchmarks/simulation.py tells how. `python -m benchmarks
--only convergence` runs every workload at full length.
"""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from benchmarks.simulation import Simulation
from benchmarks.workloads import WORKLOADS, Outcome, run
from lithify.manifest.config import parse, validate
from lithify.store.errors import InvalidRequest

HOUR_MS = 3_600_000
WRITE_AMPLIFICATION_MAX = 6  # bytes of appends and of all outputs of compactions, over bytes of appends


def check(outcome: Outcome) -> None:
    found = outcome.figures
    assert found.fruitless == [], "every job lessens the debt it names"
    assert outcome.settled, "left alone, it comes to rest"
    assert found.l0_max <= outcome.l0_limit
    assert found.runs_max <= outcome.runs_limit
    assert sum(found.jobs.values()) > 0


@pytest.mark.soak
@pytest.mark.parametrize("name", ["uniform, 20 k keys", "uniform, 200 k keys"])
def test_ten_thousand_uniform_appends(name: str) -> None:
    outcome = run(WORKLOADS[name], appends=10_000)
    check(outcome)
    assert outcome.figures.write_amplification <= WRITE_AMPLIFICATION_MAX


@pytest.mark.slow
@pytest.mark.parametrize("name", WORKLOADS)
def test_it_converges(name: str) -> None:
    outcome = run(WORKLOADS[name], appends=1_000, seed=1)
    check(outcome)
    if name.startswith("uniform"):
        assert outcome.figures.write_amplification <= WRITE_AMPLIFICATION_MAX


lags_ms = st.sampled_from([0, 1, HOUR_MS, 10 * HOUR_MS])


@st.composite
def configurations(draw: st.DrawFn) -> dict[str, str]:
    shortest_ms = draw(lags_ms)
    settings = {
        "cleanup.policy": draw(st.sampled_from(["compact", "compact", "delete", "compact,delete"])),
        "compaction.output.bytes": draw(st.sampled_from(["1024", "10000", "1000000"])),
        "delete.retention.ms": str(draw(lags_ms)),
        "l0.segments.max": str(draw(st.integers(1, 40))),
        "l0.segments.tier": str(draw(st.integers(2, 12))),
        "max.compaction.lag.ms": str(shortest_ms + draw(st.sampled_from([1, HOUR_MS, 10**15]))),
        "min.cleanable.dirty.ratio": draw(st.sampled_from(["0", "0.1", "0.5", "0.9", "1"])),
        "min.compaction.lag.ms": str(shortest_ms),
        "retention.bytes": draw(st.sampled_from(["-1", "0", "3000"])),
        "retention.ms": draw(st.sampled_from(["-1", "1", str(5 * HOUR_MS)])),
        "runs.tier": str(draw(st.integers(2, 6))),
    }
    return validate(settings)


@pytest.mark.slow
@given(configurations(), st.integers(0, 2**32 - 1))
def test_any_configuration_comes_to_rest(settings: dict[str, str], seed: int) -> None:
    """Whatever was appended, asked for by hand and stamped with which time."""
    random = np.random.default_rng(seed)
    simulation = Simulation(parse(settings), row_bytes=100)
    for _ in range(60):
        simulation.now_ms += int(random.integers(0, HOUR_MS))
        rows = int(random.choice([1, 3, 40]))
        stamps = simulation.now_ms - random.integers(-HOUR_MS, 12 * HOUR_MS, rows)
        simulation.append(random.integers(0, 30, rows), random.random(rows) < 0.2, stamps)
        if random.random() < 0.1:
            ids = [unit.id for unit in (*simulation.manifest.l0, *simulation.manifest.runs)]
            try:
                simulation.request(*random.permutation(ids)[: int(random.integers(0, 4))].tolist())
            except InvalidRequest:
                continue  # of young and old at once
        if random.random() < 0.5:
            simulation.compact()
    assert simulation.settle()
    assert simulation.figures.fruitless == []
