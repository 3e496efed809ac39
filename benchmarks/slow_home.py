"""Whether anything hot waits for a cold home (RFC 0031): appends, tailing and hot gets beside a home that takes 2 s to
answer and gives 1 MB/s, by turns with and without readers of what is cold; and with that home down. Readers are four
threads of the very process, which share its interpreter's lock, or of another.

    python -m benchmarks.slow_home             some minutes
    python -m benchmarks.slow_home --quick     does it work?

The warehouse is a folder, the home an S3 server of this machine behind a link (benchmarks/slow_link.py). Each turn has
a topic of its own: appends that nobody compacts make manifests long, and what is measured then is their length.
"""

import contextlib
import itertools
import statistics
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Callable, Generator, Mapping, Sequence
from contextlib import AbstractContextManager, contextmanager
from pathlib import Path
from typing import NamedTuple

import lithify
from benchmarks.quick import asks_quick
from benchmarks.slow_link import slow_link
from lithify.store.errors import Unavailable

__all__ = ["Measured", "read_for_ever", "server", "slow_home"]

Readers = AbstractContextManager[None]

RTT_MS, BYTES_PER_S = 2_000, 1_000_000
READERS = 4
ROUNDS, SLICE_S = 12, 0.4  # of each operation, alone and beside readers
_SETTLED_S = 0.5  # the readers' first requests are under way
_RETRIED_AFTER_S = 1.0  # by readers of a home that is down
_STARTED_S = 3.0  # and their process has started
_APART = "import ast, sys, benchmarks.slow_home as b; b.read_for_ever(*sys.argv[1:3], ast.literal_eval(sys.argv[3]))"


class Points(NamedTuple):
    p50: float
    p99: float


class Measured(NamedTuple):
    """Of one operation, in milliseconds."""

    what: str
    beside: str  # what went on meanwhile
    loaded: Points
    alone: Points  # before it, in the same turns
    again: Points  # after it

    @property
    def worse(self) -> Points:
        """Than the mean of both alone, as a ratio: appends take longer from turn to turn, as manifests grow."""
        return Points(*(mine * 2 / sum(pair) for mine, *pair in zip(self.loaded, self.alone, self.again, strict=True)))

    @property
    def noise(self) -> Points:
        """How far the two measured alone are apart."""
        return Points(*(max(pair) / min(pair) for pair in zip(self.alone, self.again, strict=True)))


class _Place:
    """A warehouse of whose topics `cold-…` keys are in the home, and `hot-…` keys are not."""

    def __init__(self, folder: Path, home: str, quickly: Mapping[str, object], slowly: Mapping[str, object]) -> None:
        """`quickly`, `slowly`: how to reach the home while topics are made, and while it is measured."""
        self._folder = folder
        self._home = home
        self._quickly = {"homes": {home: dict(quickly)}}
        self._options = {"homes": {home: dict(slowly)}}
        self._names = map("users-{}".format, itertools.count())

    def open(self) -> lithify.Warehouse:
        """With a memory of its own."""
        return lithify.open(self._folder, storage_options=self._options)

    def make_topics(self, count: int, rows: int) -> list[str]:
        with lithify.open(self._folder, storage_options=self._quickly) as warehouse:
            names = list(itertools.islice(self._names, count))
            config = {"cleanup.policy": "compact", "cold.location": self._home, "l0.segments.max": "65536"}
            topics = [warehouse.create_topic(name, config=config, probe=False) for name in names]
            admin = lithify.Admin(warehouse)
            with lithify.Compactor(warehouse, engine="local") as compactor:
                for topic in topics:
                    topic.append([lithify.Record(b"cold-%06d" % row, b"v" * 500) for row in range(rows)])
                    admin.submit(topic.name, 0)
                compactor.run_once()
                for topic in topics:
                    admin.relocate(topic.name, 0)
                compactor.run_once()
            for topic in topics:
                topic.append([lithify.Record(b"hot-%06d" % row, b"v" * 500) for row in range(rows)])
                assert [use.segments for use in admin.homes(topic.name, 0).homes] == [1, 1]
        return names

    @contextmanager
    def readers(self, topic: str) -> Generator[None]:
        """Threads of this process."""
        leave = threading.Event()
        with contextlib.closing(self.open()) as warehouse:
            threads = _reading(warehouse, topic, leave)
            leave.wait(_SETTLED_S)
            try:
                yield
            finally:
                leave.set()
                for thread in threads:
                    thread.join()

    @contextmanager
    def readers_apart(self, topic: str) -> Generator[None]:
        """Threads of another process, which has no part in this interpreter's lock."""
        command = [sys.executable, "-c", _APART, str(self._folder), topic, repr(self._options)]
        with subprocess.Popen(command) as process:
            try:
                time.sleep(_STARTED_S)
                yield
            finally:
                process.kill()


