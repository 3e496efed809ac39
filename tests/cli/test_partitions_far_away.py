"""Commands about all partitions of a topic in a far store ask them side by side, so that none waits for another."""

import json
import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from lithify.cli import turns
from lithify.log.record import Record
from lithify.log.topic import Topic
from lithify.log.warehouse import Warehouse
from lithify.store import opening
from lithify.store.driver import Driver, new_id
from lithify.store.errors import Unavailable
from tests.cli.conftest import Lithify
from tests.cli.test_reference import COMMANDS as EVERY_COMMAND
from tests.far import FarStore, Meeting

PARTITIONS = 6
KEYS = [b"%02d" % n for n in range(60)]
CONFIG = {"cleanup.policy": "compact", "segment.bytes": "500", "l0.segments.tier": "2"}


@pytest.fixture
def store(monkeypatch: pytest.MonkeyPatch) -> Meeting:
    name = new_id()
    store = Meeting(name)
    monkeypatch.setitem(opening._memory, name, store)  # pyright: ignore[reportPrivateUsage]
    return store


@pytest.fixture
def lithify(store: Meeting) -> Lithify:
    return Lithify(store.url)


@pytest.fixture
def topic(store: Meeting) -> Topic:
    topic = Warehouse(Driver(store)).create_topic("t", PARTITIONS, CONFIG, probe=False)
    for keys in (KEYS[::2], KEYS[1::2]):
        topic.append([Record(key, key) for key in keys])
    with topic.consumer("c"):
        pass
    for number in range(PARTITIONS):
        topic.partition(number).snapshot(pin="before")
    return topic


# What is about one partition, or waits for something else, or is measured elsewhere.
OTHERS = {
    "append": "below",
    "compaction cancel": "one job",
    "compaction status": "one job",
    "compactor run": "threads of its own",
    "completion": "asks nothing",
    "demo": "on this machine",
    "dev": "on this machine",
    "doctor": "below",
    "gc run": "threads of its own",
    "get": "one partition",
    "home adopt": "no home in memory",
    "home recall": "below",
    "home relocate": "below",
    "manifest show": "one partition",
    "serve": "asks when it is asked",
    "top": "tests/admin/test_survey.py",
    "topic alter": "tests/protocol/test_p21_topics.py",
    "topic create": "tests/protocol/test_p21_topics.py",
    "topic delete": "tests/protocol/test_p21_topics.py: three first",
    "topic delete-records": "one partition",
    "topic list": "below",
    "warehouse alter": "no partition",
    "warehouse describe": "no partition",
    "why": "one partition",
}
COMMANDS = [
    ("read t", "manifest"),
    ("read t", "segments"),
    ("read t --from-offset 1", "manifest"),
    ("read t --from-timestamp 2020-01-01", "segments"),
    ("read t --tail 2", "segments"),
    ("read t --checkpoint before", "segments"),
    ("read t --follow --limit 60", "manifest"),
    ("read t --follow --limit 60", "segments"),
    ("read t --follow --tail 3 --limit 18", "manifest"),
    ("read t --consumer d", "manifest"),
    ("read t --consumer d", "segments"),
    ("scan t", "manifest"),
    ("scan t", "segments"),
    ("scan t --checkpoint before", "segments"),
    ("export t --to -", "segments"),
    ("checkpoint create t now", ""),
    ("checkpoint list t", ""),
    ("checkpoint delete t before", ""),
    ("consumer list t", ""),
    ("consumer reset t c --to-latest", ""),
    ("consumer delete t c", ""),
    ("transaction list t", ""),
    ("transaction forget t importer", ""),
    ("compaction submit t --full", ""),
    ("compaction list t", ""),
    ("compaction list", ""),
    ("compaction explain t", ""),
    ("compaction retry t", ""),
    ("compaction explain t", "segments"),
    ("home status t", ""),
    ("home status", ""),
    ("verify t", ""),
    ("verify", ""),
    ("topic describe t", ""),
]


def test_no_command_is_forgotten() -> None:
    known = {name.removeprefix("lithify ") for name in EVERY_COMMAND}
    tested = {name for name in known if any(f"{words} ".startswith(f"{name} ") for words, _ in COMMANDS)}
    assert tested.isdisjoint(OTHERS)
    assert tested.union(OTHERS) == known


@pytest.mark.parametrize(("words", "at"), COMMANDS)
def test_all_are_asked_at_once(store: Meeting, lithify: Lithify, topic: Topic, words: str, at: str) -> None:
    for number in range(PARTITIONS) if "importer" in words else ():
        topic.partition(number).append([Record(b"key", b"value")], txn=("importer", 1))
    store.all_meet(PARTITIONS, at)
    lithify.ok(*words.split())
    assert len(store.met) == PARTITIONS


