"""A warehouse in memory with its server, and compactors that do as much of a job as a test lets them."""

import threading
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from unittest import mock

import lithify
from lithify.admin.http.access import Tokens
from lithify.admin.http.streams import Streams
from lithify.compactor.engines.local import LocalEngine
from lithify.compactor.engines.underway import Threads, Underway
from lithify.events.feed import Feed
from lithify.manifest.keys import PartitionKeys
from lithify.segment.execute import execute
from lithify.segment.task import MergeTask, TaskFailure, TaskResult
from lithify.store.driver import new_id
from lithify.store.homes import Homes
from lithify.work.outcome import outcome_of
from tests.admin.served import Served, served

COMPACTED = {"cleanup.policy": "compact", "min.cleanable.dirty.ratio": "0"}
END_S = 60


class SteppedEngine(LocalEngine):
    """Does one task after another, and each only when it is let."""

    def __init__(self) -> None:
        super().__init__(1)
        self._allowed = threading.Semaphore(0)

    def let(self, tasks: int) -> None:
        self._allowed.release(tasks)

    def start(self, homes: Homes, tasks: Sequence[MergeTask], label: str) -> Underway:
        def run(task: MergeTask, cancelled: Callable[[], bool]) -> TaskResult | TaskFailure:
            while not cancelled() and not self._allowed.acquire(timeout=0.05):
                pass
            return outcome_of(task, lambda: execute(task, homes, cancelled))

        return Underway(Threads(1, "stepped"), tasks, run)


class World:
    def __init__(self, warehouse: lithify.Warehouse, server: Served) -> None:
        self.warehouse = warehouse
        self.server = server
        self.admin = lithify.Admin(warehouse)

    def topic(self, name: str, partitions: int = 1, **config: str) -> lithify.Topic:
        given = {key.replace("_", "."): value for key, value in config.items()}
        return self.warehouse.create_topic(name, partitions, COMPACTED | given, probe=False)

    def compact(self, worker: str = "compactor-a:1", *, take_over: bool = True, killed: bool = False) -> None:
        """`killed`: it does not give up its partitions at its end."""
        with self.compactor(LocalEngine(1), worker, killed=killed) as compactor:
            compactor.run_once(take_over)

    @contextmanager
    def compactor(
        self, engine: LocalEngine, worker: str = "compactor-a:1", *, killed: bool = False
    ) -> Iterator[lithify.Compactor]:
        with named(worker):
            compactor = lithify.Compactor(self.warehouse, engine, interval_ms=50)
        try:
            yield compactor
        finally:
            engine.close() if killed else compactor.close()

    @contextmanager
    def compacting(self, worker: str = "compactor-a:1") -> Iterator[SteppedEngine]:
        """A compactor at work, of which each key range has to be let."""
        engine = SteppedEngine()
        with self.compactor(engine, worker) as compactor:
            thread = threading.Thread(target=compactor.run, args=(True,), name="compacting")
            thread.start()
            try:
                yield engine
            finally:
                compactor.stop()
                thread.join(END_S)
                assert not thread.is_alive(), "the compactor does not end"

    def damage(self, topic: str, partition: int) -> str:
        """The id of a segment whose bytes are not those that were written."""
        files = self.warehouse.topic(topic).partition(partition)
        keys: PartitionKeys = files._files.keys
        (segment, *_) = files.describe().l0
        found = self.warehouse.store.get(keys.segment(segment.id))
        assert found is not None
        self._whole = (keys.segment(segment.id), found.body)
        body = bytearray(found.body)
        body[100] ^= 0xFF
        self.warehouse.store.put(keys.segment(segment.id), bytes(body))
        return segment.id

    def restore(self) -> None:
        self.warehouse.store.put(*self._whole)


@contextmanager
def named(worker: str) -> Iterator[None]:
    """A compactor that is made meanwhile is this host:pid."""
    host, _, number = worker.partition(":")
    with (
        mock.patch("lithify.compactor.compactor.socket.gethostname", return_value=host),
        mock.patch("lithify.compactor.compactor.os.getpid", return_value=int(number)),
    ):
        yield


@contextmanager
def world(clock: Callable[[], int] | None = None, tokens: Tokens | None = None, survey_ms: int = 0) -> Iterator[World]:
    with lithify.open(f"memory://{new_id()}", clock=clock) as warehouse:
        admin = lithify.Admin(warehouse, survey_ms=survey_ms)
        with served(admin, tokens, streams=Streams(Feed(warehouse.driver))) as server:
            yield World(warehouse, server)


def records(count: int, start: int = 0, size: int = 40) -> list[lithify.Record]:
    return [lithify.Record(b"key-%05d" % number, b"v" * size) for number in range(start, start + count)]
