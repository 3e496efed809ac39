"""What holds of every decision, over random partitions, configurations and jobs: what it names is free and old enough,
and everything that it passes over has one reason."""

from collections import Counter

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from benchmarks.simulation import Simulation
from lithify.compactor.policy import Propose, decide, decision
from lithify.manifest.config import parse
from lithify.manifest.debt import Due, assess
from lithify.manifest.reading import Reading
from lithify.manifest.units import units
from lithify.store.errors import InvalidRequest
from tests.compactor.test_convergence import HOUR_MS, configurations
from tests.compactor.test_policy import job, state

CHANGES = 60

alterations = st.lists(configurations(), min_size=1, max_size=4)


def grown(settings: list[dict[str, str]], seed: int) -> Simulation:
    """Appends of any size and time, requests, jobs that come late or not at all, and alterations in between."""
    random = np.random.default_rng(seed)
    simulation = Simulation(parse(settings[0]), row_bytes=100)
    for change in range(CHANGES):
        simulation.now_ms += int(random.integers(0, HOUR_MS))
        rows = int(random.choice([1, 3, 200]))
        stamps = simulation.now_ms - random.choice([-(10**13), -HOUR_MS, 0, HOUR_MS, 50 * HOUR_MS], rows)
        simulation.append(random.integers(0, 30, rows), random.random(rows) < random.choice([0, 0.3, 1]), stamps)
        if random.random() < 0.1:
            ids = [unit.id for unit in units(simulation.manifest)]
            try:
                simulation.request(*random.permutation(ids)[: int(random.integers(0, 4))].tolist())
            except InvalidRequest:
                continue  # of young and old at once
        if random.random() < 0.6:
            simulation.compact(jobs_max=int(random.integers(1, 3)))
        if change % (CHANGES // len(settings)) == 0:
            simulation.alter(parse(settings[change * len(settings) // CHANGES]))
    return simulation


def check_free_and_old(due: Due, reading: Reading) -> None:
    debt, held = assess(reading), reading.held
    assert due.kind != "drop" or not due.units
    assert due.kind == "drop" or due.units
    assert len({unit.id for unit in due.units}) == len(due.units)
    assert held.isdisjoint(s.id for unit in due.units for s in unit.segments)
    old = {unit.id for unit in debt.cleanable}
    inside = sum(unit.id in old for unit in due.units)
    if reading.config.compacted:
        assert inside in (0, len(due.units)), "never across the lag"
    if due.kind == "clean":
        assert [unit.id for unit in due.units] == [unit.id for unit in debt.cleanable], "all that lies below, or none"


@pytest.mark.slow
@given(alterations, st.integers(0, 2**32 - 1), st.floats(0, 1))
def test_due_work_is_free_and_old_and_the_rest_has_one_reason(
    settings: list[dict[str, str]], seed: int, held: float
) -> None:
    simulation = grown(settings, seed)
    random = np.random.default_rng(seed)
    manifest, config, now_ms = simulation.manifest, simulation.config, simulation.now_ms
    everything = units(manifest)
    taken = [unit for unit in everything if random.random() < held]
    jobs = [job("running", segments=tuple(s.id for unit in taken for s in unit.segments))] if taken else []
    busy, idle = state(*jobs), state()
    reading = Reading.of(manifest, busy, config, now_ms)
    assert reading.held == {s.id for unit in taken for s in unit.segments}
    for due in assess(reading).all_due:
        check_free_and_old(due, reading)
    for known in (busy, idle):
        found = decision(Reading.of(manifest, known, config, now_ms))
        assert found.action == decide(Reading.of(manifest, known, config, now_ms))
        chosen = found.action.due.units if isinstance(found.action, Propose) else ()
        told = Counter([unit.id for unit in chosen] + [each.what for each in found.passed])
        assert [unit.id for unit in everything if told[unit.id] != 1] == [], "chosen, or with one reason"
        assert set(told.values()) <= {1}, "so is every kind of work"
        assert all(each.reason for each in found.passed)


@pytest.mark.slow
@given(alterations, st.integers(0, 2**32 - 1))
def test_altered_on_the_way_it_still_comes_to_rest(settings: list[dict[str, str]], seed: int) -> None:
    simulation = grown(settings, seed)
    assert simulation.settle()
    assert simulation.figures.fruitless == []
