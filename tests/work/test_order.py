"""What travels to a worker and back: any release can refuse any other's order, and is understood."""

import json
from pathlib import Path
from typing import Any

import msgspec
import pytest
from msgspec.structs import replace

from lithify.manifest.categories import Category
from lithify.manifest.jobs import MergeCounts
from lithify.segment.check import CheckTask, Finding
from lithify.segment.task import TaskFailure, TaskResult
from lithify.store.errors import InvalidRequest
from lithify.store.homes import HERE, Homes
from lithify.store.memory import MemoryStore
from lithify.store.opening import open_store
from lithify.store.opening_homes import opened_homes
from lithify.store.port import Store, StoreSpec
from lithify.work.order import (
    Cancelled,
    Checked,
    Order,
    Refused,
    Reply,
    Work,
    installed_version,
    seal,
    sealed_reply,
    specs_of,
    unseal,
    unsealed_order,
)
from lithify.work.private_files import PrivateFiles
from lithify.work.spark import refuse_memory
from lithify.work.worker import obey
from tests.compactor.engine_tasks import KEYS, appends, tasks

REPLIES: list[Reply] = [
    TaskResult(range_index=3, outputs=(), counts=MergeCounts(rows_in=1)),
    TaskFailure(3, Category.MEMORY, "the task ran out of memory"),
    Checked((Finding(object="k", kind="missing", message="restore it"),)),
    Cancelled(),
    Refused("worker runs lithify 1"),
]


@pytest.fixture
def store(tmp_path: Path) -> Store:
    return open_store(tmp_path.as_uri())


def ordered(work: Work, spec: StoreSpec, version: str | None = None) -> Order:
    return Order(version=version or installed_version(), work=work, homes={HERE: spec})


@pytest.mark.parametrize("reply", REPLIES, ids=lambda each: type(each).__name__)
def test_a_reply_arrives_as_it_was_given(reply: Reply) -> None:
    assert unseal(sealed_reply(reply)) == reply


def test_an_order_arrives_as_it_was_given(store: Store) -> None:
    planned = tasks(appends(store), [20])
    for work in (*planned, CheckTask(True, KEYS, planned[0].segments)):
        order = ordered(work, store.spec())
        assert unsealed_order(seal(order)) == order


class FirstReply(msgspec.Struct, frozen=True, omit_defaults=True):
    """As the first releases sealed and read replies."""

    result: Any = None
    failure: Any = None
    refused: str = ""


@pytest.mark.parametrize("work", ["merge", "check", "of a later release"])
def test_an_order_of_another_release_is_refused_with_one_message(store: Store, work: str) -> None:
    (planned,) = tasks(appends(store))
    sealed = seal(ordered(planned if work == "merge" else CheckTask(False, KEYS, ()), store.spec(), "99.1.0"))
    if work == "of a later release":
        sealed = json.dumps({"version": "99.1.0", "work": {"type": "dream"}, "homes": 7})
    reply = obey(sealed)
    expected = f"worker runs lithify {installed_version()}, this is 99.1.0: install the same wheel"
    assert unseal(reply) == Refused(expected)
    assert msgspec.json.decode(reply, type=FirstReply) == FirstReply(refused=expected)


def test_the_refusal_of_an_earlier_release_is_understood() -> None:
    refusal = msgspec.json.encode(FirstReply(refused="worker runs lithify 0.1.0")).decode()
    assert unseal(refusal) == Refused("worker runs lithify 0.1.0")


def test_a_check_whose_store_cannot_be_opened_is_answered_as_findings(store: Store) -> None:
    refs = appends(store)
    bare = StoreSpec(url="s3://", options={})
    reply = unseal(obey(seal(ordered(CheckTask(False, KEYS, tuple(refs)), bare))))
    assert isinstance(reply, Checked)
    assert [(each.object, each.kind) for each in reply.findings] == [(KEYS.segment(r.id), "unreadable") for r in refs]


def test_workers_elsewhere_get_no_secret_and_those_here_only_a_path() -> None:
    secret = "s3cr3t-that-must-not-travel"
    options = {"key": "access", "secret": secret, "client_kwargs": {"region_name": "us-east-1"}}
    homes = opened_homes("s3://bucket/x", {**options, "homes": {"s3://cold/x": options, "s3://unused/x": options}})
    (ref,) = appends(MemoryStore(), segments=1)
    work = CheckTask(False, KEYS, (ref, replace(ref, home="s3://cold/x"), replace(ref, home="of a later lithify")))
    private = PrivateFiles()
    try:
        here, elsewhere = specs_of(work, homes, private), specs_of(work, homes, None)
        assert here.keys() == elsewhere.keys() == {HERE, "s3://cold/x"}, "those that the work needs"
        assert here["s3://cold/x"].credentials_file is not None
        assert here[HERE].credentials_file is not None
        assert elsewhere[HERE].credentials_file is None
        for specs in (here, elsewhere):
            assert secret not in repr(specs)
            assert secret.encode() not in msgspec.json.encode(specs)
    finally:
        private.delete()


def test_the_memory_of_this_process_is_out_of_reach() -> None:
    with pytest.raises(InvalidRequest, match=r"users: memory:.*--engine local"):
        refuse_memory(Homes({HERE: MemoryStore("far")}), "users")
