"""A storm of SIGKILLs on one warehouse in a folder: producers, rival compactors and collectors, each a real process,
each killed again and again in the middle of what it does and started anew. Nothing is lost, doubled or left behind
(P5-P7, P10-P13, P16-P18)."""

import math
import os
import random
import signal
import subprocess
import sys
from collections import Counter
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from pathlib import Path

import pytest

import lithify
from lithify.admin.verify import Verifier, local_checks
from lithify.store.errors import Fenced
from lithify.store.file import FileStore
from tests.chaos.actors import PARTITIONS, TOPICS
from tests.chaos.records import record
from tests.e2e.workload import partition_files, scanned, segment_ids

VARIABLE = "LITHIFY_TEST_SEED"
SEED = int(os.environ.get(VARIABLE, "20261121"))
ROOT = Path(__file__).resolve().parents[2]
TIMEOUT_S = 300
COMPACTOR = "run compactor run --engine local --no-probe --no-gc --take-over --interval-ms 20 --log-level error"
COLLECTOR = "run gc run --gc-grace-ms 0 --gc-interval-ms 20 --gc-sweep-interval-ms 100 --log-level error"
LIVES_MAX = 5  # per kill: a compactor may also end because it was fenced


@dataclass
class Role:
    """What is killed: `share` of all kills, each at an act between `first` and `last`."""

    words: str
    processes: int
    share: float
    first: int
    last: int


ROLES = {
    "producer": Role("produce {name}", 3, 0.5, 30, 400),
    "compactor": Role(COMPACTOR, 2, 0.3, 30, 500),
    "collector": Role(COLLECTOR, 2, 0.2, 20, 300),
}


@dataclass
class Deaths:
    """How one process after the other of one name ended, and what producers among them said."""

    killed: int = 0
    fenced: int = 0
    said: list[tuple[str, int, int, int]] = field(default_factory=list)  # topic, partition, offset, number


def live(folder: Path, name: str, words: str, acts: int) -> tuple[int, str]:
    command = [
        sys.executable,
        "-X",
        "faulthandler",
        "-m",
        "tests.chaos.mortal",
        str(acts),
        str(folder),
        *words.format(name=name).split(),
    ]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, timeout=TIMEOUT_S, check=False)
    expected = (-signal.SIGKILL, Fenced.exit_code) if acts else (0,)
    assert done.returncode in expected, f"{name} ended with {done.returncode}: {done.stderr[:6_000]}"
    return done.returncode, done.stdout


def die(folder: Path, name: str, role: Role, kills: int) -> Deaths:
    dice = random.Random(f"{SEED} {name}")
    deaths = Deaths()
    for _ in range(kills * LIVES_MAX):
        code, said = live(folder, name, role.words, dice.randrange(role.first, role.last))
        deaths.killed += code == -signal.SIGKILL
        deaths.fenced += code == Fenced.exit_code
        deaths.said += heard(said)
        if deaths.killed == kills:
            break
    return deaths


def heard(said: str) -> Iterator[tuple[str, int, int, int]]:
    """The last line may have been cut off by the kill."""
    for line in said.splitlines(keepends=True):
        if line.endswith("\n"):
            topic, partition, offset, number = line.split()
            yield topic, int(partition), int(offset), int(number)


def storm(folder: Path, kills: int) -> dict[str, Deaths]:
    with lithify.open(str(folder)) as warehouse:
        for topic, config in TOPICS.items():
            warehouse.create_topic(topic, PARTITIONS[topic], config)
    slots = {f"{name}-{n}": (role, kills) for name, role in ROLES.items() for n in range(role.processes)}
    with ThreadPoolExecutor(len(slots)) as pool:
        running = {
            name: pool.submit(die, folder, name, role, math.ceil(kills * role.share / role.processes))
            for name, (role, kills) in slots.items()
        }
        deaths = {name: one.result() for name, one in running.items()}
    for name, ended in deaths.items():
        if name.startswith("producer"):
            ended.said += heard(live(folder, name, ROLES["producer"].words, 0)[1])
    return deaths


def settle(folder: Path) -> None:
    live(folder, "", "run compactor run --once --engine local --take-over", 0)
    for _ in range(3):
        live(folder, "", "run gc run --once --sweep --gc-grace-ms 0", 0)


