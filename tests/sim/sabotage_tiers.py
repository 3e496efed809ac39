"""Sabotages of what a tier takes (docs/rfcs/0008): neighbours of one age, all that a debt asks for, and no more than
one merge holds."""

from tests.sim.sabotage_line import Sabotage

__all__ = ["OF_TIERS"]

OF_TIERS = (
    Sabotage(
        "C4: pressure merges young with old",
        "R4",
        "manifest/debt.py",
        "chosen = max(groups, key=len)",
        "chosen = free",
    ),
    Sabotage(
        "C4: a tier crosses the lag",
        "R4",
        "manifest/debt.py",
        "        loose = [u for u in self.old if not u.is_run]",
        "        loose = [u for u in self.units if not u.is_run]",
    ),
    Sabotage(
        "nothing is sorted first",
        "R5",
        "compactor/plan.py",
        "    if sum(unit.bytes for unit in chosen) <= target_bytes:\n        return ()",
        "    if chosen:\n        return ()",
    ),
    Sabotage(
        "more is sorted at once than an output holds",
        "R5",
        "compactor/plan.py",
        "    room = target_bytes\n",
        "    room = 20 * target_bytes\n",
    ),
    Sabotage(
        "any number of inputs is merged at once",
        "R5",
        "compactor/plan.py",
        "if len(chosen) <= 2 or (excess_bytes <= 0 and excess <= 0):",
        "if chosen:",
    ),
)
