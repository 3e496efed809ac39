"""The edit of a `.compactor` file by which a claim also admits its first job (P5, P10). Pure."""

from dataclasses import dataclass

from lithify.compactor.job_edits import Admit, ClaimState
from lithify.manifest.edits import Already, Next, Refused
from lithify.manifest.jobs import CompactorState

__all__ = ["ClaimAndAdmit"]


@dataclass(frozen=True, slots=True)
class ClaimAndAdmit:
    """The second half of a claim, and the admission of the job that it was made for, in one write (docs/rfcs/0033).

    Answers whether the job is admitted. It is not if there are jobs or failures by then: what they mean for it was not
    considered, so it has to be decided anew.
    """

    claim: ClaimState
    admit: Admit

    repeatable = True  # as both are
    frees = True  # as the claim does

    def apply(
        self, head: CompactorState | None, number: int, now_ms: int
    ) -> Next[CompactorState, bool] | Already[bool] | Refused:
        claimed = self.claim.apply(head, number, now_ms)
        match claimed:
            case Refused():
                return claimed
            case Already():
                return Already(head is not None and head.job(self.admit.job.id) is not None)
            case Next(state, _) if state.jobs or state.failures:
                return Next(state, False)
            case Next(state, _):
                admitted = self.admit.change(state, now_ms)
                return Next(admitted.value, True) if isinstance(admitted, Next) else Next(state, False)
