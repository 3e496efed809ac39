"""P8: one admission gate for scheduler, manual requests and resume; the commit checks again."""

import pytest

from lithify.compactor.coordinator import Coordinator
from lithify.compactor.job_edits import Admit
from lithify.compactor.request_edits import RequestCancel, Submit
from lithify.manifest.edits import Already, Next, Refused
from lithify.manifest.jobs import CompactorState
from lithify.manifest.model import FORMAT
from lithify.manifest.partition import PartitionFiles
from lithify.manifest.reading import first_state
from lithify.store.errors import InvalidRequest
from tests.compactor.simulated_engine import with_engine
from tests.protocol.scene import CONFIG, KEYS, TOPIC_ID, append, appends, claim, compact, job, new_partition, replacing

OTHER = "000000000001-0000beef"


def state(**fields: object) -> CompactorState:
    plain = {"format": FORMAT, "topic": "t", "topic_id": TOPIC_ID, "partition": 0, "epoch": 1, "owner": "me"}
    return CompactorState(**{**plain, **fields})


def submitted(job_id: str, requested: tuple[str, ...] = ()) -> object:
    return job(
        job_id, status="submitted", origin="manual", kind=None, plan=None, segments=(), sources=(), requested=requested
    )


def test_a_segment_is_in_one_active_job() -> None:
    verdict = Admit(1, job(OTHER, segments=("s2", "s3"))).apply(state(jobs=(job(),)), 2, 0)
    assert isinstance(verdict, Refused)
    assert "s2 is in another active job" in str(verdict.error)


def test_a_finished_job_pins_nothing() -> None:
    done = job(status="failed")
    assert isinstance(Admit(1, job(OTHER)).apply(state(history=(done,)), 2, 0), Next)


def test_a_replayed_admission_changes_nothing() -> None:
    first = Admit(1, job()).apply(state(), 2, 5)
    assert isinstance(first, Next)
    assert isinstance(Admit(1, job()).apply(first.value, 3, 9), Already)


def test_a_request_cancelled_meanwhile_is_not_admitted() -> None:
    head = state(jobs=(submitted(OTHER),))
    asked = RequestCancel(OTHER).apply(head, 2, 0)
    assert isinstance(asked, Next)
    assert isinstance(Admit(1, job(OTHER)).apply(asked.value, 3, 0), Refused)


@pytest.mark.parametrize("change", ["gone", "half a run"])
def test_the_commit_takes_exactly_the_segments_that_the_job_holds(change: str) -> None:
    world, files = new_partition(), PartitionFiles(KEYS)
    epoch = world.alone(claim(files))
    world.alone(appends(files, 3))
    head = world.alone(files.head())
    if change == "gone":
        edit = replacing(head, head.l0[:2], epoch, job="000000000001-0000beef")
        world.alone(compact(files, epoch))
    else:
        two = replacing(head, head.l0, epoch)
        run = two.run.segments[0]
        cut = type(two.run)(
            id=two.run.id,
            segments=(
                type(run)(**{**_fields(run), "id": run.id + "a", "max_key": b"h", "rows": 1}),
                type(run)(**{**_fields(run), "id": run.id + "b", "min_key": b"i", "rows": run.rows - 1}),
            ),
        )
        world.alone(files.manifest.commit(replacing(head, head.l0, epoch, run=cut)))
        edit = replacing(head, cut.segments[:1], epoch, job="000000000001-0000beef")
    with pytest.raises(InvalidRequest, match=r"no longer live|a part of run"):
        world.alone(files.manifest.commit(edit))


def _fields(ref: object) -> dict[str, object]:
    return {name: getattr(ref, name) for name in ref.__struct_fields__}  # type: ignore[attr-defined]


def test_a_manual_request_passes_the_same_gate() -> None:
    """It names a segment that is not there: the compactor has the last word, and says why."""
    world, files = new_partition(), PartitionFiles(KEYS)
    world.alone(append(files))
    request = submitted(OTHER, ("000000000001-gone",))
    world.alone(files.compactor.commit(Submit(first_state(world.alone(files.head())), request)))
    coordinator = Coordinator(PartitionFiles(KEYS), "me:1")
    step = world.alone(with_engine(KEYS, coordinator.step(CONFIG), []))
    assert step.job.status == "failed"
    assert step.job.error.category == "invalid"
    assert "000000000001-gone is not a live L0 segment or run" in step.job.error.reason
