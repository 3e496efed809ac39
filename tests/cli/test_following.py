"""`lithify read --follow` and `--consumer`, and `lithify consumer`."""

import json
import signal
from typing import Any

import pytest

from lithify.log.sort_places import SORTS_MAX
from tests.cli.conftest import Lithify, changes, lines
from tests.cli.test_process import Process
from tests.log.test_sort_places import Sorts


@pytest.fixture
def users(lithify: Lithify) -> Lithify:
    lithify.ok("topic", "create", "users", "--partitions", "2", "--config", "cleanup.policy=compact")
    for partition in ("0", "1"):
        lithify.ok("append", "users", "--partition", partition, input=changes(5))
    return lithify


def places(found: list[dict[str, Any]]) -> list[tuple[int, int]]:
    return sorted((line["partition"], line["offset"]) for line in found)


ALL = [(partition, offset) for partition in range(2) for offset in range(5)]


def test_following_ends_after_as_many_as_were_asked_for(users: Lithify) -> None:
    assert places(users.records("read", "users", "--follow", "--limit", "10")) == ALL
    found = users.records("read", "users", "--follow", "--limit", "3", "--partition", "1", "--from-offset", "1")
    assert places(found) == [(1, 1), (1, 2), (1, 3)]
    assert users.records("read", "users", "--follow", "--limit", "0") == []


def test_a_consumer_goes_on_and_its_position_is_shown(users: Lithify) -> None:
    assert len(users.records("read", "users", "--consumer", "c", "--limit", "4")) == 4
    positions = {entry["partition"]: entry["consumer"] for entry in users.json("consumer", "list", "users")}
    assert sum(known["offset"] for known in positions.values()) == 4
    assert sum(known["lag"] for known in positions.values()) == 6
    rest = users.records("read", "users", "--consumer", "c")
    assert len(rest) == 6
    assert users.records("read", "users", "--consumer", "c") == []
    users.ok("append", "users", "--partition", "1", input=lines({"key": "more", "value": "1"}))
    assert places(users.records("read", "users", "--consumer", "c", "--follow", "--limit", "1")) == [(1, 5)]
    text = users.ok("topic", "describe", "users")
    assert "position" in text
    assert [line.split()[:4] for line in text.splitlines()[-2:]] == [["0", "c", "5", "0"], ["1", "c", "6", "0"]]
    described = users.json("topic", "describe", "users")["partitions"]
    assert [part["consumers"][0]["offset"] for part in described] == [5, 6]


def test_a_new_consumer_begins_where_it_is_told(users: Lithify) -> None:
    assert users.records("read", "users", "--consumer", "c", "--auto-offset-reset", "latest") == []
    users.refused("read", "users", "--consumer", "d", "--auto-offset-reset", "error", code=10, saying="no position")
    (one,) = users.records("read", "users", "--consumer", "e", "--partition", "1", "--limit", "1")
    assert one["partition"] == 1
    assert [entry["consumer"]["name"] for entry in users.json("consumer", "list", "users")] == ["c", "c", "e"]


@pytest.mark.parametrize(
    "flags",
    [
        (),
        ("--consumer", "c"),
        ("--auto-offset-reset", "latest"),
        ("--from-offset", "5", "--auto-offset-reset", "error"),
    ],
)
def test_added_partitions_are_followed_from_their_first_record(
    users: Lithify, monkeypatch: pytest.MonkeyPatch, flags: tuple[str, ...]
) -> None:
    """The topic grows, and has records in the added partition, before the reader looks again."""
    monkeypatch.setattr("lithify.log.topic.CONFIG_FRESH_MS", 0)
    grown: list[str] = []

    def pause(_ms: int) -> None:
        assert len(grown) < 9, "it does not see the added partition"
        if not grown:
            users.ok("topic", "alter", "users", "--partitions", "3")
            users.ok("append", "users", "--partition", "2", input=changes(2))
        grown.append("waited")

    monkeypatch.setattr("lithify.store.driver.pause", pause)
    count = 12 if flags in ((), ("--consumer", "c")) else 2
    found = users.records("read", "users", "--follow", "--limit", str(count), *flags)
    assert places(found)[-2:] == [(2, 0), (2, 1)]


@pytest.mark.parametrize("reset", ["earliest", "latest"])
def test_a_consumer_that_was_away_when_the_topic_grew_skips_nothing(users: Lithify, reset: str) -> None:
    """Before, with latest it began at the end of the added partition."""
    read = ("read", "users", "--consumer", "c", "--auto-offset-reset", reset)
    users.ok(*read)
    users.ok("topic", "alter", "users", "--partitions", "3")
    users.ok("append", "users", "--partition", "2", input=changes(2))
    assert places(users.records(*read)) == [(2, 0), (2, 1)]
    assert users.records("read", "users", "--consumer", "new", "--auto-offset-reset", "latest") == []


