"""RetentionPolicy: three bounds in one piece, and the configuration that they are."""

from typing import Any

import pytest

from lithify.log.retention_policy import RetentionPolicy
from lithify.log.warehouse import Warehouse
from lithify.store.errors import InvalidRequest

LONG_MAX = 2**63 - 1


@pytest.mark.parametrize(
    ("policy", "config"),
    [
        (RetentionPolicy(), {}),
        (RetentionPolicy(max_records=10), {"retention.records": "10"}),
        (RetentionPolicy(max_age_seconds=1.5), {"retention.ms": "1500"}),
        (RetentionPolicy(max_age_seconds=60), {"retention.ms": "60000"}),
        (RetentionPolicy(max_total_bytes=0), {"retention.bytes": "0"}),
        (
            RetentionPolicy(1, 2, 3),
            {"retention.records": "1", "retention.ms": "2000", "retention.bytes": "3"},
        ),
        (
            RetentionPolicy(LONG_MAX, LONG_MAX / 1000, LONG_MAX),
            dict.fromkeys(("retention.records", "retention.ms", "retention.bytes"), str(LONG_MAX)),
        ),
    ],
)
def test_a_policy_is_configuration_and_is_read_back(
    warehouse: Warehouse, policy: RetentionPolicy, config: dict[str, str]
) -> None:
    unbounded = dict.fromkeys(("retention.records", "retention.ms", "retention.bytes"), "-1")
    expected = {"cleanup.policy": "delete", **unbounded, **config}
    made = warehouse.create_topic("made", retention=policy)
    altered = warehouse.create_topic("altered")
    altered.alter(retention=policy)
    for topic in (made, altered, warehouse.topic("made")):
        assert topic.config == expected
        assert topic.retention_policy == policy


def test_without_one_it_is_what_the_configuration_says(warehouse: Warehouse) -> None:
    assert warehouse.create_topic("default").retention_policy == RetentionPolicy(max_age_seconds=604_800)
    compacted = warehouse.create_topic("compacted", config={"cleanup.policy": "compact", "retention.ms": 5})
    assert compacted.retention_policy == RetentionPolicy()
    assert warehouse.create_topic("all", config={"cleanup.policy": ""}).retention_policy == RetentionPolicy()


@pytest.mark.parametrize("said", ["compacted", "no compaction", "delete;compact"])
def test_a_cleanup_policy_that_is_none_is_refused_with_a_retention_too(warehouse: Warehouse, said: str) -> None:
    """Tried on log/retention_policy.py, and caught: looking for the word "compact" in it."""
    topic = warehouse.create_topic("t")
    for ask in (
        lambda: warehouse.create_topic("u", config={"cleanup.policy": said}, retention=RetentionPolicy(1)),
        lambda: topic.alter({"cleanup.policy": said}, retention=RetentionPolicy(1)),
    ):
        with pytest.raises(InvalidRequest, match=r"cleanup.policy is .*; it must be 'compact', 'delete'"):
            ask()
    assert (topic.config, warehouse.topics()) == ({}, ["t"])


def test_delete_joins_compaction(warehouse: Warehouse) -> None:
    policy = RetentionPolicy(max_records=1)
    topic = warehouse.create_topic("t", config={"cleanup.policy": "compact"}, retention=policy)
    assert topic.config["cleanup.policy"] == "compact,delete"
    topic.alter({"cleanup.policy": None}, retention=policy)
    assert topic.config["cleanup.policy"] == "delete"
    elsewhere = warehouse.topic("t")
    topic.alter({"cleanup.policy": "compact"})
    elsewhere.alter(retention=policy)  # its handle is older than that
    assert elsewhere.config["cleanup.policy"] == "compact,delete"


def test_a_bound_is_said_once(warehouse: Warehouse) -> None:
    for use in (
        lambda: warehouse.create_topic("t", config={"retention.ms": 5}, retention=RetentionPolicy()),
        lambda: warehouse.create_topic("u").alter({"retention.ms": None}, retention=RetentionPolicy()),
    ):
        with pytest.raises(InvalidRequest, match=r"retention\.ms: set it"):
            use()


@pytest.mark.parametrize(
    "bounds",
    [
        {"max_records": -1},
        {"max_records": 1.0},
        {"max_records": True},
        {"max_records": LONG_MAX + 1},
        {"max_age_seconds": -0.1},
        {"max_age_seconds": float("nan")},
        {"max_age_seconds": float("inf")},
        {"max_age_seconds": "60"},
        {"max_total_bytes": "1 GiB"},
    ],
)
def test_bounds_are_numbers_from_zero(bounds: dict[str, Any]) -> None:
    (name,) = bounds
    with pytest.raises(InvalidRequest, match=f"{name} must be a number"):
        RetentionPolicy(**bounds)
