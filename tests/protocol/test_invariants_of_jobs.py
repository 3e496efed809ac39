"""P2 for the files beside manifests: boundaries, the compactor's file, topics."""

from typing import Any, get_args

import pytest
from msgspec.structs import replace

from lithify.manifest.invariants import check_boundary, check_compactor, check_topic
from lithify.manifest.jobs import CompactorState, Status, summed_up
from lithify.manifest.model import FORMAT, Boundary, TopicFile
from lithify.store.errors import Corrupt
from tests.protocol.scene import TOPIC_ID, job

PLACE = {"format": FORMAT, "topic": "t", "topic_id": TOPIC_ID, "partition": 0, "nonce": "n"}


@pytest.mark.parametrize(
    ("fields", "problem"),
    [
        ({"manifest": 8, "manifest_head": 8}, "stays below the manifest's head"),
        ({"compactor": 8, "compactor_head": 8, "manifest_head": 9}, "stays below the compactor's head"),
        ({"manifest": 4, "manifest_head": 9}, "manifest never falls"),
    ],
)
def test_a_boundary_never_falls_and_stays_below_the_heads(fields: dict[str, int], problem: str) -> None:
    previous = Boundary(**PLACE, id=1, manifest=5, manifest_head=7)
    with pytest.raises(Corrupt, match=problem):
        check_boundary(previous, Boundary(**PLACE, id=2, **fields))
    check_boundary(previous, Boundary(**PLACE, id=2, manifest=6, manifest_head=7))


@pytest.mark.parametrize(
    ("fields", "problem"),
    [
        ({"epoch": 2}, "epoch never falls"),
        ({"jobs": (job(status="failed"),)}, "active jobs and history are apart"),
        ({"jobs": (job(), job("000000000001-0000beef"))}, "a segment is in one active job"),
        ({"jobs": ()}, "a job leaves only through the history"),
        ({"jobs": (), "epoch": 4}, "a job leaves only through the history"),  # a claim carries all jobs over (P5)
        ({"jobs": (), "history": (job(status="failed"),)}, "a job enters the history without its plan and outputs"),
    ],
)
def test_a_compactors_file_keeps_its_invariants(fields: dict[str, Any], problem: str) -> None:
    previous = CompactorState(**PLACE, id=1, epoch=3, jobs=(job(),))
    with pytest.raises(Corrupt, match=problem):
        check_compactor(previous, replace(previous, **{"id": 2, **fields}))
    check_compactor(previous, replace(previous, id=2, jobs=(), history=(summed_up(job(status="completed")),)))


def with_job(number: int, **fields: Any) -> CompactorState:
    """A compactor's file with one job, where a job of its status belongs."""
    its = job(**fields)
    there = {"jobs": (its,)} if its.active else {"history": (summed_up(its),)}
    return CompactorState(**PLACE, id=number, epoch=3, **there)


@pytest.mark.parametrize("was", [None, *get_args(Status)])
@pytest.mark.parametrize("status", get_args(Status))
def test_a_job_becomes_what_it_may(was: Any, status: Any) -> None:
    """Admitted once, ended once, and never anything else afterwards."""
    ends = {"completed", "failed", "cancelled"}
    next_ones = {None: {"submitted", "in_progress"}, "submitted": {"in_progress", *ends}, "in_progress": ends}
    may = {was, *next_ones.get(was, set())}
    previous = CompactorState(**PLACE, id=1, epoch=3) if was is None else with_job(1, status=was)
    if status in may:
        check_compactor(previous, with_job(2, status=status))
    else:
        with pytest.raises(Corrupt, match=f"is not {status} after being {was or 'nothing'}"):
            check_compactor(previous, with_job(2, status=status))


def test_a_plan_stays_as_it_was_admitted() -> None:
    plan = job().plan
    assert plan is not None
    with pytest.raises(Corrupt, match=r"plan of job .* never changes"):
        check_compactor(with_job(1), with_job(2, plan=replace(plan, output_bytes=7)))


def test_a_topics_partitions_never_shrink_and_deletion_is_final_for_its_id() -> None:
    topic = TopicFile(
        format=FORMAT,
        id=1,
        nonce="n",
        topic="t",
        topic_id=TOPIC_ID,
        partitions=3,
        config={},
        created_at_ms=0,
        deleted=True,
    )
    for fields in ({"partitions": 2}, {"deleted": False}):
        with pytest.raises(Corrupt, match="never falls"):
            check_topic(topic, replace(topic, id=2, **fields))
    check_topic(topic, replace(topic, id=2, topic_id="another", partitions=1, deleted=False))
