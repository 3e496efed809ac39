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
        "forget = tuple(d.id for d in completed if d.id not in active)",
        "forget: tuple[str, ...] = ()",
    ),
    Sabotage(
        "a standby never claims",
        "RFC 0014",
        "compactor/standby.py",
        "if seen is None or not young(seen.since_ms, now_ms, LEASE_MS):",
        "if seen is None:",
    ),
    Sabotage(
        "who has rested for long is never asked again",
        "RFC 0026",
        "manifest/rests.py",
        "(rests.bound_ms - rests.round_ms) // 2",
        "1 << 50",
    ),
    Sabotage(
        "what falls due by time does not end a rest",
        "RFC 0026",
        "compactor/served.py",
        "drive(coordinator.still_waits(self.topic.config), answers) if self._resting else None",
        'Step(StepEnd.IDLE, "at rest") if self._resting else None',
    ),
)
