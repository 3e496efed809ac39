"""Three warehouses under one Prometheus, and a fault for each alert.

- `kept`: a folder with a daemon (`lithify compactor run --http`) and a server (`lithify serve`);
- `left`: a folder with a server alone, that nobody compacts;
- `near`: in this process, in a store that can be slow or refuse, with a clock that can be wrong.
"""

import signal
import subprocess
import sys
from collections.abc import Callable, Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, closing, contextmanager, suppress
from pathlib import Path
from typing import Any, NamedTuple

import lithify
from lithify.admin.http.server import serving
from lithify.manifest.homes import where
from lithify.store.cold import Cold
from lithify.store.driver import Driver, machine_ms, pause
from lithify.store.errors import AccessDenied, CommitUnknown, Fenced, Unavailable
from lithify.store.homes import HERE, Homes
from lithify.store.memory import MemoryStore
from lithify.store.metered import Metered
from lithify.store.port import Object, ObjectInfo, Outcome
from tests.admin.served import running as served
from tests.admin.test_operations import COMPACTED, damage_head, fill, keys_of
from tests.clock import HandClock
from tests.processes import running

__all__ = ["FAULTS", "JOBS", "Fault", "Scene", "also", "scene"]

LONG_AGO_MS = 8 * 3_600_000
WRITERS = 6
COLD = "memory://cold"
JOBS = ("lithify-kept", "lithify-left", "lithify-near")
_PROGRAM = [sys.executable, "-m", "lithify.cli.main"]
_HTTP = ["--http", "127.0.0.1:0", "--http-survey-ms", "0"]
_DAEMON = [
    *("compactor", "run", "--engine", "local", "--no-probe", "--interval-ms", "200"),
    *("--gc-interval-ms", "200", "--gc-grace-ms", "0", *_HTTP),
]


class Moody(MemoryStore):
    """It is well until it is told otherwise."""

    creates_take_ms = 0
    refuses_lists = False
    throttled = ""  # part of the keys that it does not read

    def create(self, key: str, body: bytes, frees: bool = False) -> Outcome:
        if self.creates_take_ms:
            pause(self.creates_take_ms)
        return super().create(key, body, frees)

    def get(self, key: str) -> Object | None:
        if self.throttled and self.throttled in key:
            raise Unavailable(f"{key}: slow down")
        return super().get(key)

    def folders(self, prefix: str) -> list[str]:
        if self.refuses_lists:
            raise AccessDenied("no")
        return [*super().folders(prefix)]


class ColdStore(MemoryStore):
    away = False

    def head(self, key: str) -> ObjectInfo | None:
        if self.away:
            raise Unavailable("no answer")
        return super().head(key)


class Away(lithify.LocalEngine):
    """It takes no tasks."""

    def start(self, *args: Any, **named: Any) -> Any:
        raise Unavailable("no master")


class Scene:
    def __init__(self, kept: lithify.Warehouse, left: lithify.Warehouse, past: HandClock) -> None:
        self.kept, self.left, self.past = kept, left, past
        self.long_ago = {each.url: lithify.open(each.url, clock=past) for each in (kept, left)}
        self.store, self.cold = Moody(), ColdStore()
        self.ahead_ms = 0
        homes = {HERE: Metered(self.store), COLD: Cold(COLD, Metered(self.cold))}
        driver = Driver(Homes(homes), self._now_ms)
        self.near = lithify.Warehouse(driver)
        self.server = serving(self.near, "127.0.0.1:0", survey_ms=0)
        self.daemon: subprocess.Popen[Any] | None = None
        self.urls: dict[str, list[str]] = {}
        for each in (kept, left, self.near):
            each.create_topic("users", 1, COMPACTED, probe=False)
            each.create_topic("clicks", 2, probe=False)
        self.users = kept.topic("users")
        self.consumer = kept.topic("clicks").partition(0).consumer("reader")

    def _now_ms(self) -> int:
        return machine_ms() + self.ahead_ms

    def use(self) -> None:
        """What is normal: appends, compactions, collections, readers."""
        with suppress(CommitUnknown):  # the daemon's collector has no grace period, or it would collect nothing here
            fill(self.users)
        fill(self.kept.topic("clicks"))
        self.consumer.poll()
        self.consumer.commit()

    def old_records(self, name: str) -> None:
        """Appended long ago, to a topic that was never compacted."""
        self.topic_long_ago(self.kept, name, COMPACTED).append([lithify.Record(b"k", b"v")] * 2)

    def use_once(self) -> None:
        """A daemon has to do, others have not; and there are a checkpoint and consumers."""
        self.old_records("early")
        for each in (self.left, self.near):
            fill(each.topic("clicks"))
            each.topic("clicks").partition(0).consumer("reader").close()
        admin = lithify.Admin(self.near)
        admin.create_checkpoint("clicks", "c")
        fill(self.near.topic("users"))
        fill(self.near.create_topic("moved", 1, COMPACTED | {"cold.location": COLD}, probe=False))
        with closing(lithify.Compactor(self.near, engine="local", events=self.server.sink)) as compactor:
            compactor.run_once()
            admin.relocate("moved", 0)
            compactor.run_once()
        assert [use.segments for use in admin.homes("moved", 0).homes] == [0, 1]

    def topic_long_ago(self, warehouse: lithify.Warehouse, name: str, config: Mapping[str, str]) -> lithify.Topic:
        return self.long_ago[warehouse.url].create_topic(name, 1, config, probe=False)

    def compact_long_ago(self) -> None:
        with closing(lithify.Compactor(self.long_ago[self.left.url], engine="local")) as compactor:
            compactor.run_once()

    def append_at_once(self, *topics: str) -> None:
        """To the store of this process, by several writers that share no commits, as those of several processes."""
        writers = [lithify.Warehouse(Driver(self.near.driver.store, self._now_ms)) for _ in range(WRITERS)]

        def append(number: int) -> None:
            partition = writers[number].topic(topics[number % len(topics)]).partition(0)
            partition.append([lithify.Record(b"k", b"v")])

        with ThreadPoolExecutor(WRITERS) as pool:
            list(pool.map(append, range(WRITERS)))