def test_what_they_have_comes_one_partition_after_the_other(lithify: Lithify, topic: Topic) -> None:
    for words in ("read t", "scan t", "export t --to -"):
        found = lithify.records(*words.split())
        assert [each["partition"] for each in found] == sorted(each["partition"] for each in found)
        assert sorted(each["key"].encode() for each in found) == KEYS


@pytest.mark.parametrize("limit", [0, 1, 7, 59, 60, 61])
def test_a_limit_is_of_all_of_them(lithify: Lithify, topic: Topic, limit: int) -> None:
    everything = lithify.records("scan", "t")
    assert lithify.records("scan", "t", "--limit", str(limit)) == everything[:limit]


def test_a_limit_does_not_count_what_keys_left_behind(lithify: Lithify, topic: Topic) -> None:
    topic.alter(partitions=3 * PARTITIONS)
    topic.append([Record(key, b"new") for key in KEYS])
    everything = lithify.records("scan", "t")
    assert len(everything) == len(KEYS)
    assert lithify.records("scan", "t", "--limit", "9") == everything[:9]


@pytest.mark.parametrize("late", [False, True])
def test_a_partition_whose_turn_comes_late_is_opened_anew(
    store: Meeting, lithify: Lithify, topic: Topic, monkeypatch: pytest.MonkeyPatch, late: bool
) -> None:
    monkeypatch.setattr(turns, "OPEN_ANEW_MS", -1 if late else 60_000)
    before = lithify.records("scan", "t")
    answer: Callable[[str, int, int], bytes] = store.read
    appended = threading.Event()

    def read(key: str, start: int, length: int) -> bytes:
        if not appended.is_set():
            appended.set()
            topic.append([Record(key, b"later") for key in KEYS])
        return answer(key, start, length)

    monkeypatch.setattr(store, "read", read)
    monkeypatch.setattr("lithify.log.small_partitions.TOGETHER_MAX", 1)
    found: list[dict[str, Any]] = lithify.records("scan", "t")
    assert [each["key"] for each in found] == [each["key"] for each in before]
    first = [each for each in found if each["partition"] == found[0]["partition"]]
    assert [each["value"] == "later" for each in found] == [late and each not in first for each in found]


def test_what_has_grown_meanwhile_is_measured_anew(topic: Topic, monkeypatch: pytest.MonkeyPatch) -> None:
    """Or all that came would be held in memory at once, and threads would read what went to another home."""
    monkeypatch.setattr(turns, "OPEN_ANEW_MS", -1)
    reads = turns.Turns(topic, Warehouse(Driver(FarStore())), lambda _, found: iter([found.next_offset]))
    before = [(each.bytes, *each.batches()) for each in map(reads.__getitem__, range(len(reads)))]
    topic.append([Record(key, key) for key in KEYS])
    after = [(each.bytes, *each.batches()) for each in map(reads.__getitem__, range(len(reads)))]
    assert all(
        now > then for one, other in zip(after, before, strict=True) for now, then in zip(one, other, strict=True)
    )


def test_a_partition_is_opened_with_those_that_come_soon(topic: Topic, monkeypatch: pytest.MonkeyPatch) -> None:
    """Not with all again each time that one takes long."""
    monkeypatch.setattr(turns, "TOGETHER_MAX", 4)
    opened = list[range]()
    open_those = turns.Turns._open  # pyright: ignore[reportPrivateUsage]
    monkeypatch.setattr(turns.Turns, "_open", lambda self, numbers: (opened.append(numbers), open_those(self, numbers)))
    for anew_ms in (60_000, -1):
        monkeypatch.setattr(turns, "OPEN_ANEW_MS", anew_ms)
        opened.clear()
        reads = turns.Turns(topic, Warehouse(Driver(FarStore())), lambda _, found: iter([found.next_offset]))
        assert all(reads[number].bytes for number in range(PARTITIONS))
        late = [range(number, min(number + 4, PARTITIONS)) for number in range(PARTITIONS)]
        assert opened == ([range(4), range(4, PARTITIONS)] if anew_ms > 0 else late)


def test_what_was_requested_is_said_even_if_it_cannot_be_explained(
    lithify: Lithify, topic: Topic, monkeypatch: pytest.MonkeyPatch
) -> None:
    def away(*_: object) -> None:
        raise Unavailable("no answer")

    monkeypatch.setattr("lithify.admin.client.Admin.explain", away)
    assert len(lithify.ok("compaction", "submit", "t", "--full").splitlines()) == PARTITIONS


