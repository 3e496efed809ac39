"""Sabotages of planned reads (docs/rfcs/0021)."""

from tests.sim.sabotage_line import Sabotage

__all__ = ["OF_READS"]

OF_READS = (
    Sabotage(
        "a reader renews nothing",
        "P20",
        "log/held.py",
        "if pin.expires_at_ms is None or now_ms < _due_ms(pin.expires_at_ms, hold.ttl_ms):",
        "if pin.expires_at_ms is None or now_ms < pin.expires_at_ms:",
        focus="queries",
    ),
    Sabotage(
        "a dead manifest whose file is there is opened by its number",
        "P4",
        "log/held.py",
        "if found is None or found.value is None or (number <= _dead(files) and not pins):",
        "if found is None or found.value is None:",
        focus="queries",
    ),
    Sabotage(
        "the end of a range is pushed down to what supersedes",
        "R1",
        "segment/read_task.py",
        'return self.bounds if self.view == "log" else',
        "return self.bounds if self.view else",
    ),
    Sabotage(
        "a task goes on beyond its key range",
        "R1",
        "segment/read_plan.py",
        "replace(task.bounds, low=low, high=high)",
        "replace(task.bounds, low=low)",
    ),
    Sabotage(
        "two tasks share an offset",
        "R2",
        "segment/read_plan.py",
        "            first = cut\n",
        "            first = cut - 1\n",
        focus="queries",
    ),
    Sabotage(
        "appends are left out of a plan",
        "R2",
        "segment/read_plan.py",
        "l0 = tuple(ref for ref in task.l0 if may_hold(ref, wanted))",
        "l0 = ()",
    ),
    Sabotage(
        "a plan begins below the floor",
        "R3",
        "log/snapshot.py",
        "return max(start, self._floor)",
        "return start",
    ),
)
