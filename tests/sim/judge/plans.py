"""What an admission freezes, by P8, P9 and RFC 0004: exactly what one manifest, one configuration and one reading of
the clock come to, all of them in force since the step began."""

from collections.abc import Collection, Iterator, Mapping, Sequence
from typing import NamedTuple

from tests.sim.judge.debts import cleanable, dues_of_cleaning, is_old
from tests.sim.judge.floors import log_start
from tests.sim.judge.homes import MOVES_MAX, admitted_wrongly
from tests.sim.judge.layout import Json, Unit, as_unit, index_of, segments_of, units_of
from tests.sim.judge.settings import LARGEST, Settings
from tests.sim.judge.tiers import INPUTS_MAX, asked_for, held_wrongly, tiered_wrongly

__all__ = ["InForce", "planned_wrongly"]


class InForce(NamedTuple):
    """What a coordinator may have gone by."""

    manifests: Sequence[Json]
    configs: Sequence[Settings]
    since_ms: int  # by the true clock, less what a clock may err
    until_ms: int
    deleted: bool  # a version of the topic says that it is gone
    states: Sequence[Json] = ()  # `.compactor` files, before the one that is judged
    inputs_max: int = INPUTS_MAX
    merged: Mapping[str, frozenset[str]] = {}  # by source: all that its merge took
    moves_max: int = MOVES_MAX
    others: Collection[str] = ()  # homes that are another warehouse's


def planned_wrongly(job: Json, known: InForce, *, paused: bool | None) -> str | None:
    """`paused`: what its coordinator was told; None: it goes by the configuration."""
    clock_ms = job["plan"]["rules"]["clock_ms"]
    if not known.since_ms <= clock_ms <= known.until_ms:
        return f"goes by the clock {clock_ms}, and it is between {known.since_ms} and {known.until_ms} (P9)"
    found = ""
    for manifest in reversed(known.manifests):
        for config in reversed(known.configs):
            wrong = next(_wrong(job, manifest, config, known, paused=paused), None)
            if wrong is None:
                return None
            found = found or wrong
    return found or None


def _wrong(job: Json, manifest: Json, config: Settings, known: InForce, *, paused: bool | None) -> Iterator[str]:
    plan, clock_ms = job["plan"], job["plan"]["rules"]["clock_ms"]
    if manifest.get("sealed"):
        yield "is admitted in a sealed partition (P21)"
    if manifest.get("quarantine") is not None:
        yield "is admitted in quarantine (R6)"
    if paused or (paused is None and config.paused):
        yield "is admitted while compaction is paused (RFC 0008)"
    if job["kind"] == "relocate":
        yield from _relocation(job, manifest, config, known)
        return
    held = set(job["segments"])
    units = units_of(manifest)
    chosen: list[Unit] = []
    for unit in units:
        taken = [each for each in unit.segments if each["id"] in held]
        if not taken:
            continue
        chosen.append(unit if len(taken) == len(unit.segments) else as_unit(unit.id, taken, is_run=True))
        divides = config.order == "key" and unit.segments[0].get("order", "key") == "offset"
        if len(taken) < len(unit.segments) and not (divides and taken == list(unit.segments[: len(taken)])):
            yield "holds a part of a run, and not the first of what it has to sort (P8)"
    yield from _sources(job, manifest, config, units, chosen)
    yield from _tier(job, manifest, config, chosen, known)
    old = all(is_old(unit, config, clock_ms) for unit in chosen)
    rules, drops = plan["rules"], config.compacted and old
    others = [each["min_offset"] for each in segments_of(manifest) if each["id"] not in held]
    expected = {
        "order": config.order,
        "drop_superseded": drops,
        "drop_keyless": drops,
        "floor": log_start(manifest, clock_ms),
        "coverage_offset": min(others, default=manifest.get("next_offset", 0)),
        "buckets": [bucket[0] for bucket in index_of(manifest)],
        "stamp_horizon_ms": _horizon(config, clock_ms) if job["kind"] == "clean" else None,
    }
    for name, value in expected.items():
        if rules.get(name) != value:
            yield f"freezes {name} as {rules.get(name)}, it is {value} (P9)"
    if job["kind"] == "clean" and not drops:
        yield "is called a clean, and drops nothing (R4)"
    if plan["output_bytes"] != config.output_bytes:
        yield f"cuts its outputs at {plan['output_bytes']}, not at {config.output_bytes} (R5)"


def _relocation(job: Json, manifest: Json, config: Settings, known: InForce) -> Iterator[str]:
    found = ""
    for state in known.states or ({},):
        held = {name for each in state.get("jobs", ()) for name in each.get("segments", ())}
        asked = [
            each.get("home", "")
            for each in state.get("jobs", ())
            if each["status"] == "submitted" and each.get("kind") == "relocate"
        ]
        wrong = next(admitted_wrongly(job, manifest, config, held, asked, known.moves_max), None)
        if wrong is None:
            return
        found = wrong
    yield found


def _horizon(config: Settings, clock_ms: int) -> int:
    return min(clock_ms + config.tombstones_ms, LARGEST - 1)


def _sources(
    job: Json, manifest: Json, config: Settings, units: Sequence[Unit], chosen: Sequence[Unit]
) -> Iterator[str]:
    """What was asked for, or what a debt asks for."""
    clock_ms, named = job["plan"]["rules"]["clock_ms"], {unit.id for unit in chosen}
    if job["origin"] == "manual":
        down = config.compacted and units[0].id in named and all(is_old(unit, config, clock_ms) for unit in chosen)
        if (job["kind"] == "clean") != down:
            yield f"is a {job['kind']}, though it {'reaches' if down else 'does not reach'} down to the oldest (P15)"
        if named != {unit.id for unit in asked_for(job.get("requested", ()), config, units, clock_ms)}:
            yield "takes other sources than it was asked for (P15)"
    elif job["kind"] == "clean":
        if named != {unit.id for unit in cleanable(units, config, clock_ms)}:
            yield "cleans other than all that lies below the first young record (C4)"
        if next(iter(dues_of_cleaning(manifest, config, clock_ms)), None) is None:
            yield "cleans, and no debt asks for it (RFC 0008)"


def _tier(job: Json, manifest: Json, config: Settings, chosen: Sequence[Unit], known: InForce) -> Iterator[str]:
    clock_ms, scheduled = job["plan"]["rules"]["clock_ms"], job["origin"] != "manual" and job["kind"] == "tier"
    wrong = held_wrongly(chosen, config, known.inputs_max, first=scheduled)
    if wrong is not None:
        yield wrong
    if scheduled:
        states = known.states or ({},)
        found = [tiered_wrongly(manifest, config, chosen, clock_ms, state, known.inputs_max) for state in states]
        if all(found):
            yield found[-1] or ""