def _garbage(scene: Scene) -> None:
    stale = scene.topic_long_ago(scene.left, "stale", COMPACTED)
    for _ in range(4):
        fill(stale)
    scene.compact_long_ago()


def _missed_deletions(scene: Scene) -> None:
    topic = scene.topic_long_ago(scene.left, "forgetful", COMPACTED | {"delete.retention.ms": "0"})
    topic.append([lithify.Record(key, b"v") for key in (b"a", b"b")])
    with topic.partition(0).consumer("slow") as consumer:
        consumer.poll(max_records=1)
    for value in (None, b"v"):
        topic.append([lithify.Record(b"b", value) if value is None else lithify.Record(b"c", value)])
        scene.past.now_ms += 60_000
        scene.compact_long_ago()


def _heavy(scene: Scene) -> None:
    heavy = scene.left.create_topic("heavy", 1, COMPACTED, probe=False)
    for _ in range(4):
        heavy.append([lithify.Record(b"k%d" % number, b"v" * 100) for number in range(1_000)])
    heavy.append([lithify.Record(b"k%d" % number, None) for number in range(1_000)])
    heavy.alter({"delete.retention.ms": "0"})
    for _ in range(2):
        with closing(lithify.Compactor(scene.left, engine="local")) as compactor:
            compactor.run_once()
        heavy.append([lithify.Record(b"k", b"v")])


def _failing(scene: Scene) -> None:
    fill(scene.left.create_topic("failing", 1, COMPACTED, probe=False))
    with closing(lithify.Compactor(scene.left, engine=Away(1))) as compactor:
        compactor.run_once()


def _owing(scene: Scene) -> None:
    fill(scene.topic_long_ago(scene.left, "owing", COMPACTED))


def _asked(scene: Scene) -> None:
    fill(scene.topic_long_ago(scene.left, "asked", {}))
    lithify.Admin(scene.long_ago[scene.left.url]).submit("asked", 0)


def _paused(scene: Scene) -> None:
    scene.left.create_topic("paused", 1, COMPACTED | {"compaction.paused": "true"}, probe=False)


def _expired(scene: Scene) -> None:
    topic = scene.topic_long_ago(scene.left, "expiring", {"retention.ms": "3600000"})
    fill(topic)
    topic.partition(0).consumer("slow").close()


def _unreadable(scene: Scene) -> None:
    fill(scene.left.create_topic("damaged", 1, probe=False))
    damage_head(scene.left, "damaged", 0)


def _slow_appends(scene: Scene) -> None:
    full = scene.left.create_topic("full", 1, {"l0.segments.max": "8", "l0.segments.tier": "4"}, probe=False)
    for _ in range(7):
        fill(full)


def _refused_appends(scene: Scene) -> None:
    fill(scene.left.topic("full"))


def _quarantine(scene: Scene) -> None:
    """The daemon meets a damaged segment."""
    broken = scene.kept.create_topic("broken", 1, COMPACTED | {"compaction.paused": "true"}, probe=False)
    fill(broken)
    fill(broken)
    head = lithify.Admin(scene.kept).manifest("broken", 0)
    key = where(keys_of(scene.kept, "broken", 0), head.l0[0]).key
    found = scene.kept.store.get(key)
    assert found is not None
    scene.kept.store.put(key, found.body[:20] + bytes(8) + found.body[28:])
    broken.alter({"compaction.paused": None})


def _failing_collections(scene: Scene) -> None:
    """The daemon first sees the topic when it is damaged: it looks again at one with nothing to collect in an hour."""
    assert scene.daemon is not None
    scene.daemon.send_signal(signal.SIGSTOP)
    fill(scene.kept.create_topic("spoiled", 1, probe=False))
    damage_head(scene.kept, "spoiled", 0)
    scene.daemon.send_signal(signal.SIGCONT)


def _killed(scene: Scene) -> None:
    assert scene.daemon is not None
    scene.daemon.send_signal(signal.SIGKILL)
    scene.daemon.wait()


