"""One damaged numbered file is one damaged partition: everything else is compacted, collected, read and examined.

Each case damages the newest file of one chain in one partition, in one way, and lets everybody come by. Nothing but
errors of lithify is met; the other partitions get what they are due; where the damage is nothing is deleted; and with
the file restored all is as it was.
"""

import random
import re
from collections.abc import Callable, Iterator
from functools import cache

import pytest
import structlog
from structlog.testing import LogCapture

import lithify
from lithify.admin.client import Admin
from lithify.admin.verify import Verifier, local_checks
from lithify.compactor.coordinator import Coordinator
from lithify.gc import collector as collector_module
from lithify.gc.collector import Collector, GcReport
from lithify.manifest.codec import encode
from lithify.manifest.keys import TopicKeys
from lithify.manifest.known import KnownPartitions
from lithify.manifest.model import FORMAT, Manifest
from lithify.manifest.partition import PartitionFiles
from lithify.manifest.walk import topics_found
from lithify.store.apart import Fault, attempt
from lithify.store.driver import new_id
from lithify.store.errors import Corrupt, Unavailable
from lithify.store.memory import MemoryStore
from lithify.store.metered import Metered
from lithify.store.port import Object
from tests.clock import HandClock
from tests.log.compaction import files_of

GRACE_MS = 60_000
CHAINS = ("manifest", "compactor", "boundary", "topic", "runs")  # and run lists, which a manifest needs
SEEDS_A_TEST = 22
ROUNDS = 6  # of what chance decides
RECORDS = 6
CONFIG = {"cleanup.policy": "compact", "l0.segments.tier": 3, "min.cleanable.dirty.ratio": 0}

Damage = Callable[[bytes, random.Random], bytes]


def flipped(body: bytes, dice: random.Random) -> bytes:
    place = dice.randrange(len(body) - 40)  # a flip in the checksum's own name takes nothing else away
    return body[:place] + bytes([body[place] ^ (1 << dice.randrange(8))]) + body[place + 1 :]


DAMAGES: dict[str, Damage] = {
    "a flipped bit": flipped,
    "a flipped bit, again": flipped,
    "cut": lambda body, dice: body[: dice.randrange(len(body) - 1)],
    "empty": lambda body, dice: b"",
    "zeros": lambda body, dice: bytes(len(body)),
    "not UTF-8": lambda body, dice: body.replace(b'"topic_id":"', b'"topic_id":"\xff', 1),
    "nested": lambda body, dice: b'{"a":' * 5_000,
    "a huge number": lambda body, dice: re.sub(
        rb'"(committed_at_ms|min_offset)":', rb"\g<0>" + b"9" * 5_000, body, count=1
    ),
    "another type": lambda body, dice: re.sub(rb'"format":[0-9]', b'"format":[1]', body, count=1),
    "a newer format": lambda body, dice: b'{"kind":"any","format":99,"id":1}',
    "another partition's": lambda body, dice: encode(
        Manifest(format=FORMAT, id=7, nonce="n", topic="t", topic_id="i", partition=0)
    ),
}
BY_CHANCE = ("a flipped bit", "a flipped bit, again", "cut")
CASES = len(CHAINS) * len(DAMAGES)


