"""Sabotages of the rule about attempts at a job, and what is counted of them (P14)."""

from tests.sim.sabotage_line import Sabotage

__all__ = ["OF_ATTEMPTS"]


OF_ATTEMPTS = (
    Sabotage(
        "failures are not counted",
        "P14",
        "compactor/failures.py",
        "        count += 1\n",
        "        count = 1\n",
    ),
    Sabotage(
        "an engine that is down is the job's failure",
        "P14",
        "compactor/failures.py",
        "elif error.blames_job:",
        'elif error.category not in ("store_denied", "unavailable"):',
    ),
    Sabotage(
        "refused access counts as the job's failure",
        "P14",
        "compactor/failures.py",
        "elif error.blames_job:",
        'elif error.category not in ("engine_down", "unavailable"):',
    ),
    Sabotage(
        "an unavailable store counts as the job's failure",
        "P14",
        "compactor/failures.py",
        "elif error.blames_job:",
        'elif error.category not in ("engine_down", "store_denied"):',
    ),
    Sabotage(
        "a claim counts what its own coordinator began",
        "P14",
        "compactor/coordinator.py",
        "self._owner = self._owner or await NewId()",
        "self._owner = await NewId()",
        focus="outages",
    ),
    Sabotage(
        "the first job whose compactor dies is blamed",
        "P14",
        "compactor/job_edits.py",
        "category = Category.ENGINE if runs_alone(failure_of(state, job.segments)) else Category.ENGINE_LOST",
        "category = Category.ENGINE",
    ),
    Sabotage(
        "a manual request inherits earlier failures",
        "P14",
        "compactor/job_edits.py",
        'forgiven = source_set(job.segments) if job.origin == "manual" else ""',
        'forgiven = ""',
    ),
    Sabotage(
        "what was given up is never tried again",
        "P14",
        "compactor/policy.py",
        "if failure is None or _again_in_ms(failure, reading.now_ms) == 0:",
        "if failure is None:",
    ),
    Sabotage(
        "a job that failed too often begins anew at once",
        "P14",
        "compactor/failures.py",
        "if error is None or error.category != Category.GIVEN_UP or too_often(job) is None:",
        "if True:",
    ),
    Sabotage(
        "an engine that died is the job's failure",
        "P14",
        "compactor/failures.py",
        "if error.category == Category.ENGINE_LOST:\n        lost += 1\n    elif error.blames_job:",
        "if error.blames_job:",
    ),
    Sabotage(
        "an ended job keeps its plan and outputs",
        "P14",
        "compactor/job_edits.py",
        "history = (*head.history, summed_up(finished))[-HISTORY_MAX:]",
        "history = (*head.history, finished)[-HISTORY_MAX:]",
    ),
    Sabotage(
        "a compactor told to stop continues",
        "P12",
        "compactor/attempt.py",
        "            stop = await StopAsked()\n",
        "            stop = await StopAsked() and False\n",
    ),
    Sabotage(
        "after an unknown outcome it goes on under its claim",
        "P14",
        "compactor/coordinator.py",
        "            self._epoch = None\n            if self._main",
        "            if self._main",
    ),
    Sabotage(
        "a job whose cancellation was read continues",
        "P15",
        "compactor/wishes.py",
        "    if known is not None and known.cancel_requested:\n",
        "    if known is not None and known.cancel_requested is None:\n",
    ),
    Sabotage(
        "what is to be cancelled is committed",
        "P15",
        "compactor/attempt.py",
        "        heed_cancel(self.files, job.id)\n",
        "",
    ),
    Sabotage(
        "verification does not check for a stop",
        "P12",
        "compactor/attempt.py",
        "intact.add(done.index)\n            await self._go_on(job)\n",
        "intact.add(done.index)\n            await self._show_life()\n",
    ),
    Sabotage(
        "planning does not check for a stop",
        "P12",
        "compactor/split.py",
        "        await heed(files, None if request is None else request.id)\n",
        "",
    ),
    Sabotage(
        "a job whose topic is deleted fails",
        "P21",
        "compactor/attempt.py",
        "if isinstance(refusal, NotFound):\n            return await self._end_deleted(job)",
        "if isinstance(refusal, NotFound):\n"
        '            return await self.finish(job, "failed", "no topic", JobError("invalid", "no topic"))',
        focus="deleted",
    ),
    Sabotage(
        "a long engine outage gives a job up",
        "P14",
        "compactor/job_edits.py",
        "failed_attempts=job.failed_attempts + self.error.blames_job)",
        "failed_attempts=job.failed_attempts + 1)",
        focus="outages",
    ),
)
