"""The operations of a warehouse, through `Admin`: what they answer, and where a partition fails."""

import inspect
from typing import Any, get_args

import msgspec
import pytest

import lithify
from lithify.admin.partitions import Answers
from lithify.compactor.info import compaction_info
from lithify.manifest.jobs import Job
from lithify.manifest.keys import PartitionKeys
from lithify.store.apart import Ending
from tests.clock import HandClock

COMPACTED = {"cleanup.policy": "compact", "min.cleanable.dirty.ratio": "0"}


def keys_of(warehouse: lithify.Warehouse, topic: str, partition: int) -> PartitionKeys:
    return warehouse.topic(topic).partition(partition)._files.keys


def damage_head(warehouse: lithify.Warehouse, topic: str, partition: int) -> None:
    keys = keys_of(warehouse, topic, partition)
    number = warehouse.topic(topic).partition(partition).describe().manifest_id
    warehouse.store.put(keys.manifest.key(number), b"{")


def fill(topic: lithify.Topic) -> None:
    for number in range(topic.partitions):
        topic.partition(number).append([lithify.Record(b"k", b"v"), lithify.Record(b"l", b"v")])


@pytest.fixture
def users(warehouse: lithify.Warehouse) -> lithify.Topic:
    topic = warehouse.create_topic("users", 3, COMPACTED)
    fill(topic)
    return topic


def test_topics_from_creation_to_deletion(warehouse: lithify.Warehouse, admin: lithify.Admin) -> None:
    assert admin.topics() == Answers(items=())
    made = admin.create_topic("users", 2, COMPACTED)
    assert (made.topic, made.partitions, made.config, made.version) == ("users", 2, COMPACTED, 1)
    assert admin.topics().items == (made,)
    with pytest.raises(lithify.AlreadyExists):
        admin.create_topic("users")
    with pytest.raises(lithify.InvalidRequest, match="nothing to change"):
        admin.alter_topic("users")
    altered = admin.alter_topic("users", {"retention.ms": 5, "min.cleanable.dirty.ratio": None}, 3)
    assert (altered.partitions, altered.config) == (3, {"cleanup.policy": "compact", "retention.ms": "5"})
    assert admin.topic("users") == altered
    assert admin.describe_topic("users") == warehouse.topic("users").describe()
    assert admin.delete_topic("users") == altered
    assert admin.topics() == Answers(items=())
    for ask in (admin.topic, admin.describe_topic, admin.delete_topic, admin.explain_topic, admin.pause):
        with pytest.raises(lithify.NotFound, match="users"):
            ask("users")
    again = admin.create_topic("users")
    assert again.topic_id != made.topic_id
    assert admin.describe("users", 0).next_offset == 0


def test_a_topic_that_cannot_be_read_stops_no_other(warehouse: lithify.Warehouse) -> None:
    for name in ("a", "b", "c"):
        warehouse.create_topic(name)
    (key,) = [info.key for info in warehouse.store.list("b/config/").objects]
    warehouse.store.put(key, b"{")
    found = lithify.Admin(warehouse).topics()
    assert [each.topic for each in found.items] == ["a", "c"]
    assert [(each.topic, each.partition, each.fault.kind) for each in found.failed] == [("b", None, "Corrupt")]
    assert found.ending is Ending.DAMAGED


def test_a_pause_ends_what_runs_and_nothing_starts(users: lithify.Topic, admin: lithify.Admin) -> None:
    assert admin.explain("users", 0).action == "propose"
    assert admin.pause("users").config["compaction.paused"] == "true"
    assert {each.reason for each in admin.explain_topic("users").items} == {"compaction.paused is true"}
    assert "compaction.paused" not in admin.resume("users").config
    assert admin.explain("users", 0).action == "propose"


def test_manifests_by_number(
    warehouse: lithify.Warehouse, users: lithify.Topic, admin: lithify.Admin, near: lithify.Admin
) -> None:
    head = admin.manifest("users", 1)
    assert head.id == users.partition(1).describe().manifest_id
    first = admin.manifest("users", 1, 1)
    assert (first.id, first.next_offset) == (1, 0)
    with pytest.raises(lithify.NotFound, match="newer than the head"):
        admin.manifest("users", 1, head.id + 1)
    damage_head(warehouse, "users", 1)
    assert near.manifest_file("users", 1, head.id).body == b"{"
    with pytest.raises(lithify.Corrupt):
        admin.manifest("users", 1, head.id)