def _reading(warehouse: lithify.Warehouse, topic: str, leave: threading.Event) -> list[threading.Thread]:
    """Threads that read what is cold again and again."""
    part = warehouse.topic(topic).partition(0)

    def read() -> None:
        while not leave.is_set():
            try:
                for _ in part.scan(low=b"cold-", high=b"cold-~"):
                    pass
            except Unavailable:
                leave.wait(_RETRIED_AFTER_S)

    threads = [threading.Thread(target=read, daemon=True) for _ in range(READERS)]
    for thread in threads:
        thread.start()
    return threads


def read_for_ever(folder: str, topic: str, options: Mapping[str, object]) -> None:
    """For `readers_apart`."""
    for thread in _reading(lithify.open(folder, storage_options=options), topic, threading.Event()):
        thread.join()


def _operations(place: _Place, topic: str) -> Mapping[str, Callable[[], object]]:
    part = place.open().topic(topic).partition(0)
    follower = place.open().topic(topic).partition(0).follower(None, "latest")
    hot = itertools.cycle(b"hot-%06d" % row for row in range(0, 100, 7))

    def append() -> object:
        return part.append([lithify.Record(b"new", b"v" * 100)])

    def tail() -> object:
        """What was just appended is there."""
        while follower.take() is None:
            part.append([lithify.Record(b"new", b"v")])
        return None

    return {"append": append, "tail": tail, "hot get": lambda: part.get(next(hot))}


def _times_ms(do: Callable[[], object], seconds: float) -> list[float]:
    """Of each of the calls that fit into so many seconds; of two at least."""
    times: list[float] = []
    end = time.perf_counter() + seconds
    while (began := time.perf_counter()) < end or len(times) < 2:
        do()
        times.append((time.perf_counter() - began) * 1_000)
    return times


def _measured(
    place: _Place, topics: Sequence[str], beside: str, readers: Callable[[str], Readers], slice_s: float
) -> list[Measured]:
    """Each turn measures alone, with readers, and alone again: what differs between the two alone is noise."""
    measured: dict[str, list[list[float]]] = {}
    for topic in topics:
        operations = _operations(place, topic)
        for do in operations.values():
            _times_ms(do, slice_s)
        for reading in (contextlib.nullcontext(), readers(topic), contextlib.nullcontext()):
            with reading:
                for name, do in operations.items():
                    measured.setdefault(name, []).append(_times_ms(do, slice_s))
    return [
        Measured(name, beside, loaded=_points(found[1::3]), alone=_points(found[::3]), again=_points(found[2::3]))
        for name, found in measured.items()
    ]


def _both(place: _Place, home: str, topics: Sequence[list[str]], slice_s: float) -> list[Measured]:
    here = _measured(place, topics[0], f"home {home}, readers here", place.readers, slice_s)
    return here + _measured(place, topics[1], f"home {home}, readers apart", place.readers_apart, slice_s)


def _points(turns: list[list[float]]) -> Points:
    """Of all calls of all turns."""
    points = statistics.quantiles(itertools.chain.from_iterable(turns), n=100)
    return Points(points[49], points[98])


@contextmanager
def server() -> Generator[int]:
    """The port of an S3 server: a process of its own, so that what it does is not counted with what is measured."""
    command = [sys.executable, "-m", "lithify.testing.server", "--bucket", "cold"]
    with subprocess.Popen(command, stdout=subprocess.PIPE, stdin=subprocess.DEVNULL, text=True) as process:
        assert process.stdout is not None
        try:
            yield next(int(line.rpartition(":")[2]) for line in process.stdout if "ENDPOINT" in line)
        finally:
            process.kill()


def slow_home(folder: Path, quick: bool = False) -> list[Measured]:
    rounds, slice_s, rows = (1, 0.05, 200) if quick else (ROUNDS, SLICE_S, 20_000)
    rtt_ms = 50 if quick else RTT_MS
    with server() as port:
        with slow_link(port, rtt_ms, BYTES_PER_S) as link:
            place = _Place(folder / "hot", "s3://cold/p", _reached_at(port), _reached_at(link))
            topics = [place.make_topics(rounds, rows) for _ in range(4)]
            found = _both(place, "slow", topics[:2], slice_s)
        return [*found, *_both(place, "down", topics[2:], slice_s)]  # the link has ended


def _reached_at(port: int) -> Mapping[str, object]:
    client = {"endpoint_url": f"http://127.0.0.1:{port}", "region_name": "us-east-1"}
    return {"key": "test", "secret": "test", "client_kwargs": client}


def main() -> int:
    quick = asks_quick("slow_home", __doc__)
    with tempfile.TemporaryDirectory() as folder:
        for each in slow_home(Path(folder), quick):
            print(
                f"{each.what:8} {each.beside:25}"
                f" p50 {each.loaded.p50:7.2f} ms ({each.worse.p50:.2f} x, noise {each.noise.p50:.2f} x)"
                f"  p99 {each.loaded.p99:7.2f} ms ({each.worse.p99:.2f} x, noise {each.noise.p99:.2f} x)"
            )
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
