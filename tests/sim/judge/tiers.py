"""What a scheduled tier may take, by RFC 0008: all that a debt asks for; or where one merge cannot hold that, or would
have to sort it, a part that comes first."""

from collections.abc import Iterator, Sequence
from itertools import dropwhile

from tests.sim.judge.debts import cleanable, dues_of_cleaning, is_old
from tests.sim.judge.homes import home_of
from tests.sim.judge.layout import Json, Unit, cleaned_to, units_of
from tests.sim.judge.settings import Settings

__all__ = ["INPUTS_MAX", "asked_for", "held_wrongly", "tiered_wrongly"]

INPUTS_MAX = 256  # RFC 0004
SIMILAR = 2  # RFC 0008: runs within this factor are on one step
PRESSURE = 0.75  # of l0.segments.max


def asked_for(requested: Sequence[str], config: Settings, units: Sequence[Unit], clock_ms: int) -> list[Unit]:
    """All that is old enough, or what the request names."""
    if requested:
        return [unit for unit in units if unit.id in requested]
    return [unit for unit in units if not config.compacted or is_old(unit, config, clock_ms)]


def held_wrongly(chosen: Sequence[Unit], config: Settings, inputs_max: int, *, first: bool) -> str | None:
    """What one merge may not hold. `first`: it is what comes before another, so one segment may be larger than an
    output."""
    size = sum(unit.bytes for unit in chosen)
    if len(chosen) > max(inputs_max, 2):
        return f"merges {len(chosen)} inputs at once, and one merge holds {inputs_max} (RFC 0004)"
    if _is_sorted_first(chosen, config) and not (first and sum(len(unit.segments) for unit in chosen) == 1):
        return f"sorts {size} bytes at once, and an output has {config.output_bytes} (RFC 0008)"
    return None


def tiered_wrongly(
    manifest: Json, config: Settings, chosen: Sequence[Unit], clock_ms: int, state: Json, inputs_max: int
) -> str | None:
    """`state`: the `.compactor` file that it was planned by."""
    held = {name for job in state.get("jobs", ()) for name in job.get("segments", ())}
    for work in _works(manifest, config, clock_ms, held):
        if _is_of(chosen, work, config, inputs_max):
            return None
    units = units_of(manifest)
    for job in state.get("jobs", ()):
        if job["status"] != "submitted":
            continue
        work = asked_for(job.get("requested", ()), config, units, clock_ms)
        if not _fits(work, config, inputs_max) and _is_of(chosen, work, config, inputs_max):
            return None
    return f"takes {[unit.id for unit in chosen]}, and no debt asks for just these (C4, RFC 0008)"


def _works(manifest: Json, config: Settings, clock_ms: int, held: set[str]) -> Iterator[Sequence[Unit]]:
    """All that some debt asks for, each by itself: never across the lag."""
    units = units_of(manifest)
    old = cleanable(units, config, clock_ms) if config.compacted else units
    names = {unit.id for unit in old}
    free = [unit for unit in units if not any(each["id"] in held for each in unit.segments)]
    loose = [unit for unit in free if not unit.is_run]
    ripe, young = ([unit for unit in loose if (unit.id in names) == is_ripe] for is_ripe in (True, False))
    runs = _tierable(manifest, config, [unit for unit in free if unit.is_run and unit.id in names])
    if len(ripe) >= config.l0_tier:
        yield ripe
        older = [run for run in runs if run.max_offset < ripe[0].min_offset]
        for more in range(config.runs_tier - 1, len(older) + 1):  # what its run would be merged with at once
            yield [*older[len(older) - more :], *ripe]
    if len(manifest.get("l0", ())) >= config.l0_max - config.l0_max // 4:
        yield max((ripe, young), key=len)
    ends_at = max((unit.max_offset for unit in old), default=-1)
    later = [run for run in free if run.is_run and run.max_offset > ends_at and run.max_offset >= cleaned_to(manifest)]
    for some in (runs, later):
        yield from (step for step in _steps(some) if len(step) >= config.runs_tier)
    cleans = config.compacted and len(names & {unit.id for unit in free}) == len(old)
    if cleans and next(iter(dues_of_cleaning(manifest, config, clock_ms)), None) is not None:
        yield old  # what comes before a clean


def _tierable(manifest: Json, config: Settings, runs: Sequence[Unit]) -> Sequence[Unit]:
    """The clean run is in no tier; nor, in the order of offsets, one as large as an output, or what is older."""
    if config.compacted:
        return [run for run in runs if run.max_offset >= cleaned_to(manifest)]
    full = [at for at, run in enumerate(runs, 1) if run.bytes >= config.output_bytes or _moved(run)]
    return runs[max(full, default=0) :]


def _moved(run: Unit) -> bool:
    """Whether a part of it is in another home, and would come back (RFC 0031)."""
    return any(home_of(each) for each in run.segments)


def _steps(runs: Sequence[Unit]) -> Iterator[Sequence[Unit]]:
    """From the youngest to the oldest; one behind a younger, larger one counts as of that size."""
    step: list[Unit] = []
    largest = least = 0
    for run in reversed(runs):
        largest = max(largest, run.bytes)
        if step and largest > SIMILAR * least:
            yield step[::-1]
            step = []
        least = least if step else largest
        step.append(run)
    yield step[::-1]


def _is_sorted_first(work: Sequence[Unit], config: Settings) -> bool:
    """What lies in the order of offsets is sorted by key before more than one output of it is merged."""
    return config.compacted and sum(unit.bytes for unit in work) > config.output_bytes and not all(map(_by_key, work))


def _by_key(unit: Unit) -> bool:
    return all(each.get("order", "key") == "key" for each in unit.segments)


def _fits(work: Sequence[Unit], config: Settings, inputs_max: int) -> bool:
    return len(work) <= max(inputs_max, 2) and not _is_sorted_first(work, config)


def _is_of(chosen: Sequence[Unit], work: Sequence[Unit], config: Settings, inputs_max: int) -> bool:
    """All of it, or the part that comes first."""
    if _is_sorted_first(work, config):
        return _begins(chosen, [*dropwhile(_by_key, work)])
    if _fits(work, config, inputs_max):
        return [*map(_whole, chosen)] == [*map(_whole, work)]
    ends = range(len(work) - len(chosen) + 1)
    return len(chosen) > 1 and any([*map(_whole, chosen)] == [*map(_whole, work[at : at + len(chosen)])] for at in ends)


def _begins(chosen: Sequence[Unit], work: Sequence[Unit]) -> bool:
    """From the oldest that is not in the order of keys on, of the last run perhaps its first segments alone."""
    there = [each["id"] for unit in work[: len(chosen)] for each in unit.segments]
    taken = [each["id"] for unit in chosen for each in unit.segments]
    return len(chosen) <= len(work) and bool(taken) and taken == there[: len(taken)] and not any(map(_by_key, chosen))


def _whole(unit: Unit) -> tuple[str, int]:
    return unit.id, len(unit.segments)
