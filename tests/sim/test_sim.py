"""The simulation's share of the everyday run: some histories, the failures of old, and that the harness holds."""

import itertools
from collections.abc import Iterable
from pathlib import Path
from unittest.mock import patch

import pytest

from lithify.manifest.model import Manifest, Retired
from tests.sim.cases import FOLDER, load, save
from tests.sim.elsewhere import told_elsewhere
from tests.sim.history import Found, Mask, play
from tests.sim.shrink import shrunk
from tests.sim.test_mutations import RULES, SEEDS_PLAYED

SEEDS_EVERYDAY, SEEDS_APART, SEEDS_A_TEST = 25, 150, 25
ROOT = Path(__file__).resolve().parents[2]


def _broken(histories: Iterable[Found]) -> list[str]:
    return [f"make sim SEED={f.seed}: {f.violation}" for f in histories if f.violation is not None]


def _everyday(first: int) -> object:
    return first if first < SEEDS_EVERYDAY else pytest.param(first, marks=pytest.mark.slow)


@pytest.mark.parametrize("first", map(_everyday, range(0, SEEDS_APART, SEEDS_A_TEST)))
def test_no_history_breaks_a_rule(first: int) -> None:
    assert _broken(map(play, range(first, first + SEEDS_A_TEST))) == []


def test_what_once_failed_does_not() -> None:
    for path in sorted(FOLDER.glob("*.json")):
        seed, mask = load(path)
        found = play(seed, mask)
        assert found.violation is None, f"make sim CASE={path.relative_to(ROOT)}: {found.violation}"


def test_a_failure_is_made_small_and_kept(tmp_path: Path) -> None:
    """Bytes that go before their time are noticed; what is left of the history shows it in fewer steps, from a file."""

    def at_once(manifest: Manifest, *_: object) -> list[Retired]:
        return list(manifest.retired)

    with patch("lithify.gc.collect.collectable", at_once):
        failing = next(found for found in map(play, range(100)) if found.violation is not None)
        mask, small = shrunk(failing, tries_max=60)
        assert small.violation is not None
        assert "is deleted" in small.violation
        assert small.steps < failing.steps
        seed, again = load(save("kept", small, mask, tmp_path))
        assert play(seed, again).violation == small.violation
    assert play(seed, again).violation is None


@pytest.mark.soak
@pytest.mark.long
def test_more_histories_break_no_rule_and_every_fault_rule_and_kind_of_commit_comes_about() -> None:
    """What is rare may come about in those alone that are played apart."""
    rules = {f"rule {rule}" for rule in RULES}
    cells = itertools.product(("happened", "not happened"), ("reported", "not reported"))
    wanted = {f"create: {happened}, {reported}" for happened, reported in cells} | {"create: lands later", "dark"}
    wanted |= {f"{cell} (409)" for cell in wanted if "not reported" in cell or "later" in cell}
    wanted |= {"get: unavailable", "head: unavailable", "put: lands later"}
    wanted |= {"crash", "sleep", "stall", "jump", "jump of one clock"}
    wanted = rules | {fault if ", reported" in fault else f"fault {fault}" for fault in wanted} | {"fenced", "damaged"}
    wanted |= {
        "damaged file",
        "damaged file refused",
        "topic over",
        "fault full",
        "fault access denied",
        "attempt denied",
    }
    wanted |= {f"commit: {kind}" for kind in ("append", "claim", "clean", "tier", "drop", "collect", "boundary")}
    wanted |= {f"commit: {kind}" for kind in ("checkpoint", "seal", "position", "producer", "quarantine", "floor")}
    wanted |= {"commit: transaction", "application that ended gives way", "import ended", "unannounced partition swept"}
    wanted |= {"commit: floor by retention", "commit on a dead number", "append acknowledged", "request", "swept"}
    wanted |= {"pause altered", "steps while stopped", "step: stopped"}
    wanted |= {"running job to be cancelled", "told to stop over a look"}
    wanted |= {"relief: worked", "relief: failed", "relief: idle", "step: deferred", "step: standby"}
    wanted |= {"compactors together", "services together", "services retire together", "owner replaced"}
    wanted |= {"job completed", "job cancelled", "job failed", "consumer's state compared", "collected"}
    wanted |= {"commit: upload", "upload appended", "upload known later", "upload given up"}
    more = [play(seed) for seed in range(SEEDS_APART, SEEDS_PLAYED)]
    assert _broken(more) == []
    wanted -= {what for found in more for what in found.counts}
    for seed in range(SEEDS_APART):
        if not wanted:
            break
        wanted -= play(seed).counts.keys()
    assert wanted == set()


@pytest.mark.slow
def test_a_seed_is_a_history_whatever_the_process() -> None:
    """Nothing else decides: neither the order of hashes nor what was played before."""
    program = "from tests.sim.history import play\nprint([(f.steps, f.turns, f.counts) for f in map(play, (3, 5))])"
    assert told_elsewhere(program) == {f"{[(f.steps, f.turns, f.counts) for f in map(play, (3, 5))]}\n"}


@pytest.mark.slow
def test_the_record_of_turns_is_the_history() -> None:
    """What makes failures small replays turns: played as recorded they come to the same."""
    first = play(8)
    turns = tuple((name, count) for name, count in first.turns)
    again = play(8, Mask(turns=turns))
    assert again.counts["commit: append"] == first.counts["commit: append"] > 0
