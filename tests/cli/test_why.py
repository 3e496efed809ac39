"""`lithify why`: each stored version of a key, what wrote it, and why it is seen or not."""

import base64

from tests.cli.conftest import Lithify, changes, lines

ONCE = ("compactor", "run", "--once", "--engine", "local")
EAGER = ("--config", "cleanup.policy=compact", "--config", "min.cleanable.dirty.ratio=0")


def test_a_key_from_its_appends_to_the_run(lithify: Lithify) -> None:
    lithify.ok("topic", "create", "users", *EAGER)
    for value in ("free", "pro"):
        lithify.ok("append", "users", input=lines({"key": "ada", "value": value, "timestamp_ms": 1767225600000}))
    told = lithify.ok("why", "users", "ada", "--values").splitlines()
    (first, last) = (ref["id"] for ref in lithify.json("topic", "describe", "users")["partitions"][0]["l0"])
    assert told[0] == "the key lives in users/0; 2 stored versions"
    assert told[1] == "users/0 offset 1, 2026-01-01 00:00:00Z, 3 bytes: the latest, which every reader sees"
    assert told[2] == "  value: pro"
    assert told[3].endswith(f" as segment {last}")
    assert told[4].endswith("4 bytes: superseded by offset 1; only 'read' shows it, until a compaction merges the two")
    assert told[6].endswith(f" as segment {first}")
    lithify.ok("checkpoint", "create", "users", "before")
    lithify.ok(*ONCE)
    (job,) = lithify.json("compaction", "list")
    (run,) = lithify.json("topic", "describe", "users")["partitions"][0]["runs"]
    found = lithify.json("why", "users", "ada")
    newest, oldest = found["versions"]
    assert (newest["state"], oldest["state"], oldest["superseded_by"]) == ("latest", "pinned", 1)
    live, kept = newest["copies"]
    assert (live["live"], live["job"], live["run"], live["checkpoints"]) == (True, job["id"], run["id"], [])
    assert (kept["live"], kept["job"], kept["segment"]) == (False, "", last)
    assert kept["checkpoints"] == ["checkpoint before"]
    assert live["written_at_ms"] >= kept["written_at_ms"] > 0
    assert [each["id"] for each in found["jobs"]] == [job["id"]]
    shown = lithify.ok("why", "users", "ada")
    assert f"by {job['id']} (clean of 2 sources) into segment" in shown
    assert "superseded by offset 1, and no longer in the log; only those who read what keeps it see it" in shown
    assert f"as segment {first}; kept by checkpoint before" in shown


def test_why_a_key_is_not_seen(lithify: Lithify) -> None:
    lithify.ok("topic", "create", "users", *EAGER)
    lithify.ok("append", "users", input=lines({"key": "ada", "value": "free"}, {"key": "ada", "value": None}))
    waiting = "the key is deleted; 'read' shows the tombstone until delete.retention.ms after a clean has met it"
    assert waiting in lithify.ok("why", "users", "ada")
    lithify.ok(*ONCE)
    (kept,) = lithify.json("why", "users", "ada")["versions"]
    assert kept["tombstone"]
    assert kept["horizon_ms"] > 86_400_000
    assert "the tombstone until a compaction after 20" in lithify.ok("why", "users", "ada")
    told = lithify.ok("why", "users", "nobody")
    assert told.startswith("users/0 has no version of this key, nor has any checkpoint\n")
    lithify.ok("topic", "create", "clicks")
    lithify.ok("append", "clicks", input=lines({"key": "k", "value": "1"}, {"key": "k", "value": "2"}))
    lithify.ok("topic", "delete-records", "clicks", "--before", "1", "--yes")
    assert "below the log start 1, so no reader sees it" in lithify.ok("why", "clicks", "k")


def test_what_a_grown_topic_left_behind_is_told(lithify: Lithify) -> None:
    lithify.ok("topic", "create", "users", *EAGER)
    lithify.ok("append", "users", input=changes(40, keys=20))
    lithify.ok("topic", "alter", "users", "--partitions", "4")
    told = [lithify.ok("why", "users", f"k{n}") for n in range(20)]
    moved = [text for text in told if not text.startswith("the key lives in users/0")]
    assert moved
    assert all("left behind when the topic grew" in text for text in moved)


def test_older_versions_are_left_out_and_a_key_may_be_bytes(lithify: Lithify) -> None:
    lithify.ok("topic", "create", "users")
    lithify.ok("append", "users", input=changes(30, keys=1))
    assert lithify.ok("why", "users", "k0").endswith("older versions are left out: --limit N shows more\n")
    encoded = base64.b64encode(b"k0").decode()
    assert len(lithify.json("why", "users", encoded, "--base64", "--limit", "30")["versions"]) == 30
    lithify.refused("why", "users", "%%", "--base64", code=2, saying="KEY is not valid base64")