@pytest.mark.parametrize(
    "flags", [("--follow", "--limit", "96"), ("--follow", "--limit", "96", "--consumer", "c"), ("--consumer", "c")]
)
def test_many_compacted_partitions_are_read_with_few_sorts(
    lithify: Lithify, monkeypatch: pytest.MonkeyPatch, flags: tuple[str, ...]
) -> None:
    """Before, each partition had its own open at once."""
    config = ("--config", "cleanup.policy=compact", "--config", "min.cleanable.dirty.ratio=0")
    lithify.ok("topic", "create", "many", "--partitions", "8", *config)
    for partition in range(8):
        lithify.ok("append", "many", "--partition", str(partition), input=changes(12, keys=12))
    lithify.ok("compactor", "run", "--once", "--engine", "local")
    sorts = Sorts(monkeypatch)
    monkeypatch.setattr("lithify.store.driver.pause", lambda _ms: pytest.fail("it waits though some have records"))
    found = lithify.records("read", "many", *flags)
    assert places(found) == [(partition, offset) for partition in range(8) for offset in range(12)]
    assert (sorts.made, sorts.most) == (8, SORTS_MAX - 1)


def test_positions_are_reset_and_forgotten(users: Lithify) -> None:
    users.records("read", "users", "--consumer", "c")
    reset = ("consumer", "reset", "users", "c")
    assert [entry["consumer"]["offset"] for entry in users.json(*reset, "--to-earliest")] == [0, 0]
    assert "c" in users.ok(*reset, "--to-latest")
    assert [entry["consumer"]["lag"] for entry in users.json("consumer", "list", "users")] == [0, 0]
    users.ok(*reset, "--to-offset", "3", "--partition", "1")
    assert places(users.records("read", "users", "--consumer", "c")) == [(1, 3), (1, 4)]
    users.refused(*reset, code=2, saying="one of --to-earliest")
    users.refused(*reset, "--to-latest", "--to-earliest", code=2, saying="one of --to-earliest")
    users.refused(*reset, "--to-offset", "3", code=2, saying="--partition")
    users.refused(*reset, "--to-offset", "9", "--partition", "1", code=10, saying="beyond the end of the log")
    follow = ("read", "users", "--follow", "--from-offset", "99", "--partition", "1")
    users.refused(*follow, code=10, saying="offset 99 is beyond the end of the log; read from")
    users.refused("consumer", "reset", "users", "d", "--to-latest", code=3, saying="no consumer 'd'")
    assert "deleted in 2 partitions" in users.ok("consumer", "delete", "users", "c")
    assert users.json("consumer", "list", "users") == []
    users.refused("consumer", "delete", "users", "c", code=3, saying="no consumer 'c'")
    assert "consumer" not in users.ok("topic", "describe", "users")


def test_what_does_not_go_together_is_refused(users: Lithify) -> None:
    users.refused("read", "users", "--follow", "--to-offset", "3", code=2, saying="--to-offset")
    users.refused("read", "users", "--consumer", "c", "--to-offset", "3", code=2, saying="--to-offset")
    users.refused("read", "users", "--consumer", "c", "--from-offset", "3", code=2, saying="consumer reset")
    users.refused("read", "users", "--consumer", "", code=2, saying="name")
    users.refused("read", "nobody", "--follow", code=3, saying="does not exist")


@pytest.fixture
def expired(lithify: Lithify) -> Lithify:
    """A topic of which the first three records are gone; a consumer had read one of them."""
    lithify.ok("topic", "create", "old", "--config", "retention.ms=-1")
    lithify.ok("append", "old", input=lines(*[{"key": "k", "value": "v", "timestamp_ms": 1}] * 3))
    lithify.ok("read", "old", "--consumer", "c", "--limit", "1")
    lithify.ok("topic", "alter", "old", "--config", "retention.ms=60000")
    lithify.ok("append", "old", input=lines({"key": "k", "value": "3"}))
    return lithify


def test_a_gap_is_a_warning_and_a_document(expired: Lithify) -> None:
    result = expired("read", "old", "--from-offset", "1", "--follow", "--limit", "1")
    assert result.exit_code == 0
    assert [json.loads(line)["offset"] for line in result.stdout.splitlines()] == [3]
    (line,) = result.stderr.splitlines()
    assert line.startswith("lithify: warning: old/0: offsets 1 to 2 were lost: ")
    result = expired("read", "old", "--consumer", "c", "--json")
    gap, record = map(json.loads, result.stdout.splitlines())
    assert (gap["gap"]["partition"], gap["gap"]["start_offset"], gap["gap"]["end_offset"]) == (0, 1, 3)
    assert record["offset"] == 3
    assert result.stderr == ""


def test_reading_where_the_log_no_longer_is(expired: Lithify) -> None:
    read = ("read", "old", "--from-offset", "1")
    assert [line["offset"] for line in expired.records(*read)] == [3]
    assert expired.records(*read, "--auto-offset-reset", "latest") == []
    expired.refused(*read, "--auto-offset-reset", "error", code=10, saying="begins at 3 and ends before 4")
    assert "offsets 1 to 2 expired unread" in expired.ok("consumer", "list", "old")


