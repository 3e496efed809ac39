"""A collection says why nothing went yet, and when it will; a collection at that time proves it right."""

import itertools
from typing import Any

import pytest

import lithify as face
from tests.cli.conftest import Lithify, changes

GRACE_MS = 3_600_000
STEP_MS = 60_000


def waiting(warehouse: face.Warehouse, now: list[int]) -> face.Admin:
    part = warehouse.create_topic("users", config={"cleanup.policy": "compact"}, probe=False).partition(0)
    for _ in range(3):
        part.append([face.Record(b"k", b"v", now[0])])
    compactor = face.Compactor(warehouse, engine="local")
    compactor.run_once()
    compactor.close()
    return face.Admin(warehouse)


def test_it_goes_at_that_time_and_not_before() -> None:
    now = [1_800_000_000_000]
    with face.open("memory://when-it-goes", clock=lambda: now[0]) as warehouse:
        admin = waiting(warehouse, now)
        (dry,) = admin.gc(dry_run=True).partitions
        assert (dry.waiting, dry.next_ms) == (3, None), "a dry run does not begin the grace period"
        (first,) = admin.gc().partitions
        assert (first.waiting, first.next_ms) == (3, now[0] + GRACE_MS)
        promised = first.next_ms
        for _ in itertools.count():
            now[0] += STEP_MS
            (part,) = admin.gc().partitions
            if part.deleted:
                break
            assert part.next_ms == promised, "later collections put nothing off"
            assert now[0] < promised
        assert now[0] == promised
        assert sum(".parquet" in each.key for each in part.deleted) == 3
        assert (part.waiting, part.next_ms) == (0, None)


def test_what_a_checkpoint_pins_has_no_time() -> None:
    now = [1_800_000_000_000]
    with face.open("memory://pinned-garbage", clock=lambda: now[0]) as warehouse:
        topic = warehouse.create_topic("users", config={"cleanup.policy": "compact"}, probe=False)
        topic.append([face.Record(b"k", b"v", now[0])])
        topic.append([face.Record(b"k", b"w", now[0])])
        topic.partition(0).snapshot(pin="kept")
        compactor = face.Compactor(warehouse, engine="local")
        compactor.run_once()
        compactor.close()
        (part,) = face.Admin(warehouse).gc().partitions
        assert (part.waiting, part.next_ms) == (2, None)


def test_a_person_is_told(lithify: Lithify) -> None:
    lithify.ok("topic", "create", "users", "--config", "cleanup.policy=compact")
    lithify.ok("append", "users", input=changes(20))
    lithify.ok("compactor", "run", "--once", "--engine", "local")
    dry = lithify.ok("gc", "run", "--dry-run")
    assert "1 replaced segment waits: it stays readable for the grace period (1.0 h), which begins with" in dry
    told = lithify.ok("gc", "run", "--once")
    assert "1 replaced segment waits: it stays readable for the grace period (1.0 h). A collection after" in told
    assert "can delete it" in told
    answer: Any = lithify.json("gc", "run", "--once")
    assert answer["partitions"][0]["next_ms"] > 0
    at_once = ("gc", "run", "--once", "--gc-grace-ms", "0")
    assert "replaced segment" not in lithify.ok(*at_once)
    lithify.ok("append", "users", input=changes(20))
    lithify.ok("compaction", "submit", "users", "--full")
    lithify.ok("compactor", "run", "--once", "--engine", "local")
    assert "2 replaced segments wait for the next collection, or" in lithify.ok(*at_once)
    assert "replaced segment" not in lithify.ok(*at_once)


def test_a_long_reason_is_told_once(lithify: Lithify, monkeypatch: pytest.MonkeyPatch) -> None:
    """A hundred objects may have the same one."""
    monkeypatch.setattr("lithify.cli.garbage._LONG", 20)
    lithify.ok("topic", "create", "users", "--config", "cleanup.policy=compact")
    for _ in range(3):
        lithify.ok("append", "users", input=changes(20))
    lithify.ok("compactor", "run", "--once", "--engine", "local")
    lithify.ok("gc", "run", "--once", "--gc-grace-ms", "0")
    answer: Any = lithify.json("gc", "run", "--dry-run", "--gc-grace-ms", "0")
    reasons = [each["reason"] for part in answer["partitions"] for each in (*part["deleted"], *part["kept"])]
    shown = lithify.ok("gc", "run", "--dry-run", "--gc-grace-ms", "0")
    assert len(reasons) > len(set(reasons)) > 0
    assert [shown.count(reason) for reason in set(reasons)] == [1] * len(set(reasons))
    assert shown.count("as above") == len(reasons) - len(set(reasons))
