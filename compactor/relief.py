"""What may be done in a partition while one of its jobs runs. Pure."""

from lithify.compactor.needs import SHORT_BYTES
from lithify.compactor.policy import (
    Drop,
    Propose,
    Resume,
    Settle,
    Wait,
    dropped,
    pressing,
    resumed,
    settled,
    stopped,
)
from lithify.manifest.debt import assess
from lithify.manifest.jobs import Job
from lithify.manifest.model import Manifest
from lithify.manifest.reading import Reading

__all__ = ["relief"]


def relief(reading: Reading, first: str) -> Settle | Drop | Resume | Propose | Wait:
    """The next action beside the running job `first`: only what appends or retention would otherwise stop for until it
    ends, on segments that no job holds (docs/rfcs/0014)."""
    manifest, state, _, _ = reading
    committed = {done.id for done in manifest.completed_jobs}
    # SUBTLE! Nothing beside a job that has committed, either. 1. `first` divides a run and commits: the rest is free.
    # 2. A merge here takes the rest with others. 3. `.compactor` records the end of `first`, and a waiting request for
    # the rest no longer finds it (P15). Test: tests/compactor/test_relief_policy.py
    if manifest.sealed or first in committed or not any(j.id == first and j.plan is not None for j in state.jobs):
        return Wait("that job is about to finish")
    others = [job for job in state.jobs if job.id != first and job.status == "in_progress"]
    end = next((end for end in (settled(job, manifest, committed) for job in others) if end is not None), None)
    if end is not None:
        return end
    debt = assess(reading)
    before = dropped(debt, manifest) or stopped(reading)
    if before is not None:
        return before
    left = (resumed(job, reading) for job in others if _relieves(job, manifest))
    begun = next((action for action in left if not isinstance(action, Wait)), None)
    return begun or pressing(debt, reading)


def _relieves(job: Job, manifest: Manifest) -> bool:
    """Whether the relief may resume it: a job that could have begun here. Not a long one: it would block the
    partition's own turns until it ends, with nothing to relieve it."""
    if job.plan is None or job.kind != "tier" or job.origin != "scheduler":
        return False
    return job.plan.input_bytes <= SHORT_BYTES or {s.id for s in manifest.l0}.issuperset(job.segments)
