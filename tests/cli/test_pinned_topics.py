"""`--checkpoint` of a topic that has grown since: what it showed before, it shows (RFC 0013)."""

from pathlib import Path

import pytest

from tests.cli.conftest import Lithify, changes, lines

READS = {
    "read": ("read", "users"),
    "read a part": ("read", "users", "--from-offset", "1", "--to-offset", "3"),
    "scan": ("scan", "users"),
    "scan all": ("scan", "users", "--tombstones"),
    "limit": ("scan", "users", "--limit", "3"),
    "get": ("get", "users", "k1"),
    "get another": ("get", "users", "k6"),
    "export": ("export", "users", "--to", "-"),
    "export log": ("export", "users", "--log", "--to", "-"),
    "export latest": ("export", "users", "--latest", "--to", "-"),
}


@pytest.fixture(params=[1, 2], ids=["from 1", "from 2"])
def users(lithify: Lithify, request: pytest.FixtureRequest) -> Lithify:
    """Pinned, and what is there then is in `before`."""
    count = str(request.param)
    lithify.ok("topic", "create", "users", "--partitions", count, "--config", "cleanup.policy=compact")
    lithify.ok("append", "users", input=changes(20) + lines({"key": "k2", "value": None}))
    lithify.ok("checkpoint", "create", "users", "before")
    return lithify


@pytest.mark.slow
@pytest.mark.parametrize("read", READS)
@pytest.mark.parametrize("counts", [(4,), (3, 7)], ids=str)
def test_a_checkpoint_from_before_growth_shows_what_it_showed(
    users: Lithify, read: str, counts: tuple[int, ...]
) -> None:
    """Before, it ended at the first added partition, and of the others what had moved was left out."""
    words = READS[read]
    then = users.ok(*words, "--checkpoint", "before")
    assert then == users.ok(*words)
    for count in counts:
        users.ok("topic", "alter", "users", "--partitions", str(count))
        users.ok("append", "users", input=changes(30))
    users.ok("compactor", "run", "--once", "--engine", "local")
    result = users(*words, "--checkpoint", "before")
    assert (result.exit_code, result.stdout, result.stderr) == (0, then, "")
    assert users(*words).stdout != then


@pytest.mark.parametrize("read", READS)
def test_one_that_is_not_whole_is_refused_before_anything_is_written(users: Lithify, tmp_path: Path, read: str) -> None:
    users.ok("topic", "alter", "users", "--partitions", "4")
    users.ok("append", "users", input=changes(30))
    users.ok("checkpoint", "create", "users", "later")
    users.ok("checkpoint", "delete", "users", "later", "--partition", "3")
    words = list(READS[read])
    if words[0] == "export":
        target = tmp_path / "out.jsonl"
        target.write_text("what was there")
        words[words.index("-")] = str(target)
    result = users(*words, "--checkpoint", "later")
    assert (result.exit_code, result.stdout) == (3, "")
    (line,) = result.stderr.splitlines()
    assert "'later'" in line
    assert "partition 3" in line
    if words[0] == "export":
        assert target.read_text() == "what was there"
    if read == "scan":
        assert users.records("scan", "users", "--partition", "0", "--checkpoint", "later")
        users.refused("scan", "users", "--partition", "3", "--checkpoint", "later", code=3, saying="users/3")
