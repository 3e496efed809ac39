"""The share that the simulation of clients has in the everyday run, and that its harness holds."""

import subprocess
import sys
from collections import Counter
from collections.abc import Iterable
from math import comb
from pathlib import Path
from zlib import crc32

import pytest
from greenlet import GreenletExit

from lithify.store.port import Pause
from tests.everyday import everyday_and_slow
from tests.sim.clients import calm
from tests.sim.clients.fibres import Fibre, ask
from tests.sim.clients.history import Found, play
from tests.sim.clients.mutations import RECORD
from tests.sim.clients.sabotage import SABOTAGES
from tests.sim.elsewhere import told_elsewhere
from tests.sim.sabotage_line import Sabotage

EVERYDAY = sorted({caught["seed"] for caught in RECORD.caught().values()})  # they catch every sabotage
HISTORIES = 110  # a quarter of a minute, or less
RARE = 1e-5  # share of good builds of which it would be said that something does not come about any more
# The share of histories in which it comes about, as 600 of them had it.
SHARES = {
    "append of a producer waited": 0.53,
    "compactor: worked": 0.34,
    "consumer ended by its caller": 0.36,
    "consumer fenced": 0.12,
    "delivery acknowledged": 0.83,
    "delivery refused": 0.29,
    "delivery unknown": 0.19,
    "fault crash": 0.54,
    "fault create: lands later": 0.37,
    "fault read: unavailable": 0.38,
    "follower met an outage: Unavailable": 0.13,
    "grown": 0.17,
    "iteration met an outage: Unavailable": 0.11,
    "object collected": 0.40,
    "poll met an outage: Unavailable": 0.21,
    "rule gaps": 0.11,
    "rule partitions take turns": 0.46,
    "rule the ends of a growth": 0.66,
    "rule the partition of an append": 0.82,
    "rule what a token tells": 0.23,
    "rule what only commit() commits": 0.15,
    "rule what operators ask for": 0.13,
    "rule what was flushed": 0.60,
    "rule where a new name begins, earliest": 0.80,
    "rule where a new name begins, latest": 0.71,
    "state compared": 0.36,
    "token: appended": 0.16,
    "token: not appended": 0.13,
}
SCENES_PLAYED = 10  # histories that end with all scenes
SHARES_OF_SCENES = {
    "commit met an outage: CommitUnknown": 0.97,
    "rule tombstones that are cleaned away": 0.99,
    "rule what a token tells": 0.96,
    "rule who was replaced hears of it": 0.99,
    "rule who was replaced takes no partition": 0.99,
    "token: appended": 0.90,
    "token: not known yet": 0.70,
}
PARTS = 4  # of the sabotages, replayed one after the other
ROOT = Path(__file__).resolve().parents[3]


def _broken(histories: Iterable[Found]) -> list[str]:
    return [
        f"python -m tests.sim.clients --seed {found.seed}: {found.violation}"
        for found in histories
        if found.violation is not None
    ]


@pytest.mark.parametrize("seed", everyday_and_slow(EVERYDAY[:6], EVERYDAY[6:]))
def test_no_history_of_everyday_breaks_a_promise(seed: int) -> None:
    assert _broken([play(seed)]) == []


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


def _least(share: float, histories: int) -> int:
    """What comes about in this share of all histories comes about in so many of these, but for a RARE build."""
    fewer = 0.0
    for times in range(histories + 1):
        fewer += comb(histories, times) * share**times * (1 - share) ** (histories - times)
        if fewer > RARE:
            return times
    return histories


def _missing(histories: list[Found], shares: dict[str, float]) -> dict[str, int]:
    """What came about in fewer of them than its share lets expect, and in how many."""
    found = Counter(what for history in histories for what in history.counts)
    return {what: found[what] for what, share in shares.items() if found[what] < _least(share, len(histories))}


@pytest.mark.slow
def test_histories_of_clients_break_no_promise_and_what_clients_meet_comes_about() -> None:
    histories = [play(seed) for seed in range(HISTORIES)]
    assert _broken(histories) == []
    assert _missing(histories, SHARES) == {}


@pytest.mark.slow
def test_what_takes_its_time_comes_about_at_the_end(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(calm, "ALL_SHARE", 1.0)
    histories = [play(seed) for seed in range(SCENES_PLAYED)]
    assert _broken(histories) == []
    assert _missing(histories, SHARES_OF_SCENES) == {}


def test_whatever_is_expected_of_histories_is_missed_where_it_never_comes_about() -> None:
    for shares, histories in ((SHARES, HISTORIES), (SHARES_OF_SCENES, SCENES_PLAYED)):
        assert [what for what, share in shares.items() if not _least(share, histories)] == []


@pytest.mark.slow
def test_a_seed_is_a_history_whatever_the_process() -> None:
    program = (
        "from zlib import crc32\n"
        "from tests.sim.clients.history import play\n"
        "histories = (play(seed, tracing=True) for seed in range(5))\n"
        "print([(found.steps, crc32(str(found.trace).encode())) for found in histories])"
    )
    (told,) = told_elsewhere(program)
    here = [play(seed, tracing=True) for seed in reversed(range(5))]  # what was played before it is no matter either
    assert told == f"{[(found.steps, crc32(str(found.trace).encode())) for found in reversed(here)]}\n"


def test_every_sabotage_is_on_record() -> None:
    assert {sabotage.name for sabotage in SABOTAGES} == RECORD.read().keys()
    assert {type(caught["seed"]) for caught in RECORD.caught().values()} == {int}


@pytest.mark.parametrize("sabotage", SABOTAGES, ids=lambda sabotage: sabotage.name)
def test_a_sabotage_changes_one_place(sabotage: Sabotage) -> None:
    assert (ROOT / sabotage.file).read_text(encoding="utf-8").count(sabotage.old) == 1


@pytest.mark.soak
@pytest.mark.parametrize("part", range(PARTS))
def test_each_sabotage_is_caught_by_its_seed(part: int) -> None:
    """In processes of their own: there the sources are imported sabotaged."""
    parts = ["--part", str(part), "--parts", str(PARTS)]
    command = [sys.executable, "-m", "tests.sim.clients.mutations", "replay", *parts]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)
    assert done.returncode == 0, f"search anew for those that escaped:\n{done.stdout}{done.stderr}"
