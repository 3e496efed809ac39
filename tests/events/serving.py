"""What tests of feeds share: a warehouse, its store's clock, and servers of its events."""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import partial
from typing import Any

from lithify.events.feed import Feed
from lithify.events.stream import Sent
from lithify.events.types import Change, Event
from lithify.log.record import Record
from lithify.log.warehouse import Warehouse
from lithify.manifest.catalog import topic_lineage
from lithify.manifest.keys import PartitionKeys
from lithify.store.driver import Driver
from lithify.store.errors import Unavailable
from lithify.store.memory import MemoryStore
from lithify.store.metered import Metered
from lithify.store.port import Request, Together
from lithify.store.side_by_side import one_after_the_other
from tests.clock import HandClock


class Scene:
    """A warehouse with one topic of two partitions, its store's clock, and servers."""

    def __init__(self) -> None:
        self.clock = HandClock()
        self.store = Metered(MemoryStore(clock=self.clock))
        self.warehouse = Warehouse(Driver(self.store))
        self.topic = self.warehouse.create_topic("t", 2, probe=False)

    def driver(self) -> Driver:
        driver = Driver(self.store)
        driver.monotonic_ms = self.clock
        return driver

    def server(self, **options: Any) -> Feed:
        return Feed(self.driver(), threads=1, **options)

    def append(self, partition: int = 0) -> None:
        self.warehouse.topic("t").partition(partition).append([Record(None, b"v")])

    def wait(self, ms: int) -> None:
        self.clock.now_ms += ms

    @contextmanager
    def requests(self) -> Iterator[list[int]]:
        """How many are made inside."""
        before, made = self.store.requests().total, list[int]()
        yield made
        made.append(self.store.requests().total - before)


class Away(Driver):
    """A store that does not answer some requests, whether they are made alone or together."""

    def __init__(self, scene: Scene) -> None:
        super().__init__(scene.store)
        self.refuses: Callable[[Request[Any]], bool] = lambda _: False
        answer = self.answer

        def answer_or_fail(request: Request[Any]) -> Any:
            if isinstance(request, Together):
                return tuple(one_after_the_other([partial(answer_or_fail, each) for each in request.requests]))
            if self.refuses(request):
                raise Unavailable("the store is away")
            return answer(request)

        self.answer = answer_or_fail
        self.monotonic_ms = scene.clock


def told(sent: tuple[Sent, ...]) -> list[str]:
    return [name(event) for _, event in sent]


def name(event: Event) -> str:
    kind = type(event).__name__
    return f"{kind} {event.partition}:{event.number}" if isinstance(event, Change) else kind


def keys_of(scene: Scene, partition: int) -> PartitionKeys:
    found = scene.warehouse.driver.run(topic_lineage("t").refresh()).value
    assert found is not None
    return PartitionKeys("t", found.topic_id, partition)
