"""The share that the simulation of clients has in the everyday run, and that its harness holds."""

import subprocess
import sys
from collections import Counter
from collections.abc import Iterable
from pathlib import Path

import pytest
from greenlet import GreenletExit

from lithify.store.port import Pause
from tests.sim.clients.fibres import Fibre, ask
from tests.sim.clients.history import play
from tests.sim.clients.mutations import RECORD
from tests.sim.clients.sabotage import SABOTAGES
from tests.sim.elsewhere import told_elsewhere
from tests.sim.sabotage_line import Sabotage

SEEDS, SEEDS_A_TEST = 60, 10
EVERYDAY = (0, 1, 2, 3, 4, 12)  # they catch every sabotage on record
# In so many of 100 histories.
MET_AT_LEAST = {
    "append of a producer waited": 5,
    "commit met an outage: CommitUnknown": 2,
    "compactor: worked": 20,
    "consumer ended by its caller": 20,
    "consumer fenced": 10,
    "delivery acknowledged": 50,
    "delivery refused": 10,
    "delivery unknown": 10,
    "fault crash": 20,
    "fault create: lands later": 20,
    "fault read: unavailable": 10,
    "grown": 20,
    "iteration met an outage: Unavailable": 5,
    "object collected": 20,
    "producer fenced": 2,
    "rule alarms that are cleared": 1,
    "rule gaps": 10,
    "rule partitions take turns": 50,
    "rule the ends of a growth": 90,
    "rule the partition of an append": 50,
    "rule tombstones that are cleaned away": 5,
    "rule what a token tells": 10,
    "rule what only commit() commits": 10,
    "rule what operators ask for": 10,
    "rule what was flushed": 20,
    "rule where a new name begins, earliest": 90,
    "rule where a new name begins, latest": 90,
    "rule who was replaced hears of it": 90,
    "state asked again after an outage": 1,
    "state compared": 20,
    "token: appended": 5,
    "token: not appended": 5,
    "token: not known yet": 1,
}
ROOT = Path(__file__).resolve().parents[3]


def _violations(seeds: Iterable[int]) -> list[str]:
    found = map(play, seeds)
    return [f"python -m tests.sim.clients --seed {f.seed}: {f.violation}" for f in found if f.violation is not None]


@pytest.mark.parametrize("seed", EVERYDAY)
def test_no_history_of_everyday_breaks_a_promise(seed: int) -> None:
    assert _violations([seed]) == []


@pytest.mark.slow
@pytest.mark.parametrize("first", range(0, SEEDS, SEEDS_A_TEST))
def test_no_history_of_clients_breaks_a_promise(first: int) -> None:
    assert _violations(range(first, first + SEEDS_A_TEST)) == []


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
    found = Counter(what for seed in range(100) for what in play(seed).counts)
    assert {what: found[what] for what, least in MET_AT_LEAST.items() if found[what] < least} == {}


@pytest.mark.slow
def test_a_seed_is_a_history_whatever_the_process() -> None:
    program = "from tests.sim.clients.history import play\nprint([(f.steps, f.turns) for f in map(play, (3, 5))])"
    assert told_elsewhere(program) == {f"{[(f.steps, f.turns) for f in map(play, (3, 5))]}\n"}


def test_every_sabotage_was_caught() -> None:
    record = RECORD.read()
    assert {sabotage.name for sabotage in SABOTAGES} == record.keys()
    assert [name for name, caught in record.items() if type(caught["seed"]) is not int] == []


@pytest.mark.parametrize("sabotage", SABOTAGES, ids=lambda sabotage: sabotage.name)
def test_a_sabotage_changes_one_place(sabotage: Sabotage) -> None:
    assert (ROOT / sabotage.file).read_text(encoding="utf-8").count(sabotage.old) == 1


@pytest.mark.slow
def test_each_sabotage_is_caught_by_its_seed() -> None:
    """In processes of their own: there the sources are imported sabotaged."""
    command = [sys.executable, "-m", "tests.sim.clients.mutations", "replay"]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)
    assert done.returncode == 0, f"search anew for those that escaped:\n{done.stdout}{done.stderr}"
