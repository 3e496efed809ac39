"""Sabotages of what several coroutines of a service, and several services, do to one partition (docs/rfcs/0014)."""

from tests.sim.sabotage_line import Sabotage

__all__ = ["OF_TURNS"]


OF_TURNS = (
    Sabotage(
        "an idle owner is taken over at once",
        "P5",
        "compactor/standby.py",
        "if seen is None or not young(seen.since_ms, now_ms, LEASE_MS):",
        "if True:",
    ),
    Sabotage(
        "relief ends the job that runs",
        "P15",
        "compactor/relief.py",
        "[job for job in state.jobs if job.id != first and job.status",
        "[job for job in state.jobs if job.status",
    ),
    Sabotage(
        "an unknown outcome of the relief is not settled by a claim",
        "P14",
        "compactor/coordinator.py",
        "self._main._epoch = None",
        "self._main._epoch = self._epoch or self._main._epoch",
        focus="services",
    ),
    Sabotage(
        "a job begins while its partition is relieved",
        "P8",
        "compactor/service.py",
        "return None if self.beside else Place(self.keys, beside=True)",
        "return None",
    ),
    Sabotage(
        "the relief reserves no room",
        "P14",
        "compactor/coordinator.py",
        "        if needed.input_bytes and not await _room(needed):\n"
        "            return deferred(needed.input_bytes)\n        match action:",
        "        match action:",
    ),
    Sabotage(
        "a standby never claims",
        "P5",
        "compactor/standby.py",
        "if seen is None or not young(seen.since_ms, now_ms, LEASE_MS):",
        "if seen is None:",
    ),
    Sabotage(
        "a job foreseen before the claim is done whatever was appended since",
        "P9",
        "compactor/coordinator.py",
        "if foreseen is not None and not claimed.repeated and claimed.version.number == manifest.id + 1:",
        "if foreseen is not None:",
    ),
    Sabotage(
        "a job is admitted with the claim, whatever jobs there are",
        "P15",
        "compactor/job_edits.py",
        "            case Next(state, _) if state.jobs or state.failures:\n                return Next(state, False)\n",
        "",
    ),
    Sabotage(
        "what is prepared is begun",
        "P10",
        "compactor/early.py",
        "from lithify.compactor.engine import PrepareTasks",
        "from lithify.compactor.engine import StartTasks as PrepareTasks",
    ),
    Sabotage(
        "what is prepared may write",
        "P10",
        "segment/execute.py",
        "while may_write is not None and not may_write.wait(_CANCELLED_LOOK_S):",
        "while False:",
        test="tests/compactor/test_early_tasks.py::test_a_task_writes_nothing_before_it_may",
    ),
    Sabotage(
        "a claim goes by a look of before its owner began",
        "P5",
        "compactor/served.py",
        "if looked is not None and (looked.state is None or not looked.state.owner):",
        "if looked is not None:",
        test="tests/compactor/test_claims_after_looks.py::test_an_owner_that_began_a_job_meanwhile_keeps_the_partition",
    ),
    Sabotage(
        "a lease is ten minutes",
        "P5",
        "compactor/policy.py",
        "LEASE_MS = 30_000",
        "LEASE_MS = 600_000",
    ),
    Sabotage(
        "retiring segments is not a sign of life",
        "P5",
        "compactor/standby.py",
        " and before.live <= now.live",
        "",
    ),
    Sabotage(
        "a working owner shows no sign of life to a standby",
        "P5",
        "compactor/standby.py",
        "silent = before.heartbeat_at_ms == heartbeat_at_ms and before.live <= now.live",
        "silent = True",
    ),
    Sabotage(
        "a pause is a part of the lease",
        "P5",
        "compactor/coordinator.py",
        "        self._watched = None\n        await self._end_planning()",
        "        await self._end_planning()",
        focus="services",
    ),
    Sabotage(
        "a clock that steps back ends the lease",
        "P5",
        "compactor/standby.py",
        "if before is None or before.since_ms > now_ms:",
        "if before is None:",
    ),
    Sabotage(
        "who leaves stays the owner",
        "P5",
        "compactor/job_edits.py",
        'replace(head, owner="", planning=False)',
        "replace(head, planning=False)",
    ),
    Sabotage(
        "who leaves goes by no epoch",
        "P5",
        "compactor/job_edits.py",
        "class Leave(_Owned):",
        "class Leave(_Owned):\n    def apply(self, head, number, now_ms):\n        return self.change(head, now_ms)\n",
        test="tests/compactor/test_leaving.py::test_the_edit",
    ),
    Sabotage(
        "who leaves leaves in the middle of its work",
        "P5",
        "compactor/job_edits.py",
        "if not head.owner or any(a.ended_at_ms is None for job in head.jobs for a in job.attempts):",
        "if not head.owner:",
        test="tests/compactor/test_leaving.py::test_the_edit",
    ),
)