def test_checkpoints_over_a_topic(users: lithify.Topic, admin: lithify.Admin, clock: HandClock) -> None:
    (one,) = admin.create_checkpoint("users", "c", partition=1).items
    rest = admin.create_checkpoint("users", "c", ttl_ms=60_000)
    assert [each.partition for each in rest.items] == [0, 1, 2]
    assert rest.items[1] == one, "what was there is kept"
    assert admin.checkpoints("users") == rest
    assert admin.checkpoints("users", 1).items == (one,)
    assert admin.checkpoints("users", owner="scan").items == ()
    for partition in (None, 2):
        with pytest.raises(lithify.AlreadyExists, match="users has a checkpoint 'c' already"):
            admin.create_checkpoint("users", "c", partition)
    clock.now_ms += 60_000
    assert [each.partition for each in admin.create_checkpoint("users", "c").items] == [0, 1, 2], "two had expired"
    assert [each.partition for each in admin.delete_checkpoint("users", "c", 0).items] == [0]
    assert [each.partition for each in admin.delete_checkpoint("users", "c").items] == [1, 2]
    with pytest.raises(lithify.NotFound, match="users has no checkpoint 'c'"):
        admin.delete_checkpoint("users", "c")
    for ttl_ms in (0, -1, True, "1", 2**63, 10**4_299):
        wrong: Any = ttl_ms
        with pytest.raises(lithify.InvalidRequest, match="ttl_ms"):
            admin.create_checkpoint("users", "d", ttl_ms=wrong)


def test_consumers_over_a_topic(users: lithify.Topic, admin: lithify.Admin) -> None:
    users.consumer("c", partitions=[0, 2]).close()
    found = admin.consumers("users")
    assert [(each.partition, each.consumer.name, each.consumer.offset) for each in found.items] == [
        (0, "c", 0),
        (2, "c", 0),
    ]
    with pytest.raises(lithify.InvalidRequest, match="an offset applies to one partition"):
        admin.reset_consumer("users", "c", 1)
    assert [each.consumer.offset for each in admin.reset_consumer("users", "c", "latest").items] == [2, 2]
    assert [each.consumer.offset for each in admin.reset_consumer("users", "c", 1, partition=2).items] == [1]
    assert [each.partition for each in admin.delete_consumer("users", "c", 0).items] == [0]
    assert [each.consumer.offset for each in admin.reset_consumer("users", "c", 0).items] == [0], "one is left"
    assert [each.partition for each in admin.delete_consumer("users", "c").items] == [2]
    for ask in (lambda: admin.delete_consumer("users", "c"), lambda: admin.reset_consumer("users", "c", "earliest")):
        with pytest.raises(lithify.NotFound, match="users has no consumer 'c'"):
            ask()


def test_transactions_over_a_topic(users: lithify.Topic, admin: lithify.Admin) -> None:
    for number in (0, 1):
        users.partition(number).append([lithify.Record(b"k", b"v")], txn=("nightly", 7))
    found = admin.transactions("users")
    assert [(each.partition, each.transaction.application) for each in found.items] == [(0, "nightly"), (1, "nightly")]
    assert admin.forget_transaction("users", "nightly") == found
    assert admin.transactions("users").items == ()
    with pytest.raises(lithify.NotFound, match="remembers no application 'nightly'"):
        admin.forget_transaction("users", "nightly")


def test_records_are_deleted_before_an_offset(users: lithify.Topic, admin: lithify.Admin) -> None:
    assert admin.delete_records("users", 2, 1).log_start_offset == 1
    assert admin.delete_records("users", 2, -1).log_start_offset == 2
    with pytest.raises(lithify.OffsetOutOfRange):
        admin.delete_records("users", 2, 3)


def test_garbage_and_verification_and_health(
    warehouse: lithify.Warehouse, users: lithify.Topic, admin: lithify.Admin, near: lithify.Admin
) -> None:
    lithify.Compactor(warehouse, engine="local").run_once()
    assert near.verify("users", deep=True).ending is Ending.DONE
    foretold = admin.gc(dry_run=True)
    assert foretold.deleted == ()
    fill(users)
    near.gc(grace_ms=0)
    assert near.gc(grace_ms=0).deleted
    with pytest.raises(lithify.InvalidRequest, match="grace_ms is 5; it must be at least 300000"):
        near.gc(grace_ms=5)
    fine = admin.health()
    assert (fine.ending, fine.checks[-1].detail) == (Ending.DONE, "3 partitions are readable")
    damage_head(warehouse, "users", 1)
    hurt = admin.health("users")
    assert [(check.name, check.verdict) for check in hurt.checks if check.fault] == [("users/1", "failure")]
    assert hurt.ending is Ending.DAMAGED
    assert near.verify("users").ending is Ending.DAMAGED


