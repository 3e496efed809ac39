"""Why a decision leaves each unit of a partition alone. Pure."""

from lithify.manifest.ages import latest_cleanable_ms
from lithify.manifest.compacted import is_clean
from lithify.manifest.debt import Debt, Due, NotDue
from lithify.manifest.reading import Reading
from lithify.manifest.units import Unit
from lithify.manifest.words import span_text

__all__ = ["left_out"]


def left_out(debt: Debt, reading: Reading, due: Due | None) -> tuple[NotDue, ...]:
    """Why each unit outside `due` is left alone, in the manifest's order. `debt`: what `assess` returned for the same
    reading."""
    manifest, _, config, now_ms = reading
    held = reading.held
    chosen = frozenset[str]() if due is None else frozenset(unit.id for unit in due.units)
    young = _young(debt)
    takers = {unit.id: each.debt.text for each in reversed(debt.all_due) for unit in each.units}

    latest_ms = latest_cleanable_ms(config, now_ms)

    def reason(unit: Unit) -> str:
        if held and not held.isdisjoint(s.id for s in unit.segments):
            return "an active job holds it"
        if unit.max_offset < debt.log_start_offset:
            return "below the log start offset: a drop retires it"
        if unit.id in takers:
            return f"other work that is due will take it: {takers[unit.id]}"
        if unit.id not in young:
            clean = config.compacted and is_clean(unit, manifest.cleaned_to)
            return "already clean" if clean else "no work that is due needs it"
        if unit.max_timestamp_ms > latest_ms:
            wait_ms = unit.max_timestamp_ms + config.min_compaction_lag_ms - now_ms
            return f"younger than min.compaction.lag.ms, for another {span_text(wait_ms)}"
        return "it comes after one that is younger than min.compaction.lag.ms"

    return tuple(NotDue(unit.id, reason(unit)) for unit in debt.units if unit.id not in chosen)


def _young(debt: Debt) -> frozenset[str]:
    """The units that may not be cleaned yet: mostly none."""
    if len(debt.cleanable) == len(debt.units):
        return frozenset()
    return frozenset(unit.id for unit in debt.units) - {unit.id for unit in debt.cleanable}
