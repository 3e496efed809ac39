"""The judge of homes, by cases of its own: what belongs to a cold home, what a relocation may change, and what is
forgotten (docs/rfcs/0031)."""

from typing import Any

import pytest

from tests.sim.judge.homes import (
    admitted_wrongly,
    forgotten_too_late,
    left_elsewhere,
    moved_late,
    moved_wrongly,
    owes_cold,
)
from tests.sim.judge.layout import Json
from tests.sim.judge.settings import Settings, settings

COLD = "s3://cold"


def segment(name: str, offset: int, at_ms: int, home: str = "") -> Json:
    """Of 100 bytes."""
    found = {"id": name, "bytes": 100, "min_offset": offset, "max_offset": offset, "min_ts_ms": 0, "max_ts_ms": at_ms}
    return found | {"added_at": 1} | ({"store": home} if home else {})


def log(**more: Any) -> Json:
    """A run of two segments, the newer of which has the older records; and an L0 segment."""
    run = {"id": "r", "segments": [segment("a", 1, 30), segment("b", 2, 20)]}
    return {"id": 7, "runs": [run], "l0": [segment("c", 3, 40)], **more}


def cold(policy: str = "delete", **config: str) -> Settings:
    found = {"hot.retain.segments": "0", "cold.location": COLD, "cleanup.policy": policy}
    return settings(1, found | {name.replace("_", "."): value for name, value in config.items()})


@pytest.mark.parametrize(
    ("config", "now_ms", "goes"),
    [
        (cold(), 10**9, []),  # neither bound is set
        (cold(local_retention_ms="10"), 30, []),
        (cold(local_retention_ms="10"), 31, ["b"]),
        (cold(local_retention_ms="10"), 10**9, ["a", "b"]),  # L0 stays
        (cold(local_retention_bytes="300"), 0, []),
        (cold(local_retention_bytes="299"), 0, ["a"]),
        (cold("compact", local_retention_bytes="299"), 0, ["b"]),
        (cold(local_retention_bytes="0"), 0, ["a", "b"]),
        (cold(local_retention_bytes="0", hot_retain_segments="2"), 0, ["a"]),
        (cold(local_retention_bytes="0", cold_location=""), 0, []),
    ],
)
def test_what_belongs_to_the_cold_home(config: Settings, now_ms: int, goes: list[str]) -> None:
    owed = [*owes_cold(log(), config, now_ms, 8)]
    assert sorted(text.split()[1] for text in owed) == goes
    assert [*owes_cold(log(homes=["s3://other"]), config, now_ms, 1)] == []  # there is no room for another home


def job(*segments: str, origin: str = "scheduler", home: str = COLD) -> Json:
    copies = [{"index": at, "outputs": [{"id": f"{name}2"}]} for at, name in enumerate(segments)]
    plan = {"rules": {"clock_ms": 100}, "ranges": [{}] * len(segments)}
    return {
        "id": "j",
        "kind": "relocate",
        "origin": origin,
        "home": home,
        "sources": ["r"],
        "segments": [*segments],
        "plan": plan,
    } | {"done": copies}


@pytest.mark.parametrize(
    ("admitted", "held", "requests", "right"),
    [
        (job("a", "b"), "", [], True),
        (job("a"), "", [], False),  # not all that is due
        (job("b", "a"), "", [], False),  # not the oldest first
        (job("b"), "a", [], True),
        (job("a", "b"), "a", [], False),
        (job("a", "b", "c"), "", [], False),
        (job("a", "b", home="s3://other"), "", [], False),
        (job("a", "b", origin="manual"), "", [], True),
        (job("a", "b", origin="manual", home="s3://other"), "", [], False),  # which the topic does not name
        (job("a", origin="manual"), "", [], False),
    ],
)
def test_a_relocation_takes_what_is_due(admitted: Json, held: str, requests: list[str], right: bool) -> None:
    config = cold(local_retention_ms="0")
    assert (next(admitted_wrongly(admitted, log(), config, held, requests, 64), None) is None) == right


def moved(**more: str | int) -> Json:
    """After `a` was moved."""
    copy = segment("a2", 1, 30, COLD) | {"added_at": 8, "moved_ms": 80} | more
    after = log(id=8, committed_at_ms=80, retired=[{"id": "a"}], completed_jobs=[{"id": "j"}])
    after["runs"] = [{"id": "r", "segments": [copy, segment("b", 2, 20)]}]
    return after


@pytest.mark.parametrize(
    ("after", "wrong"),
    [
        (moved(), ""),
        (moved(id="a3"), "whose copy is a2"),
        (moved(id="a"), "whose copy is a2"),
        (moved(store="s3://other"), "it was moved to"),
        (moved(added_at=1), "it was moved to"),
        (moved(max_ts_ms=31), "changes max_ts_ms"),
        (moved(moved_ms=0), "was moved at 0, and it was at 80"),
        (moved() | {"log_start_offset": 1}, "changes log_start_offset"),
        (moved() | {"l0": []}, "changes l0"),
        (moved() | {"runs": []}, "changes the runs"),
        (log(id=8), "whose copy is a2"),
    ],
)
def test_a_move_changes_id_and_home_alone(after: Json, wrong: str) -> None:
    found = moved_wrongly(job("a"), log(), after)
    assert (found is None) == (wrong == "")
    assert wrong in (found or "")


def test_a_home_is_noted_until_nothing_is_or_may_be_there() -> None:
    noted = log(homes=[COLD])
    assert forgotten_too_late(noted, [], []) is not None
    assert forgotten_too_late(noted, [{"kind": "relocate", "status": "completed", "home": COLD}], []) is not None
    assert forgotten_too_late(noted, [{"kind": "relocate", "status": "failed", "home": COLD}], []) is None
    assert forgotten_too_late(noted, [], [COLD]) is None
    assert forgotten_too_late(noted | {"retired": [segment("z", 0, 0, COLD)]}, [], []) is None
    assert forgotten_too_late(log(), [], []) is None


@pytest.mark.parametrize(
    ("at", "homes", "right"),
    [
        (0, [COLD], True),
        (0, [COLD, ""], True),  # not every partition has heard of it
        (2, [COLD, ""], False),
        (2, [COLD, "s3://other"], False),
        (2, [COLD, "", COLD], True),
    ],
)
def test_nothing_moves_to_a_home_that_was_given_up(at: int, homes: list[str], right: bool) -> None:
    configs = [settings(number, {"cold.location": home}) for number, home in enumerate(homes, 1)]
    assert (moved_late(job("a"), log(config_at=at), configs) is None) == right
    assert moved_late(job("a", home=""), log(config_at=at), configs) is None


@pytest.mark.parametrize(
    ("head", "since", "homes", "right"),
    [
        (moved(), 2, [COLD, ""], False),
        (moved(), 1, [COLD, ""], True),
        (moved(), 2, [COLD, "", COLD], True),
        (log(), 2, [COLD, ""], True),
    ],
)
def test_what_was_recalled_is_here_at_rest(head: Json, since: int, homes: list[str], right: bool) -> None:
    configs = [settings(number, {"cold.location": home}) for number, home in enumerate(homes, 1)]
    assert (left_elsewhere(head, since, configs) is None) == right
