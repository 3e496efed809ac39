"""The judge of simulations, by cases of its own: the written rules at their borders."""

from typing import Any

import pytest

from tests.sim.judge.chains import broken
from tests.sim.judge.debts import cleanable, owed
from tests.sim.judge.floors import log_start
from tests.sim.judge.layout import Json, units_of
from tests.sim.judge.leases import LEASE_MS, claimed_wrongly
from tests.sim.judge.merges import merged_wrongly
from tests.sim.judge.owners import let_go_by_another
from tests.sim.judge.pins import pinned_wrongly
from tests.sim.judge.records import Record, Records
from tests.sim.judge.settings import KEEP_ALL, Settings, settings
from tests.sim.judge.uploads import AT_MOST, AtMost, protected, uploaded_wrongly


def log(*buckets: list[int], **retention: int) -> Json:
    return {"id": 9, "time_index": [*buckets], "next_offset": 30, "retention": retention}


THREE = ([0, 100, 10, 1_000], [10, 200, 10, 1_000], [20, 300, 10, 1_000])


@pytest.mark.parametrize(
    ("bounds", "now_ms", "start"),
    [
        ({}, 10**9, 0),
        ({"ms": 50}, 150, 0),  # D1: strictly
        ({"ms": 50}, 151, 10),
        ({"ms": 50}, 10**9, 30),  # D4
        ({"bytes": 2_001}, 0, 0),  # D2: never below the bound
        ({"bytes": 2_000}, 0, 10),
        ({"records": 0}, 0, 30),
        ({"ms": 50, "records": 10}, 151, 20),  # D9
    ],
)
def test_a_log_starts_where_its_bounds_say(bounds: dict[str, int], now_ms: int, start: int) -> None:
    assert log_start(log(*THREE, **bounds), now_ms) == start


def test_what_stays_keeps_what_follows_it() -> None:
    assert log_start(log([0, 900, 10, 1], [10, 100, 10, 1], ms=50), 200) == 0


def test_a_configuration_has_the_documented_defaults_and_compact_alone_bounds_nothing() -> None:
    plain, compact = settings(1, {}), settings(1, {"cleanup.policy": " compact ", "retention.ms": "5"})
    assert (plain.bounds.ms, plain.dirty_ratio, plain.tombstones_ms) == (604_800_000, 0.5, 86_400_000)
    assert (compact.bounds, compact.order) == (KEEP_ALL, "key")


def segment(name: str, first: int, last: int, **more: Any) -> Json:
    size = {"id": name, "bytes": 100, "rows": 1, "min_offset": first, "max_offset": last}
    return size | {"min_ts_ms": first, "max_ts_ms": last} | more


def compacted(**config: str) -> Settings:
    return settings(1, {"cleanup.policy": "compact", "l0.segments.tier": "9", **config})


def test_what_reaches_across_the_lag_is_left_alone() -> None:
    run = {"id": "r", "segments": [segment("r1", 0, 3), segment("r2", 1, 6)]}
    loose = [segment("a", 4, 4), segment("b", 5, 5), segment("c", 8, 8, max_ts_ms=90)]
    manifest: Json = {"runs": [run], "l0": loose}
    lagging = compacted(**{"min.compaction.lag.ms": "20"})
    assert [unit.id for unit in cleanable(units_of(manifest), lagging, 100)] == ["r", "a", "b"]
    loose[1]["max_ts_ms"] = 90
    assert cleanable(units_of(manifest), lagging, 100) == []
    assert len(cleanable(units_of(manifest), compacted(), 0)) == 4


@pytest.mark.parametrize(
    ("manifest", "ratio", "owes"),
    [
        ({"l0": [segment("a", 0, 0), segment("b", 1, 1)], "cleaned_to": 1}, "0.5", ""),
        ({"l0": [segment("a", 0, 0), segment("b", 1, 1)], "cleaned_to": 1}, "0.49", "100 of 200 bytes are dirty"),
        ({"l0": [segment("a", 0, 0)], "log_start_offset": 1}, "1", "lies below the floor 1"),
        ({"l0": [segment("a", 0, 0, horizon_ms=99, last_horizon_ms=100)]}, "1", "tombstones expired"),
        ({"l0": [segment("a", 0, 0, horizon_ms=99, last_horizon_ms=101)]}, "1", ""),
    ],
)
def test_a_debt_is_owed_from_its_border_on(manifest: Json, ratio: str, owes: str) -> None:
    config = compacted(**{"min.cleanable.dirty.ratio": ratio})
    found = [*owed(manifest | {"next_offset": 2}, config, 100)]
    assert owes in "".join(found)
    assert bool(found) == bool(owes)


RULES = {"floor": 2, "drop_keyless": True, "drop_superseded": True, "clock_ms": 50}
CLEAN = RULES | {"coverage_offset": 7, "stamp_horizon_ms": 60}


