"""`lithify warehouse`, and `lithify append` to a topic that is not there."""

from tests.cli.conftest import Lithify, changes


def test_settings_from_alter_to_unset(lithify: Lithify) -> None:
    lithify.refused("warehouse", "describe", code=3, saying="there is no warehouse")
    settings = ("--config", "auto.create.topics.enable=true", "--config", "num.partitions=2")
    lithify.ok("warehouse", "alter", "--create", *settings)
    assert lithify.json("warehouse", "alter", "--unset", "num.partitions") == {
        "settings": {"auto.create.topics.enable": "true"}
    }
    lithify.ok("topic", "create", "users")
    text = lithify.ok("warehouse", "describe").splitlines()
    assert text == [f"warehouse {lithify.url}", "  auto.create.topics.enable=true", "1 topic", "  users"]


def test_bad_settings_are_refused(lithify: Lithify) -> None:
    lithify.ok("topic", "create", "users")
    lithify.refused("warehouse", "alter", code=2, saying="give --config or --unset")
    lithify.refused("warehouse", "alter", "--config", "num.partitions=0", code=2, saying="between 1 and 10000")
    lithify.refused("warehouse", "alter", "--config", "num.partition=2", code=2, saying="did you mean num.partitions?")
    lithify.refused("topic", "create", "t", "--config", "num.partitions=2", code=2, saying="the warehouse's setting")
    for name, told in (
        ("log.retention.hours", "set default.retention.ms (in milliseconds)"),
        ("log.cleaner.enable", "set default.compaction.paused (true is Kafka's false)"),
        ("log.cleaner.threads", "use the compactor's --concurrency"),
        ("min.insync.replicas", "there is nothing to set: the object store is the replica set"),
    ):
        lithify.refused("warehouse", "alter", "--config", f"{name}=2", code=2, saying=told)


def test_a_first_append_creates_its_topic_where_the_warehouse_says_so(lithify: Lithify) -> None:
    lithify.refused("append", "new", input=changes(3), code=3, saying="there is no warehouse at")
    lithify.ok("topic", "create", "other")
    lithify.refused("append", "new", input=changes(3), code=3, saying="auto.create.topics.enable=true")
    settings = ("auto.create.topics.enable=true", "num.partitions=2", "default.cleanup.policy=compact")
    lithify.ok("warehouse", "alter", *(f"--config={setting}" for setting in settings))
    for read in ("read", "scan"):
        lithify.refused(read, "new", code=3, saying="does not exist")
    assert lithify.json("topic", "list") == ["other"]
    assert lithify.json("append", "new", input=changes(14))["appended"] == 14
    assert lithify.json("append", "new", "--partition", "1", input=changes(1))["appended"] == 1
    described = lithify.json("topic", "describe", "new")
    assert described["config"] == {"cleanup.policy": "compact"}
    assert sum(part["next_offset"] for part in described["partitions"]) == 15
    assert len(described["partitions"]) == 2