@pytest.mark.slow
@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT, signal.SIGHUP])
def test_a_signal_ends_it_with_its_position_committed(on_files: Lithify, number: signal.Signals) -> None:
    on_files.ok("topic", "create", "users")
    on_files.ok("append", "users", input=changes(3))
    with Process(on_files.url, "read", "users", "--follow", "--consumer", "c") as reading:
        out = reading.of.stdout
        assert out is not None
        assert [json.loads(out.readline())["offset"] for _ in range(3)] == [0, 1, 2]
        on_files.ok("append", "users", input=changes(1))
        assert json.loads(out.readline())["offset"] == 3
        reading.of.send_signal(number)
        assert reading.end() == 0
    (known,) = on_files.json("consumer", "list", "users")
    assert known["consumer"]["offset"] == 4


@pytest.mark.slow
def test_a_second_reader_of_a_name_ends_the_first(on_files: Lithify) -> None:
    on_files.ok("topic", "create", "users")
    on_files.ok("append", "users", input=changes(3))
    with Process(on_files.url, "read", "users", "--follow", "--consumer", "c") as reading:
        out = reading.of.stdout
        assert out is not None
        assert json.loads(out.readline())["offset"] == 0
        assert len(on_files.records("read", "users", "--consumer", "c")) == 3
        reading.of.send_signal(signal.SIGTERM)
        assert reading.end() == 5
    assert any("another instance" in line for line in reading.said)


def test_reading_begins_at_the_last_records_or_at_a_time(lithify: Lithify) -> None:
    lithify.ok("topic", "create", "t", "--partitions", "2", "--config", "retention.ms=-1")
    rows = [{"key": "k", "value": str(number), "timestamp_ms": 1_767_225_600_000 + number} for number in range(5)]
    lithify.ok("append", "t", "--partition", "0", input=lines(*rows))
    lithify.ok("append", "t", "--partition", "1", input=lines(rows[0]))
    assert places(lithify.records("read", "t", "--tail", "2")) == [(0, 3), (0, 4), (1, 0)]
    assert places(lithify.records("read", "t", "--from-offset", "-2")) == [(0, 3), (0, 4), (1, 0)]
    assert lithify.records("read", "t", "--tail", "0") == []
    assert places(lithify.records("read", "t", "--follow", "--tail", "2", "--limit", "3")) == [(0, 3), (0, 4), (1, 0)]
    for time in (
        "1767225600003",
        "2026-01-01T00:00:00.003Z",
        "2026-01-01 00:00:00.003999",
        "2026-01-01T01:00:00.003+01:00",
    ):
        assert places(lithify.records("read", "t", "--from-timestamp", time)) == [(0, 3), (0, 4)], time
    assert places(lithify.records("read", "t", "--from-timestamp", "2026-01-01")) == [(0, n) for n in range(5)] + [
        (1, 0)
    ]
    lithify.refused("read", "t", "--from-timestamp", "yesterday", code=2, saying="ISO 8601")
    lithify.refused("read", "t", "--from-offset", "1", "--tail", "2", code=2, saying="give one of")
    lithify.refused("read", "t", "--tail", "2", "--consumer", "c", code=2, saying="consumer reset")


def test_an_offset_that_some_partition_has_not_is_refused_before_anything_is_shown(lithify: Lithify) -> None:
    lithify.ok("topic", "create", "t", "--partitions", "1")
    lithify.ok("append", "t", input=changes(10))
    lithify.ok("topic", "alter", "t", "--partitions", "3")
    told = lithify.refused("read", "t", "--from-offset", "5", code=10, saying="beyond the end of the log in partitions")
    assert "partitions 1, 2" in told
    assert "choose one with --partition" in told
    assert lithify("read", "t", "--from-offset", "5").stdout == ""
    assert len(lithify.records("read", "t", "--from-offset", "5", "--partition", "0")) == 5
    assert len(lithify.records("read", "t", "--from-offset", "0")) == 10


def test_seconds_are_not_taken_for_milliseconds(lithify: Lithify) -> None:
    lithify.ok("topic", "create", "t", "--config", "retention.ms=-1")
    lithify.ok("append", "t", input=lines({"key": "k", "value": "v", "timestamp_ms": 1767225600000}))
    told = lithify.refused("read", "t", "--from-timestamp", "1767225600", code=2, saying="looks like seconds")
    assert "is in 1970" in told
    assert "give milliseconds, 1767225600000, or" in told
    assert len(lithify.records("read", "t", "--from-timestamp", "1767225600000")) == 1
    seconds = [{"key": "k", "value": "v", "timestamp_ms": 1767225600 + n} for n in range(3)]
    result = lithify("append", "t", "--batch-size", "1", input=lines(*seconds))
    assert result.exit_code == 0
    (line,) = result.stderr.splitlines()
    assert line.startswith("lithify: warning: standard input: timestamp 1767225600 is in 1970, and looks like seconds")
    for plausible in (0, 1, 86_400_000, 10**11, 1767225600000):
        it = lines({"key": "k", "value": "v", "timestamp_ms": plausible})
        assert lithify("append", "t", input=it).stderr == ""