def damage_of(seed: int) -> str:
    return list(DAMAGES)[seed // len(CHAINS) % len(DAMAGES)]


# Every damage of every chain once; then those again that come out otherwise with another seed.
SEEDS = [seed for seed in range(ROUNDS * CASES) if seed < CASES or damage_of(seed) in BY_CHANCE]


class Town:
    """Three topics; partition 0 of `bad` is where damage comes. Everything is due everywhere."""

    def __init__(self) -> None:
        self.clock = HandClock()
        self.warehouse = lithify.open(f"memory://{new_id()}", clock=self.clock)
        self.records = 0

    def build(self) -> None:
        for name, partitions in (("bad", 2), ("good", 1), ("zz", 1)):
            self.warehouse.create_topic(name, partitions, CONFIG, probe=False)
        self.write()
        self.compactor().run_once()
        for _ in range(3):
            self.collect()
        self.write()

    def compactor(self) -> lithify.Compactor:
        return lithify.Compactor(self.warehouse, engine="local", concurrency=1)

    def collect(self, *, sweep: bool = False) -> GcReport:
        self.clock.now_ms += 2 * GRACE_MS
        return Collector(self.warehouse, grace_ms=GRACE_MS).run_once(sweep=sweep)

    def write(self) -> None:
        for _ in range(RECORDS):
            self.records += 1
            for name, number in PLACES:
                record = lithify.Record(key=b"k%d" % (self.records % 4), value=b"%d" % self.records)
                self.warehouse.topic(name).partition(number).append([record])

    def scan(self, name: str, number: int) -> dict[bytes, bytes]:
        found = self.warehouse.topic(name).partition(number).scan().read_all().to_pydict()
        return dict(zip(found["key"], found["value"], strict=True))

    def objects(self, prefix: str) -> set[str]:
        found, token = set[str](), None
        while True:
            page = self.warehouse.store.list(prefix, token)
            found |= {each.key for each in page.objects}
            token = page.token
            if token is None:
                return found

    def newest(self, chain: str) -> str:
        prefix = TopicKeys("bad").config.prefix
        if chain != "topic":
            prefix = getattr(files_of(self.warehouse, "bad").keys, "manifest" if chain == "runs" else chain).prefix
        return max(key for key in self.objects(prefix) if key.endswith(f".{chain}"))

    def replace(self, key: str, body: bytes) -> bytes:
        found = self.warehouse.store.get(key)
        assert found is not None
        self.warehouse.store.put(key, body)
        return found.body


def _objects(warehouse: lithify.Warehouse) -> dict[str, Object]:
    assert isinstance(warehouse.store, Metered)
    assert isinstance(warehouse.store.inner, MemoryStore)
    return warehouse.store.inner._objects


@cache
def _built() -> Town:
    town = Town()
    town.build()
    return town


def settled() -> Town:
    """A town of its own, like the one that was built first: no object is changed in place."""
    first, town = _built(), Town()
    town.clock.now_ms, town.records = first.clock.now_ms, first.records
    _objects(town.warehouse).update(_objects(first.warehouse))
    return town


@pytest.fixture(autouse=True)
def _all_runs_are_listed(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("lithify.manifest.list_layout.INLINE_MAX", 0)


PLACES = (("bad", 0), ("bad", 1), ("good", 0), ("zz", 0))


@pytest.fixture(autouse=True)
def logged() -> Iterator[LogCapture]:
    captured = LogCapture()
    structlog.configure(processors=[captured])
    yield captured
    structlog.reset_defaults()


def examine(town: Town, chain: str) -> None:
    """Everybody comes by."""
    whole = [place for place in PLACES if place != ("bad", 0) and (chain != "topic" or place[0] != "bad")]
    before = {place: len(town.warehouse.topic(place[0]).partition(place[1]).describe().l0) for place in whole}
    there = town.objects("bad/")
    report = town.compactor().run_once()
    failed = {(part.topic, part.partition) for part in report.partitions if part.outcome == "failed"}
    lost = {("bad", None if chain == "topic" else 0)}
    assert failed == lost
    for name, number in whole:
        left = len(town.warehouse.topic(name).partition(number).describe().l0)
        assert left < before[name, number], f"{name}/{number} is not compacted"
        assert len(town.scan(name, number)) == 4
    deleted: set[str] = set()
    for sweep in (False, False, True, True):
        done = town.collect(sweep=sweep)
        assert {(part.topic, part.partition) for part in done.partitions if part.fault} == lost
        deleted |= {garbage.key.split("/")[0] for garbage in done.deleted}
    assert {"good", "zz"} <= deleted, "the others are collected"
    root = "bad/" if chain == "topic" else files_of(town.warehouse, "bad").keys.root
    assert {key for key in there if key.startswith(root)} <= town.objects(root), "nothing goes where the damage is"
    checks = Verifier(town.warehouse.driver, local_checks).verify().partitions
    assert {(check.topic, check.partition) for check in checks if check.findings} == lost
    examined = Admin(town.warehouse).health().checks
    assert {check.fault.kind for check in examined if check.fault} in ({"Corrupt"}, {"InvalidRequest"})
    verdicts = {check.name: check.verdict for check in examined}
    assert verdicts["topic bad" if chain == "topic" else "bad/0"] == "failure"
    assert "failure" not in {verdict for name, verdict in verdicts.items() if not name.split("/")[0].endswith("bad")}
    assert town.warehouse.topics() == ["bad", "good", "zz"]
    unread = [name for name, known in topics_found(KnownPartitions(town.warehouse.driver)) if isinstance(known, Fault)]
    assert unread == (["bad"] if chain == "topic" else [])
    if chain != "topic":
        info = town.warehouse.topic("bad").describe()
        told = [it.partition for it in info.partitions], [it.partition for it in info.failures]
        assert told == (([0, 1], []) if chain == "compactor" else ([1], [0]))
    for ask in (
        lambda: town.scan("bad", 0),
        lambda: town.warehouse.topic("bad").partition(0).append([lithify.Record(key=b"k", value=b"v")]),
        lambda: Admin(town.warehouse).compactions("bad"),
        lambda: Admin(town.warehouse).explain("bad", 0),
        lambda: Admin(town.warehouse).submit("bad", 0),
    ):
        fault = attempt(ask)
        assert not isinstance(fault, Fault) or (fault.kind != "Unexpected" and "bad" in fault.message)


def play(seed: int) -> None:
    dice = random.Random(seed)
    chain, how = CHAINS[seed % len(CHAINS)], damage_of(seed)
    town = settled()
    key = town.newest(chain)
    expected = {place: town.scan(*place) for place in PLACES}
    body = town.replace(key, b"")
    broken = DAMAGES[how](body, dice)
    assert broken != body
    town.warehouse.store.put(key, broken)
    try:
        examine(town, chain)
    except AssertionError as error:
        raise AssertionError(f"seed {seed}, {chain}, {how}: {error}") from error
    if town.warehouse.store.get(key) is not None:
        town.warehouse.store.put(key, body)
    report = town.compactor().run_once()
    assert [part.detail for part in report.partitions if part.outcome == "failed"] == []
    assert [part.fault for part in town.collect(sweep=True).partitions if part.fault] == []
    for place in PLACES:
        found = town.scan(*place)
        assert {name: found[name] for name in expected[place]} == expected[place], (seed, place)


def _or_soak(first: int) -> object:
    """Every damage of every chain; the same of other bits and places takes longer."""
    return first if first < CASES else pytest.param(first, marks=pytest.mark.soak)


@pytest.mark.slow
@pytest.mark.parametrize("first", map(_or_soak, range(0, len(SEEDS), SEEDS_A_TEST)))
def test_one_damaged_file_is_one_damaged_partition(first: int) -> None:
    for seed in SEEDS[first : first + SEEDS_A_TEST]:
        play(seed)


@pytest.mark.slow
def test_a_run_list_that_is_gone_is_one_damaged_partition() -> None:
    town = settled()
    key = town.newest("runs")
    body = town.replace(key, b"")
    town.warehouse.store.delete([key])
    examine(town, "runs")
    with pytest.raises(Corrupt, match=rf"{key} is missing, and bad/.*manifest needs it; nothing was changed. Restore"):
        town.scan("bad", 0)
    town.warehouse.store.put(key, body)
    assert len(town.scan("bad", 0)) == 4
    assert [part.fault for part in town.collect(sweep=True).partitions if part.fault] == []


def entries(logged: LogCapture, level: str) -> list[str]:
    return [entry["event"] for entry in logged.entries if entry["log_level"] == level]


def test_a_failure_is_logged_when_it_begins_and_when_it_ends(logged: LogCapture) -> None:
    town = settled()
    compactor, collector = town.compactor(), Collector(town.warehouse, grace_ms=GRACE_MS)
    key = town.newest("manifest")
    body = town.replace(key, b"")
    logged.entries.clear()
    for _ in range(3):
        done = compactor.run_once().partitions
        assert ("bad", "Corrupt") in {(part.topic, part.fault.kind) for part in done if part.fault}
        assert [part.fault.kind for part in collector.run_once().partitions if part.fault] == ["Corrupt"]
    assert entries(logged, "error") == ["partition failed", "partition not collected"]
    town.warehouse.store.put(key, body)
    logged.entries.clear()
    for _ in range(2):
        compactor.run_once()
        collector.run_once()
    assert [text for text in entries(logged, "info") if text.startswith("no longer")] == [
        "no longer: partition failed",
        "no longer: partition not collected",
    ]
    assert entries(logged, "error") == []


def test_a_store_that_fails_in_one_partition_stops_no_other(monkeypatch: pytest.MonkeyPatch) -> None:
    town = settled()
    root, get = files_of(town.warehouse, "bad").keys.root, town.warehouse.store.get

    def failing(key: str) -> object:
        if key.startswith(root):
            raise Unavailable(f"{key}: no answer")
        return get(key)

    with monkeypatch.context() as patch:
        patch.setattr(town.warehouse.store, "get", failing)
        report = town.compactor().run_once()
        assert {(part.topic, part.partition, part.fault.kind) for part in report.partitions if part.fault} == {
            ("bad", 0, "Unavailable")
        }
        assert {part.outcome for part in report.partitions if not part.fault} == {"worked"}
        done = town.collect(sweep=True)
        assert {(part.topic, part.partition, part.fault.kind) for part in done.partitions if part.fault} == {
            ("bad", 0, "Unavailable")
        }
        info = town.warehouse.topic("bad").describe()
        assert [it.partition for it in info.partitions] == [1]
        assert [(it.partition, it.fault.kind) for it in info.failures] == [(0, "Unavailable")]
    assert {part.fault for part in town.compactor().run_once().partitions} == {None}


@pytest.mark.parametrize("where", ["want", "step"])
def test_a_fault_of_ours_in_one_partition_is_told_and_stops_no_other(
    where: str, monkeypatch: pytest.MonkeyPatch, logged: LogCapture
) -> None:
    """By its type and place: its words may quote a record."""
    town = settled()
    compactor = town.compactor()
    real = getattr(Coordinator, where)

    def faulty(*_: object) -> object:
        raise TypeError("k0=v0")

    with monkeypatch.context() as patch:
        topic_id = files_of(town.warehouse, "bad").keys.topic_id
        patch.setattr(
            Coordinator,
            where,
            lambda self, *a, **n: (faulty if self.files.keys.topic_id == topic_id else real)(self, *a, **n),
        )
        report = compactor.run_once()
    assert {part.outcome for part in report.partitions if part.topic != "bad"} == {"worked"}
    told = [entry for entry in logged.entries if entry["log_level"] == "error"]
    assert {(entry["topic"], entry["partition"]) for entry in told} == {("bad", 0), ("bad", 1)}
    assert all("unexpected TypeError at tests.e2e.test_damaged_files" in entry["error"] for entry in told)
    assert "v0" not in repr(told)
    failed = {(part.topic, part.partition, part.fault.kind) for part in report.partitions if part.fault}
    assert failed == {("bad", 0, "Unexpected"), ("bad", 1, "Unexpected")}
    town.clock.now_ms += 10 * GRACE_MS  # whoever was interrupted is believed at work for a lease
    assert {part.outcome for part in compactor.run_once().partitions if part.topic == "bad"} <= {"worked", "idle"}


def test_a_fault_of_ours_in_the_collection_of_one_partition(monkeypatch: pytest.MonkeyPatch) -> None:
    town = settled()
    root = files_of(town.warehouse, "bad").keys.root
    real = collector_module.collect

    def faulty(files: PartitionFiles, *rest: object, **named: object) -> object:
        if files.keys.root == root:
            raise KeyError("k0=v0")
        return real(files, *rest, **named)  # type: ignore[arg-type]

    with monkeypatch.context() as patch:
        patch.setattr(collector_module, "collect", faulty)
        done = town.collect()
    assert [(part.topic, part.partition, part.fault.kind) for part in done.partitions if part.fault] == [
        ("bad", 0, "Unexpected")
    ]
    assert "v0" not in repr(done)
    assert [part.fault for part in town.collect().partitions if part.fault] == []
