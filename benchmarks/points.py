"""Point reads on a folder: gets a second of random keys, of a topic of one sorted run.

Each figure is the best of some rounds, by wall time and by the processor time of this process: the machine may have
other work."""

import random
import shutil
import time
from collections.abc import Callable
from pathlib import Path

import msgspec
import pyarrow as pa

import lithify
from lithify.log.partition import Partition

__all__ = ["Points", "points"]

_ROUNDS = 5
_GETS = 2_000
_MANY = 10_000
_COLD = 200  # of keys that are far apart
_AN_HOUR_MS = 3_600_000


class Rate(msgspec.Struct, frozen=True):
    per_s: float
    per_cpu_s: float


class Points(msgspec.Struct, frozen=True):
    """Keys found a second."""

    rows: int
    first: Rate  # nothing is known of any segment's rows, and the head is looked at each time
    head_checked: Rate
    stale: Rate  # a head that is a moment old will do
    many: Rate
    many_first: Rate


def points(folder: Path, *, quick: bool = False) -> Points:
    rows = 20_000 if quick else 1_000_000
    root = folder / "work-points"
    shutil.rmtree(root, ignore_errors=True)
    _fill(root, rows)
    dice = random.Random(1)

    def opened() -> Partition:
        return lithify.open(f"file://{root}").topic("points").partition(0)

    def gets(part: Partition, count: int, staleness_ms: int) -> None:
        for _ in range(count):
            wanted = dice.randrange(rows)
            found = part.get(_key(wanted), max_staleness_ms=staleness_ms)
            assert found is not None
            assert found.value == _value(wanted)

    def many(part: Partition) -> None:
        wanted = [dice.randrange(rows) for _ in range(_MANY)]
        found = part.get_many([_key(each) for each in wanted])
        assert [record and record.value for record in found] == [_value(each) for each in wanted]

    warm = opened()
    gets(warm, _GETS, _AN_HOUR_MS)
    first = _best(_COLD, lambda: [gets(part, 1, 0) for part in [opened()] for _ in range(_COLD)])
    many_first = _best(_MANY, lambda: many(opened()))
    many(warm)
    return Points(
        rows,
        first,
        _best(_GETS, lambda: gets(warm, _GETS, 0)),
        _best(_GETS, lambda: gets(warm, _GETS, _AN_HOUR_MS)),
        _best(_MANY, lambda: many(warm)),
        many_first,
    )


def _fill(root: Path, rows: int) -> None:
    warehouse = lithify.open(f"file://{root}")
    part = warehouse.create_topic("points", config={"cleanup.policy": "compact"}).partition(0)
    order = list(range(rows))
    random.Random(2).shuffle(order)
    for start in range(0, rows, rows // 5):
        mine = order[start : start + rows // 5]
        keys = pa.array([_key(each) for each in mine], pa.binary())
        part.append(pa.table({"key": keys, "value": pa.array([_value(each) for each in mine], pa.binary())}))
    admin = lithify.Admin(warehouse)
    admin.submit("points", 0, "full")
    lithify.Compactor(warehouse, engine="local").run_once()
    assert len(part.describe().l0) == 0


def _key(number: int) -> bytes:
    return b"account-%08d" % number


def _value(number: int) -> bytes:
    return b'{"plan":"pro","seats":%d,"renews":"%08x"}' % (number % 100, number * 2_654_435_761 % (1 << 32))


def _best(count: int, work: Callable[[], object]) -> Rate:
    walls: list[float] = []
    cpus: list[float] = []
    for _ in range(_ROUNDS):
        wall, cpu = time.perf_counter(), time.process_time()
        work()
        walls.append(time.perf_counter() - wall)
        cpus.append(time.process_time() - cpu)
    return Rate(count / min(walls), count / min(cpus))