def check(folder: Path, kills: int) -> None:
    try:
        deaths = storm(folder, kills)
        left = sum(1 for one in (folder / ".lithify-tmp").iterdir() if one.name != "reserve")
        settle(folder)
        with lithify.open(str(folder)) as warehouse:
            print(told_of(warehouse, deaths, left))
            assert sum(ended.killed for ended in deaths.values()) >= kills
            check_records(warehouse, deaths)
            check_nothing_is_left(warehouse, folder)
    except Exception as error:
        error.add_note(f"again: {VARIABLE}={SEED} .venv/bin/python -m pytest -m '' -s tests/chaos/test_sigkill.py")
        raise


def told_of(warehouse: lithify.Warehouse, deaths: dict[str, Deaths], left: int) -> str:
    lines = [f"{name}: killed {ended.killed} times, fenced {ended.fenced} times" for name, ended in deaths.items()]
    lines.append(f"{left} temporary files of killed processes")
    for topic in TOPICS:
        for number in range(PARTITIONS[topic]):
            described = warehouse.topic(topic).partition(number).describe()
            state = warehouse.driver.run(partition_files(warehouse, topic, number).compactor_state())
            jobs = Counter(f"{job.kind} {job.status}" for job in (state.history if state else ()))
            resumed = sum(len(job.attempts) > 1 for job in (state.history if state else ()))
            manifests = f"{described.manifest_id} manifests, epoch {described.compactor_epoch}"
            done = f"last jobs {dict(jobs)}, of them resumed {resumed}"
            lines.append(f"{topic}/{number}: {described.next_offset} records, {manifests}, {done}")
    return "\n".join(lines)


def check_records(warehouse: lithify.Warehouse, deaths: dict[str, Deaths]) -> None:
    """Each producer's records once, none missing before its last; and each where its producer was told."""
    producers = {name: ended.said for name, ended in deaths.items() if name.startswith("producer")}
    lasts = {
        (name, topic): max(number for where, _, _, number in said if where == topic)
        for name, said in producers.items()
        for topic in TOPICS
    }
    told = {(t, p, offset): record(name, number) for name, said in producers.items() for t, p, offset, number in said}
    found: Counter[bytes] = Counter()
    for number in range(PARTITIONS["changes"]):
        held = {one.offset: one.value for one in warehouse.topic("changes").partition(number).read()}
        assert list(held) == list(range(len(held)))
        found.update(value for value in held.values() if value is not None)
        for (topic, partition, offset), one in told.items():
            if (topic, partition) == ("changes", number):
                assert held[offset] == one.value
    assert found == Counter(record(n, i).value for n in producers for i in range(lasts[n, "changes"] + 1))
    users = warehouse.topic("users").partition(0)
    assert users.describe().next_offset == sum(lasts[name, "users"] + 1 for name in producers)
    latest = {record(n, i).key: record(n, i).value for n in producers for i in range(lasts[n, "users"] + 1)}
    assert scanned(users) == latest


def check_nothing_is_left(warehouse: lithify.Warehouse, folder: Path) -> None:
    live: set[str] = set()
    for topic in TOPICS:
        for number in range(PARTITIONS[topic]):
            described = warehouse.topic(topic).partition(number).describe()
            live |= {segment.id for segment in described.l0}
            live |= {segment.id for run in described.runs for segment in run.segments}
            state = warehouse.driver.run(partition_files(warehouse, topic, number).compactor_state())
            assert state is None or state.jobs == ()
    assert segment_ids(warehouse) == live
    assert Verifier(warehouse.driver, local_checks, True, lambda *_: None).verify(None).findings == ()
    FileStore(folder).remove_stale_temporaries(bool, older_than_ms=0)
    assert [one.name for one in (folder / ".lithify-tmp").iterdir()] == ["reserve"]


@pytest.mark.slow
def test_six_kills(tmp_path: Path) -> None:
    check(tmp_path / "warehouse", kills=6)


@pytest.mark.soak
@pytest.mark.long
def test_two_hundred_kills(tmp_path: Path) -> None:
    check(tmp_path / "warehouse", kills=200)