def _left_alone(scene: Scene) -> None:
    """As `Scene.use_once` has done while the daemon lived."""
    scene.old_records("late")


def _fighting(scene: Scene) -> Callable[[], object]:
    fought = scene.near.create_topic("fought", 1, COMPACTED, probe=False)
    told = scene.server.sink
    rivals = [lithify.Compactor(scene.near, engine="local", events=told) for _ in range(2)]

    def round_() -> None:
        for each in rivals:
            fill(fought)
            with suppress(Fenced):
                each.run_once(take_over=True)

    return round_


def _contended(scene: Scene) -> Callable[[], object]:
    scene.store.creates_take_ms = 60
    return lambda: scene.append_at_once("clicks")


def _slow(scene: Scene) -> Callable[[], object]:
    for number in range(WRITERS):
        scene.near.create_topic(f"slow-{number}", 1, probe=False)
    scene.store.creates_take_ms = 3_000
    return lambda: scene.append_at_once(*(f"slow-{number}" for number in range(WRITERS)))


def _throttled(scene: Scene) -> None:
    scene.store.creates_take_ms = 0
    scene.store.throttled = "clicks/"


def _skewed(scene: Scene) -> None:
    scene.ahead_ms = 3_600_000


def _home_away(scene: Scene) -> None:
    scene.cold.away = True


def _not_listed(scene: Scene) -> None:
    scene.store.refuses_lists = True


class Fault(NamedTuple):
    """How an alert is provoked, and where it must fire. What `provoke` returns is repeated until it does."""

    provoke: Callable[[Scene], Callable[[], object] | None]
    job: str
    topic: str | None = None
    ends_others: bool = False  # those before it must have fired

    @property
    def labels(self) -> dict[str, str]:
        return {"job": self.job} | ({} if self.topic is None else {"topic": self.topic})


def also(_: Scene) -> None:
    """The fault before provokes this one, too."""


KEPT, LEFT, NEAR = JOBS
FAULTS: dict[str, Fault] = {  # in this order
    "LithifyGarbageNotCollected": Fault(_garbage, LEFT, "stale"),
    "LithifyConsumerMissedDeletions": Fault(_missed_deletions, LEFT, "forgetful"),
    "LithifyGarbageLarge": Fault(_heavy, LEFT, "heavy"),
    "LithifyJobFailing": Fault(_failing, LEFT, "failing"),
    "LithifyCompactionDebtTooOld": Fault(_owing, LEFT, "owing"),
    "LithifyRequestWaits": Fault(_asked, LEFT, "asked"),
    "LithifyCompactionPaused": Fault(_paused, LEFT, "paused"),
    "LithifyConsumerLostRecords": Fault(_expired, LEFT, "expiring"),
    "LithifyPartitionUnreadable": Fault(_unreadable, LEFT, "damaged"),
    "LithifyAppendsSlow": Fault(_slow_appends, LEFT, "full"),
    "LithifyAppendsRefused": Fault(_refused_appends, LEFT, "full"),
    "LithifyQuarantined": Fault(_quarantine, KEPT, "broken"),
    "LithifyCompactionGivenUp": Fault(also, KEPT, "broken"),
    "LithifyCollectionFailing": Fault(_failing_collections, KEPT),
    "LithifyCompactorsFight": Fault(_fighting, NEAR, "fought"),
    "LithifyCommitConflicts": Fault(_contended, NEAR),
    "LithifyStoreSlow": Fault(_slow, NEAR),
    "LithifyStoreErrors": Fault(_throttled, NEAR),
    "LithifyClockSkew": Fault(_skewed, NEAR),
    "LithifyHomeAway": Fault(_home_away, NEAR),
    "LithifySurveyFailing": Fault(_not_listed, NEAR, ends_others=True),
    "LithifyDown": Fault(_killed, KEPT, ends_others=True),
    "LithifyNobodyCompacts": Fault(_left_alone, KEPT, "late"),
}


@contextmanager
def scene(folder: Path) -> Iterator[Scene]:
    folder.mkdir()
    with ExitStack() as stack:
        kept, left = (stack.enter_context(lithify.open(str(folder / name))) for name in ("kept", "left"))
        made = Scene(kept, left, HandClock(machine_ms() - LONG_AGO_MS))
        stack.enter_context(served(made.server))
        assert made.server.started.wait(60)
        made.use_once()

        def started(name: str, url: str, *words: str) -> tuple[subprocess.Popen[Any], str]:
            """Its address is the first line that it says; its log goes to a file, as nobody reads it."""
            log = stack.enter_context((folder / f"{name}.log").open("wb"))
            command = [*_PROGRAM, *words, "--warehouse", url]
            process = stack.enter_context(running(command, stdout=subprocess.PIPE, stderr=log, text=True))
            assert process.stdout is not None
            return process, process.stdout.readline().strip()

        made.daemon, daemon = started("daemon", kept.url, *_DAEMON)
        _, beside = started("beside", kept.url, "serve", *_HTTP)
        _, alone = started("alone", left.url, "serve", *_HTTP)
        made.urls = {KEPT: [daemon, beside], LEFT: [alone], NEAR: [made.server.url]}
        yield made
