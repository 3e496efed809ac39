"""The share that the simulation of clients has in the everyday run, and that its harness holds."""

import subprocess
import sys
from pathlib import Path

import pytest
from greenlet import GreenletExit

from lithify.store.port import Pause
from tests.sim.clients.fibres import Fibre, ask
from tests.sim.clients.history import play
from tests.sim.clients.mutations import RECORD
from tests.sim.clients.sabotage import SABOTAGES
from tests.sim.elsewhere import told_elsewhere

SEEDS_EVERYDAY, SEEDS, SEEDS_A_TEST = 10, 60, 10
ROOT = Path(__file__).resolve().parents[3]


def _everyday(first: int) -> object:
    return first if first < SEEDS_EVERYDAY else pytest.param(first, marks=pytest.mark.slow)


@pytest.mark.parametrize("first", map(_everyday, range(0, SEEDS, SEEDS_A_TEST)))
def test_no_history_of_clients_breaks_a_promise(first: int) -> None:
    found = [play(seed) for seed in range(first, first + SEEDS_A_TEST)]
    told = [f"python -m tests.sim.clients --seed {f.seed}: {f.violation}" for f in found if f.violation is not None]
    assert told == []


def test_a_crash_ends_a_fibre_whatever_it_still_asks() -> None:
    done: list[str] = []

    def body() -> None:
        try:
            ask(Pause(1))
        except GreenletExit:
            done.append("crashed")
            raise
        finally:
            ask(Pause(2))
            done.append("went on")

    fibre = Fibre(body)
    assert fibre.send(None) == Pause(1)
    fibre.close()
    assert done == ["crashed"]


def test_a_fibre_is_told_the_reply_or_the_error_and_ends() -> None:
    told: list[object] = []

    def body() -> None:
        told.append(ask(Pause(1)))
        with pytest.raises(KeyError):
            ask(Pause(2))

    fibre = Fibre(body)
    assert fibre.send(None) == Pause(1)
    assert fibre.send("reply") == Pause(2)
    with pytest.raises(StopIteration):
        fibre.throw(KeyError("lost"))
    assert told == ["reply"]


@pytest.mark.slow
def test_what_a_client_meets_comes_about() -> None:
    wanted = {"grown", "consumer fenced", "poll met an outage", "object collected", "state compared"}
    wanted |= {"compactor: worked", "delivery acknowledged", "delivery refused", "delivery unknown", "fault crash"}
    wanted |= {"fault read: unavailable", "fault create: lands later", "consumer ended by its caller"}
    for seed in range(200):
        wanted -= play(seed).counts.keys()
        if not wanted:
            break
    assert wanted == set()


@pytest.mark.slow
def test_a_seed_is_a_history_whatever_the_process() -> None:
    program = "from tests.sim.clients.history import play\nprint([(f.steps, f.turns) for f in map(play, (3, 5))])"
    assert told_elsewhere(program) == {f"{[(f.steps, f.turns) for f in map(play, (3, 5))]}\n"}


def test_every_sabotage_was_caught() -> None:
    assert {sabotage.name for sabotage in SABOTAGES} == RECORD.read().keys()


@pytest.mark.parametrize("sabotage", SABOTAGES, ids=lambda sabotage: sabotage.name)
def test_a_sabotage_changes_one_place(sabotage: object) -> None:
    assert isinstance(sabotage, tuple)
    assert (ROOT / sabotage[2]).read_text(encoding="utf-8").count(sabotage[3]) == 1


@pytest.mark.slow
def test_each_sabotage_is_caught_by_its_seed() -> None:
    """In processes of their own: there the sources are imported sabotaged."""
    command = [sys.executable, "-m", "tests.sim.clients.mutations", "replay"]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)
    assert done.returncode == 0, f"search anew for those that escaped:\n{done.stdout}{done.stderr}"
