"""A manual request ends, whatever becomes of the work that must come before it."""

import pytest

from lithify.compactor import plan, retiring
from lithify.compactor.coordinator import Coordinator
from lithify.compactor.request_edits import Submit
from lithify.manifest.categories import Category
from lithify.manifest.config import parse
from lithify.manifest.jobs import Job
from lithify.manifest.keys import PartitionKeys
from lithify.manifest.partition import PartitionFiles
from lithify.manifest.reading import first_state
from lithify.segment.task import MergeTask, TaskFailure
from tests.compactor import simulated_engine
from tests.compactor.simulated_engine import with_engine
from tests.protocol.scene import KEYS, ROWS, append_rows, job, new_partition

ASKED = "000000000001-0000beef"
CONFIG = parse({"cleanup.policy": "compact", "min.cleanable.dirty.ratio": "1", "compaction.attempts.max": "2"})


async def _fails(keys: PartitionKeys, task: MergeTask, written: list[str]) -> TaskFailure:
    return TaskFailure(task.range_index, Category.MEMORY, "the worker died")


def test_a_request_whose_tier_was_given_up_is_ended_with_the_reason(monkeypatch: pytest.MonkeyPatch) -> None:
    """Of six inputs two fit one merge, and their merge fails each time: what was asked for can never begin."""
    monkeypatch.setattr(plan, "FAN_IN_MAX", 2)
    monkeypatch.setattr(simulated_engine, "attempt", _fails)
    world, files = new_partition(), PartitionFiles(KEYS)
    world.alone(append_rows(files, ROWS))
    request: Job = job(ASKED, status="submitted", origin="manual", kind=None, plan=None, segments=(), sources=())
    world.alone(files.compactor.commit(Submit(first_state(world.alone(files.head())), request)))
    coordinator = Coordinator(PartitionFiles(KEYS), "me:1")
    outcomes: list[str] = []
    for _ in range(12):
        step = world.alone(with_engine(KEYS, coordinator.step(CONFIG), []))
        outcomes.append(step.outcome)
        world.now_ms += 600_000
        if step.outcome == "idle":
            break
    state = world.alone(files.compactor_state())
    assert state.jobs == (), outcomes
    ended = state.job(ASKED)
    assert ended.status == "failed"
    assert ended.error.category == "attempts"
    assert ended.reason.startswith(
        "6 inputs are too many for one merge, so 2 neighbouring ones are merged first; that was given up: "
    )
    assert "was given up: 2 attempts in a row made no progress; the last: " in ended.reason


def test_a_request_that_no_commit_could_take_is_ended_before_it_is_merged(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(retiring, "RETIRED_MAX", 3)
    world, files = new_partition(), PartitionFiles(KEYS)
    world.alone(append_rows(files, ROWS))
    request: Job = job(ASKED, status="submitted", origin="manual", kind=None, plan=None, segments=(), sources=())
    world.alone(files.compactor.commit(Submit(first_state(world.alone(files.head())), request)))
    world.alone(with_engine(KEYS, Coordinator(PartitionFiles(KEYS), "me:1").step(CONFIG), []))
    ended = world.alone(files.compactor_state()).job(ASKED)
    assert ended.status == "failed"
    assert ended.reason.startswith("it would replace 6 segments, and one commit can retire 3: ")
    assert ended.attempts == ()