OF_A_TOPIC = {
    "checkpoints": lambda admin: admin.checkpoints("users"),
    "create_checkpoint": lambda admin: admin.create_checkpoint("users", "new"),
    "delete_checkpoint": lambda admin: admin.delete_checkpoint("users", "c"),
    "consumers": lambda admin: admin.consumers("users"),
    "reset_consumer": lambda admin: admin.reset_consumer("users", "c", "latest"),
    "delete_consumer": lambda admin: admin.delete_consumer("users", "c"),
    "transactions": lambda admin: admin.transactions("users"),
    "forget_transaction": lambda admin: admin.forget_transaction("users", "a"),
    "explain_topic": lambda admin: admin.explain_topic("users"),
    "retry_topic": lambda admin: admin.retry_topic("users"),
    "readable_compactions": lambda admin: admin.readable_compactions("users"),
}  # fmt: skip


@pytest.mark.parametrize("name", OF_A_TOPIC)
def test_a_partition_that_fails_stops_no_other(
    warehouse: lithify.Warehouse, users: lithify.Topic, admin: lithify.Admin, name: str
) -> None:
    admin.create_checkpoint("users", "c")
    users.consumer("c").close()
    for number in range(3):
        users.partition(number).append([lithify.Record(b"k", b"v")], txn=("a", 1))
        admin.submit("users", number)
    ask = OF_A_TOPIC[name]
    keys = keys_of(warehouse, "users", 1)
    for chain in (keys.manifest, keys.compactor):
        newest = max(info.key for info in warehouse.store.list(chain.prefix).objects)
        warehouse.store.put(newest, b"{")
    found = ask(lithify.Admin(warehouse))
    done = [each.partition if hasattr(each, "partition") else int(each.id.split("/")[1]) for each in found.items]
    assert done == [0, 2]
    assert [(each.topic, each.partition, each.fault.kind) for each in found.failed] == [("users", 1, "Corrupt")]
    assert found.ending is Ending.DAMAGED


def test_if_all_partitions_fail_the_first_error_is_raised(warehouse: lithify.Warehouse, users: lithify.Topic) -> None:
    for number in range(3):
        damage_head(warehouse, "users", number)
    with pytest.raises(lithify.Corrupt, match="users/") as caught:
        lithify.Admin(warehouse).explain_topic("users")
    assert caught.value.__notes__ == ["2 other partitions of users failed, too"]


def test_answers_are_structs_with_closed_types() -> None:
    """So that an OpenAPI document made of them says something."""
    methods = inspect.getmembers(lithify.Admin, inspect.isfunction)
    hints = {name: inspect.get_annotations(method)["return"] for name, method in methods if not name.startswith("_")}
    assert len(hints) > 25
    from lithify.admin.history import KeyHistory
    from lithify.admin.verify import VerifyReport

    late = {"KeyHistory": KeyHistory, "VerifyReport": VerifyReport}
    answers = {name: late.get(hint, hint) for name, hint in hints.items()}
    _, schemas = msgspec.json.schema_components(tuple(answers.values()))
    fields = {(name, field): it for name, each in schemas.items() for field, it in each.get("properties", {}).items()}

    def refers(field: tuple[str, str], to: str) -> bool:
        return f"/{to}'" in str(fields[field])

    assert "enum" in fields["CompactionInfo", "status"]
    assert "enum" in fields["CompactionInfo", "phase"]
    assert "enum" in fields["CompactionInfo", "origin"]
    assert "enum" in str(fields["CompactionInfo", "kind"])
    assert refers(("CompactionInfo", "ended_by"), "EndedBy")
    assert "enum" in fields["Explanation", "action"]
    assert "enum" in str(fields["Explanation", "kind"])
    assert refers(("Explanation", "debt"), "DebtName")
    assert refers(("Explanation", "compactor"), "Owner")
    assert "enum" in str(fields["PartitionInfo", "due_kind"])
    assert "enum" in fields["Check", "verdict"]
    assert refers(("KeyVersion", "state"), "VersionState")
    assert get_args(hints["topics"])


@pytest.mark.parametrize(
    ("word", "told"), [("", None), ("deletion", "deletion"), ("a word of a later release", "other")]
)
def test_who_ended_a_compaction(word: str, told: str | None) -> None:
    job = Job(id="1-a", status="cancelled", origin="manual", created_at_ms=0, ended_by=word)
    assert compaction_info("users", 0, job, 0).ended_by == told
