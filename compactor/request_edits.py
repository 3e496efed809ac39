"""Edits of `.compactor` that any process may make: a request for a compaction, and for its end. The compactor decides
about both (P15). Pure."""

from dataclasses import dataclass

from msgspec.structs import replace

from lithify.manifest.edits import Already, Next, Refused
from lithify.manifest.jobs import REQUESTS_MAX, CompactorState, Job
from lithify.manifest.keys import SegmentId
from lithify.store.errors import InvalidRequest, NotFound, Unavailable

__all__ = ["RequestCancel", "Submit"]


@dataclass(frozen=True, slots=True)
class Submit:
    """A manual request, only written down here: the compactor decides at admission (P15)."""

    first: CompactorState  # an empty state at the manifest's epoch
    job: Job
    once: bool = False  # the id's digits come from the requester's own key: an earlier job with them is this request

    # SUBTLE! Not repeatable: it recognises itself by the job id only while the bounded history knows the job. 1. The
    # number of the request dies. 2. The job is done, and forgotten. 3. A repeated request would do it again. Test:
    # tests/protocol/test_p15_requests.py
    repeatable = False
    frees = False

    def apply(
        self, head: CompactorState | None, number: int, now_ms: int
    ) -> Next[CompactorState, Job] | Already[Job] | Refused:
        state = head or self.first
        known = state.job(self.job.id) or (self._earlier(state) if self.once else None)
        if known is not None:
            return Already(known)
        if sum(job.status == "submitted" for job in state.jobs) >= REQUESTS_MAX:
            where = f"{state.topic}/{state.partition}"
            return Refused(Unavailable(f"{where} has {REQUESTS_MAX} waiting requests, its limit; cancel one"))
        asked = replace(self.job, created_at_ms=now_ms)
        state = replace(state, jobs=(*state.jobs, asked))
        return Next(replace(state, format=max(state.format, state.format_needed)), asked)

    def _earlier(self, state: CompactorState) -> Job | None:
        mine = SegmentId.job_nonce(self.job.id)
        return next((job for job in (*state.jobs, *state.history) if SegmentId.job_nonce(job.id) == mine), None)


@dataclass(frozen=True, slots=True)
class RequestCancel:
    """Ask for a job to be cancelled. Only the owner of the epoch ends it: otherwise garbage collection could delete
    what a running commit is about to name (P15)."""

    job: str

    repeatable = True
    frees = True

    def apply(
        self, head: CompactorState | None, number: int, now_ms: int
    ) -> Next[CompactorState, None] | Already[None] | Refused:
        job = None if head is None else head.job(self.job)
        if head is None or job is None:
            return Refused(
                NotFound(f"compaction {self.job} does not exist in this partition; see 'lithify compaction list'")
            )
        if job.status == "cancelled" or (job.active and job.cancel_requested):
            return Already(None)
        if not job.active:
            where = f"{head.topic}/{head.partition}: compaction {self.job}"
            return Refused(InvalidRequest(f"{where} has ended ({job.status}); there is nothing to cancel"))
        jobs = tuple(replace(each, cancel_requested=True) if each is job else each for each in head.jobs)
        return Next(replace(head, jobs=jobs), None)