@pytest.mark.parametrize(
    ("offset", "key", "tombstone", "horizon_ms", "left"),
    [
        (1, "x", False, None, False),  # below the floor
        (3, None, False, None, False),
        (3, "k", False, None, False),  # superseded
        (3, "x", False, None, True),
        (3, "x", True, 50, False),  # expired
        (3, "x", True, 51, True),
    ],
)
def test_a_record_is_kept_or_dropped(
    offset: int, key: str | None, tombstone: bool, horizon_ms: int | None, left: bool
) -> None:
    record, later = Record(offset, key, "a", tombstone, 0, horizon_ms, 1), Record(6, "k", "b", False, 0, None, 1)
    kept = {offset: record, 6: later} if left else {6: later}
    assert merged_wrongly(CLEAN, {offset: record, 6: later}, kept) is None
    wrong = {6: later} if left else {offset: record, 6: later}
    assert merged_wrongly(CLEAN, {offset: record, 6: later}, wrong) is not None


def test_a_clean_stamps_below_its_coverage_alone() -> None:
    below, above = (Record(offset, f"{offset}", "a", True, 0, None, 1) for offset in (6, 7))
    stamped = {6: below._replace(horizon_ms=60), 7: above}
    assert merged_wrongly(CLEAN, {6: below, 7: above}, stamped) is None
    assert merged_wrongly(CLEAN, {6: below, 7: above}, {6: below, 7: above}) is not None
    assert merged_wrongly(RULES, {6: below, 7: above}, {6: below, 7: above}) is None


@pytest.mark.parametrize("changed", [{}, {"owner": ""}, {"planning": False}, {"heartbeat_at_ms": 1_000 - LEASE_MS}])
def test_only_who_shows_no_life_may_be_replaced(changed: Json) -> None:
    state = {"owner": "n", "planning": True, "heartbeat_at_ms": 1_000} | changed
    assert (claimed_wrongly([state], 1_000, 1_000) is None) == bool(changed)


def test_a_checkpoint_lasts_as_long_as_was_asked() -> None:
    one = {"id": "c", "name": "n", "manifest": 9, "expires_at_ms": 150}
    manifest = {"id": 9, "committed_at_ms": 100, "checkpoints": [one]}
    assert pinned_wrongly({}, manifest, {50, None}) is None
    assert pinned_wrongly({}, manifest, {None}) is not None
    assert pinned_wrongly({}, manifest | {"id": 10}, {50}) is not None


def test_a_checkpoint_that_has_expired_is_not_refreshed() -> None:
    one = {"id": "c", "name": "n", "manifest": 5, "expires_at_ms": 100}
    before, after = {"checkpoints": [one]}, {"id": 9, "checkpoints": [one | {"expires_at_ms": 150}]}
    assert pinned_wrongly(before, after | {"committed_at_ms": 99}, {51}) is None
    assert "had expired" in (pinned_wrongly(before, after | {"committed_at_ms": 100}, {50}) or "")


def test_what_only_grows_may_not_fall() -> None:
    assert [*broken({"next_offset": 3}, {"id": 2, "next_offset": 3}, Records())] == []
    assert [*broken({"cleaned_to": 3}, {"id": 2}, Records())] != []


def pin(name: str, owner: str, number: int, expires_at_ms: int | None = None) -> Json:
    return {"id": name, "owner": owner, "name": name, "manifest": number, "expires_at_ms": expires_at_ms}


@pytest.mark.parametrize(
    ("before", "after", "who", "right"),
    [
        ([pin("a", "user", 1)], [], "maker", True),
        ([pin("a", "user", 1)], [], "other", False),
        ([pin("a", "user", 1)], [pin("b", "user", 9)], "maker", False),  # to make room
        ([pin("a", "scan", 1, 100)], [pin("b", "scan", 9, 150)], "other", True),  # it has expired
        ([pin("a", "scan", 1, 101)], [pin("b", "scan", 9, 150)], "other", False),
        ([], [pin("b", "scan", 9, 101 + 3_600_000)], "maker", False),
        ([pin("a", "view", 1), pin("b", "view", 2)], [pin("b", "view", 2), pin("c", "view", 9)], "other", True),
        ([pin("a", "view", 1), pin("b", "view", 2)], [pin("a", "view", 1), pin("c", "view", 9)], "other", False),
        ([pin("a", "view", 1)], [pin("c", "view", 9)], "other", False),  # there was room
        ([pin("a", "view", 1), pin("b", "view", 2)], [pin("b", "view", 2), pin("c", "scan", 9, 150)], "other", False),
        ([], [pin("a", "view", 1), pin("b", "view", 2), pin("c", "view", 9)], "maker", False),
    ],
)
def test_nobody_lets_go_of_anothers_pin(before: list[Json], after: list[Json], who: str, right: bool) -> None:
    manifests = ({"checkpoints": pins} for pins in (before, after))
    previous, manifest = ({"committed_at_ms": 100, **each} for each in manifests)
    bounds = {"user": 1, "scan": 1, "view": 2}
    found = let_go_by_another(previous, manifest, {each["id"]: "maker" for each in before}, who, bounds)
    assert (found is None) == right, found


UPLOAD = {"id": "00112233445566aa", "begun_at": 9, "expires_at_ms": 150}
NAME = "000000000009-00112233445566aa"


