"""A job's life, from its birth to its end: every edit on a job in every status does what the table of lives says."""

from typing import Any, get_args

import pytest
from msgspec.structs import replace

from lithify.compactor import claim_edits, job_edits, request_edits
from lithify.compactor.claim_edits import ClaimAndAdmit
from lithify.compactor.job_edits import (
    Admit,
    ClaimState,
    Discard,
    EndAttempt,
    EndPlanning,
    Finish,
    Heartbeat,
    Leave,
    Record,
    ShowPlanning,
    StartAttempt,
)
from lithify.compactor.request_edits import RequestCancel, Submit
from lithify.manifest.edits import Next
from lithify.manifest.invariants import check_compactor
from lithify.manifest.jobs import LIVES, Attempt, CompactorState, Ended, Job, MergeCounts, RangeDone, Status, summed_up
from lithify.manifest.reading import first_state
from tests.protocol.scene import FIRST, at, job

EPOCH = 3
BLANK = replace(at(first_state(FIRST), 8), nonce="n", epoch=EPOCH, owner="me")
ADMITTED = job()
REQUEST = job(status="submitted", origin="manual", plan=None, segments=(), sources=())
OPEN = Attempt(number=1, epoch=EPOCH, worker="me:1", started_at_ms=0)
RECORDED = RangeDone(index=0, attempt=1, outputs=(), counts=MergeCounts())
STATUSES: tuple[Any, ...] = (None, *get_args(Status))

EDITS = (
    ClaimState(BLANK, EPOCH + 1, "another", "another:1"),
    ClaimAndAdmit(ClaimState(BLANK, EPOCH + 1, "another", "another:1"), Admit(EPOCH + 1, ADMITTED)),
    Submit(BLANK, REQUEST),
    RequestCancel(ADMITTED.id),
    Heartbeat(EPOCH),
    ShowPlanning(EPOCH),
    EndPlanning(EPOCH),
    Leave(EPOCH),
    Admit(EPOCH, ADMITTED),
    StartAttempt(EPOCH, ADMITTED.id, 2, "me:1"),
    Discard(EPOCH, ADMITTED.id, frozenset()),
    Record(EPOCH, ADMITTED.id, (replace(RECORDED, index=1),)),
    EndAttempt(EPOCH, ADMITTED.id, None),
    *(Finish(EPOCH, ADMITTED.id, end, "why") for end in get_args(Ended)),
)


def in_status(status: Status | None) -> CompactorState:
    """A job in `status`, which has an attempt and a recorded range if it was ever admitted."""
    begun = replace(ADMITTED, attempts=(OPEN,), done=(RECORDED,))
    match status:
        case None:
            return BLANK
        case "submitted":
            return replace(BLANK, jobs=(REQUEST,))
        case "in_progress":
            return replace(BLANK, jobs=(begun,), planning=True)
        case _:
            return replace(BLANK, history=(summed_up(replace(begun, status=status)),))


def becomes(edit: Any, status: Status | None) -> Job | None:
    """The job after `edit`; each commit is one that the invariants let pass."""
    head = in_status(status)
    verdict = edit.apply(head, 9, 1_000)
    if not isinstance(verdict, Next):
        return head.job(ADMITTED.id)
    following = replace(at(verdict.value, 9), nonce="m")
    check_compactor(head, following)
    return following.job(ADMITTED.id)


@pytest.mark.parametrize("status", STATUSES)
@pytest.mark.parametrize("edit", EDITS, ids=lambda edit: "-".join((type(edit).__name__, getattr(edit, "status", ""))))
def test_an_edit_changes_a_status_as_the_table_says_and_no_other(edit: Any, status: Status | None) -> None:
    after = becomes(edit, status)
    may = LIVES.get(type(edit).__name__, {}).get(status)
    assert (None if after is None else after.status) in (may or {status})


def test_all_that_the_table_allows_comes_about() -> None:
    """Else it would let an edit pass that does what none of them does."""
    found: dict[str, dict[Status | None, set[Status]]] = {}
    for edit in EDITS:
        for status in STATUSES:
            after = becomes(edit, status)
            if after is not None and after.status != status:
                found.setdefault(type(edit).__name__, {}).setdefault(status, set()).add(after.status)
    assert found == LIVES


def test_every_edit_is_tried() -> None:
    found = [(name, getattr(each, name)) for each in (claim_edits, job_edits, request_edits) for name in each.__all__]
    edits = {name for name, edit in found if hasattr(edit, "apply")}
    assert {type(edit).__name__ for edit in EDITS} == edits


@pytest.mark.parametrize("edit", EDITS, ids=lambda edit: "-".join((type(edit).__name__, getattr(edit, "status", ""))))
@pytest.mark.parametrize("status", get_args(Ended))
def test_what_has_ended_stays_as_it_is(edit: Any, status: Ended) -> None:
    assert becomes(edit, status) == in_status(status).job(ADMITTED.id)
