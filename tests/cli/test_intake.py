"""`lithify append` says which line a topic's configuration keeps out."""

import re

import pytest

from tests.cli.conftest import Lithify, lines

GOOD = {"key": "k", "value": "v"}


@pytest.mark.parametrize(
    ("bad", "told"),
    [
        ({"value": "v"}, "has no key"),
        ({"key": "k", "value": "v" * 100}, "is larger than max.message.bytes (100)"),
        ({"key": "k", "value": "v", "timestamp_ms": 5}, "has a timestamp_ms that is older than"),
        ({"key": "k", "value": "v", "timestamp_ms": 2**62}, "has a timestamp_ms further in the future than"),
    ],
)
def test_the_line_is_named_and_what_came_before_its_batch_is_appended(
    lithify: Lithify, bad: dict[str, object], told: str
) -> None:
    config = {
        "cleanup.policy": "compact",
        "max.message.bytes": 100,
        "message.timestamp.before.max.ms": 3_600_000,
        "message.timestamp.after.max.ms": 3_600_000,
    }
    lithify.ok("topic", "create", "users", *(f"--config={name}={value}" for name, value in config.items()))
    given = lines(*[GOOD] * 5, bad)
    said = lithify.refused("append", "users", "--batch-size", "2", input=given, code=2, saying=f"line 6 {told}")
    assert re.search("4 records were appended; to append .* again with --source-id stdin-[0-9a-f-]+ --skip 4$", said)
    assert len(lithify.records("read", "users")) == 4


def test_an_append_that_expires_at_once_says_so(on_files: Lithify) -> None:
    on_files.ok("topic", "create", "events")
    old = [{"key": "k", "value": "v", "timestamp_ms": 1}] * 3
    result = on_files("append", "events", input=lines(*old, {"key": "k", "value": "v", "timestamp_ms": 2}))
    assert result.exit_code == 0
    assert "4 appended records are already past the topic's retention" in result.stderr
    assert on_files.json("append", "events", input=lines({"key": "k", "value": "v"}))["expired"] == 0
    assert [record["offset"] for record in on_files.records("read", "events")] == [4]
