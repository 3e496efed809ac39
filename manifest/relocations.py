"""The edits of a manifest by which segments change their home (docs/rfcs/0031; P13, P16, P21). Pure."""

from collections.abc import Sequence
from dataclasses import dataclass

from msgspec.structs import replace

from lithify.manifest.claims import fenced
from lithify.manifest.config import LONG_MAX
from lithify.manifest.edits import Already, Next, Refused
from lithify.manifest.homes import HERE, named_homes
from lithify.manifest.jobs import CompactorState
from lithify.manifest.model import (
    COMPLETED_JOBS_MAX,
    FORMAT,
    FORMAT_HOMES,
    HOMES_MAX,
    RETIRED_MAX,
    CompletedJob,
    Manifest,
    SegmentRef,
)
from lithify.manifest.pins import waiting_text
from lithify.manifest.refusals import not_created, topic_gone
from lithify.manifest.retired import retire
from lithify.store.errors import InvalidRequest, LithifyError, Unavailable

__all__ = ["CommitRelocation", "ForgetHomes", "UseHome", "may_upload"]


def may_upload(state: CompactorState | None, home: str) -> bool:
    """Whether a job may upload to `home`: one that is not completed, even one that has ended, as long as its name
    protects its outputs (P10)."""
    jobs = () if state is None else (*state.jobs, *state.history)
    return any(job.relocates and job.home == home and job.status != "completed" for job in jobs)


@dataclass(frozen=True, slots=True)
class UseHome:
    """Note that segments may be uploaded to `home`, after the job was admitted and before any is uploaded (P18).

    SUBTLE! It commits even if the home is noted already. 1. A sweep reads head 7, and finds the home empty. 2. A job is
    admitted, and finds the home noted. 3. The sweep forgets the home (`ForgetHomes`, of head 7). 4. The job's worker
    copies a segment there and dies. Now nothing names that home, no sweep lists it, and the copy stays for ever.
    Because this makes head 8, step 3 does nothing. Test: tests/protocol/test_p18_sweep_of_homes.py
    """

    epoch: int
    home: str

    repeatable = True
    frees = False

    def apply(self, head: Manifest | None, number: int, now_ms: int) -> Next[Manifest, None] | Already[None] | Refused:
        if head is None:
            return not_created()
        lost = fenced(head.topic, head.partition, head.compactor_epoch, self.epoch)
        if lost is not None:
            return Refused(lost)
        if head.sealed:
            return Refused(topic_gone(head))
        if self.home == HERE:
            return Already(None)
        homes = head.homes if self.home in head.homes else (*head.homes, self.home)
        if len(homes) > HOMES_MAX:
            where = f"{head.topic}/{head.partition}"
            return Refused(InvalidRequest(f"{where} has segments in {HOMES_MAX} homes already: recall some of them"))
        return Next(replace(head, format=FORMAT_HOMES, homes=homes), None)


@dataclass(frozen=True, slots=True)
class ForgetHomes:
    """Forget homes in which a sweep found nothing, and in which no segment is or may be (P18).

    `at`: the number of the manifest that was read before the home was listed. What was noted after it is not known, so
    the edit does nothing if there is a later one.
    """

    homes: tuple[str, ...]
    at: int

    repeatable = True
    frees = True

    def apply(self, head: Manifest | None, number: int, now_ms: int) -> Next[Manifest, None] | Already[None] | Refused:
        if head is None:
            return not_created()
        gone = frozenset(self.homes) - named_homes(head)
        left = tuple(home for home in head.homes if home not in gone)
        if head.id != self.at or left == head.homes:
            return Already(None)
        return Next(replace(head, format=FORMAT_HOMES if left else FORMAT, homes=left), None)


@dataclass(frozen=True, slots=True)
class CommitRelocation:
    """Replace each segment that the job holds by its copy in another home, in the same place (P13). The copy has a new
    id (P21) and holds the same bytes, so nothing else changes."""

    epoch: int
    job: str
    copies: tuple[tuple[str, SegmentRef], ...]  # the id of each segment that the job holds, and its copy
    forget: tuple[str, ...]  # completed jobs that have ended in `.compactor`
    config_at: int = LONG_MAX  # the configuration's version that was checked to allow the move

    repeatable = True  # by the job id
    frees = True

    def apply(self, head: Manifest | None, number: int, now_ms: int) -> Next[Manifest, None] | Already[None] | Refused:
        if head is None:
            return not_created()
        if any(done.id == self.job for done in head.completed_jobs):
            return Already(None)
        lost = fenced(head.topic, head.partition, head.compactor_epoch, self.epoch)
        if lost is not None:
            return Refused(lost)
        jobs = (*(d for d in head.completed_jobs if d.id not in self.forget), CompletedJob(self.job, number))
        refused = self._refusal(head, len(jobs))
        if refused is not None:
            return Refused(refused)
        copies = {each: _arrived(copy, now_ms) for each, copy in self.copies}

        def moved(segments: Sequence[SegmentRef]) -> tuple[SegmentRef, ...]:
            return tuple(replace(copies[s.id], added_at=number) if s.id in copies else s for s in segments)

        left = [segment for segment in head.segments() if segment.id in copies]
        value = replace(
            head,
            runs=tuple(replace(run, segments=moved(run.segments)) for run in head.runs),
            retired=(*head.retired, *retire(left, number)),
            completed_jobs=jobs,
        )
        return Next(value, None)

    def _refusal(self, head: Manifest, jobs: int) -> LithifyError | None:
        where = f"{head.topic}/{head.partition}: job {self.job}"
        if head.sealed:
            return topic_gone(head)
        if head.config_at > self.config_at:
            return Unavailable(f"{where}: the topic was altered in the meantime; the job must be checked again")
        live = {segment.id: segment for run in head.runs for segment in run.segments}
        gone = [each for each, _ in self.copies if each not in live]
        if gone:
            return InvalidRequest(f"{where}: {len(gone)} of its segments are no longer in a run ({min(gone)} …)")
        if any(_as_it_was(copy, live[s]) != live[s] for s, copy in self.copies):
            return InvalidRequest(f"{where}: a copy is not what it was copied from")
        unknown = sorted({copy.home for _, copy in self.copies} - {HERE, *head.homes})
        if unknown:
            return InvalidRequest(f"{where}: home {unknown[0]} was not noted before anything was copied there")
        if jobs > COMPLETED_JOBS_MAX:
            return Unavailable(f"{where}: too many completed jobs wait to be recorded in .compactor; retry later")
        if len(head.retired) + len(self.copies) > RETIRED_MAX:
            return Unavailable(f"{where}: {waiting_text(head)}")
        return None


def _arrived(copy: SegmentRef, now_ms: int) -> SegmentRef:
    """A class's minimum storage duration counts from then on. In the warehouse nothing counts."""
    return replace(copy, moved_ms=0 if copy.home == HERE else now_ms)


def _as_it_was(copy: SegmentRef, was: SegmentRef) -> SegmentRef:
    """`copy`, with what a move changes as it is in `was`."""
    return replace(copy, id=was.id, home=was.home, added_at=was.added_at, moved_ms=was.moved_ms)
