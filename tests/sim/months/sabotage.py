"""Sabotages of the product that the months must notice, each in the days of a short history.

Some are of what a history of minutes cannot tell from being slow: a debt that is never ranked, a list that grows by one
with each job, a partition that nobody comes back to.
"""

from tests.sim.sabotage_line import Sabotage

__all__ = ["SABOTAGES"]

SABOTAGES = (
    Sabotage(
        "what is overdue is never ranked",
        "RFC 0008",
        "manifest/debt.py",
        "(self._clean_overdue, compacted)",
        "(self._clean_overdue, False)",
    ),
    Sabotage(
        "a pass leaves the numbers that it made dead",
        "RFC 0005",
        "gc/collect.py",
        "        refused += await delete(freed)\n    kept = [",
        "        refused += []\n    kept = [",
    ),
    Sabotage(
        "a completed job is never forgotten",
        "P13",
        "compactor/attempt.py",
        "forget=tuple(d.id for d in completed if d.id not in active)",
        "forget=()",
    ),
    Sabotage(
        "a standby never claims",
        "RFC 0014",
        "compactor/standby.py",
        'be about to begin" if may_come else None',
        'be about to begin" if seen is not None else None',
    ),
)