def uploaded(*uploads: Json, number: int = 9, next_offset: int = 30, l0: tuple[Json, ...] = (), **more: Any) -> Json:
    plain = {"id": number, "committed_at_ms": 100, "next_offset": next_offset}
    return plain | {"uploads": [*uploads], "l0": [*l0]} | more


def of_upload(nonce: int, first: int, name: str = NAME) -> Json:
    return segment(f"{name}-{nonce:016x}", first, first) | {"base_offset": first}


DONE = UPLOAD | {"appended": [10, 30, 2]}
TOLD = {"application": "a", "version": 1, "base_offset": 20, "rows": 2, "touched_at": 8}
TWO_SEGMENTS = of_upload(1, 30), of_upload(2, 31)
STANDS = uploaded(UPLOAD)
APPENDED = uploaded(DONE, number=10, next_offset=32, l0=TWO_SEGMENTS)


@pytest.mark.parametrize(
    ("previous", "manifest", "wrong"),
    [
        (uploaded(number=8), STANDS, None),
        (uploaded(number=8), uploaded(UPLOAD | {"expires_at_ms": 151}), "begins an upload for 51 ms"),
        (uploaded(number=8), uploaded(UPLOAD | {"begun_at": 8}), "begins upload"),
        (uploaded(number=8), uploaded(UPLOAD | {"id": "x"}), "begins upload"),
        (uploaded(number=8), uploaded(UPLOAD, sealed=True), "is sealed"),
        (STANDS, uploaded(number=10), "has not expired"),
        (STANDS, uploaded(number=10, committed_at_ms=150), None),
        (STANDS, uploaded(number=10, sealed=True), None),
        (STANDS, uploaded(UPLOAD | {"begun_at": 10}, number=10), "has not expired"),
        (STANDS, APPENDED, None),
        (STANDS, APPENDED | {"uploads": [UPLOAD]}, "what it commits is []"),
        (STANDS, APPENDED | {"l0": [*TWO_SEGMENTS, segment("000000000009-0123456789abcdef", 32, 32)]}, "appends segm"),
        (STANDS, APPENDED | {"l0": [of_upload(1, 30), of_upload(2, 30)]}, "offsets from 30 on, not from 31"),
        (STANDS, APPENDED | {"l0": [of_upload(1, 30, NAME.replace("09-", "08-")), of_upload(2, 31)]}, "appends segm"),
        (STANDS, APPENDED | {"next_offset": 33}, "and appends 3"),
        (STANDS | {"transactions": [TOLD]}, uploaded(UPLOAD | {"appended": [8, 20, 2]}, number=10), None),
        (STANDS, uploaded(UPLOAD | {"appended": [8, 20, 2]}, number=10), "makes"),
        (APPENDED, uploaded(DONE | {"appended": [11, 32, 1]}, number=11, next_offset=33), "makes"),
        (uploaded(UPLOAD, UPLOAD | {"begun_at": 8}), uploaded(UPLOAD, UPLOAD | {"begun_at": 8}), "each id once"),
    ],
)
def test_an_upload_begins_is_appended_and_ends_as_it_may(previous: Json, manifest: Json, wrong: str | None) -> None:
    found = uploaded_wrongly(previous, manifest, {50}, AT_MOST)
    assert found is None if wrong is None else found is not None and wrong in found, found


SECOND = {"id": "1" * 16, "begun_at": 8, "expires_at_ms": 150, "appended": [9, 28, 2]}
THIRD = {"id": "2" * 16, "begun_at": 11, "expires_at_ms": 150}
FULL = uploaded(DONE, SECOND, number=10)


@pytest.mark.parametrize(
    ("previous", "left", "right"),
    [
        (FULL, (DONE, THIRD), True),
        (FULL, (SECOND, THIRD), False),  # it was appended later
        (FULL, (THIRD,), False),
        (FULL, (DONE,), False),  # none is begun
        (uploaded(DONE, number=10), (THIRD,), False),  # there was room
        (uploaded(DONE, UPLOAD | {"id": "3" * 16, "begun_at": 2}, number=10), (DONE, THIRD), False),  # not appended
        (uploaded(DONE, SECOND | {"expires_at_ms": 100}, number=10), (THIRD,), False),  # one had expired: room
        (uploaded(DONE, SECOND | {"expires_at_ms": 100}, number=10), (DONE, THIRD), True),
    ],
)
def test_at_the_bound_the_upload_that_was_appended_first_gives_way(
    previous: Json, left: tuple[Json, ...], right: bool
) -> None:
    found = uploaded_wrongly(previous, uploaded(*left, number=11), {50}, AtMost(2, 3))
    assert (found is None) == right, found


def test_what_is_named_after_an_upload_that_stands_may_not_be_deleted() -> None:
    assert protected(STANDS, f"{NAME}-{1:016x}") is not None
    assert protected(STANDS, f"000000000008-00112233445566aa-{1:016x}") is None
    assert protected(uploaded(), f"{NAME}-{1:016x}") is None
