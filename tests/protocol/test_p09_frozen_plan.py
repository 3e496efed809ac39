"""P9: admission freezes ranges, floor, clock and coverage offset; a resume recomputes none of it."""

from collections.abc import Sequence

import pytest
from msgspec.structs import replace

from lithify.compactor.altered import forbidden
from lithify.compactor.job_edits import Admit, ClaimState, StartAttempt
from lithify.compactor.plan import Proposal, freeze, tasks
from lithify.manifest.compactions import coverage_offset
from lithify.manifest.config import TopicConfig, parse
from lithify.manifest.edits import Next, Refused
from lithify.manifest.jobs import CompactorState, Job, KeyRange, Kind
from lithify.manifest.model import Manifest, SortedRun
from lithify.manifest.partition import PartitionFiles
from lithify.manifest.reading import Reading
from lithify.manifest.units import Unit, units
from lithify.store.errors import InvalidRequest, Unavailable
from tests.protocol.scene import (
    CONFIG,
    FIRST,
    KEYS,
    TOPIC_ID,
    appends,
    at,
    claim,
    job,
    new_partition,
    replacing,
    segment,
)

LAGGING = parse({"cleanup.policy": "compact", "min.compaction.lag.ms": "5000"})
RANGES = (KeyRange(None, b"m"), KeyRange(b"m", None))


def l0(name: str, base: int, rows: int) -> object:
    return segment(name, rows, base_offset=base, min_offset=base, max_offset=base + rows - 1, added_at=1)


def manifest() -> Manifest:
    """A run of offsets 0..9, and L0 segments of 10..12, 13..14, 15."""
    run = SortedRun(id="run", segments=(segment("r", 10, max_offset=9, added_at=1),))
    loose = (l0("a", 10, 3), l0("b", 13, 2), l0("c", 15, 1))
    return replace(at(FIRST, 5), runs=(run,), l0=loose, next_offset=16, log_start_offset=4)


def frozen_of(head: Manifest, config: TopicConfig, picked: Sequence[Unit], kind: Kind = "clean") -> Job:
    reading = Reading.of(head, None, config, 1_000)
    return freeze(reading, Proposal(picked, kind, ""), RANGES, "000000000005-0000abcd")


def frozen(chosen: set[str], kind: Kind = "clean") -> Job:
    head = manifest()
    return frozen_of(head, CONFIG, [u for u in units(head) if u.id in chosen], kind)


def test_the_coverage_offset_is_the_lowest_offset_left_out() -> None:
    assert coverage_offset(manifest(), frozenset({"r", "a"})) == 13
    assert coverage_offset(manifest(), frozenset({"r", "a", "c"})) == 13
    assert coverage_offset(manifest(), frozenset({"a", "b", "c"})) == 0
    assert coverage_offset(manifest(), frozenset({"r", "a", "b", "c"})) == 16


def test_admission_freezes_ranges_floor_clock_and_coverage() -> None:
    rules = frozen({"run", "a"}).plan.rules
    assert frozen({"run", "a"}).plan.ranges == RANGES
    assert (rules.floor, rules.clock_ms, rules.coverage_offset) == (4, 1_000, 13)
    assert rules.stamp_horizon_ms == 1_000 + CONFIG.delete_retention_ms


def test_a_tier_stamps_nothing() -> None:
    assert frozen({"a", "b"}, kind="tier").plan.rules.stamp_horizon_ms is None


def test_records_younger_than_the_lag_are_not_superseded() -> None:
    head = manifest()
    assert not frozen_of(head, LAGGING, units(head), kind="tier").plan.rules.drop_superseded


def test_every_attempt_works_by_the_same_plan() -> None:
    """Attempt 2 belongs to another epoch, a later clock and a manifest that has gone on."""
    empty = CompactorState(format=1, topic="t", topic_id=TOPIC_ID, partition=0, epoch=1, owner="old")
    planned = frozen({"run", "a"})
    state = Admit(1, planned).apply(empty, 2, 0)
    assert isinstance(state, Next)
    taken = ClaimState(empty, 2, "new", "new:1").apply(state.value, 3, 900_000)
    assert isinstance(taken, Next)
    started = StartAttempt(2, planned.id, 2, "new:1").apply(taken.value, 4, 900_000)
    assert isinstance(started, Next)
    resumed = started.value.job(planned.id)
    assert resumed.plan == planned.plan
    later = replace(manifest(), id=50, log_start_offset=9)
    first, second = (tasks(m, j, n, [0, 1]) for m, j, n in ((manifest(), planned, 1), (later, resumed, 2)))
    assert [replace(t, attempt=0) for t in first] == [replace(t, attempt=0) for t in second]
    assert {t.rules for t in second} == {planned.plan.rules}


def test_the_commit_refuses_a_coverage_that_a_live_segment_contradicts() -> None:
    world, files = new_partition(), PartitionFiles(KEYS)
    epoch = world.alone(claim(files))
    world.alone(appends(files, 3))
    head = world.alone(files.head())
    claims_too_much = replacing(head, head.l0[1:], epoch, coverage_offset=3, clean=True)
    verdict = claims_too_much.apply(head, head.id + 1, 0)
    assert isinstance(verdict.error, InvalidRequest)
    assert "below its coverage offset" in str(verdict.error)


def test_the_scene_s_job_is_planned() -> None:
    assert len(job().plan.ranges) == 3


@pytest.mark.parametrize(
    ("altered", "forbids"),
    [
        ({}, None),
        ({"cleanup.policy": "delete"}, "cleanup.policy"),
        ({"cleanup.policy": ""}, "cleanup.policy"),
        ({"cleanup.policy": "compact,delete"}, None),
        ({"min.compaction.lag.ms": "10000"}, "min.compaction.lag.ms"),
        ({"min.compaction.lag.ms": "900"}, None),
        ({"delete.retention.ms": "5001"}, "delete.retention.ms"),
        ({"delete.retention.ms": "4999"}, None),
        ({"delete.retention.ms": str(2**63 - 1)}, "delete.retention.ms"),
        ({"max.compaction.lag.ms": "1", "compaction.output.bytes": "4096"}, None),
    ],
)
def test_no_rule_drops_what_the_topic_was_altered_to_keep(altered: dict[str, str], forbids: str | None) -> None:
    before = {"cleanup.policy": "compact", "delete.retention.ms": "5000"}
    head = replace(manifest(), runs=(), l0=tuple(replace(s, tombstones=1) for s in manifest().l0))
    rules = frozen_of(head, parse(before), units(head)).plan.rules
    for now_ms in (1_000, 0, 2_000):
        told = forbidden(rules, head.segments(), parse(before | altered), now_ms)
        assert (told is None) == (forbids is None)
        assert forbids is None or forbids in str(told)


def test_what_drops_nothing_is_forbidden_nothing() -> None:
    """A merge of a topic that deletes, and one of records younger than the lag, goes on whatever is altered."""
    head = manifest()
    for config in (parse({}), LAGGING):
        rules = frozen_of(head, config, units(head), kind="tier").plan.rules
        for altered in ({}, {"cleanup.policy": "compact", "min.compaction.lag.ms": "99999999"}):
            assert forbidden(rules, head.segments(), parse(altered), 1_000) is None


def test_a_commit_is_refused_by_a_manifest_that_goes_by_a_later_configuration() -> None:
    head = replace(manifest(), config_at=3, compactor_epoch=1)
    for judged, refused in ((2, True), (3, False), (4, False)):
        verdict = replacing(head, head.l0, 1, config_at=judged).apply(head, 6, 0)
        assert isinstance(verdict, Refused) == refused
        assert not refused or isinstance(verdict.error, Unavailable)