def test_what_comes_before_a_partition_that_cannot_be_opened_is_read(
    store: Meeting, lithify: Lithify, topic: Topic
) -> None:
    before = [each for each in lithify.records("read", "t") if each["partition"] < 3]
    store.away = "00003"
    told = lithify("read", "t")
    assert [json.loads(line) for line in told.stdout.splitlines()] == before
    assert (told.exit_code, "no answer" in told.stderr) == (7, True)
    assert lithify.records("read", "t", "--limit", "3") == before[:3]


@pytest.mark.parametrize("words", ["home relocate t", "home recall t"])
def test_nothing_to_move_is_said_only_if_all_could_be_asked(
    store: Meeting, lithify: Lithify, topic: Topic, tmp_path: Path, words: str
) -> None:
    lithify.ok("topic", "alter", "t", "--config", f"cold.location={tmp_path.as_uri()}")
    store.at, store.away = "", "00003"
    lithify.refused(*words.split(), code=7, saying="no answer")


def test_what_fails_is_told_beside_what_was_requested(store: Meeting, lithify: Lithify, topic: Topic) -> None:
    store.at, store.away = "", "00003"
    told = lithify("compaction", "submit", "t", "--full")
    assert told.exit_code == 1
    assert [line.split("/")[1] for line in told.stdout.splitlines()] == ["0", "1", "2", "4", "5"]
    assert "no answer" in told.stderr


def test_a_batch_is_appended_to_all_but_the_first_and_the_last_at_once(
    store: Meeting, lithify: Lithify, topic: Topic, tmp_path: Path
) -> None:
    """The first partition knows of the import before any other, and the last says that it has ended."""
    source = tmp_path / "rows.jsonl"
    source.write_text("".join(f'{{"key": "new {n}", "value": "v"}}\n' for n in range(60)))
    meets = store.meet
    created = list[str]()

    def meet(key: str) -> None:
        _, _, partition, kind, *_ = (*key.split("/"), "", "", "")
        if kind == "segments":
            created.append(partition)
            if len(created) == 1:
                store.met.add(partition)  # it meets nobody
            elif len(set(created)) == PARTITIONS:
                store.meets = None
        meets(key)

    store.meet = meet
    store.all_meet(PARTITIONS - 2, "segments")
    lithify.ok("append", "t", "--from", str(source))
    assert len(set(created)) == PARTITIONS
    assert len(lithify.records("scan", "t")) == len(KEYS) + 60


@pytest.mark.parametrize("words", ["home relocate t", "home recall t"])
def test_a_refusal_of_all_is_asked_for_at_once(
    store: Meeting, lithify: Lithify, topic: Topic, tmp_path: Path, words: str
) -> None:
    if words == "home relocate t":
        lithify.ok("topic", "alter", "t", "--config", f"cold.location={tmp_path.as_uri()}")
    store.all_meet(PARTITIONS, "")
    lithify.refused(*words.split(), code=2, saying="t/0: nothing to move")
    assert len(store.met) == PARTITIONS


def test_doctor_asks_all_at_once(store: Meeting, lithify: Lithify, topic: Topic) -> None:
    """Of a store in memory it says that no log can be kept in it."""
    told = lithify("doctor").stdout
    store.all_meet(PARTITIONS, "")
    assert lithify("doctor").stdout == told
    assert len(store.met) == PARTITIONS


@pytest.mark.parametrize("words", ["topic list", "compaction list", "home status", "verify"])
def test_all_topics_are_asked_at_once(store: Meeting, lithify: Lithify, words: str) -> None:
    for number in range(PARTITIONS):
        Warehouse(Driver(store)).create_topic(f"t{number}", probe=False)
    store.all_meet(PARTITIONS, "config")
    lithify.ok(*words.split())
    assert len(store.met) == PARTITIONS


def test_of_a_near_store_a_partition_is_opened_when_its_turn_comes(
    on_files: Lithify, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Whoever wants one record waits for no other partition."""
    on_files.ok("topic", "create", "t", "--partitions", str(PARTITIONS))
    on_files.ok("append", "t", input="".join(json.dumps({"key": key.decode(), "value": "v"}) + "\n" for key in KEYS))
    opened: list[range] = []
    open_those = turns.Turns._open  # pyright: ignore[reportPrivateUsage]
    monkeypatch.setattr(turns.Turns, "_open", lambda self, numbers: (opened.append(numbers), open_those(self, numbers)))
    assert len(on_files.records("read", "t", "--limit", "1")) == 1
    assert opened == [range(1)]
